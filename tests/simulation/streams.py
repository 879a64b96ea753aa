"""A relay to a stream: a model of JetStream that loses calls and replies, is late, and restarts.

The stream drops a message whose id it has had within its window. What is stored in it is what the
consumer of a poller writes: the promises of pollers hold, and those at the end of this module.
"""

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve, field, frozen

from income_client import Poller
from income_client.engines.relay import UpdateEvent, relay

from .deliveries import Save
from .loops import Machine, World
from .plan import Plan, Profile, draw_faults
from .stores import Row

if TYPE_CHECKING:
    from .cluster import Cluster
    from .consumers import Process

_GAPS: Final = (20.0, 60.0, 200.0)
_WINDOWS: Final = (2.0, 120.0)
_WAY: Final = 0.02
_LATE: Final = 30.0
_SILENCE: Final = 5.0
"""Seconds after which a driver gives up waiting for a confirmation."""
_LONGEST_TROUBLE: Final = 90.0
_SHARES: Final = (0.1, 0.5, 1.0)


def draw_relay(seed: int, profile: Profile) -> Plan:
    """Draw a run of pollers whose consumer is a relay."""
    plan, chance = Plan.drawn(seed, profile), random.Random(f"relay {profile.name} {seed}")
    begins = [number * (plan.epoch + plan.quiet) for number in range(profile.epochs)]
    faults = draw_faults(chance, {"stream": 1}, _GAPS, begins, plan.epoch)
    if plan.faults:
        faults = tuple(sorted((*plan.faults, *faults), key=lambda fault: fault.at))
    return evolve(plan, consumer="relay", faults=faults)


@frozen
class Trouble:
    """Shares of messages that go wrong, while it lasts."""

    lost: float = 0.0
    reply_lost: float = 0.0
    late: float = 0.0
    refused: float = 0.0
    cut: float = 0.0
    """Publications whose connection ends: drivers cancel what waits for a confirmation."""


@define(eq=False)
class StreamServer:
    """The server of a stream."""

    world: World
    window: float = field(init=False)
    """Seconds for which it knows the ids of its messages."""
    trouble: Trouble = field(factory=Trouble)
    stored: set[tuple[str, int]] = field(factory=set)
    """Versions that any message holds."""
    _messages: dict[str, tuple[float, Row]] = field(factory=dict)
    """By its id, when a message was stored last, and its row."""

    def __attrs_post_init__(self) -> None:
        self.window = random.Random(self.world.seed).choice(_WINDOWS)

    def publish(self, run: "Cluster", name: str, row: Row) -> None:
        """Store a message, unless one with its id came lately."""
        at, last = self._messages.get(name, (float("-inf"), row))
        judge_id(run, last, row)
        if self.world.now - at < self.window:
            self.world.count("stream: repeated message dropped")
            return
        self.world.count("stream: message stored" if last is row else "stream: stored twice")
        self._messages[name] = (self.world.now, row)
        self.stored.add((row.application_id, row.version))
        run.books.wrote([row])


def begin_trouble(run: "Cluster", chance: random.Random) -> None:
    """Have a share of the messages go wrong for a while."""
    kind = chance.choice(("lost", "reply_lost", "late", "refused", "cut"))
    run.stream.trouble = evolve(run.stream.trouble, **{kind: chance.choice(_SHARES)})
    run.world.count(f"stream: {kind}")
    run.world.after(_LONGEST_TROUBLE * chance.random(), lambda: end_trouble(run))


def end_trouble(run: "Cluster") -> None:
    """Have the stream store everything again."""
    run.stream.trouble = Trouble()


async def run_relay(process: "Process", poller: Poller) -> None:
    """Relay to the stream."""
    run, machine = process.run, process.machine

    async def publish(event: UpdateEvent) -> None:
        assert event.record is not None
        assert event.sequence is not None
        row = process.row_of(event.record, event.sequence)
        process.receive([row])
        try:
            await _send(run, machine, event.id, row)
        except BaseException:
            rows = run.books.lives[machine].uncommitted
            batch = [one for one in rows if one.sequence == row.sequence]
            run.books.returned(machine, batch, has_failed=True)
            raise

    await relay(poller, publish, payload="record")


async def _send(run: "Cluster", machine: Machine, name: str, row: Row) -> None:
    world, trouble = run.world, run.stream.trouble
    chance = world.chance
    if chance.random() < trouble.refused:
        raise ConnectionError("the stream is away")
    is_late = chance.random() < trouble.late
    future: asyncio.Future[Any] = world.ask(
        machine,
        lambda: run.stream.publish(run, name, row),
        there=chance.random() * (_LATE if is_late else _WAY),
        back=chance.random() * _WAY,
        is_lost=chance.random() < trouble.lost,
        is_reply_lost=chance.random() < trouble.reply_lost,
    )
    if chance.random() < trouble.cut:
        machine.call_later(chance.random() * _WAY, future.cancel)
    silence = TimeoutError("the stream did not confirm")
    timer = machine.call_later(_SILENCE, machine.take, future, None, silence)
    try:
        await future
    finally:
        timer.cancel()


# What a relay promises


def judge_id(run: "Cluster", last: Row, row: Row) -> None:
    """Judge the id of a message: another version has another one, so that none is dropped."""
    if (last.application_id, last.version) != (row.application_id, row.version):
        what = f"{row.application_id} v{row.version} has the id of v{last.version}"
        run.world.fail("promise workers, ids", what, row.application_id)


def judge_stored(run: "Cluster", save: Save) -> None:
    """Judge a save of a relay: the stream holds everything that it marks as done."""
    if save.is_takeover:  # it marks nothing: what the process had in hand before is not its own
        return
    for row in run.books.lives[save.machine].uncommitted:
        is_stored = (row.application_id, row.version) in run.stream.stored
        if row.sequence <= save.new.sequence and not is_stored:
            what = f"{row.application_id} v{row.version} is marked as done, and is not stored"
            run.world.fail("promise workers, stored", what, row.application_id)
