"""The client as one object: its start, its views, its sessions, its retries, its end."""

import asyncio
import contextlib
import io
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientSession
from tenacity import (
    RetryCallState,
    stop_after_attempt,
    stop_after_delay,
    stop_never,
    wait_chain,
    wait_fixed,
)

from income_client import (
    ClientClosedError,
    DeadlineExceededError,
    DownloadError,
    IncomeClient,
    IncomeClientError,
    RetryPolicy,
    ServerError,
    Timeouts,
)
from income_client.checkpoints import MemoryCheckpointStore
from income_client.emulator import Emulator, Fault
from income_client.records.window import EPOCH
from income_client.testing import JumpingClock, make_document
from tests.support.canaries import SECRET
from tests.support.clients import BASIC, HERE, OAUTH, ask, hosting, running
from tests.support.clocks import stay_silent
from tests.support.processes import beside
from tests.support.server import Answer, Reply, ScriptedServer, in_turn, reply, token_reply
from tests.support.service import client_tasks, ids_of, served, until


async def test_a_view_shares_token_and_connections() -> None:
    """Other limits cost neither; closing a view closes nothing, and with the client it ends."""
    async with served(5) as (service, client):
        view = client.with_options(retry=RetryPolicy(max_attempts=1), timeouts=Timeouts(deadline=9))
        await client.get_application_page()
        await view.get_application_page()
        assert service.token_requests == 1
        assert view._session.transport is client._session.transport
        service.faults.add(Fault("status", path="/v1/*"), Fault("status", path="/v1/*"))
        with pytest.raises(ServerError) as caught:
            await view.get_application_page()
        assert caught.value.attempts == 1
        await view.aclose()
        await client.get_application_page()
        await view.get_application_page()
        await client.aclose()
        with pytest.raises(ClientClosedError):
            await view.get_application_page()


@pytest.mark.parametrize("start", [-1e6, -5.0, 0.0])
async def test_a_clock_may_begin_anywhere(start: float) -> None:
    """Also below zero: nothing waits for a moment that has never been."""
    clock = JumpingClock()
    clock.advance(start - clock.monotonic())
    async with (
        Emulator(30, clock=clock, time_flows=True, days=30) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock, max_rate=2) as client,
    ):
        await client.get_application_page()
        assert (clock.monotonic(), clock.slept) == (start, [])
        await client.get_application_page()
        assert clock.slept == [0.5]
        clock.advance(3500)
        await client.get_application_page()
        await until(lambda: service.token_requests == 2)
        service.faults.add(Fault("status", status=429, headers={"Retry-After": "7"}, path="/v1/*"))
        await client.get_application_page()
        assert 7 in clock.slept
        clock.advance(10_000)
        poller = client.poll(MemoryCheckpointStore(), once=True, start=EPOCH, documents=False)
        assert len([record async for record in poller]) == 30
        assert service.token_requests == 3


async def test_any_plain_callable_is_a_hook() -> None:
    """Functions, objects, classes and what is built in."""
    plain: list[Any] = [print, [].append, partial(print, 1), JumpingClock().advance, dict]
    for hook in plain:
        async with IncomeClient("https://income.example", auth=BASIC, on_event=hook) as client:
            client.download_all([], "/nowhere/at/all", on_progress=hook)


def test_a_client_shows_its_host_and_no_secret() -> None:
    """Host and port, of views and subclasses too; neither credentials nor the rest."""

    class Lender(IncomeClient):
        pass

    proxy = f"http://user:{SECRET}@proxy.example"
    client = Lender("https://income.example:8443/prefix", auth=BASIC, proxy=proxy)
    assert repr(client) == repr(client.with_options(deadline=5))
    assert repr(client) == "<Lender of income.example:8443>"


async def test_a_borrowed_session_that_was_closed_is_told() -> None:
    """The session's owner closed it: the client is closed as well."""
    async with served(5) as (service, _):
        session = ClientSession()
        async with IncomeClient(service.url, auth=service.basic, session=session) as client:
            await client.get_application_page()
            await session.close()
            with pytest.raises(ClientClosedError, match="that the client borrowed was closed"):
                await client.get_application_page()


def test_a_borrowed_session_of_another_loop_is_told() -> None:

    async def borrow() -> ClientSession:
        return ClientSession()

    async def call(session: ClientSession) -> None:
        async with IncomeClient("http://127.0.0.1:9", auth=BASIC, session=session) as client:
            with pytest.raises(ClientClosedError, match="belongs to another event loop"):
                await client.get_application_page()

    with asyncio.Runner() as first:
        session = first.run(borrow())
        with asyncio.Runner() as second:
            second.run(call(session))
        first.run(session.close())


async def test_after_closing_every_call_is_refused() -> None:
    """A closed client says so, and closing it again does nothing."""
    async with served(5) as (service, client):
        walk = client.list_applications(limit=2)
        await anext(walk)
        fetcher = client.fetch_records(service.world.ids)
        await client.aclose()
        await client.aclose()
        for call in (
            client.check(), client.get_application_page(), client.get_application("app-1"),
            anext(fetcher), anext(client.list_applications()), ids_of(walk),
        ):  # fmt: skip
            with pytest.raises(ClientClosedError):
                await call
        assert client_tasks() == set()


async def test_cancelling_anywhere_leaves_nothing_behind() -> None:
    """After a cancellation at any step no task is left, every slot is free, and calls resume."""
    for steps in range(1000):
        async with (
            Emulator(1) as service,
            IncomeClient(
                service.url, auth=service.oauth2, clock=JumpingClock(), concurrency=1
            ) as client,
        ):
            service.faults.add(Fault("status", path="/v1/*"))
            task = asyncio.create_task(client.get_application_page())
            for _ in range(steps):
                await asyncio.sleep(0)
            is_through = task.done()
            task.cancel()
            await asyncio.wait((task,))
            await client.get_application_page()
        await until(lambda: client_tasks() == set())
        if is_through:
            break
    assert 20 < steps < 999


# A check at the start


ONCE: Final = RetryPolicy(max_attempts=1)


async def test_a_service_that_works_is_asked_once_for_one_row() -> None:
    """The check makes one token request and one call, and returns None."""
    async with served(50) as (service, client):
        await client.check()
        requests = [request for request in service.requests if request.name != "token"]
        assert [request.name for request in requests] == ["list_applications"]
        assert requests[0].query == "limit=1"
        assert service.token_requests == 1


# Views with other limits


@contextlib.asynccontextmanager
async def silent_service(**options: Any) -> AsyncIterator[tuple[str, IncomeClient]]:
    """Run a service that lets 100 seconds pass in place of a reply, and a client of one attempt."""
    usual: dict[str, Any] = {"auth": BASIC, "retry": ONCE, "downloads": HERE}
    async with (
        ScriptedServer(lambda _: stay_silent(100)) as server,
        IncomeClient(server.url, **usual | options) as client,
    ):
        yield server.url, client


async def failure(client: IncomeClient) -> IncomeClientError:
    """Make a call that fails, and return its error."""
    with pytest.raises(IncomeClientError) as caught:
        await client.get_application_page()
    return caught.value


async def test_a_limit_that_is_not_given_stays() -> None:
    """The client's ``read`` of 5 s holds in the view as well, for calls and for files."""
    async with silent_service(timeouts=Timeouts(read=5, deadline=300)) as (url, client):
        document = make_document(url=f"{url}/file")
        for view in (
            client.with_options(timeouts=Timeouts(deadline=200)),
            client.with_options(timeouts=Timeouts(connect=200)),
            client.with_options(deadline=200),
            client.with_options(deadline=600).with_options(deadline=200),
            client.with_options(retry=ONCE),
            client.with_options(),
        ):
            assert "not done within" not in (await failure(view)).message
            with pytest.raises(DownloadError) as caught:
                await view.download(document, io.BytesIO())
            assert caught.value.attempts == 1


async def test_a_limit_that_is_given_takes_the_place_of_the_clients() -> None:
    """The view's calls end by its deadline, and the client's own deadline stays."""
    async with silent_service(timeouts=Timeouts(read=900, deadline=90)) as (_, client):
        for view in (
            client.with_options(deadline=60),
            client.with_options(timeouts=Timeouts(deadline=60)),
            client.with_options(deadline=60, timeouts=Timeouts(deadline=80)),
            client.with_options(deadline=60).with_options(timeouts=Timeouts(read=900)),
        ):
            error = await failure(view)
            assert isinstance(error, DeadlineExceededError)
            assert error.message == "list_applications: not done within 60 s"
        assert (await failure(client)).message == "list_applications: not done within 90 s"


# Strategies of the caller's for pauses and for the end, and the limits that hold all the same


async def pauses(answer: Answer, policy: RetryPolicy, **options: Any) -> list[float]:
    """Make a call that fails, and return the pauses between its attempts."""
    clock = JumpingClock()
    usual: dict[str, Any] = {"auth": BASIC, "clock": clock, "retry": policy}
    async with running(answer, **usual | options) as (service, client):
        with pytest.raises(IncomeClientError) as caught:
            await ask(client)
        assert caught.value.attempts == len(service.calls) == len(clock.slept) + 1
    return clock.slept


def chosen(wait: object, stop: object, **limits: Any) -> RetryPolicy:
    """Return a policy with strategies."""
    return RetryPolicy(wait=wait, stop=stop, **limits)  # type: ignore[arg-type]


CHAIN: Final = wait_chain(wait_fixed(1), wait_fixed(3))
AFTER: Final = stop_after_attempt


@pytest.mark.parametrize(
    ("answer", "policy", "expected"),
    [
        # Those of tenacity, alone and combined, and a function
        (reply(500), chosen(CHAIN, AFTER(4)), [1, 3, 3]),
        (reply(500), chosen(wait_fixed(4), AFTER(9) | stop_after_delay(10)), [4, 4, 4]),
        (reply(500), chosen(wait_fixed(4), AFTER(2) & stop_after_delay(10)), [4, 4, 4]),
        (reply(500), chosen(lambda at: at.idle_for + at.attempt_number, AFTER(4)), [1, 3, 7]),
        # Where one is not given, the fields of the policy decide
        (reply(500), chosen(wait_fixed(2), None, max_attempts=4), [2, 2, 2]),
        (reply(500), chosen(None, AFTER(5), base_delay=0), [0, 0, 0, 0]),
        # The longest pause, what the service asks for, its verdict, and the budget of all calls
        (reply(500), chosen(wait_fixed(10), AFTER(3), max_delay=3), [3, 3]),
        (reply(503, Retry_After="12"), chosen(wait_fixed(10), AFTER(3)), [12, 12]),
        (reply(503, Retry_After="61"), chosen(wait_fixed(10), AFTER(3)), []),
        (reply(429, Retry_After="61"), chosen(wait_fixed(10), AFTER(3)), []),
        (reply(404), chosen(wait_fixed(10), AFTER(3)), []),
        (reply(500), chosen(wait_fixed(10), AFTER(3), budget=5), [10]),
    ],
)
async def test_strategies_decide_about_pauses_and_the_end(
    answer: Reply, policy: RetryPolicy, expected: list[float]
) -> None:
    """By the time of the client's clock, and within the other limits."""
    assert await pauses(in_turn(answer), policy) == expected


async def test_the_deadline_ends_a_call_whose_strategy_never_does() -> None:
    policy = RetryPolicy(wait=wait_fixed(20), stop=stop_never)
    timeouts = Timeouts(deadline=50)
    assert await pauses(in_turn(reply(500)), policy, timeouts=timeouts) == [20, 20]


async def test_a_strategy_sees_the_failure_and_none_of_our_frames() -> None:
    """The strategy gets the error, the attempt and the time, and no header or reply to log."""
    seen: list[tuple[int, float | None]] = []

    def wait(state: RetryCallState) -> float:
        assert state.outcome is not None
        error = state.outcome.exception()
        assert isinstance(error, ServerError)
        assert error.__traceback__ is None
        assert "invented" not in repr(state)
        seen.append((state.attempt_number, state.seconds_since_start))
        return 3

    await pauses(in_turn(reply(500)), RetryPolicy(wait=wait))
    assert seen == [(1, 0), (2, 3), (3, 6)]


async def test_a_strategy_with_a_bug_ends_the_call() -> None:
    """The strategy's own error is raised unchanged, and is not retried."""

    def wait(state: RetryCallState) -> float:
        raise KeyError(state.attempt_number)

    clock = JumpingClock()
    options: dict[str, Any] = {"auth": BASIC, "clock": clock, "retry": RetryPolicy(wait=wait)}
    async with running(in_turn(reply(500)), **options) as (service, client):
        with pytest.raises(KeyError) as caught:
            await ask(client)
        assert len(service.calls) == 1
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "wait"


SEVEN: Final = chosen(wait_fixed(7), AFTER(2))


async def test_token_requests_and_views_use_strategies_too() -> None:
    clock = JumpingClock()
    options: dict[str, Any] = {"auth": OAUTH, "clock": clock, "retry": SEVEN}
    failing = in_turn(reply(503), reply(503), token_reply())
    async with running(in_turn(reply(500)), failing, **options) as (service, client):
        with pytest.raises(IncomeClientError):
            await ask(client)
        assert (service.token_requests, clock.slept) == (2, [7])
        view = client.with_options(retry=RetryPolicy(wait=wait_fixed(9), max_attempts=2))
        with pytest.raises(ServerError):
            await ask(view)
    assert clock.slept == [7, 9]


async def test_downloads_use_the_same_strategies(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with hosting(in_turn(reply(500)), clock=clock, retry=SEVEN) as (client, document, _):
        with pytest.raises(IncomeClientError):
            await client.download(document, tmp_path / "slip")
    assert clock.slept == [7]


# What a client loads


_PROGRAM: Final = """
import asyncio, sys
{first}
from income_client import BasicAuth, IncomeClient

async def main():
    async with IncomeClient("{url}", auth=BasicAuth("user", "invented")) as client:
        print(*sys.modules)
        await client.get_json("/v1/x")
        print(*sys.modules)

asyncio.run(main())
"""
_BROKEN: Final = "import types; sys.modules['opentelemetry'] = types.ModuleType('opentelemetry')"
_LATER: Final = (
    *("income_client.polling", "income_client.downloads"),
    *("income_client.system.disk", "income_client.checkpoints", "income_client.walk"),
    *("income_client.events.kinds", "income_client.walk.fetching", "income_client.records.files"),
    *("income_client.exporting", "income_client.emulator", "income_client.telemetry"),
    *("income_client.receivers", "sqlite3", "pyarrow"),
    # of the command line, of callbacks, of the tests
    *("aiohttp.web", "asyncpg", "cryptography", "cyclopts", "joserfc", "orjson"),
    *("opentelemetry.trace", "pydantic", "pytest", "rich", "uvicorn"),
)


@pytest.mark.parametrize("first", ["", _BROKEN], ids=["", "opentelemetry is broken"])
def test_a_client_loads_what_it_needs_when_it_needs_it(first: str) -> None:
    """OpenTelemetry is the program's to import."""
    with beside(ScriptedServer(in_turn(reply()))) as server:
        program = _PROGRAM.replace("{first}", first).replace("{url}", server.url)
        command = [sys.executable, "-W", "error", "-c", program]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
    made, asked = map(str.split, ended.stdout.splitlines())
    assert "income_client.client" in made
    assert [name for name in made if name.startswith(_LATER)] == []
    assert not {"opentelemetry.trace", "income_client.telemetry"} & {*asked}
