"""Pollers that are killed in batches and commits, beside a service that changes.

Each life is a real process on a real store, which SIGKILL ends. Faults of the service, of stores
and of clocks, and takeovers by standbys, are simulated (`tests.simulation`).
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from attrs import define, field, frozen

from benchmarks.services import FastClock
from income_client import (
    ApplicationRecord,
    CheckpointStore,
    IncomeClient,
    OAuth2ClientCredentials,
    SQLiteCheckpointStore,
    SyncIncomeClient,
)
from income_client.emulator import Emulator
from income_client.engines.nats import NatsCheckpointStore
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.polling.checkpoint import read_checkpoint
from income_client.records.window import EPOCH
from tests.slow.kills import KILLED, Life, Workers, read_once, workers_of
from tests.support.nats_server import connected
from tests.support.postgres import PostgresServer

APPLICATIONS: Final = 250
SPEED: Final = 10.0
"""Seconds of the service and of the poller in one of the machine's."""
BATCH: Final = 100
"""The most records that may come again for one kill."""
UPDATES: Final = 20.0
"""Updates in one of the machine's seconds."""
BURST: Final = 130
"""Applications that are updated at once, more than fit into a batch."""
LONGEST_WAIT: Final = 120.0
KILLS_PER_CHECK: Final = 10
BUCKET: Final = "checkpoints"
SCHEMA: Final = "pollers"

prepare = read_once


@asynccontextmanager
async def open_store(address: str) -> AsyncIterator[CheckpointStore]:
    """Open a store: ``sqlite:FILE``, ``postgres:FOLDER OF THE SERVER`` or ``nats://SERVER``."""
    scheme, _, place = address.partition(":")
    match scheme:
        case "sqlite":
            yield SQLiteCheckpointStore(place)
        case "postgres":
            async with PostgresServer(Path(place)).pool(SCHEMA) as pool:
                yield PostgresCheckpointStore(pool)
        case _:
            async with connected(address) as client:
                yield NatsCheckpointStore(await client.jetstream().key_value(BUCKET))


@define(kw_only=True)
class Consumer:
    """The arguments of one poller's life, and the notes of the records that it receives."""

    say: Callable[[str], None]
    number: int
    url: str
    credentials: Sequence[str]
    start: str
    folder: str
    store: str
    dies_after: int | None = None
    """Number of records noted before the poller kills itself; None for a life without end."""
    _batches: int = 0
    _records: int = 0

    @property
    def client(self) -> dict[str, Any]:
        auth = OAuth2ClientCredentials(*self.credentials)
        return {"base_url": self.url, "auth": auth, "clock": FastClock(SPEED)}

    @property
    def poller(self) -> dict[str, Any]:
        return {"start": self.start, "interval": 1.0, "documents": False}

    def take(self, batch: Iterable[ApplicationRecord]) -> Iterator[None]:
        """Note every record of a batch before the commit, and say how far the batch is."""
        self._batches += 1
        self.say(f"batch {self._batches}")
        sink = os.open(Path(self.folder, "notes"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(sink, b"\n")  # a killed predecessor may have left half a line
        for record in batch:
            if self._records == self.dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            self._records += 1
            note = [self.number, record.application_id, record.last_updated_at.isoformat()]
            os.write(sink, json.dumps(note).encode() + b"\n")
            yield
        os.close(sink)
        self.say(f"written {self._batches}")

    def note_commit(self) -> None:
        self.say(f"committed {self._batches}")


def poll(say: Callable[[str], None], **facts: Any) -> None:
    """Poll until SIGTERM."""
    consumer = Consumer(say=say, **facts)

    async def run() -> None:
        async with IncomeClient(**consumer.client) as client, open_store(consumer.store) as store:
            poller = client.poll(store, **consumer.poller)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, poller.stop)
            async for batch in poller.batches():
                async with batch:
                    for _ in consumer.take(batch):
                        await asyncio.sleep(0)  # as any consumer, it lets other tasks run
                consumer.note_commit()

    asyncio.run(run())


def poll_waiting(say: Callable[[str], None], **facts: Any) -> None:
    """Do as `poll` does on a file, without await."""
    consumer = Consumer(say=say, **facts)
    store = SQLiteCheckpointStore(consumer.store.removeprefix("sqlite:"))
    with SyncIncomeClient(**consumer.client) as client:
        poller = client.poll(store, **consumer.poller)
        signal.signal(signal.SIGTERM, lambda *_: poller.stop())
        for batch in poller.batches():
            with batch:
                for _ in consumer.take(batch):
                    pass
            consumer.note_commit()


@frozen(kw_only=True)
class Outcome:
    """Result of a run in which pollers were killed."""

    checked: int
    """Current versions that were looked for, each of which was delivered."""
    delivered: int
    """Records delivered, those that came again included."""
    most_again: int
    """The most records that came again in one life."""


@define
class Play:
    """A service that changes, and the pollers that are killed beside it."""

    service: Emulator
    workers: Workers
    folder: Path
    store: str
    chance: Random
    checked: int = 0
    _progress: tuple[int, int] = (0, 0)
    """Progress of the checkpoint after the last kill."""
    _is_changing: asyncio.Event = field(factory=asyncio.Event)

    def start(self, dies_after: int | None = None) -> Life:
        """Start a poller, which may kill itself once it has noted so many records."""
        world, auth = self.service.world, self.service.oauth2
        first = min(map(world.updated_at, world.ids))
        return self.workers.start(
            number=len(self.workers.lives),
            url=self.service.url,
            credentials=[auth.client_id, auth.client_secret.reveal()],
            start=(EPOCH + timedelta(seconds=first - 1)).isoformat(),
            folder=str(self.folder),
            store=self.store,
            dies_after=dies_after,
        )

    async def kill_in_a_batch(self) -> None:
        """Let a poller live among updates until it kills itself within a batch."""
        self._is_changing.set()
        for one in self.chance.sample(self.service.world.ids, BURST):
            self.service.touch(one)
        life = self.start(dies_after=self.chance.randrange(BURST))
        await self.workers.wait(life)
        assert life.code == KILLED
        await self._look()

    async def kill_in_a_commit(self) -> None:
        """Let a poller live among updates, and kill it beside a commit."""
        self._is_changing.set()
        life = self.start()
        word = self.chance.choice(("written", "committed"))
        with contextlib.suppress(TimeoutError):
            while not (await self.workers.word(6)).startswith(word):
                pass
        await asyncio.sleep(self.chance.uniform(0, 0.02))
        await self.workers.kill(life)
        await self._look()

    async def check(self) -> None:
        """Let a poller live until every current version was delivered, and stop it."""
        self._is_changing.clear()
        async with IncomeClient(self.service.url, auth=self.service.oauth2) as client:
            records = client.fetch_records(self.service.world.ids, documents=False)
            current = {
                (one.application_id, one.last_updated_at.isoformat()) async for one in records
            }
        life, until = self.start(), time.monotonic() + LONGEST_WAIT
        while missing := current - {version for _, version in self.deliveries()}:
            assert time.monotonic() < until, f"not delivered: {sorted(missing)}"
            await asyncio.sleep(0.05)
        await self.workers.wait(life, "stop")
        assert life.code == 0
        await self._look()
        self.checked += len(current)

    async def update(self) -> None:
        """Update applications without end."""
        while True:
            await asyncio.sleep(self.chance.expovariate(UPDATES))
            await self._is_changing.wait()
            self.service.touch(self.chance.choice(self.service.world.ids))

    def deliveries(self) -> list[tuple[int, tuple[str, str]]]:
        """Return the life, and the application and its update time, of each record delivered."""
        found = []
        for line in (self.folder / "notes").read_bytes().splitlines():
            with contextlib.suppress(ValueError):  # its writer was killed
                number, application_id, updated = json.loads(line)
                found.append((number, (application_id, updated)))
        return found

    def outcome(self) -> Outcome:
        """Return what the run came to."""
        again: Counter[int] = Counter()
        known: set[tuple[str, str]] = set()
        deliveries = self.deliveries()
        for number, version in deliveries:
            again[number] += version in known
            known.add(version)
        return Outcome(
            checked=self.checked, delivered=len(deliveries), most_again=max(again.values())
        )

    async def _look(self) -> None:
        """Check that the checkpoint is whole, and has not gone back."""
        async with open_store(self.store) as store:
            text = (await store.load("default")).checkpoint
        if text is not None:
            progress = read_checkpoint(text).progress
            assert progress >= self._progress, "the checkpoint went back"
            self._progress = progress
        assert text is not None or self._progress == (0, 0), "the checkpoint is gone"


async def killed(
    kills: int,
    folder: Path,
    *,
    store: str | None = None,
    kills_per_check: int = KILLS_PER_CHECK,
    seed: int = 10,
    work: Callable[..., None] = poll,
) -> Outcome:
    """Kill pollers in batches and commits, and check that each current version was delivered.

    Args:
        kills: how many.
        folder: for the notes.
        store: as `open_store` takes it; a file in the folder by default.
        kills_per_check: after how many the service rests until all is delivered.
        seed: of the moments and of what is updated.
        work: what each life does, `poll` or `poll_waiting`.

    Raises:
        AssertionError: a version was lost, or a checkpoint went back.
    """
    (folder / "notes").touch()
    clock = FastClock(SPEED)
    service = Emulator(
        APPLICATIONS, seed=seed, days=1 / 12, pattern="uniform", time_flows=True, clock=clock
    )
    async with service, workers_of(work) as workers:
        address = store or f"sqlite:{folder / 'store.db'}"
        play = Play(service, workers, folder, address, Random(seed))
        updating = asyncio.create_task(play.update())
        for number in range(1, kills + 1):
            await (play.kill_in_a_commit() if number % 2 else play.kill_in_a_batch())
            if number % kills_per_check == 0 or number == kills:
                await play.check()
        updating.cancel()
        await asyncio.wait([updating])
    return play.outcome()
