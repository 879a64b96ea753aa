"""Beyond one machine: ``python -m benchmarks.cluster [row ...] [--quick]``.

Pollers, workers, the service and a broker are processes of their own, on this machine. Nothing
is asserted here: the table says what was measured, what the goal is, and whether it is met.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, cast

from attrs import define, frozen
from nats.aio.client import Client
from nats.js.api import StreamConfig

from income_client import ApplicationRecord, IncomeClient, MemoryCheckpointStore, Poller
from income_client.engines.nats import nats_publisher
from income_client.engines.relay import UpdateEvent, relay
from tests.support.nats_server import NatsServer

from .cluster_chaos import chaos, takeovers
from .cluster_processes import (
    BUCKET,
    STREAM,
    SUBJECT,
    Place,
    acknowledge,
    call_often,
    connected,
    consumer,
    flags,
    start,
)
from .command import run_afresh
from .processes import EmulatorProcess
from .table import Row, at_most

Publish: TypeAlias = Callable[[UpdateEvent], Awaitable[None]]
Measurement: TypeAlias = Callable[["ClusterScale"], Coroutine[Any, Any, list[Row]]]

_BATCH: Final = 100
_NOON: Final = datetime(2026, 6, 30, 12, tzinfo=UTC)
_TOKEN_SECONDS: Final = 2
_TOKEN_SERVES: Final = 1.5
"""A token of two seconds is renewed after three quarters of its life."""
_SHARERS: Final = 8
_PATIENCE: Final = 60.0
_MOST_LEASES: Final = {"SIGKILL": 1.25, "SIGSTOP": 1.25, "clean stop": 0.3}


@frozen(kw_only=True)
class ClusterScale:
    """The sizes of all loads."""

    updates: int
    applications: int
    rate: float
    """Updates a second."""
    events: int
    """Published by each side of a round."""
    polled: int
    """Applications that a real poller relays."""
    rounds: int
    seconds: float
    """How long processes share a token."""


FULL: Final = ClusterScale(
    updates=20_000, applications=5_000, rate=180, events=10_000, polled=2_000, rounds=5, seconds=12
)
"""What the goals are about."""
QUICK: Final = ClusterScale(
    updates=200, applications=50, rate=50, events=500, polled=100, rounds=1, seconds=2
)
"""Enough to see every row; its figures say little."""


async def kills(scale: ClusterScale) -> list[Row]:
    """Kill processes and the broker at random, and count what came to harm."""
    outcome = await chaos(updates=scale.updates, applications=scale.applications, rate=scale.rate)
    harm = ", ".join(f"{count} x {name}" for name, count in outcome.done.items())
    lost = Row(
        what=f"3 pollers, 6 workers, {outcome.versions:,} updates, {harm}: last versions handled",
        measured=f"all {scale.applications:,}",
        goal="all",
        is_met=True,  # or it would have failed
    )
    again = Row(
        what="  events that were handled again, of all",
        measured=f"{outcome.again:,} of {outcome.events:,}",
        value=outcome.again / outcome.events,
    )
    saves = Row(
        what=f"  versions of the checkpoint, {outcome.takeovers} takeovers among them, none of "
        "which went back",
        measured=f"{outcome.saves:,}",
        goal="all",
        is_met=True,  # as above
    )
    return [lost, again, saves]


async def standbys(scale: ClusterScale) -> list[Row]:
    """Measure how long nobody works once a leader ends."""
    found = await takeovers(rounds=scale.rounds)
    return [
        at_most(
            f"standby works after the leader's {how}, leases of 2 s, longest",
            max(leases),
            _MOST_LEASES[how],
            shown=f"{max(leases):.2f} (median {median(leases):.2f})",
            rounds=len(leases),
        )
        for how, leases in found.items()
    ]


@define
class _ReadyBatch:
    records: Sequence[ApplicationRecord]
    delivery_ids: Sequence[str]

    def __iter__(self) -> Any:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.sleep(0)


@frozen
class _ReadyPoller:
    """Stands in for a poller whose batches cost nothing."""

    record: ApplicationRecord
    ids: Sequence[str]

    async def batches(self) -> AsyncIterator[_ReadyBatch]:
        for first in range(0, len(self.ids), _BATCH):
            ids = self.ids[first : first + _BATCH]
            yield _ReadyBatch([self.record] * len(ids), ids)


@asynccontextmanager
async def _broker(worker: bool) -> AsyncIterator[tuple[Client, Callable[[int], Awaitable[None]]]]:
    """Run a broker with a stream, and maybe a worker that acknowledges; give a way to wait."""
    counts = flags(1)

    async def until(count: int) -> None:
        async with asyncio.timeout(_PATIENCE):
            while counts[0] < count:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.001)

    with TemporaryDirectory() as folder, ExitStack() as ending:
        server = NatsServer(Path(folder))
        ending.callback(server.kill)
        async with connected(server.url) as broker:
            stream = broker.jetstream()
            await stream.create_key_value(bucket=BUCKET)
            await stream.add_stream(StreamConfig(name=STREAM, subjects=[SUBJECT]))
            await stream.add_consumer(STREAM, consumer(ack_wait=60))
            if worker:
                process = start(acknowledge, server.url, counts)
                ending.callback(process.kill)
            yield broker, until


async def relaying(scale: ClusterScale) -> list[Row]:
    """Compare a relay of ready batches with bare publishing to the same broker."""
    with EmulatorProcess(applications=1) as service:
        record = await _one_record(service)
    seconds: dict[str, list[float]] = {"bare": [], "relay": []}
    async with _broker(worker=True) as (broker, until):
        stream = broker.jetstream()
        publish = nats_publisher(stream, SUBJECT)
        sent = 0

        async def bare(ids: Sequence[str]) -> None:
            body = UpdateEvent(id=ids[0], application_id=record.application_id, updated_at=_NOON)
            content = body.to_json()
            for first in range(0, len(ids), _BATCH):
                await asyncio.gather(
                    *(
                        stream.publish(SUBJECT, content, headers={"Nats-Msg-Id": one})
                        for one in ids[first : first + _BATCH]
                    )
                )

        async def relayed(ids: Sequence[str]) -> None:
            await relay(cast("Poller", _ReadyPoller(record, ids)), publish)

        sides = {"bare": bare, "relay": relayed}
        for number in range(-1, scale.rounds):
            for name in [*sides][:: 1 if number % 2 else -1]:
                count = scale.events if number >= 0 else _BATCH  # the first is to warm up
                ids = [f"{sent + one:032x}" for one in range(count)]
                began = time.perf_counter()
                await sides[name](ids)
                sent += count
                await until(sent)
                if number >= 0:
                    seconds[name].append(time.perf_counter() - began)
    rates = {name: scale.events / median(found) for name, found in seconds.items()}
    ratio = median(b / r for b, r in zip(seconds["bare"], seconds["relay"], strict=True))
    return [
        Row(
            what="events a second, published 100 at a time and acknowledged by a worker, bare",
            measured=f"{rates['bare']:,.0f}",
            value=rates["bare"],
            rounds=scale.rounds,
        ),
        Row(
            what="  the same by relay and nats_publisher, from ready batches of 100",
            measured=f"{rates['relay']:,.0f}",
            value=rates["relay"],
            rounds=scale.rounds,
        ),
        Row(
            what="  relay / bare",
            measured=f"{ratio:.2f}",
            goal=">= 0.7",
            is_met=ratio >= 0.7,
            value=ratio,
            rounds=scale.rounds,
        ),
    ]


async def relayed_polls(scale: ClusterScale) -> list[Row]:
    """Compare a real poller whose records are relayed with one whose records are dropped."""
    seconds: dict[str, list[float]] = {"alone": [], "relayed": []}
    with EmulatorProcess(applications=scale.polled) as service:
        async with _broker(worker=True) as (broker, _), _client_of(service) as client:
            publish = nats_publisher(broker.jetstream(), SUBJECT)
            for number in range(max(1, scale.rounds - 2)):
                for name in [*seconds][:: 1 if number % 2 else -1]:
                    poller = client.poll(
                        MemoryCheckpointStore(), start="2020-01-01", documents=False
                    )
                    poller.stop(after_poll=True)
                    began = time.perf_counter()
                    if name == "relayed":
                        await relay(poller, publish)
                    else:
                        async for batch in poller.batches():
                            async with batch:
                                pass
                    seconds[name].append(time.perf_counter() - began)
    rates = {name: scale.polled / median(found) for name, found in seconds.items()}
    ratio = rates["relayed"] / rates["alone"]
    return [
        Row(
            what=f"events a second from a poller that reads {scale.polled:,} applications of the "
            "emulator, relayed / polled only",
            measured=f"{rates['relayed']:,.0f} / {rates['alone']:,.0f} = {ratio:.2f}",
            value=ratio,
            goal=">= 0.7",
            is_met=ratio >= 0.7,
            rounds=len(seconds["alone"]),
        )
    ]


async def tokens(scale: ClusterScale) -> list[Row]:
    """Count the token requests of processes that share one, over several lives of a token."""
    least = scale.seconds / _TOKEN_SERVES
    rows = []
    knobs: dict[str, Any] = {"applications": 5, "time_flows": True}
    with EmulatorProcess(token_lifetime=_TOKEN_SECONDS, **knobs) as service:
        async with _broker(worker=False) as (broker, _):
            for is_shared in (False, True):
                service.forget()
                failures = flags(1)
                place = _place_of(service, broker)
                processes = [
                    start(call_often, place, scale.seconds, failures, is_shared=is_shared)
                    for _ in range(_SHARERS)
                ]
                for process in processes:
                    await asyncio.to_thread(process.join, _PATIENCE)
                requests = service.counts().tokens
                how = "one NatsTokenStore" if is_shared else "a token each"
                shown = f"{requests} / {least:.1f} = {requests / least:.2f}"
                name = f"token requests of {_SHARERS} processes with {how} / one for each 1.5 s"
                what = f"{name} of a token's 2, {failures[0]:.0f} failed calls"
                if is_shared:
                    rows.append(at_most(what, requests / least, 1.3, shown=shown))
                else:
                    rows.append(Row(what=what, measured=shown, value=requests / least))
    return rows


def _place_of(service: EmulatorProcess, broker: Client) -> Place:
    auth = service.oauth2
    assert broker.connected_url is not None
    return Place(
        nats=broker.connected_url.geturl(),
        service=service.url,
        oauth2=(auth.client_id, auth.client_secret.reveal()),
        database=Path(),
        lease=2.0,
    )


def _client_of(service: EmulatorProcess) -> IncomeClient:
    return IncomeClient(service.url, auth=service.oauth2)


async def _one_record(service: EmulatorProcess) -> ApplicationRecord:
    async with _client_of(service) as client:
        records = client.fetch_records(service.ids(), documents=False)
        return await anext(records)


MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "kills": kills,
    "standbys": standbys,
    "relaying": relaying,
    "relayed-polls": relayed_polls,
    "tokens": tokens,
}
"""Every measurement by the name that the command line knows it by."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print the table.

    Args:
        arguments: in place of those of the process.
    """
    run_afresh(MEASUREMENTS, arguments, part="cluster", description=__doc__, quick=QUICK, full=FULL)


if __name__ == "__main__":
    main()
