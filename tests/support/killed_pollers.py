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
from collections.abc import Callable, Iterable, Iterator, Sequence
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

from .kills import Life, Workers, read_once, workers_of

APPLICATIONS: Final = 250
SPEED: Final = 10.0
"""Seconds of the service and of the poller in one of the machine's."""
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


@define(kw_only=True)
class Consumer:
    """What one life is started with, and how it notes what it is given."""

    say: Callable[[str], None]
    number: int
    url: str
    credentials: Sequence[str]
    start: str
    folder: str
    _batches: int = 0

    @property
    def client(self) -> dict[str, Any]:
        auth = OAuth2ClientCredentials(*self.credentials)
        return {"base_url": self.url, "auth": auth, "clock": FastClock(SPEED)}

    @property
    def poller(self) -> dict[str, Any]:
        store = SQLiteCheckpointStore(Path(self.folder, "store.db"))
        return {"checkpoints": store, "start": self.start, "interval": 1.0, "settle": SETTLE}

    def take(self, batch: Iterable[ApplicationRecord]) -> Iterator[None]:
        """Note every record of a batch, before that is committed, and say how far it is."""
        self._batches += 1
        self.say(f"batch {self._batches}")
        sink = os.open(Path(self.folder, "notes"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(sink, b"\n")  # a killed predecessor may have left half a line
        for record in batch:
            updated = f"{record.last_updated_at:%Y-%m-%dT%H:%M:%S}"
            words = (self.number, self._batches, record.application_id, updated, mark(record))
            os.write(sink, (" ".join(map(str, words)) + "\n").encode())
            yield
        os.close(sink)
        self.say(f"written {self._batches}")

    def note_commit(self) -> None:
        self.say(f"committed {self._batches}")


def poll(say: Callable[[str], None], **facts: Any) -> None:
    """Poll until SIGTERM."""
    consumer = Consumer(say=say, **facts)

    async def run() -> None:
        async with IncomeClient(**consumer.client) as client:
            poller = client.poll(**consumer.poller)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, poller.stop)
            async for batch in poller.batches():
                async with batch:
                    for _ in consumer.take(batch):
                        await asyncio.sleep(0)  # as any consumer, it lets other tasks run
                consumer.note_commit()

    asyncio.run(run())


def poll_waiting(say: Callable[[str], None], **facts: Any) -> None:
    """Do as `poll` does, without await."""
    consumer = Consumer(say=say, **facts)
    with SyncIncomeClient(**consumer.client) as client:
        poller = client.poll(**consumer.poller)
        signal.signal(signal.SIGTERM, lambda *_: poller.stop())
        for batch in poller.batches():
            with batch:
                for _ in consumer.take(batch):
                    pass
            consumer.note_commit()


@frozen
class Delivery:
    """A record as a worker noted it."""

    life: int
    batch: int
    application_id: str
    updated: str
    mark: str


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
class Play:
    """A service that changes, and the pollers that are killed beside it."""

    service: Emulator
    workers: Workers
    folder: Path
    chance: Random
    deliveries: list[Delivery] = field(factory=list)
    checked: int = 0
    faults: int = 0
    _is_changing: asyncio.Event = field(factory=asyncio.Event)
    _stored: tuple[int, Any] = (0, (0, 0))
    """Version and progress of the checkpoint, when it was looked at last."""
    _read: int = 0

    def start(self) -> Life:
        """Start a poller."""
        world, auth = self.service.world, self.service.oauth2
        first = min(map(world.updated_at, world.ids))
        return self.workers.start(
            number=len(self.workers.lives),
            url=self.service.url,
            credentials=[auth.client_id, auth.client_secret.reveal()],
            start=(EPOCH + timedelta(seconds=first - 1)).isoformat(),
            folder=str(self.folder),
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
        await self._look()
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
        if await self._look():
            self.service.advance(int(LONGEST_PAUSE))
        until = time.monotonic() + 120
        while missing := current - self._delivered():
            assert time.monotonic() < until, f"not delivered: {sorted(missing)}"
            await asyncio.sleep(0.05)
        await self.workers.wait(life, "stop")
        assert life.code == 0
        await self._look()
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
        """Return what it came to, and check what must not come again, or after a newer version.

        Records of the last batch of a life may, if that was not committed. What was committed may
        come again now and then, since a checkpoint remembers only what the list can still show.
        """
        again: Counter[int] = Counter()
        committed_again = 0
        before: dict[tuple[str, str], Delivery] = {}
        newest: dict[str, str] = {}
        for one in self.deliveries:
            assert newest.get(one.application_id, "") <= one.updated, f"older than before: {one}"
            newest[one.application_id] = one.updated
            last = before.get((one.application_id, one.mark))
            before[one.application_id, one.mark] = one
            if last is None:
                continue
            life = self.workers.lives[last.life]
            assert last.life != one.life, f"delivered twice in one life: {one}"
            if f"committed {last.batch}" in life.words:
                committed_again += 1
            else:
                assert last.batch == len(life.said("batch ")), f"not of the last batch: {one}"
                again[last.life] += 1
        return Outcome(
            faults=self.faults,
            checked=self.checked,
            delivered=len(self.deliveries),
            again=again.total(),
            most_again=max(again.values(), default=0),
            committed_again=committed_again,
        )

    async def _look(self) -> bool:
        """Check that the checkpoint moves forward, in the past; tell whether letters are due."""
        store = SQLiteCheckpointStore(self.folder / "store.db")
        stored = await store.load("default")
        version, progress = self._stored
        if stored.checkpoint is None:
            assert version == 0, "the checkpoint is gone"
            return False
        checkpoint = read_checkpoint(stored.checkpoint)
        assert stored.version >= version, "the version of the checkpoint went back"
        assert checkpoint.progress >= progress, "the checkpoint went back"
        limit = self.service.now - SETTLE
        assert checkpoint.reached <= limit, "the checkpoint is too close to the present"
        self._stored = stored.version, checkpoint.progress
        return bool(await store.dead_letters("default"))

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
        faults: list[Fault] = []
        if chance.random() < 0.5:
            for _ in range(chance.randrange(2, 7)):
                usual, path = chance.choice(FAULTS), chance.choice(PATHS)
                times, skip = chance.choice((1, 1, 2, 4)), chance.randrange(60)
                faults.append(evolve(usual, path=path, times=times, skip=skip))
            for one in chance.sample(ids, chance.choice((0, 1, 3))):
                times = chance.choice((1, 4))
                faults.append(Fault("status", status=404, path=f"*/{one}*", times=times))
        self.service.faults.clear()
        self.service.faults.add(*faults)
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
    (folder / "notes").touch()
    clock = FastClock(SPEED)
    service = Emulator(
        APPLICATIONS, seed=seed, days=1 / 12, pattern="uniform", time_flows=True, clock=clock
    )
    async with service, workers_of(work) as workers:
        play = Play(service, workers, folder, Random(seed))
        updating = asyncio.create_task(play.update())
        for number in range(1, kills + 1):
            await play.kill_one()
            if number % kills_per_check == 0 or number == kills:
                await play.check()
        updating.cancel()
        await asyncio.wait([updating])
    return play.outcome()
