"""Cost of one call: CPU of its process, against bare aiohttp and against httpx with pydantic.

The peers make the same calls as their documentation shows them. They do not retry, renew no
token and limit nothing. The service answers canned bytes from another process. Imports are
timed in fresh processes that take turns.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

import aiohttp
import httpx
import orjson
from pydantic import BaseModel

from income_client import IncomeClient, SyncIncomeClient

from .decoding import replies
from .report import Row, Scale, compared, in_turns
from .services import SMALL, CannedService, EmulatorProcess

Call: TypeAlias = Callable[[int], Awaitable[Any]]

_IN_FLIGHT: Final = 16
_WARM: Final = 64
_HEADERS: Final = {"Authorization": "Bearer invented"}
_DATES: Final = {"updated_after": "2024-01-01", "updated_before": "2024-02-01"}
_PACKAGE: Final = "import income_client"
_CLIENT: Final = (
    "from income_client import BasicAuth, IncomeClient; "
    "IncomeClient('https://income.example', auth=BasicAuth('user', 'invented'))"
)
_AIOHTTP: Final = "import aiohttp"


def bare_aiohttp(url: str) -> aiohttp.ClientSession:
    """Return a session as the documentation of aiohttp shows it."""
    return aiohttp.ClientSession(
        f"{url}/v1/income/applications/",
        connector=aiohttp.TCPConnector(limit=0),
        headers=_HEADERS,
        raise_for_status=True,
    )


async def parsed(session: aiohttp.ClientSession, path: str) -> Any:
    """Return what ``orjson.loads`` makes of a reply: no types, no checks."""
    async with session.get(path) as reply:
        return orjson.loads(await reply.read())


async def validated(client: httpx.AsyncClient, path: str, model: type[BaseModel]) -> BaseModel:
    """Return what a strict model of pydantic makes of a reply."""
    reply = await client.get(path)
    reply.raise_for_status()
    return model.model_validate_json(reply.content)


def name_of(number: int) -> str:
    """Return an application id of the usual length."""
    return f"5f3a1c20-8b1e-4a52-9c07-{number:012d}"


async def _cpu_of_calls(
    calls: Mapping[str, Call], in_flight: int, made: int, rounds: int
) -> dict[str, list[float]]:
    """Return the seconds of CPU of one call of each kind in each round."""
    numbers = count()

    async def measure(call: Call, how_many: int) -> float:
        left = iter([next(numbers) for _ in range(how_many)])

        async def work() -> None:
            for number in left:
                await call(number)

        began = time.process_time()
        async with asyncio.TaskGroup() as workers:
            for _ in range(in_flight):
                workers.create_task(work())
        return (time.process_time() - began) / how_many

    for call in calls.values():
        await measure(call, _WARM)
    ways = {name: partial(measure, call, made) for name, call in calls.items()}
    return await in_turns(ways, rounds)


async def small_calls(scale: Scale) -> list[Row]:
    """Compare small calls with bare aiohttp that only parses."""
    rows: list[Row] = []
    with CannedService() as service:
        url = service.url + SMALL
        async with bare_aiohttp(url) as bare, IncomeClient(url, auth=service.oauth2) as client:
            kinds: dict[str, Call] = {
                "bare": lambda number: parsed(bare, name_of(number)),
                "ours": lambda number: client.get_application(name_of(number)),
                "again": lambda number: parsed(bare, name_of(number)),
            }
            for in_flight, goal in ((1, 1.05), (_IN_FLIGHT, 1.12)):
                costs = await _cpu_of_calls(kinds, in_flight, 2 * scale.calls, scale.rounds)
                against = partial(compared, seconds=costs, other="bare", unit="us")
                what = f"a small application, {in_flight} in flight"
                label = f"a call: CPU / bare aiohttp with orjson.loads, {what}"
                rows.append(against(label, one="ours", goal=goal))
                rows.append(against(f"control: bare aiohttp / itself, {what}", one="again"))
    return rows


async def usual_calls(scale: Scale) -> list[Row]:
    """Compare calls of usual size with httpx and pydantic, and with bare aiohttp."""
    rows: list[Row] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    with CannedService() as service:
        async with (
            bare_aiohttp(service.url) as bare,
            IncomeClient(service.url, auth=service.oauth2) as client,
            httpx.AsyncClient(
                base_url=f"{service.url}/v1/income/applications/",
                headers=_HEADERS,
                limits=limits,
                trust_env=False,
            ) as peer,
        ):
            paths = ("{}", "{}/documents", f"?{urlencode(_DATES)}")
            ours: Sequence[Call] = (
                lambda number: client.get_application(name_of(number)),
                lambda number: client.get_documents(name_of(number)),
                lambda _: client.get_application_page(**_DATES, limit=1000),
            )
            goals = (0.30, 0.40, 0.55)
            for reply, path, our_call, goal in zip(replies(), paths, ours, goals, strict=True):
                kinds = {
                    "ours": our_call,
                    "httpx": _with_names(path, partial(validated, peer, model=reply.model)),
                    "bare": _with_names(path, partial(parsed, bare)),
                }
                # httpx is at its best with one in flight.
                costs = await _cpu_of_calls(kinds, 1, max(1, scale.calls // 4), scale.rounds)
                against = partial(compared, seconds=costs, other="httpx", unit="us")
                ratio = f"CPU / httpx with pydantic, {reply.name}"
                rows.append(against(f"a call: {ratio}", one="ours", goal=goal))
                rows.append(against(f"bare aiohttp with orjson.loads: {ratio}", one="bare"))
    return rows


def _with_names(path: str, read: Callable[[str], Awaitable[Any]]) -> Call:
    return lambda number: read(path.format(name_of(number)))


async def without_await(scale: Scale) -> list[Row]:
    """Compare the client without await with the asynchronous one: calls, and rows of a walk."""
    with CannedService() as service:
        url = service.url + SMALL
        async with IncomeClient(url, auth=service.oauth2) as client:
            with SyncIncomeClient(url, auth=service.oauth2) as waiting:

                async def call() -> None:
                    for number in range(scale.calls):
                        await client.get_application(name_of(number))

                async def call_and_wait() -> None:
                    for number in range(scale.calls):
                        waiting.get_application(name_of(number))

                ways = {"ours": call, "waiting": call_and_wait}
                calls = await _cpu_in_turns(ways, scale.calls, scale.rounds)
    rows = scale.streamed // 10
    with EmulatorProcess(applications=rows, pattern="bursts", days=365) as lists:
        async with IncomeClient(lists.url, auth=lists.oauth2) as client:
            with SyncIncomeClient(lists.url, auth=lists.oauth2) as waiting:

                async def walk() -> None:
                    found = [row.application_id async for row in client.list_applications()]
                    assert len(found) == rows

                async def walk_and_wait() -> None:
                    found = [row.application_id for row in waiting.list_applications()]
                    assert len(found) == rows

                ways = {"ours": walk, "waiting": walk_and_wait}
                walks = await _cpu_in_turns(ways, rows, scale.few_rounds)
    of = "without await: CPU / with await,"
    against = partial(compared, one="waiting", other="ours", unit="us")
    return [
        against(f"{of} a small application", calls, goal=1.5),
        against(f"{of} a row of {rows:,} that are listed", walks, goal=1.15),
    ]


async def _cpu_in_turns(
    works: Mapping[str, Callable[[], Awaitable[None]]], units: int, rounds: int
) -> dict[str, list[float]]:
    """Return the seconds of CPU of a unit of each work, in each round."""

    async def measure(work: Callable[[], Awaitable[None]]) -> float:
        began = time.process_time()
        await work()
        return (time.process_time() - began) / units

    ways = {name: partial(measure, work) for name, work in works.items()}
    for way in ways.values():
        await way()
    return await in_turns(ways, rounds)


async def imports(scale: Scale) -> list[Row]:
    """Time fresh processes that import the package, make a client, or import aiohttp."""
    with TemporaryDirectory() as compiled:
        # As installed packages are: compiled once, whatever this environment says.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        async def run(statement: str) -> float:
            began = time.perf_counter()
            subprocess.run(  # noqa: ASYNC221 - nothing else runs meanwhile
                [sys.executable, "-c", statement], env=environment, check=True, timeout=30
            )
            return time.perf_counter() - began

        statements = (_PACKAGE, _CLIENT, _AIOHTTP)
        for statement in statements:
            await run(statement)
        ways = {statement: partial(run, statement) for statement in statements}
        seconds = await in_turns(ways, scale.rounds)
    against = partial(compared, seconds=seconds, other=_AIOHTTP, unit="ms")
    return [
        against("import income_client: time / import aiohttp", one=_PACKAGE, goal=1.10),
        against(
            "import income_client and make a client: time / import aiohttp",
            one=_CLIENT,
            goal=1.15,
        ),
    ]


MEASUREMENTS: Final[Mapping[str, Callable[[Scale], Coroutine[Any, Any, list[Row]]]]] = {
    "small": small_calls,
    "usual": usual_calls,
    "without-await": without_await,
    "imports": imports,
}
"""Every measurement by its name."""
