"""Fetching: tokens bought by a crowd, and many records against the least time they can take."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Final

import aiohttp
import orjson
from attrs import frozen

from income_client import IncomeClient

from .processes import EmulatorProcess, ServiceProcess
from .replaying import ReplayProcess
from .scale import Scale
from .table import Row, at_most

_IN_FLIGHT: Final = (16, 64)
_REQUESTS_PER_RECORD: Final = 2
_MOST_OF_LEAST: Final = 1.10


@frozen(kw_only=True)
class _Cost:
    seconds: float
    cpu_seconds: float


async def first_calls(scale: Scale) -> list[Row]:
    """Count the token requests of many calls at once by a client that has no token."""
    with EmulatorProcess(applications=scale.first_calls) as service:
        ids = service.ids()
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            applications = await asyncio.gather(*map(client.get_application, ids))
        tokens = service.counts().tokens
    return [
        Row(
            what=f"{len(applications):,} concurrent first calls: token requests",
            measured=f"{tokens}",
            goal="1",
            is_met=tokens == 1,
        )
    ]


async def fetch_records(scale: Scale) -> list[Row]:
    """Time records with documents, in turns with a bare loop that makes the same requests."""
    rows: list[Row] = []
    with ReplayProcess(scale.records, scale.latency) as service:
        for in_flight in _IN_FLIGHT:
            ours: list[_Cost] = []
            bare: list[_Cost] = []
            for _ in range(scale.rounds):
                ours.append(await _timed(_fetched, service, in_flight))
                bare.append(await _timed(_fetched_barely, service, in_flight))
            rows += _compared(scale, in_flight, ours, bare)
    return rows


def _compared(scale: Scale, in_flight: int, ours: list[_Cost], bare: list[_Cost]) -> list[Row]:
    requests = scale.records * _REQUESTS_PER_RECORD
    least = scale.latency * requests / in_flight
    mine, theirs = _seconds(ours), _seconds(bare)
    what = (
        f"{scale.records:,} records with documents, {scale.latency * 1000:g} ms, "
        f"{in_flight} in flight: time / least possible ({least:g} s)"
    )
    return [
        at_most(
            what,
            mine / least,
            _MOST_OF_LEAST,
            shown=f"{mine / least:.2f} ({mine:.2f} s)",
            rounds=scale.rounds,
        ),
        Row(
            what=f"  the same requests by bare aiohttp and orjson, {in_flight} in flight",
            measured=f"{theirs / least:.2f} ({theirs:.2f} s)",
            value=theirs / least,
            rounds=scale.rounds,
        ),
        Row(
            what="  CPU of the process per request: this client, bare loop without records",
            measured=f"{_cpu(ours, requests):.0f} us, {_cpu(bare, requests):.0f} us",
            rounds=scale.rounds,
        ),
    ]


async def _fetched(service: ReplayProcess, in_flight: int) -> None:
    async with IncomeClient(service.url, auth=service.oauth2, concurrency=in_flight) as client:
        async for _ in client.fetch_records(service.ids, concurrency=in_flight):
            pass


async def _fetched_barely(service: ReplayProcess, in_flight: int) -> None:
    root = f"{service.url}/v1/income/applications"
    left = deque(f"{root}/{name}{part}" for name in service.ids for part in ("", "/documents"))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        headers = {"Authorization": await _bearer(session, service)}

        async def work() -> None:
            while left:
                async with session.get(left.popleft(), headers=headers) as reply:
                    orjson.loads(await reply.read())

        async with asyncio.TaskGroup() as workers:
            for _ in range(in_flight):
                workers.create_task(work())


async def _bearer(session: aiohttp.ClientSession, service: ServiceProcess) -> str:
    async with session.post(
        f"{service.url}/token",
        data={"grant_type": "client_credentials"},
        headers={"Authorization": service.oauth2.authorization().reveal()},
    ) as reply:
        token: str = orjson.loads(await reply.read())["access_token"]
    return f"Bearer {token}"


async def _timed(
    fetch: Callable[[ReplayProcess, int], Awaitable[None]], service: ReplayProcess, in_flight: int
) -> _Cost:
    began, cpu = time.perf_counter(), time.process_time()
    await fetch(service, in_flight)
    return _Cost(
        seconds=time.perf_counter() - began,
        cpu_seconds=time.process_time() - cpu,
    )


def _seconds(costs: list[_Cost]) -> float:
    return median(cost.seconds for cost in costs)


def _cpu(costs: list[_Cost], requests: int) -> float:
    return median(cost.cpu_seconds for cost in costs) / requests * 1e6
