"""All kinds of faults at once, on three NATS nodes and a PostgreSQL with a replica: what is lost?

``python -m benchmarks.faults [--seconds N] [--seed N]``.

Pollers with standbys write rows in the transaction of their checkpoint; relays with standbys
publish events, and workers handle them. Machines, servers and the service fail at random, several
at a time, and then all get a minute to catch up. It prints what it has counted, and exits with 1
if the last version of any application is missing somewhere, or a row is there twice. Servers and
processes are of its own, on loopback, and end with it. No figure of any page comes from here.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

from attrs import define, field
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, StreamConfig

from income_client.engines.nats import NatsCheckpointStore
from income_client.engines.postgres import PostgresCheckpointStore
from tests.support.nats_server import NatsServer, running_cluster
from tests.support.postgres import PostgresServer, postgres_server

from .cluster_processes import (
    BUCKET,
    CONSUMER,
    Flags,
    Place,
    broker_at,
    flags,
    mark,
    place_of,
    start,
    tried_again,
)
from .faults_processes import SERVICE_FAULTS, TABLES, Name, become, poll, serve, work
from .services import BEGINNING, ServiceProcess

Harm: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_PROCESSES: Final = {"poller": 3, "relay": 2, "worker": 2}
_APPLICATIONS: Final = 3000
_RATE: Final = 4.0
_LEASE: Final = 3.0
_BETWEEN_SECONDS: Final = (1.5, 5.0)
_PROCESS_WEIGHT: Final = 3
_OF_A_PROCESS: Final = ("SIGKILL", "pause")
_CATCH_UP_SECONDS: Final = 60.0
_TWO_NODES_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.3
_RESTART_SECONDS: Final = 1.0
_STREAMS: Final = {"UPDATES": "income.updates", "DEAD": "income.dead.>"}
_MISSING: Final = {
    "last versions missing in the rows of pollers": "rows",
    "last versions missing in the table of workers": "applications",
}
_SOURCE: Final = "SELECT array_agg(id || ' ' || content) FROM {}"
_TWICE: Final = "SELECT count(*) - count(DISTINCT (id, content)) FROM rows"
_EVENTS: Final = "SELECT count(*) || ' ' || coalesce(sum(handled), 0) FROM events"


@define
class _Setup:
    """The servers, and the processes that are started again when they end."""

    service: ServiceProcess
    nodes: list[NatsServer]
    broker: Client
    primary: PostgresServer
    replica: PostgresServer
    name: Name
    place: Place
    chance: Random
    folder: Path
    processes: dict[str, BaseProcess] = field(factory=dict)
    moved: dict[str, Flags] = field(factory=dict)
    """When each process has last committed its work, by the machine's clock."""
    standstills: dict[str, float] = field(factory=dict)
    """Longest time without such work of a poller or a worker, in seconds."""
    ended: Counter[str] = field(factory=Counter)
    began: float = field(factory=time.monotonic)
    _nats_turn: asyncio.Lock = field(factory=asyncio.Lock)
    _database_turn: asyncio.Lock = field(factory=asyncio.Lock)

    def say(self, text: str) -> None:
        """Write a line into the log."""
        print(f"{time.monotonic() - self.began:6.1f} {text}", file=sys.stderr, flush=True)

    def start_all(self) -> None:
        """Start all processes."""
        for kind, count in _PROCESSES.items():
            self.moved[kind] = flags(count)
            for slot in range(count):
                self.processes[f"{kind} {slot}"] = self._started(kind, slot)

    def _started(self, kind: str, slot: int) -> BaseProcess:
        if kind != "relay":
            body = poll if kind == "poller" else work
            return start(body, self.place, self.moved[kind], slot)
        client_id, secret = self.place.account
        environment = {
            "HOME": str(self.folder),
            "INCOME_BASE_URL": self.place.service,
            "INCOME_CLIENT_ID": client_id,
            "INCOME_CLIENT_SECRET": secret,
        }
        command = [
            str(Path(sys.executable).with_name("income-client")), "relay",
            "--to", self.place.nats, "--bucket", BUCKET, "--standby", "--lease", f"{_LEASE:g}",
            "--start", BEGINNING, "--interval", "1", "--settle", "1", "--no-documents",
        ]  # fmt: skip
        return start(become, command, environment)

    async def supervise(self) -> None:
        """Start again what has ended, and note how long nothing moves."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for name, process in self.processes.items():
                if not process.is_alive():
                    if process.exitcode != -signal.SIGKILL:
                        self.say(f"{name} has ended with {process.exitcode}")
                        self.ended[name.split()[0]] += 1
                    await asyncio.sleep(_RESTART_SECONDS)
                    kind, slot = name.split()
                    self.processes[name] = self._started(kind, int(slot))
            for kind, moved in self.moved.items():
                if last := max(moved):
                    still = time.monotonic() - last
                    self.standstills[kind] = max(self.standstills.get(kind, 0.0), still)

    def _any(self, kind: str) -> BaseProcess:
        """Return one of them, often the one that has worked last."""
        last = max(range(_PROCESSES[kind]), key=self.moved[kind].__getitem__)
        slot = self.chance.choice([last, self.chance.randrange(_PROCESSES[kind])])
        return self.processes[f"{kind} {slot}"]

    async def kill(self, kind: str) -> None:
        """End a process without a word."""
        await asyncio.sleep(0)
        self._any(kind).kill()

    async def pause(self, kind: str) -> None:
        """Have a process do nothing for a part of a lease, or some leases."""
        process = self._any(kind)
        pid = process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(_LEASE * self.chance.uniform(0.3, 2.5))
        finally:
            if process.is_alive():
                os.kill(pid, signal.SIGCONT)

    async def kill_nodes(self, count: int, least: float, most: float) -> None:
        """Kill NATS nodes, and start them again after some seconds."""
        async with self._nats_turn:
            lost = self.chance.sample(self.nodes, count)
            for one in lost:
                one.kill()
            await asyncio.sleep(self.chance.uniform(least, most))
            for one in lost:
                one.start()  # not in a thread, which would be left alone if the run is stopped

    async def freeze_node(self) -> None:
        """Have a NATS node do nothing for some seconds."""
        async with self._nats_turn:
            node = self.chance.choice(self.nodes)
            node.freeze()
            try:
                await asyncio.sleep(self.chance.uniform(2, 15))
            finally:
                node.resume()

    async def restart_database(self) -> None:
        """Stop the primary at once, and start it again."""
        async with self._database_turn:
            await asyncio.to_thread(self.name.server.stop)
            await asyncio.sleep(self.chance.uniform(0, 4))
            await asyncio.to_thread(self.name.server.start)

    async def cut_connections(self) -> None:
        """End all connections to the primary."""
        async with self._database_turn:
            self.name.move_to(self.name.server)

    async def refuse_writes(self) -> None:
        """Have the primary be read-only, or the name lead to the replica for a while."""
        async with self._database_turn:
            primary = self.name.server
            if primary is not self.replica and self.chance.random() < 0.5:
                self.name.move_to(self.replica)
                await asyncio.sleep(self.chance.uniform(1, 8))
                self.name.move_to(primary)
                return
            await primary.run("ALTER SYSTEM SET default_transaction_read_only = on")
            await primary.run("SELECT pg_reload_conf()")
            await asyncio.sleep(self.chance.uniform(1, 8))
            await primary.run("ALTER SYSTEM RESET default_transaction_read_only")
            await primary.run("SELECT pg_reload_conf()")

    async def fail_over(self) -> None:
        """Lose the primary for good; the replica takes its place."""
        async with self._database_turn:
            await asyncio.to_thread(self.primary.kill)
            await asyncio.sleep(self.chance.uniform(1, 5))
            await self.replica.run("SELECT pg_promote()")
            self.name.move_to(self.replica)

    async def spoil_replies(self, name: str) -> None:
        """Have the service fail for some seconds."""
        await asyncio.to_thread(self.service.ask, name)

    def harms(self) -> dict[str, Harm]:
        """Return what may go wrong at any time."""
        return {
            **{f"SIGKILL of a {kind}": partial(self.kill, kind) for kind in _PROCESSES},
            **{f"pause of a {kind}": partial(self.pause, kind) for kind in _PROCESSES},
            **{f"service: {name}": partial(self.spoil_replies, name) for name in SERVICE_FAULTS},
            "NATS node killed": partial(self.kill_nodes, 1, 0, 10),
            "NATS node frozen": self.freeze_node,
            "PostgreSQL stopped at once": self.restart_database,
            "PostgreSQL connections cut": self.cut_connections,
            "PostgreSQL read-only": self.refuse_writes,
        }

    def is_busy(self, harm: str) -> bool:
        """Return whether a server of this kind fails already."""
        turns = {"NATS": self._nats_turn, "PostgreSQL": self._database_turn}
        turn = turns.get(harm.split(maxsplit=1)[0])
        return turn is not None and turn.locked()

    async def last_versions(self) -> set[str]:
        """Return the last version of each application that was updated."""
        ids = sorted(set(await asyncio.to_thread(self.service.ask, "updated")))
        async with self.place.client() as client:
            records = client.fetch_records(ids, documents=False)
            return {f"{one.application_id} {mark(one.application)}" async for one in records}

    async def missing(self, last: set[str], table: str) -> int:
        """Return how many of these versions a table does not have."""
        return len(last - set(await self.name.server.run(_SOURCE.format(table)) or ()))


@asynccontextmanager
async def _setup(seed: int) -> AsyncIterator[_Setup]:
    with (
        TemporaryDirectory() as folder,
        ServiceProcess(serve, _RATE, seed, _APPLICATIONS) as service,
        postgres_server(synchronous_standby_names="*", wal_keep_size="256MB") as primary,
        postgres_server(primary, wal_retrieve_retry_interval="500ms") as replica,
        running_cluster(Path(folder)) as nodes,
    ):
        name, urls = Name(primary), ",".join(node.url for node in nodes)
        async with name.listening() as host, broker_at(nodes[0]) as broker:
            async with primary.pool("public") as pool:
                await PostgresCheckpointStore(pool).create_schema()
                await pool.execute(TABLES)
            stream = broker.jetstream()
            for title, subject in _STREAMS.items():
                config = StreamConfig(name=title, subjects=[subject], num_replicas=len(nodes))
                await tried_again(partial(stream.add_stream, config))
            bucket = KeyValueConfig(bucket=BUCKET, history=5, replicas=len(nodes))
            await tried_again(partial(stream.create_key_value, bucket))
            place = place_of(service, urls, Path(host), _LEASE)
            made = _Setup(
                service, nodes, broker, primary, replica, name, place, Random(seed), Path(folder)
            )
            made.start_all()
            supervising = asyncio.create_task(made.supervise())
            try:
                yield made
            finally:
                supervising.cancel()  # before the processes end, which it would start again
                await asyncio.wait([supervising])
                for process in made.processes.values():
                    process.kill()
                    process.join()


async def _harm(made: _Setup, seconds: float) -> Counter[str]:
    """Let things go wrong for so many seconds, and return what did, how often."""
    harms, counts = made.harms(), Counter[str]()
    chance = Random(made.chance.random())  # of its own: how long a fault takes changes nothing
    weights = [_PROCESS_WEIGHT if name.startswith(_OF_A_PROCESS) else 1 for name in harms]
    two_nodes = partial(made.kill_nodes, 2, _TWO_NODES_SECONDS, _TWO_NODES_SECONDS)
    # Each once, the last first.
    planned: list[tuple[float, str, Harm]] = [
        (0.6, "failover to the replica", made.fail_over),
        (0.3, "two NATS nodes of three killed", two_nodes),
    ]
    async with asyncio.TaskGroup() as going_on:
        while (passed := time.monotonic() - made.began) < seconds:
            await asyncio.sleep(chance.uniform(*_BETWEEN_SECONDS))
            (name,) = chance.choices([*harms], weights)
            harm = harms[name]
            if planned and passed > planned[-1][0] * seconds:
                _, name, harm = planned.pop()
            elif made.is_busy(name):
                continue
            made.say(name)
            counts[name] += 1
            going_on.create_task(harm())
    return counts


async def _run(seconds: float, seed: int) -> bool:
    """Return whether all was kept."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with _setup(seed) as made:
        harm = await _harm(made, seconds)
        standstills = sorted(made.standstills.items())
        for question in ("rest", "mend"):
            await asyncio.to_thread(made.service.ask, question)
        ended = time.monotonic()
        made.say("no more faults")
        last = await made.last_versions()
        while True:
            lost = {label: await made.missing(last, table) for label, table in _MISSING.items()}
            caught_up = time.monotonic() - ended
            if not any(lost.values()) or caught_up > _CATCH_UP_SECONDS:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        lost["rows written twice"] = await made.name.server.run(_TWICE)
        figures = {
            "seconds": round(seconds),
            "seed": seed,
            "updates": len(await asyncio.to_thread(made.service.ask, "updated")),
            "applications updated": len(last),
            **lost,
            **await _seen(made),
            **{f"longest standstill of {one}s, s": f"{most:.1f}" for one, most in standstills},
            "caught up after the last fault, s": f"{caught_up:.1f}",
            **{f"{one}s that ended by themselves": count for one, count in made.ended.items()},
            **dict(sorted(harm.items())),
        }
    for label, value in figures.items():
        print(f"{label:<55}{value:>12}")
    return not any(lost.values())


async def _seen(made: _Setup) -> dict[str, Any]:
    """Count takeovers, events and replies that were spoiled."""
    stream: JetStreamContext = made.broker.jetstream()
    bucket = NatsCheckpointStore(await tried_again(partial(stream.key_value, BUCKET)))
    relayed = await bucket.load("relay")
    async with made.name.server.pool("public") as pool:
        polled = await PostgresCheckpointStore(pool).load("default")
    events, handled = map(int, (await made.name.server.run(_EVENTS)).split())
    consumer = await stream.consumer_info("UPDATES", CONSUMER)
    return {
        "takeovers of pollers": json.loads(polled.checkpoint or "")["claims"] - 1,
        "takeovers of relays": json.loads(relayed.checkpoint or "")["claims"] - 1,
        "events in the stream": (await stream.stream_info("UPDATES")).state.messages,
        "events handled": events,
        "events handled again": handled - events,
        "events that wait for another attempt": consumer.num_ack_pending,
        "events not delivered": consumer.num_pending,
        "dead letters": (await stream.stream_info("DEAD")).state.messages,
        "replies spoiled": await asyncio.to_thread(made.service.ask, "faults played"),
    }


def main() -> None:
    """Run it for as long as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long (default: 600)")
    parser.add_argument("--seed", type=int, default=1, help="decides which faults (default: 1)")
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(_run(options.seconds, options.seed)) else 1)


if __name__ == "__main__":
    main()
