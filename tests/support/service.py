"""A client and the emulated service on loopback, on one clock that jumps."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import parse_qs

from income_client import IncomeClient
from income_client.emulator import Emulator
from income_client.events import OnEvent
from income_client.records.window import EPOCH
from income_client.system.clock import Clock
from income_client.testing import JumpingClock
from income_client.walk import ApplicationPaginator

T = TypeVar("T")
_TURNS = 150
NOON = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - the service's times carry no zone
NOW = int((NOON - EPOCH).total_seconds())


@contextlib.asynccontextmanager
async def served(
    applications: int | Sequence[int] = 300,
    *,
    clock: Clock | None = None,
    on_event: OnEvent | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Emulator, IncomeClient]]:
    """Run a service and a client of it; afterwards nothing of either is left."""
    before = _other_tasks()
    clock = clock or JumpingClock()
    usual: dict[str, Any] = {"clock": clock, "time_flows": True, "days": 30}
    async with Emulator(applications, **usual | options) as service:
        async with IncomeClient(
            service.url,
            auth=service.oauth2,
            downloads=service.download_policy,
            clock=clock,
            on_event=on_event,
        ) as client:
            yield service, client
            assert _other_tasks() == before | service_tasks()
        await until(lambda: service._in_flight == 0)
    await until(lambda: _other_tasks() == before)


def _other_tasks() -> set["asyncio.Task[Any]"]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def service_tasks() -> set["asyncio.Task[Any]"]:
    """Return the tasks in which connections of the service are served."""
    return {task for task in asyncio.all_tasks() if "RequestHandler" in repr(task.get_coro())}


def client_tasks() -> set["asyncio.Task[Any]"]:
    """Return all tasks but this one and the service's."""
    here = asyncio.current_task()
    return {task for task in asyncio.all_tasks() - service_tasks() if task is not here}


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


async def quiet(service: Emulator) -> int:
    """Let the loop turn until the service is asked nothing more; return what it was asked."""
    seen, turns = len(service.requests), 0
    while turns < _TURNS:
        await asyncio.sleep(0)
        turns += 1
        if len(service.requests) > seen:
            seen, turns = len(service.requests), 0
    return seen


async def ids_of(walk: ApplicationPaginator) -> list[str]:
    """Walk to the end and return the ids in the order in which they came."""
    return [row.application_id async for row in walk]


async def streamed(ids: Any) -> AsyncIterator[Any]:
    """Give ids asynchronously, each after a turn of the loop."""
    for one in ids:
        await asyncio.sleep(0)
        yield one


async def collect(iterator: AsyncIterator[T], into: list[T]) -> None:
    """Keep what an iterator gives, even if it ends in an error."""
    async for one in iterator:
        into.append(one)  # noqa: PERF401 - a comprehension would lose them


def list_queries(service: Emulator) -> list[dict[str, str]]:
    """Return the parameters of the list calls that the service saw."""
    return [
        {name: values[0] for name, values in parse_qs(request.query).items()}
        for request in service.requests
        if request.name == "list_applications"
    ]


def moments(seconds: Iterable[int]) -> list[int]:
    """Return update times so many seconds before the emulator's present."""
    return [NOW - second for second in seconds]
