"""Pollers that are killed at random moments, beside a service that changes all the time.

Each life is a process of its own on one store of SQLite's. The service shows updates late and fails
now and then. What must hold is checked here; how much came again is counted.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from attrs import define, evolve, field, frozen

from benchmarks.services import FastClock
from income_client import (
    ApplicationRecord,
    IncomeClient,
    OAuth2ClientCredentials,
    SQLiteCheckpointStore,
    SyncIncomeClient,
    to_json,
)
from income_client.emulator import Emulator, Fault, FutureBounds, Order, SpanClamp
from income_client.polling.checkpoint import read_checkpoint
from income_client.records.window import EPOCH

from .kills import KILLED, Life, Workers, read_once

APPLICATIONS: Final = 250
SPEED: Final = 10.0
"""Seconds of the service and of the poller in one of the machine's."""
INTERVAL: Final = 1.0
SETTLE: Final = 6
BATCH: Final = 100
"""The most records that may come again for one kill."""
UPDATES: Final = 20.0
"""Updates in one of the machine's seconds."""
HOT: Final = 12
"""How many applications are updated again and again."""
KILLS_PER_CHECK: Final = 10
LONGEST_PAUSE: Final = timedelta(days=2).total_seconds()
"""Service seconds after which every dead letter has been tried again."""
FAULTS: Final = (
    Fault("status", status=500),
    Fault("status", status=503),
    Fault("status", status=429, headers={"Retry-After": "1"}),
    *(Fault(kind) for kind in ("reset", "cut", "drop", "garbage")),
)
PATHS: Final = ("*", "*/applications", "*/applications/*", "*/documents", "/token")

prepare = read_once


def mark(record: ApplicationRecord) -> str:
    """Return a digest of what a record says, its addresses aside."""
    content = json.dumps(_without_addresses(json.loads(to_json(record))), sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _without_addresses(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_addresses(part) for key, part in value.items() if key != "url"}
        case list():
            return [_without_addresses(part) for part in value]
    return value


def poll(
    say: Callable[[str], None],
    number: int,
    url: str,
    credentials: Sequence[str],
    start: str,
    store: str,
    notes: str,
) -> None:
    """Poll until SIGTERM; note every record before its batch is committed, and say how far it is.

    Args:
        say: takes ``batch``, ``written`` and ``committed`` with the number of the batch.
        number: of this life.
        url: of the service.
        credentials: id and secret.
        start: where the first life begins.
        store: file of the checkpoints.
        notes: file of the records.
    """

    async def run() -> None:
        auth = OAuth2ClientCredentials(*credentials)
        # A killed predecessor may have left half a line.
        os.write(sink, b"\n")
        async with IncomeClient(url, auth=auth, clock=FastClock(SPEED)) as client:
            poller = client.poll(
                SQLiteCheckpointStore(store), start=start, interval=INTERVAL, settle=SETTLE
            )
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, poller.stop)
            count = 0
            async for batch in poller.batches():
                count += 1
                say(f"batch {count}")
                async with batch:
                    for record in batch:
                        os.write(sink, _note(number, count, record))
                        await asyncio.sleep(0)  # as any consumer, it lets other tasks run
                    say(f"written {count}")
                say(f"committed {count}")

    sink = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    asyncio.run(run())


def poll_waiting(
    say: Callable[[str], None],
    number: int,
    url: str,
    credentials: Sequence[str],
    start: str,
    store: str,
    notes: str,
) -> None:
    """Do as `poll` does, without await."""
    sink = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(sink, b"\n")
    auth = OAuth2ClientCredentials(*credentials)
    with SyncIncomeClient(url, auth=auth, clock=FastClock(SPEED)) as client:
        poller = client.poll(
            SQLiteCheckpointStore(store), start=start, interval=INTERVAL, settle=SETTLE
        )
        signal.signal(signal.SIGTERM, lambda *_: poller.stop())
        for count, batch in enumerate(poller.batches(), 1):
            say(f"batch {count}")
            with batch:
                for record in batch:
                    os.write(sink, _note(number, count, record))
                say(f"written {count}")
            say(f"committed {count}")


def _note(number: int, count: int, record: ApplicationRecord) -> bytes:
    updated = f"{record.last_updated_at:%Y-%m-%dT%H:%M:%S}"
    return f"{number} {count} {record.application_id} {updated} {mark(record)}\n".encode()


@frozen
class Delivery:
    """A record as a worker noted it."""

    life: int
    batch: int
    application_id: str
    updated: str
    """Its time of update."""
    mark: str
    """What it said."""


@frozen(kw_only=True)
class Outcome:
    """What a run among kills came to."""

    faults: int
    """Replies that were spoiled."""
    checked: int
    """Current versions that were looked for, each of which was delivered."""
    delivered: int
    """Records delivered, those that came again included."""
    again: int
    """Records that came again after a kill, before their batch was committed."""
    most_again: int
    """The most of them for one kill."""
    committed_again: int
    """Records that came again although their batch was committed."""


@define
class StoreWatch:
    """Looks at the store after each life."""

    path: Path
    _before: tuple[int, Any] = (0, (0, 0))

    async def look(self, now: int) -> bool:
        """Check that it did not go back and is behind the present; tell whether letters are due."""
        store = SQLiteCheckpointStore(self.path)
        stored = await store.load("default")
        if stored.checkpoint is None:
            assert self._before[0] == 0, "the checkpoint is gone"
            return False
        checkpoint = read_checkpoint(stored.checkpoint)
        assert stored.version >= self._before[0], "the version of the checkpoint went back"
        assert checkpoint.progress >= self._before[1], "the checkpoint went back"
        assert checkpoint.reached <= now - SETTLE, "the checkpoint is too close to the present"
        self._before = stored.version, checkpoint.progress
        return bool(await store.dead_letters("default"))


@define
class Play:
    """A service that changes, and the pollers that are killed beside it."""

    service: Emulator
    workers: Workers
    folder: Path
    chance: Random
    deliveries: list[Delivery] = field(factory=list)
    """What was noted so far."""
    checked: int = 0
    """How many current versions were found delivered."""
    faults: int = 0
    """How many replies were spoiled."""
    _is_changing: asyncio.Event = field(factory=asyncio.Event)
    _store: StoreWatch = field(init=False)
    _read: int = 0

    def __attrs_post_init__(self) -> None:
        self._store = StoreWatch(self.folder / "store.db")

    def start(self) -> Life:
        """Start a poller."""
        world, auth = self.service.world, self.service.oauth2
        first = min(map(world.updated_at, world.ids))
        return self.workers.start(
            number=len(self.workers.lives),
            url=self.service.url,
            credentials=[auth.client_id, auth.client_secret.reveal()],
            start=(EPOCH + timedelta(seconds=first - 1)).isoformat(),
            store=str(self.folder / "store.db"),
            notes=str(self.folder / "notes"),
        )

    async def kill_one(self) -> None:
        """Let a poller live among updates and faults, and kill it."""
        self._change_habits()
        self._is_changing.set()
        life = self.start()
        if self.chance.random() < 0.3:
            for one in self.chance.sample(self.service.world.ids, 130):
                self.service.touch(one)
        await self._wait_for_a_moment()
        await self.workers.kill(life)
        assert life.code == KILLED
        await self._store.look(self._now())
        self._end()

    async def check(self) -> None:
        """Let a poller live in peace until every current version was delivered, and stop it."""
        self._is_changing.clear()
        self.service.faults.clear()
        async with IncomeClient(self.service.url, auth=self.service.oauth2) as client:
            current = {
                (record.application_id, mark(record))
                async for record in client.fetch_records(self.service.world.ids)
            }
        life = self.start()
        if await self._store.look(self._now()):
            self.service.advance(int(LONGEST_PAUSE))
        until = time.monotonic() + 120
        while missing := current - self._delivered():
            assert time.monotonic() < until, f"not delivered: {sorted(missing)}"
            await asyncio.sleep(0.05)
        await self.workers.stop(life)
        assert life.code == 0
        await self._store.look(self._now())
        self.checked += len(current)
        self._end()

    async def update(self) -> None:
        """Update applications without end, some again and again, some twice at once."""
        ids = self.service.world.ids
        while True:
            await asyncio.sleep(self.chance.expovariate(UPDATES))
            await self._is_changing.wait()
            one = self.chance.choice(ids[:HOT] if self.chance.random() < 0.3 else ids)
            for _ in range(self.chance.choice((1, 1, 1, 2))):
                self.service.touch(one)

    def outcome(self) -> Outcome:
        """Return what it came to, and check what must not come again.

        Records of the last batch of a life may, if that was not committed. What was committed may
        come again now and then, since a checkpoint remembers only what the list can still show.
        """
        again: Counter[int] = Counter()
        late: list[Delivery] = []
        before: dict[tuple[str, str], Delivery] = {}
        for one in self.deliveries:
            last = before.get((one.application_id, one.mark))
            before[one.application_id, one.mark] = one
            if last is not None:
                life = self.workers.lives[last.life]
                assert last.life != one.life, f"delivered twice in one life: {one}"
                if f"committed {last.batch}" in life.words:
                    late.append(one)
                    continue
                assert last.batch == len(life.said("batch ")), f"not of the last batch: {one}"
                again[last.life] += 1
        return Outcome(
            faults=self.faults,
            checked=self.checked,
            delivered=len(self.deliveries),
            again=again.total(),
            most_again=max(again.values(), default=0),
            committed_again=len(late),
        )

    def check_order(self) -> None:
        """Check that no application went back to an older version."""
        newest: dict[str, str] = {}
        for one in self.deliveries:
            assert newest.get(one.application_id, "") <= one.updated, f"older than before: {one}"
            newest[one.application_id] = one.updated

    def _delivered(self) -> set[tuple[str, str]]:
        with (self.folder / "notes").open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is still being written, or its writer was killed
                self._read += len(line)
                if len(parts := line.decode().split()) == 5 and len(parts[-1]) == 16:
                    life, batch, *rest = parts
                    self.deliveries.append(Delivery(int(life), int(batch), *rest))
        return {(one.application_id, one.mark) for one in self.deliveries}

    def _change_habits(self) -> None:
        chance, ids = self.chance, self.service.world.ids
        self.service.rules = evolve(
            self.service.rules,
            lower_closed=chance.random() < 0.5,
            upper_closed=chance.random() < 0.5,
            order=chance.choice(list(Order)),
            future=chance.choice(list(FutureBounds)),
            max_span=chance.choice((None, None, None, 900)),
            span_clamp=chance.choice(list(SpanClamp)),
            visibility_delay=chance.randrange(SETTLE),
            clock_offset=chance.choice((0, 0, 3, -3, 86_400, -86_400)),
        )
        self.service.faults.clear()
        if chance.random() < 0.5:
            self.service.faults.add(
                *(
                    evolve(
                        chance.choice(FAULTS),
                        path=chance.choice(PATHS),
                        times=chance.choice((1, 1, 2, 4)),
                        skip=chance.randrange(60),
                    )
                    for _ in range(chance.randrange(2, 7))
                ),
                *(
                    Fault("status", status=404, path=f"*/{one}*", times=chance.choice((1, 4)))
                    for one in chance.sample(ids, chance.choice((0, 1, 3)))
                ),
            )
        if chance.random() < 0.2:
            self.service.revoke_tokens()

    async def _wait_for_a_moment(self) -> None:
        """Most of them aim at a batch in hand, or at its commit."""
        chance = self.chance
        if chance.random() < 0.7:
            word = chance.choice(("batch", "written", "written", "committed"))
            with contextlib.suppress(TimeoutError):
                while not (await self.workers.word(6)).startswith(word):
                    pass
            await asyncio.sleep(chance.uniform(0, 0.02))
        else:
            await asyncio.sleep(chance.uniform(0, 0.5))

    def _now(self) -> int:
        return self.service.now

    def _end(self) -> None:
        self.faults += sum(request.fault is not None for request in self.service.requests)
        self.service.requests.clear()


async def killed(
    kills: int,
    folder: Path,
    *,
    kills_per_check: int = KILLS_PER_CHECK,
    seed: int = 10,
    work: Callable[..., None] = poll,
) -> Outcome:
    """Kill pollers at random moments, and check that each current version was delivered.

    Args:
        kills: how many.
        folder: for the store and the notes.
        kills_per_check: after how many the service rests until all is delivered.
        seed: of the moments and of what is updated.
        work: what each life does, `poll` or `poll_waiting`.

    Raises:
        AssertionError: a version was lost, or came again for no reason, or an older one after a
            newer, or a checkpoint went back.
    """
    service = Emulator(
        APPLICATIONS,
        seed=seed,
        days=1 / 12,
        pattern="uniform",
        time_flows=True,
        clock=FastClock(SPEED),
    )
    async with service, Workers(f"{__name__}:{work.__name__}") as workers:
        play = Play(service, workers, folder, Random(seed))
        updating = asyncio.create_task(play.update())
        for number in range(1, kills + 1):
            await play.kill_one()
            if number % kills_per_check == 0 or number == kills:
                await play.check()
        updating.cancel()
        await asyncio.wait([updating])
    play.check_order()
    return play.outcome()
