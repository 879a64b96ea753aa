"""Beyond one machine: kills, takeovers, events, a shared token, a first read.

Pollers, workers, the service and a broker are processes of their own, on this machine. Nothing
is asserted here: the rows say what was measured, what the goal is, and whether it is met.
"""

import asyncio
import json
import signal
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, Self, cast

from attrs import define, frozen
from nats.aio.client import Client
from nats.errors import Error as NatsError

from income_client import ApplicationRecord, Poller
from income_client.engines.nats import nats_publisher
from income_client.engines.relay import UpdateEvent, relay
from tests.support.killed_pollers import BATCH, killed

from .cluster_processes import (
    BUCKET,
    CONSUMER,
    FORKS,
    PATIENCE,
    POLLERS,
    STREAM,
    SUBJECT,
    Cluster,
    acknowledge,
    broker_with_stream,
    call_often,
    cluster,
    fetched,
    flags,
    mark,
    place_of,
    start,
)
from .report import Row, Scale, at_most
from .services import EmulatorProcess

_KILLS_PER_CHECK: Final = 20
_KILLED_AT_ONCE: Final = 3
_WORKERS: Final = 6
_LEASE: Final = 2.0
_SHORT_LEASE: Final = 1.0
_LONGEST_LEASES: Final = {
    signal.SIGKILL: ("SIGKILL", 1.25),
    signal.SIGSTOP: ("SIGSTOP", 1.25),
    signal.SIGTERM: ("a clean stop", 0.3),
}
_TOKEN_SECONDS: Final = 2
_TOKEN_SERVES: Final = 1.5
"""A token of two seconds is renewed after three quarters of its life."""
_READERS: Final = {1: "1 process", 2: "2 processes", 4: "4 processes"}


class Broken(Exception):  # noqa: N818 - a promise is
    """A promise was not kept."""


async def kill_pollers(scale: Scale) -> list[Row]:
    """Kill pollers at random moments, and count what was lost and what came again."""
    at_once = min(scale.kills, _KILLED_AT_ONCE)
    kills = scale.kills // at_once
    with TemporaryDirectory() as name:
        folders = [Path(name) / f"{number}" for number in range(at_once)]
        for folder in folders:
            folder.mkdir()
        outcomes = await asyncio.gather(
            *(
                killed(kills, folder, kills_per_check=_KILLS_PER_CHECK, seed=seed)
                for seed, folder in enumerate(folders)
            )
        )
    checked = sum(found.checked for found in outcomes)
    delivered = sum(found.delivered for found in outcomes)
    return [
        _count("SIGKILLs of a poller", kills * at_once),
        _none("versions lost by SIGKILLs of a poller", of=checked),
        _count("records delivered among SIGKILLs of a poller", delivered),
        _most(
            "records delivered again after one SIGKILL of a poller, most",
            max(found.most_again for found in outcomes),
            BATCH,
            "{:.0f}",
        ),
    ]


@define
class _Watch:
    """Reads every version of the checkpoint, in order, from the stream below the bucket."""

    last: int = 0
    versions: int = 0
    _state: tuple[int, int, int] = (0, 0, 0)

    @property
    def takeovers(self) -> int:
        """How often another poller began to work after the first."""
        return self._state[0] - 1

    async def look(self, broker: Client) -> bool:
        """Check what was saved since the last look; return whether the broker gave all of it."""
        stream = broker.jetstream(timeout=1.0)
        with suppress(NatsError, TimeoutError, OSError):
            end = (await stream.stream_info(f"KV_{BUCKET}")).state.last_seq
            while self.last < end:
                message = await stream.get_msg(f"KV_{BUCKET}", self.last + 1)
                # Dead letters have keys of their own.
                if ".checkpoint." in (message.subject or ""):
                    self._check(message.data or b"")
                self.last += 1
            return True
        return False

    def _check(self, content: bytes) -> None:
        plain = content if content.startswith(b"{") else zlib.decompress(content)
        value = json.loads(plain)
        checkpoint = json.loads(value["checkpoint"])
        state = checkpoint["claims"], checkpoint["reached"], checkpoint["batches"]
        if value["version"] != self.versions + 1:
            raise Broken(f"version {value['version']} after {self.versions}")
        if any(new < old for new, old in zip(state, self._state, strict=True)):
            raise Broken(f"the checkpoint went from {self._state} to {state}")
        self.versions, self._state = value["version"], state


async def kill_everything(scale: Scale) -> list[Row]:
    """Kill pollers, workers and the broker at random, and check that nothing is lost."""
    watch, chance, harm = _Watch(), Random(1), Counter[str]()
    async with cluster(scale.updated, scale.rate, lease=_LEASE) as made:
        made.start(_WORKERS)
        await made.leader()
        watching = asyncio.create_task(_keep_watching(made, watch))
        await made.broker.jetstream().publish(SUBJECT, b"what no worker can read")
        while made.service.asked().versions < scale.updates and not watching.done():
            await asyncio.sleep(chance.uniform(0.1, 0.8))
            harm[await _harm(made, chance)] += 1
        made.service.rest()
        await asyncio.sleep(1)
        await _until_all_is_handled(made)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        if not await watch.look(made.broker):
            raise Broken("not every version of the checkpoint could be read")
        handled, times = made.events()
        updates = made.service.asked().versions
        published = (await made.broker.jetstream().stream_info(STREAM)).state.messages - 1
    if handled < published:
        raise Broken(f"{published} events were published and {handled} handled")
    return [
        _count(f"updates among {POLLERS} pollers and {_WORKERS} workers", updates),
        *(
            _count(f"{kind} in a cluster of {POLLERS} pollers", count)
            for kind, count in sorted(harm.items())
        ),
        _none(
            "last versions not handled by a cluster whose processes are killed", of=scale.updated
        ),
        _none("events not handled by a cluster whose processes are killed", of=published),
        _none(
            "checkpoints that went back in a cluster whose processes are killed", of=watch.versions
        ),
        _count("takeovers in a cluster whose processes are killed", watch.takeovers),
        _count(
            "events handled again by a cluster whose processes are killed",
            times - handled,
            of=handled,
        ),
    ]


async def _harm(made: Cluster, chance: Random) -> str:
    """Kill a worker, a poller or the broker, or pause the leader; say which."""
    kinds = ("worker", "poller", "broker", "leader")
    (kind,) = chance.choices(kinds, (4, 2, 1, 1))
    leader = await made.leader()
    if kind == "worker":
        made.replace_worker(chance.randrange(_WORKERS))
        return "SIGKILLs of a worker"
    await made.in_a_batch()
    if kind == "poller":
        made.replace_poller(chance.choice([leader, chance.randrange(POLLERS)]))
        return "SIGKILLs of a poller"
    if kind == "broker":
        made.server.kill()
        await asyncio.sleep(chance.uniform(0, 1))
        await asyncio.to_thread(made.server.start)
        return "SIGKILLs of the broker"
    paused = made.pollers[leader]
    made.signal_poller(leader, signal.SIGSTOP)
    await asyncio.sleep(made.place.lease * chance.uniform(1.3, 2))
    if made.pollers[leader] is paused:
        made.signal_poller(leader, signal.SIGCONT)
    return "SIGSTOPs of the leader"


async def _keep_watching(made: Cluster, watch: _Watch) -> None:
    while True:
        await watch.look(made.broker)
        made.replace_dead()
        await asyncio.sleep(0.3)


async def _until_all_is_handled(made: Cluster) -> None:
    """Wait until the workers keep the last version of everything, and no message is left."""
    async with made.place.client() as client:
        ids = [one.application_id async for one in client.list_applications()]
        records = client.fetch_records(ids, documents=False)
        current = {(one.application_id, mark(one.application)) async for one in records}
    stream = made.broker.jetstream()
    async with asyncio.timeout(PATIENCE):
        while True:
            info = await stream.consumer_info(STREAM, CONSUMER)
            if current <= made.kept() and not info.num_pending and not info.num_ack_pending:
                return
            await asyncio.sleep(0.2)


async def take_over(scale: Scale) -> list[Row]:
    """Measure how long no poller works after each way in which a leader ends."""
    found = await asyncio.gather(*(_takeovers(scale.takeovers, how) for how in _LONGEST_LEASES))
    rows = []
    for seconds, (how, leases) in zip(found, _LONGEST_LEASES.values(), strict=True):
        what, most = f"takeover after {how}, lease of {_SHORT_LEASE:g} s", leases * _SHORT_LEASE
        rows.append(_measured(f"{what}, median", median(seconds), "{:.2f} s", scale.takeovers))
        rows.append(_most(f"{what}, longest", max(seconds), most, "{:.2f} s"))
    return rows


async def _takeovers(rounds: int, how: signal.Signals) -> list[float]:
    seconds = []
    chance = Random(how)
    async with cluster(200, rate=5, lease=_SHORT_LEASE) as made:
        made.start(workers=0)
        for _ in range(rounds):
            slot = await made.leader()
            # All standbys have seen it after this.
            await asyncio.sleep(_SHORT_LEASE * chance.uniform(1, 1.5))
            began = time.monotonic()
            made.signal_poller(slot, how)
            seconds.append(await made.successor(began, slot) - began)
            made.replace_poller(slot)
    return seconds


class _ReadyBatch(list[ApplicationRecord]):
    """A batch whose commit costs nothing."""

    delivery_ids: Sequence[str]
    sequence: int = 1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)


@frozen
class _ReadyPoller:
    """Takes the place of a poller; its batches cost nothing."""

    record: ApplicationRecord
    ids: Sequence[str]

    async def batches(self) -> AsyncIterator[_ReadyBatch]:
        for first in range(0, len(self.ids), BATCH):
            ids = self.ids[first : first + BATCH]
            batch = _ReadyBatch([self.record] * len(ids))
            batch.delivery_ids = ids
            yield batch


async def relay_events(scale: Scale) -> list[Row]:
    """Compare a relay of ready batches with bare publishing to the same broker."""
    with EmulatorProcess(applications=1) as service:
        async with place_of(service).client() as client:
            (record,) = [one async for one in client.fetch_records(service.ids())]
    event = UpdateEvent(id="0", application_id="0" * 36, updated_at=record.last_updated_at)
    body, counts = event.to_json(), flags(1)
    async with broker_with_stream() as (server, broker):
        stream = broker.jetstream()
        publish = nats_publisher(stream, SUBJECT)

        def published(one: str) -> Awaitable[object]:
            return stream.publish(SUBJECT, body, headers={"Nats-Msg-Id": one})

        async def bare(ids: Sequence[str]) -> None:
            for first in range(0, len(ids), BATCH):
                await asyncio.gather(*map(published, ids[first : first + BATCH]))

        async def relayed(ids: Sequence[str]) -> None:
            await relay(cast("Poller", _ReadyPoller(record, ids)), publish)

        worker = start(acknowledge, server.url, counts)
        seconds: dict[Any, list[float]] = {bare: [], relayed: []}
        sent = 0
        for number in range(scale.relayed + 1):
            for side in [*seconds][:: 1 if number % 2 else -1]:
                ids = [f"{sent + one:032x}" for one in range(scale.events)]
                began = time.perf_counter()
                await side(ids)
                sent += len(ids)
                async with asyncio.timeout(PATIENCE):
                    while counts[0] < sent:  # noqa: ASYNC110 - of another process
                        await asyncio.sleep(0.001)
                if number:  # the first is to warm up
                    seconds[side].append(time.perf_counter() - began)
        worker.kill()
    sides = {"bare publish and consume": bare, "relay, nats_publisher and a worker": relayed}
    ratio = median(b / r for b, r in zip(seconds[bare], seconds[relayed], strict=True))
    return [
        *(
            _measured(
                f"events a second by {how}",
                scale.events / median(seconds[side]),
                "{:,.0f}",
                scale.relayed,
            )
            for how, side in sides.items()
        ),
        Row(
            label="events by relay / by bare publish and consume",
            measured=f"{ratio:.2f}",
            goal=">= 0.7",
            is_met=ratio >= 0.7,
            value=ratio,
            rounds=scale.relayed,
        ),
    ]


async def share_token(scale: Scale) -> list[Row]:
    """Count the token requests of processes over several lives of a token."""
    least = scale.token_seconds / _TOKEN_SERVES
    async with broker_with_stream() as (server, _):
        (own, _), (shared, failures) = await asyncio.gather(
            _token_requests(server.url, scale, is_shared=False),
            _token_requests(server.url, scale, is_shared=True),
        )
    name = f"token requests of {scale.sharers} processes"
    return [
        _count("lives of a token that processes share", round(least)),
        _measured(f"{name} with a token each / least possible", own / least),
        _most(f"{name} that share one / least possible", shared / least, 1.3),
        _most("failed calls of the processes that share a token", failures, 0, "{:.0f}"),
    ]


async def _token_requests(broker: str, scale: Scale, *, is_shared: bool) -> tuple[int, float]:
    """Return how many token requests all processes made, and how many of their calls failed."""
    failures = flags(1)
    with EmulatorProcess(applications=5, time_flows=True, token_lifetime=_TOKEN_SECONDS) as service:
        place = place_of(service, broker)
        processes = [
            start(call_often, place, scale.token_seconds, failures, is_shared=is_shared)
            for _ in range(scale.sharers)
        ]
        for process in processes:
            await asyncio.to_thread(process.join, PATIENCE)
        return service.tokens(), failures[0]


async def read_first(scale: Scale) -> list[Row]:
    """List all applications once, and have 1, 2 and 4 processes read records of these ids."""
    knobs: dict[str, Any] = {"applications": scale.listed, "pattern": "diurnal", "days": 365}
    with EmulatorProcess(**knobs, latency=scale.far) as service:
        async with place_of(service).client() as client:
            began = time.perf_counter()
            ids = [row.application_id async for row in client.list_applications()]
            listing = time.perf_counter() - began
        wrong = _not_once(ids, service.ids())
        wanted = ids[: scale.handed_out]
        seconds: dict[int, float] = {}
        for processes in _READERS:
            seconds[processes], found = await _fetched(service, wanted, processes)
            wrong += _not_once(found, wanted)
    records = f"{len(wanted):,} records with documents read"
    far = f"{scale.far * 1000:g} ms a call"
    return [
        _most("applications of a first read that did not come exactly once", wrong, 0, "{:.0f}"),
        _measured(f"{scale.listed:,} applications listed by 1 process, {far}", listing, "{:.1f} s"),
        *(
            _measured(f"{records} by {count}, {far}", seconds[number], "{:.1f} s")
            for number, count in _READERS.items()
        ),
        _most("time of reading records by 2 processes / by 1", seconds[2] / seconds[1], 0.6),
        _measured("time of reading records by 4 processes / by 1", seconds[4] / seconds[1]),
    ]


async def _fetched(
    service: EmulatorProcess, ids: Sequence[str], processes: int
) -> tuple[float, list[str]]:
    """Return how long so many processes take to read the records, and the ids of these."""
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(processes, mp_context=FORKS) as pool:
        # Each has started before time counts.
        starts = [loop.run_in_executor(pool, time.sleep, 0.5) for _ in range(processes)]
        await asyncio.gather(*starts)
        began = time.perf_counter()
        shares = [ids[number::processes] for number in range(processes)]
        found = await asyncio.gather(
            *(loop.run_in_executor(pool, fetched, place_of(service), share) for share in shares)
        )
        return time.perf_counter() - began, [one for share in found for one in share]


def _not_once(found: Iterable[str], wanted: Iterable[str]) -> int:
    """Return how many ids were found that are not wanted, or not exactly once."""
    counts = Counter(found)
    return sum(counts[one] != 1 for one in {*wanted, *counts})


def _count(label: str, count: int, of: int | None = None) -> Row:
    shown = f"{count:,}" if of is None else f"{count:,} of {of:,}"
    return Row(label=label, measured=shown, value=count)


def _none(label: str, of: int) -> Row:
    """Return the row of what would have raised an error if there were any."""
    return Row(label=label, measured=f"0 of {of:,}", goal="0", is_met=True, value=0)


def _measured(label: str, value: float, shown: str = "{:.2f}", rounds: int | None = None) -> Row:
    return Row(label=label, measured=shown.format(value), value=value, rounds=rounds)


def _most(label: str, value: float, goal: float, shown: str = "{:.2f}") -> Row:
    return at_most(label, value, goal, shown=shown.format(value))


MEASUREMENTS: Final = {
    "kills": kill_pollers,
    "cluster": kill_everything,
    "takeovers": take_over,
    "relaying": relay_events,
    "tokens": share_token,
    "first-read": read_first,
}
