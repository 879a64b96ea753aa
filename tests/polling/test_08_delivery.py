"""Promise 8: every application's latest version is delivered, whatever crashes in between."""

import asyncio
import contextlib
import json
import logging
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from income_client import (
    ApplicationRecord,
    Batch,
    CheckpointConflictError,
    CheckpointCreated,
    CheckpointError,
    Event,
    IncomeClient,
    MemoryCheckpointStore,
    RecordDelivered,
    RetryPolicy,
    SQLiteCheckpointStore,
    to_json,
)
from income_client.emulator import Emulator, Fault, ServiceRules
from tests.support.pollers import Gate, GatedStore, Life, StandingClock, poll_sizes
from tests.support.polling import Scene, first, ids_of, reached, rest, scene, take
from tests.support.service import NOW, HeldClock, client_tasks, collect, quiet, until

APPLICATIONS: Final = 12
LEASE: Final = 9
BASE: Final = 1_700_000_000
FEWER: Final = settings(max_examples=settings().max_examples * 2 // 3)
"""Examples of what runs whole pollers."""
_UNTIL_IT_SLEEPS: Final = 10_000
_FEWEST_ROUNDS: Final = 6
"""Rounds of ten seconds in which nothing may come twice: longer than lease and lookback."""


class DeliveryMachine(RuleBasedStateMachine):
    """A failing service with updates, pollers that crash and are replaced, and one consumer."""

    service: Emulator

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.run = self.loop.run_until_complete
        self.lives: list[Life] = []
        self.delivered: dict[str, bytes] = {}
        self.delivered_second: dict[str, int] = {}
        self.committed: set[bytes] = set()
        self.pending: dict[str, set[bytes]] = {}
        self.letters: set[str | None] = set()
        self.reached = self.claims = 0
        self.elapsed = self.saved_at = 0
        self.lease: float | None = None
        self.holder: StandingClock | None = None
        self.faults: list[AssertionError] = []
        self.has_begun = False

    @initialize(
        bounds=st.fixed_dictionaries(
            {"lower_closed": st.booleans(), "upper_closed": st.booleans()}
            | {"order": st.sampled_from(["ascending", "descending", "random"])}
            | {"future": st.sampled_from(["accept", "clamp", "refuse"])}
        ),
        clamp=st.sampled_from([(None, "after"), (None, "after"), (40, "after"), (40, "before")]),
        offset=st.sampled_from([0, 0, 3, -3, -100, 100, 86_400, -86_400]),
        delay=st.integers(0, 4),
        page_size=st.sampled_from([5, 1000]),
        is_new=st.booleans(),
        options=st.fixed_dictionaries(
            {"settle": st.integers(0, 4), "lookback": st.sampled_from([0, 0, 30])}
            | {"documents": st.booleans(), "standby": st.booleans()}
        ),
    )
    def begin(
        self,
        bounds: dict[str, Any],
        clamp: tuple[int | None, str],
        offset: int,
        delay: int,
        page_size: int,
        is_new: bool,
        options: dict[str, Any],
    ) -> None:
        """Set up the service: its rules, and applications of the last minutes."""
        max_span, span_clamp = clamp
        # Forty seconds at a time, a walk over a day takes too long for a test.
        offset = offset if max_span is None else max(offset, -100)
        self.settle, self.offset, self.page_size = options["settle"], offset, page_size
        self.start = None if is_new else utc(BASE)
        self.since = 2**62 if is_new else BASE  # from which on everything is delivered
        # Where neither page nor clock shows the present, a version may be forgotten too early.
        self.tells_present = span_clamp == "after" or offset >= 0
        self.options = options | {"lease": float(LEASE)}
        rules = ServiceRules(
            **bounds,
            max_span=max_span,
            span_clamp=span_clamp,
            clock_offset=offset,
            visibility_delay=min(delay, self.settle),
        )
        times = [BASE + 7 * number for number in range(APPLICATIONS)]
        self.service = Emulator(times, start=utc(BASE + 7 * APPLICATIONS), rules=rules)
        self.run(self.service.start())
        self.has_begun = True
        self.ids = self.service.world.ids
        self.store = MemoryCheckpointStore()
        self.failing: set[str] = set()
        self.is_down = False

    # What happens at the service.

    @rule(number=st.integers(0, APPLICATIONS - 1))
    def update(self, number: int) -> None:
        """Update an application; a second may hold several updates, but never a full page."""
        world = self.service.world
        busy = sum(world.updated_second(one) == world.now for one in range(APPLICATIONS))
        if busy < self.page_size - 1 or world.updated_second(number) == world.now:
            self.service.touch(self.ids[number])

    @rule(seconds=st.integers(1, 12))
    def pass_time(self, seconds: int) -> None:
        self.service.advance(seconds)
        self.elapsed += seconds
        for life in self.lives:
            life.clock.advance(seconds)

    @rule(number=st.integers(0, APPLICATIONS - 1))
    def spoil(self, number: int) -> None:
        """Make the service fail for one application, or stop failing."""
        self.failing ^= {self.ids[number]}
        self._arm()

    @rule()
    def go_down(self) -> None:
        self.is_down = not self.is_down
        self._arm()

    def _arm(self) -> None:
        faults = self.service.faults
        faults.clear()
        if self.is_down:
            faults.add(Fault("status", times=None))
        for number, one in enumerate(sorted(self.failing)):
            status = 404 if number % 2 else 500
            faults.add(Fault("status", path=f"*/{one}", times=None, status=status))

    # What happens to pollers.

    @precondition(lambda self: len(self.lives) < 2)
    @rule()
    def start_poller(self) -> None:
        gate, clock = Gate(), StandingClock()
        client = IncomeClient(
            self.service.url,
            auth=self.service.basic,
            retry=RetryPolicy(max_attempts=1),
            clock=clock,
            trace_configs=[gate.hooks()],
        )
        store = GatedStore(gate=gate, saved=partial(self._saved, clock), store=self.store)
        with poll_sizes(page=self.page_size):
            poller = client.poll(
                store, start=self.start, interval=5.0, concurrency=2, **self.options
            )
        life = Life(client=client, poller=poller, gate=gate, clock=clock, deliver=self._deliver)
        self.lives.append(life)

    @precondition(lambda self: self.lives)
    @rule(steps=st.integers(1, 12), newest=st.booleans())
    def run_some(self, steps: int, newest: bool) -> None:
        """Let a poller do a few steps, and stop it before the next."""
        self._turn(self.lives[-1 if newest else 0], steps)

    @precondition(lambda self: self.lives)
    @rule()
    def run_on(self) -> None:
        """Let the newest poller run until it sleeps."""
        self._turn(self.lives[-1], _UNTIL_IT_SLEEPS)

    @precondition(lambda self: self.lives)
    @rule(newest=st.booleans())
    def crash(self, newest: bool) -> None:
        life = self.lives.pop(-1 if newest else 0)
        self.run(life.die())

    # What must hold.

    def _turn(self, life: Life, steps: int) -> None:
        self.run(life.turn(steps))
        if self.faults:
            raise self.faults[0]
        assert life.task is not None
        if life.task.done():
            error = life.task.exception()
            assert isinstance(error, CheckpointConflictError), repr(error)
            assert life.clock is not self.holder, "the latest claimant was refused"
            self.lives.remove(life)
            self.run(life.die())

    def _deliver(self, life: Life, batch: Batch) -> None:
        versions = {record.application_id: _content(record) for record in batch}
        assert len(versions) == len(batch), "an application is twice in one batch"
        seen = set(self.committed) if life.seen is None else life.seen
        # A superseded poller may deliver one more batch before it notices. A record that was
        # given up is delivered once it can be read, even if it was delivered before.
        if life.clock is self.holder and self.tells_present:
            again = {one for one, found in versions.items() if found in seen}
            assert again <= self.letters, f"{again} came again"
        life.seen = seen | set(versions.values())
        self.delivered |= versions
        for record in batch:
            updated = record.application.last_updated_at.timestamp()
            self.delivered_second[record.application_id] = int(updated)
        self.pending[_position(json.loads(batch.checkpoint))] = set(versions.values())

    async def _saved(self, clock: StandingClock, checkpoint: str) -> None:
        state = json.loads(checkpoint)
        self.committed |= self.pending.pop(_position(state), set())
        self.letters |= {one.application_id for one in await self.store.dead_letters("default")}
        try:
            if state["claims"] > self.claims:
                is_expired = self.elapsed - self.saved_at >= (self.lease or 0)
                assert is_expired, "a standby took over before the lease had expired"
                self.claims, self.holder = state["claims"], clock
            self.lease, self.saved_at = state.get("lease"), self.elapsed
            assert clock is self.holder, "a superseded poller has overwritten something"
            self._judge(state["reached"])
        except AssertionError as error:  # which a poller would take for a failure of its store
            self.faults.append(error)

    def _judge(self, reached: int) -> None:
        """Check that a checkpoint moves forward, is in the past, and covers what was delivered."""
        assert reached >= self.reached
        world = self.service.world
        present = min(world.now, world.now + self.offset)
        if self.since == 2**62:
            assert reached <= present
            self.since = reached
        elif reached > self.since:
            assert reached <= present - self.settle
        self.reached = reached
        for number, one in enumerate(self.ids):
            second = world.updated_second(number)
            if self.since <= second < reached and one not in self.letters:
                assert self.delivered_second.get(one, 0) >= second, f"{one} is passed over"

    def teardown(self) -> None:
        """Let the service settle, and check that every latest version is delivered."""
        try:
            if self.has_begun:
                self._come_to_rest()
        finally:
            for life in self.lives:
                self.run(life.die())
            if self.has_begun:
                self.run(self.service.close())
            self.run(self.loop.shutdown_asyncgens())
            self.loop.close()

    def _come_to_rest(self) -> None:
        self.failing.clear()
        self.is_down = False
        self.service.faults.clear()
        last = self.run(self._last_versions())
        for rounds in range(60 if abs(self.offset) == 100 else 24):
            if not self.lives:
                self.start_poller()
            for life in [*self.lives]:
                self._turn(life, _UNTIL_IT_SLEEPS)
            self.pass_time(10)
            if rounds >= _FEWEST_ROUNDS and not self._missing(last):
                break
        assert self.holder in [life.clock for life in self.lives]
        if not self.options["standby"]:
            assert len(self.lives) == 1, "a superseded poller was not refused"
        assert not self._missing(last)

    def _missing(self, last: dict[str, bytes]) -> set[str]:
        """Return whose last version is not delivered, and is not given up either."""
        letters = self.run(self.store.dead_letters("default"))
        return {
            one
            for number, (one, version) in enumerate(last.items())
            if self.service.world.updated_second(number) >= self.since
            and self.delivered.get(one) != version
        } - {letter.application_id or "" for letter in letters}

    async def _last_versions(self) -> dict[str, bytes]:
        async with IncomeClient(self.service.url, auth=self.service.basic) as client:
            return {one: to_json(await client.get_application(one)) for one in self.ids}


def utc(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None)


def _position(state: dict[str, Any]) -> str:
    return json.dumps({key: state[key] for key in state if key not in ("lease", "check")})


def _content(record: ApplicationRecord) -> bytes:
    return to_json(record.application)


TestDelivery = DeliveryMachine.TestCase
TestDelivery.settings = FEWER


async def test_each_update_comes_once() -> None:
    """Those of one second are told apart by content, also where the service's clock is stuck."""
    async with scene(time_flows=False) as place:
        poller = place.poll(documents=True)
        updated = place.touch(3, 4)
        records = await first(poller, 2)
        assert sorted(ids_of(records)) == sorted(updated)
        assert all(record.documents is not None for record in records)
        for number in (4, 3, 4):
            updated = place.touch(number)
            assert ids_of(await first(poller, 1)) == updated
        assert await rest(poller) == []


async def test_a_batch_is_committed_when_the_next_record_is_requested(place: Scene) -> None:
    """A batch that its consumer leaves half-way stays uncommitted, and is delivered again."""
    updated = place.touch(1, 2, 3)
    assert len(await first(place.poll(), 3)) == 3
    assert await reached(place) == NOW
    assert sorted(ids_of(await first(place.poll(), 3))) == sorted(updated)
    assert sorted(ids_of(await rest(place.poll()))) == sorted(updated)
    assert await reached(place) > NOW
    assert await rest(place.poll()) == []


async def test_the_further_checkpoint_of_a_name_counts(place: Scene) -> None:
    updated = place.touch(1)
    batch = await take(place.poll())
    other = place.poll(name="other")
    assert ids_of(batch) == ids_of(await first(other, 1)) == updated
    assert await rest(other) == []
    poller = place.poll(start=batch.checkpoint)
    updated += place.touch(2)
    assert ids_of(await first(poller, 1)) == updated[1:]
    await rest(place.poll())
    assert await rest(place.poll(start=batch.checkpoint)) == []


async def take_text(place: Scene) -> str:
    place.touch(1)
    return (await take(place.poll(name="other"))).checkpoint


async def test_a_damaged_checkpoint_is_an_error(place: Scene) -> None:
    damaged = (await take_text(place))[:-5] + '"}'
    with pytest.raises(CheckpointError):
        place.poll(start=damaged)
    await place.store.save("spoilt", "{}", version=0)
    with pytest.raises(CheckpointError):
        await first(place.poll(name="spoilt"), 1)


class Chatty(MemoryCheckpointStore):
    """A foreign store whose text holds a password."""

    def __repr__(self) -> str:
        return "Chatty('postgresql://me:S3CRET@db')"


async def test_a_new_beginning_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Name and time are an event and a line of the log, which shows no text of a foreign store."""
    caplog.set_level("INFO", "income_client.poller")
    events: list[Event] = []
    async with scene(on_event=events.append, time_flows=False) as place:
        place.store = SQLiteCheckpointStore(tmp_path / "polls.db")
        for name in ("default", "default", "defualt"):
            await rest(place.poll(name=name, start=None, settle=7))
        place.store = Chatty()
        await rest(place.poll(start="2026-06-01"))
    june = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp())
    created = [event for event in events if isinstance(event, CheckpointCreated)]
    assert [(event.name, event.reached) for event in created] == [
        ("default", NOW - 7),
        ("defualt", NOW - 7),
        ("default", june),
    ]
    place_of_file = repr(SQLiteCheckpointStore(tmp_path / "polls.db"))
    assert [record.getMessage() for record in caplog.records] == [
        f"checkpoint 'default' is new in {place_of_file}, begins at 2026-06-30 11:59:53",
        f"checkpoint 'defualt' is new in {place_of_file}, begins at 2026-06-30 11:59:53",
        "checkpoint 'default' is new in Chatty, begins at 2026-06-01 00:00:00",
    ]
    facts = vars(caplog.records[-1])
    assert (facts["checkpoint"], facts["reached"]) == ("default", june)
    assert facts["store"] == "Chatty"


@pytest.mark.parametrize(
    ("start", "standby"), [(None, False), ("2026-06-30", True), ("a checkpoint", False)]
)
async def test_a_name_that_must_exist_does_not_begin_anew(
    place: Scene, start: Any, standby: bool
) -> None:
    """Without a checkpoint in the store it is an error, before anything is sent or stored."""
    place.store = Chatty()
    if start == "a checkpoint":
        start = await take_text(place)
    place.service.requests.clear()
    options = {"start": start, "standby": standby, "must_exist": True}
    with pytest.raises(CheckpointError, match=r"in Chatty: .*poll without must_exist") as caught:
        await rest(place.poll(**options))
    assert not caught.value.retryable
    assert len(place.service.requests) == 0
    assert (await place.store.load("default")).version == 0
    await rest(place.poll())
    updated = place.touch(5)
    assert ids_of(await rest(place.poll(**options))) == updated
    await until(lambda: client_tasks() == set())


@FEWER
@given(
    turns=st.integers(1, 60) | st.integers(60, 300), is_file=st.booleans(), is_same=st.booleans()
)
async def test_cancelled_anywhere_it_resumes_without_loss(
    turns: int, *, is_file: bool, is_same: bool
) -> None:
    """After a cancellation at any await, the same or another poller delivers the rest."""
    with TemporaryDirectory() as folder:
        async with scene(10) as place:
            place.store = SQLiteCheckpointStore(Path(folder, "p.db")) if is_file else place.store
            updated = set(place.touch(1, 2, 3, 4))
            poller, records = place.poll(), list[ApplicationRecord]()
            task = asyncio.create_task(collect(poller, records))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await quiet(place.service)
            assert {t for t in client_tasks() if "income_client" not in t.get_name()} == set()
            records += await rest(poller if is_same else place.poll())
            assert set(ids_of(records)) == updated
            assert await rest(place.poll()) == []


async def test_a_redelivered_record_counts_again() -> None:
    """In the events as in the status, after each delivered record."""
    delivered, got = list[str](), 0

    def hear(event: Event) -> None:
        if isinstance(event, RecordDelivered):
            delivered.append(event.application_id)

    async with scene(on_event=hear) as place:
        poller = place.poll(start="2026-06-30T11:00:00")
        async for _ in poller:
            got += 1
            assert poller.status.records == len(delivered) == got
            if got == 15:
                break
        async for batch in poller.batches():
            got += len(batch)
            assert poller.status.records == len(delivered) == got
            with contextlib.suppress(ValueError):
                async with batch:
                    if got < 55:
                        raise ValueError
                poller.stop()
        assert set(delivered) == set(place.ids)


async def test_a_costly_lookback_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says for how many seconds each poll reads everything again."""

    def warnings() -> list[logging.LogRecord]:
        return [one for one in caplog.records if hasattr(one, "unchanged")]

    monkeypatch.setattr("income_client.polling.status._MANY_UNCHANGED", 10)
    async with scene(range(NOW - 12, NOW)) as place:
        options: dict[str, Any] = {"start": "2026-06-30T11:00:00", "lookback": 3600}
        place.service.advance(10)
        assert len(await rest(place.poll(**options))) == 12
        assert not warnings()
        poller = place.poll(**options)
        assert await rest(poller) == []
        assert poller.status.unchanged == 12
        (warning,) = warnings()
        assert vars(warning)["seconds"] == 3605
        assert "3605 seconds" in warning.getMessage()


@pytest.mark.parametrize(("concurrency", "documents"), [(1, True), (2, False), (5, True)])
async def test_a_poll_has_its_concurrency_in_flight(concurrency: int, documents: bool) -> None:
    """While replies are held back there are that many requests, and one more for each reply."""
    held = HeldClock()
    held.is_held = True
    async with scene(12, clock=held, latency=1) as place:
        poller = place.poll(
            start="2000-01-01", concurrency=concurrency, documents=documents, once=True
        )
        records: list[ApplicationRecord] = []
        polling = asyncio.create_task(collect(poller, records))
        service = place.service
        while await quiet(service) and service.requests[-1].name in ("token", "list_applications"):
            held.release()
        for _ in range(5):
            await quiet(service)
            assert service._in_flight == concurrency
            held.release()
        held.release_all()
        await polling
        assert service.max_in_flight == concurrency
        assert len(records) == 12
