"""A cluster on one machine whose processes and broker are killed; checks that nothing is lost."""

import asyncio
import json
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from attrs import define, field, frozen
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import StreamConfig

from tests.support.nats_server import NatsServer

from .cluster_processes import (
    BUCKET,
    CONSUMER,
    STREAM,
    SUBJECT,
    TABLES,
    Flags,
    Place,
    connected,
    consumer,
    flags,
    mark,
    poll,
    start,
    work,
)
from .polling_service import LivingService

POLLERS: Final = 3
HISTORY: Final = 64
_PATIENCE: Final = 60.0
_LOOK_SECONDS: Final = 0.005


class Broken(Exception):  # noqa: N818 - a promise is
    """A promise was not kept."""


@frozen(kw_only=True)
class Outcome:
    """What a run among kills came to."""

    versions: int
    """Updates that the service made."""
    events: int
    """Different events that were handled."""
    again: int
    """Times that an event was handled once more."""
    saves: int
    """Versions of the checkpoint, each of which was looked at."""
    takeovers: int
    """Times that another poller began to work."""
    done: dict[str, int]
    """How often each kind of harm was done."""
    seconds: float
    """From the first update until the last version of everything was handled."""


@define
class Watch:
    """Reads every version of the checkpoint, in order, from the stream below the bucket."""

    last: int = 0
    versions: int = 0
    takeovers: int = 0
    _state: tuple[int, int, int] = (0, 0, 0)

    async def look(self, broker: Client) -> None:
        """Check what was saved since the last look; nothing if the broker is not there."""
        stream = broker.jetstream(timeout=1.0)
        with suppress(NatsError, TimeoutError, OSError):
            end = (await stream.stream_info(f"KV_{BUCKET}")).state.last_seq
            while self.last < end:
                message = await stream.get_msg(f"KV_{BUCKET}", self.last + 1)
                self._check(message.data or b"")
                self.last += 1

    def _check(self, content: bytes) -> None:
        value = msgspec.json.decode(content)
        checkpoint = json.loads(value["checkpoint"])
        state = checkpoint["claims"], checkpoint["reached"], checkpoint["batches"]
        if value["version"] != self.versions + 1:
            raise Broken(f"version {value['version']} after {self.versions}")
        if any(new < old for new, old in zip(state, self._state, strict=True)):
            raise Broken(f"the checkpoint went from {self._state} to {state}")
        self.versions, self._state, self.takeovers = value["version"], state, state[0]


@define
class Cluster:
    """Servers, pollers and workers; see `cluster`."""

    server: NatsServer
    service: LivingService
    place: Place
    broker: Client
    workers: list[BaseProcess] = field(factory=list)
    pollers: list[BaseProcess] = field(factory=list)
    working: Flags = field(factory=lambda: flags(POLLERS))
    """Since when each poller works, by the machine's clock; 0 for a standby."""
    published: Flags = field(factory=lambda: flags(1))
    """How many events pollers have begun to publish."""
    watch: Watch = field(factory=Watch)

    def start(self, workers: int) -> None:
        """Start all processes."""
        self.pollers += [self._poller(slot) for slot in range(POLLERS)]
        self.workers += [start(work, self.place) for _ in range(workers)]

    def _poller(self, slot: int) -> BaseProcess:
        return start(poll, self.place, self.working, self.published, slot)

    async def in_a_batch(self) -> None:
        """Wait until an event is published, a second at most."""
        before = self.published[0]
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                while self.published[0] == before:  # noqa: ASYNC110 - of other processes
                    await asyncio.sleep(0.001)

    async def leader(self) -> int:
        """Return the poller that has begun to work last."""
        async with asyncio.timeout(_PATIENCE):
            while not any(self.working):  # noqa: ASYNC110 - of other processes
                await asyncio.sleep(_LOOK_SECONDS)
        return max(range(POLLERS), key=lambda slot: self.working[slot])

    async def successor(self, since: float, but: int) -> float:
        """Wait for another poller to work, and return when it has begun."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                later = [at for slot, at in enumerate(self.working) if slot != but and at > since]
                if later:
                    return min(later)
                await asyncio.sleep(_LOOK_SECONDS)

    def replace_poller(self, slot: int, how: signal.Signals = signal.SIGKILL) -> None:
        """End a poller, and start another in its place."""
        _end(self.pollers[slot], how)
        self.working[slot] = 0.0
        self.pollers[slot] = self._poller(slot)

    def replace_worker(self, slot: int) -> None:
        """Kill a worker, and start another in its place."""
        _end(self.workers[slot], signal.SIGKILL)
        self.workers[slot] = start(work, self.place)

    def replace_dead(self) -> None:
        """Start those again that have ended by an error, as any supervisor does."""
        for slot, one in enumerate(self.pollers):
            if not one.is_alive():
                self.replace_poller(slot)
        for slot, one in enumerate(self.workers):
            if not one.is_alive():
                self.replace_worker(slot)

    def signal_poller(self, slot: int, which: signal.Signals) -> None:
        """Pause or resume a poller."""
        pid = self.pollers[slot].pid
        assert pid is not None
        os.kill(pid, which)

    def close(self) -> None:
        """End all processes."""
        for one in (*self.pollers, *self.workers):
            _end(one, signal.SIGKILL)

    async def missing(self) -> list[str]:
        """Return the applications whose last version is not in the database."""
        async with self.place.client() as client:
            ids = [one.application_id async for one in client.list_applications()]
            records = client.fetch_records(ids, documents=False)
            current = {one.application_id: mark(one.application) async for one in records}
        with closing(sqlite3.connect(self.place.database, timeout=30)) as database:
            kept = dict(database.execute("SELECT id, content FROM applications").fetchall())
        return [one for one, content in current.items() if kept.get(one) != content]


def _end(process: BaseProcess, how: signal.Signals) -> None:
    if process.pid is not None and process.is_alive():
        os.kill(process.pid, how)
    process.join(_PATIENCE)


@asynccontextmanager
async def cluster(*, applications: int, rate: float, lease: float = 2.0) -> AsyncIterator[Cluster]:
    """Run a broker and a service whose applications are updated in turn; no process yet."""
    with TemporaryDirectory() as folder:
        server = NatsServer(Path(folder))
        try:
            knobs: dict[str, Any] = {"applications": applications, "days": 0.01}
            with LivingService(rate=rate, speed=1.0, **knobs) as service:
                auth = service.oauth2
                database = Path(folder) / "applications.db"
                with closing(sqlite3.connect(database)) as made:
                    made.execute("PRAGMA journal_mode=WAL")
                    made.executescript(TABLES)
                place = Place(
                    nats=server.url,
                    service=service.url,
                    oauth2=(auth.client_id, auth.client_secret.reveal()),
                    database=database,
                    lease=lease,
                )
                async with connected(server.url) as broker:
                    stream = broker.jetstream()
                    await stream.create_key_value(bucket=BUCKET, history=HISTORY)
                    await stream.add_stream(StreamConfig(name=STREAM, subjects=[SUBJECT]))
                    await stream.add_consumer(STREAM, consumer())
                    made_of = Cluster(server, service, place, broker)
                    try:
                        yield made_of
                    finally:
                        made_of.close()
        finally:
            server.kill()


async def chaos(
    *, updates: int, applications: int, rate: float, workers: int = 6, seed: int = 1
) -> Outcome:
    """Update applications while pollers, workers and the broker are killed at random.

    Args:
        updates: how many.
        applications: among which they go round.
        rate: updates a second.
        workers: processes that handle them.
        seed: of the harm.

    Returns:
        What it came to.

    Raises:
        Broken: the checkpoint went back, or an event or a last version was not handled.
    """
    chance = Random(seed)
    done = dict.fromkeys(("kill worker", "kill poller", "kill broker", "pause leader"), 0)
    async with cluster(applications=applications, rate=rate) as made:
        began = time.monotonic()
        made.start(workers)
        await made.leader()
        watching = asyncio.create_task(_keep_watching(made))
        await made.broker.jetstream().publish(SUBJECT, b"what no worker can read")
        while made.service.asked().versions < updates:
            await asyncio.sleep(chance.uniform(0.3, 1.5))
            harm = chance.choices([*done], (4, 2, 1, 1))[0]
            done[harm] += 1
            await _do(made, harm, chance)
            if watching.done():
                break
        made.service.rest()
        await asyncio.sleep(1)
        until = time.monotonic() + _PATIENCE
        while missing := await made.missing():
            if time.monotonic() > until:
                raise Broken(f"{len(missing)} last versions were not handled")
            made.replace_dead()
            await asyncio.sleep(0.2)
        seconds = time.monotonic() - began
        await _until_all_is_acknowledged(made)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await made.watch.look(made.broker)
        with closing(sqlite3.connect(made.place.database, timeout=30)) as database:
            rows = "SELECT count(*), total(handled) FROM events"
            events, handled = database.execute(rows).fetchone()
        state = (await made.broker.jetstream().stream_info(STREAM)).state
        if events < state.messages - 1:  # one of them cannot be read
            raise Broken(f"{state.messages - 1} events were published and {events} handled")
        return Outcome(
            versions=made.service.asked().versions,
            events=events,
            again=round(handled) - events,
            saves=made.watch.versions,
            takeovers=made.watch.takeovers - 1,
            done=done,
            seconds=seconds,
        )


async def _until_all_is_acknowledged(made: Cluster) -> None:
    """Wait until no message is left to be delivered again."""
    stream = made.broker.jetstream()
    async with asyncio.timeout(_PATIENCE):
        while True:
            info = await stream.consumer_info(STREAM, CONSUMER)
            if not info.num_pending and not info.num_ack_pending:
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def _keep_watching(made: Cluster) -> None:
    while True:
        await made.watch.look(made.broker)
        made.replace_dead()
        await asyncio.sleep(0.3)


async def _do(made: Cluster, harm: str, chance: Random) -> None:
    match harm:
        case "kill worker":
            made.replace_worker(chance.randrange(len(made.workers)))
        case "kill poller":
            slot = chance.choice([await made.leader(), chance.randrange(POLLERS)])
            await made.in_a_batch()
            made.replace_poller(slot)
        case "kill broker":
            await made.in_a_batch()
            made.server.kill()
            await asyncio.sleep(chance.uniform(0, 1))
            await asyncio.to_thread(made.server.start)
        case _:
            slot = await made.leader()
            paused = made.pollers[slot]
            await made.in_a_batch()
            made.signal_poller(slot, signal.SIGSTOP)
            await asyncio.sleep(made.place.lease * chance.uniform(1.3, 2))
            if made.pollers[slot] is paused:
                made.signal_poller(slot, signal.SIGCONT)


async def takeovers(*, rounds: int, lease: float = 2.0) -> dict[str, list[float]]:
    """Return the leases until a standby works, after each way in which a leader ends."""
    found: dict[str, list[float]] = {"SIGKILL": [], "clean stop": [], "SIGSTOP": []}
    async with cluster(applications=200, rate=5, lease=lease) as made:
        made.start(workers=0)
        chance = Random(1)
        for _ in range(rounds):
            for how, measured in found.items():
                slot = await made.leader()
                await asyncio.sleep(lease * chance.uniform(1, 1.5))  # all standbys have seen it
                began = time.monotonic()
                if how == "SIGSTOP":
                    made.signal_poller(slot, signal.SIGSTOP)
                elif how == "SIGKILL":
                    made.signal_poller(slot, signal.SIGKILL)
                else:
                    made.signal_poller(slot, signal.SIGTERM)
                measured.append((await made.successor(began, slot) - began) / lease)
                made.replace_poller(slot)
    return found
