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

from .processes import EmulatorProcess
from .scale import Scale
from .table import Row, at_most

_IN_FLIGHT: Final = 16
_REQUESTS_PER_RECORD: Final = 2
_MOST_OF_LEAST: Final = 1.25


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
    least = scale.latency * scale.records * _REQUESTS_PER_RECORD / _IN_FLIGHT
    ours: list[_Cost] = []
    bare: list[_Cost] = []
    with EmulatorProcess(applications=scale.records, latency=scale.latency) as service:
        ids = service.ids()
        for _ in range(scale.rounds):
            ours.append(await _timed(_fetched, service, ids))
            bare.append(await _timed(_fetched_barely, service, ids))
    requests = scale.records * _REQUESTS_PER_RECORD
    what = (
        f"{scale.records:,} records with documents, {scale.latency * 1000:g} ms, "
        f"{_IN_FLIGHT} in flight: time / least possible ({least:g} s)"
    )
    return [
        at_most(what, _seconds(ours) / least, _MOST_OF_LEAST, shown=_shown(ours, least)),
        Row(what="  the same requests by bare aiohttp and orjson", measured=_shown(bare, least)),
        Row(
            what="  CPU of the process per request: this client, bare loop",
            measured=f"{_cpu(ours, requests):.0f} us, {_cpu(bare, requests):.0f} us",
        ),
    ]


async def _fetched(service: EmulatorProcess, ids: list[str]) -> None:
    async with IncomeClient(service.url, auth=service.oauth2) as client:
        async for _ in client.fetch_records(ids, concurrency=_IN_FLIGHT):
            pass


async def _fetched_barely(service: EmulatorProcess, ids: list[str]) -> None:
    root = f"{service.url}/v1/income/applications"
    left = deque(f"{root}/{name}{part}" for name in ids for part in ("", "/documents"))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        headers = {"Authorization": await _bearer(session, service)}

        async def work() -> None:
            while left:
                async with session.get(left.popleft(), headers=headers) as reply:
                    orjson.loads(await reply.read())

        async with asyncio.TaskGroup() as workers:
            for _ in range(_IN_FLIGHT):
                workers.create_task(work())


async def _bearer(session: aiohttp.ClientSession, service: EmulatorProcess) -> str:
    async with session.post(
        f"{service.url}/token",
        data={"grant_type": "client_credentials"},
        headers={"Authorization": service.oauth2.authorization().reveal()},
    ) as reply:
        token: str = orjson.loads(await reply.read())["access_token"]
    return f"Bearer {token}"


async def _timed(
    fetch: Callable[[EmulatorProcess, list[str]], Awaitable[None]],
    service: EmulatorProcess,
    ids: list[str],
) -> _Cost:
    began, cpu = time.perf_counter(), time.process_time()
    await fetch(service, ids)
    return _Cost(
        seconds=time.perf_counter() - began,
        cpu_seconds=time.process_time() - cpu,
    )


def _seconds(costs: list[_Cost]) -> float:
    return median(cost.seconds for cost in costs)


def _cpu(costs: list[_Cost], requests: int) -> float:
    return median(cost.cpu_seconds for cost in costs) / requests * 1e6


def _shown(costs: list[_Cost], least: float) -> str:
    seconds = _seconds(costs)
    return f"{seconds / least:.2f} ({seconds:.2f} s)"
