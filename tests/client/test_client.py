"""The client as one object: its start, its views, its sessions, its end."""

import asyncio
import contextlib
import io
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import pytest
from aiohttp import ClientSession

from income_client import (
    AuthenticationError,
    BasicAuth,
    ClientClosedError,
    ConnectionFailedError,
    DeadlineExceededError,
    DecodeError,
    DownloadError,
    IncomeClient,
    IncomeClientError,
    NotFoundError,
    OAuth2ClientCredentials,
    RetryPolicy,
    ServerError,
    Timeouts,
)
from income_client.checkpoints import MemoryCheckpointStore
from income_client.emulator import Emulator, Fault
from income_client.records.window import EPOCH
from income_client.testing import JumpingClock, make_document
from tests.support.canaries import SECRET
from tests.support.clients import BASIC, HERE, running
from tests.support.loop_time import stay_silent
from tests.support.server import ScriptedServer, in_turn, reply
from tests.support.service import client_tasks, ids_of, served, until


async def test_basic_credentials_work_to_the_end() -> None:
    """A walk and its records are read with user name and password, and no token is bought."""
    async with served(50) as (service, _):
        async with IncomeClient(service.url, auth=service.basic) as client:
            records = [record async for record in client.fetch_records(client.list_applications())]
        assert service.token_requests == 0
    assert sorted(record.application_id for record in records) == sorted(service.world.ids)


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


class Plain:
    """Has plain calls; making one is a plain call too."""

    def __init__(self, *_: object) -> None:
        pass

    def __call__(self, *_: object) -> None:
        """Do nothing."""

    def method(self, *_: object) -> None:
        """Do nothing."""


class MadePlainly:
    """Is made by a plain call, although what is made is not."""

    def __init__(self, *_: object) -> None:
        pass

    async def __call__(self, *_: object) -> None:
        """Be awaited."""


async def test_any_plain_callable_is_a_hook() -> None:
    """Functions, methods, objects, classes and what is built in."""
    plain: list[Any] = [print, [].append, Plain(), Plain().method, Plain, MadePlainly]
    for hook in (*plain, partial(Plain(), 1)):
        async with IncomeClient("https://income.example", auth=BASIC, on_event=hook) as client:
            client.download_all([], "/nowhere/at/all", on_progress=hook)


async def test_a_borrowed_session_is_never_closed() -> None:
    """Who opened it closes it; the client's own requests go through it."""
    async with served(30) as (service, _), ClientSession() as session:
        async with IncomeClient(service.url, auth=service.oauth2, session=session) as client:
            assert len(await ids_of(client.list_applications())) == 30
        assert not session.closed
        async with session.get(f"{service.url}/") as reply:
            assert reply.status == 200


async def test_a_borrowed_session_that_was_closed_is_told() -> None:
    """Its owner closed it: the client is closed as well."""
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


async def test_another_loop_is_refused() -> None:
    async with served(5) as (_, client):
        await client.get_application_page()

        async def elsewhere() -> None:
            with pytest.raises(ClientClosedError):
                await client.get_application_page()
            with pytest.raises(ClientClosedError):
                await ids_of(client.list_applications())

        await asyncio.to_thread(asyncio.run, elsewhere())
        await client.get_application_page()


# A check at the start


ONCE: Final = RetryPolicy(max_attempts=1)


@pytest.mark.parametrize("applications", [0, 50])
async def test_a_service_that_works_is_asked_once_for_one_row(applications: int) -> None:
    """One token, one call, and nothing comes back."""
    async with served(applications) as (service, client):
        await client.check()
        requests = [request for request in service.requests if request.name != "token"]
        assert [request.name for request in requests] == ["list_applications"]
        assert requests[0].query == "limit=1"
        assert service.token_requests == 1


async def test_wrong_settings_are_found_at_once() -> None:
    """Credentials, a path that is not served, and a port where nobody listens."""
    wrong = (BasicAuth("user", SECRET), OAuth2ClientCredentials("client", SECRET))
    async with Emulator(1) as service:
        for auth in wrong:
            async with IncomeClient(service.url, auth=auth) as client:
                with pytest.raises(AuthenticationError):
                    await client.check()
        async with IncomeClient(f"{service.url}/api", auth=service.basic) as client:
            with pytest.raises(NotFoundError, match="is base_url right"):
                await client.check()
        url = service.url
    async with IncomeClient(url, auth=service.basic, retry=ONCE) as client:
        with pytest.raises(ConnectionFailedError):
            await client.check()


@pytest.mark.parametrize(
    "body",
    [
        b"<html>log in</html>",
        b'{"applications": []}',
        b'{"updated_after": 1, "updated_before": 2, "applications": []}',
    ],
    ids=["a login page", "no time", "a time that is none"],
)
async def test_a_reply_of_another_service_is_found_at_once(body: bytes) -> None:
    """The service must also say what time it is: windows are measured by that."""
    async with running(in_turn(reply(body=body)), auth=BASIC) as (_, client):
        with pytest.raises(DecodeError):
            await client.check()


def test_a_client_shows_its_host_and_no_secret() -> None:
    """Host and port, of views and subclasses too; neither credentials nor the rest."""

    class Lender(IncomeClient):
        pass

    oauth2 = OAuth2ClientCredentials("client", SECRET)
    client = Lender("https://income.example:8443/prefix", auth=oauth2)
    assert repr(client) == "<Lender of income.example:8443>"
    assert repr(client.with_options(deadline=5)) == repr(client)
    proxied = IncomeClient(
        "https://income.example", auth=oauth2, proxy=f"http://user:{SECRET}@proxy.example"
    )
    assert repr(proxied) == "<IncomeClient of income.example>"
    asyncio.run(client.aclose())


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


# What a client loads


_PROGRAM: Final = """
import asyncio, sys
{first}
from income_client import BasicAuth, IncomeClient, IncomeClientError, RetryPolicy

async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    head = b"HTTP/1.1 200 OK", b"Content-Type: application/json", b"Content-Length: 4"
    writer.write(b"\\r\\n".join([*head, b"Connection: close", b"", b"null"]))
    writer.close()

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    once = RetryPolicy(max_attempts=1)
    async with IncomeClient(url, auth=BasicAuth("user", "invented"), retry=once) as client:
        print(*sys.modules)
        await client.get_json("/v1/x")
        print(*sys.modules)
        server.close()
        try:
            await client.get_json("/v1/x")
        except IncomeClientError as error:
            print(type(error).__name__, *sys.modules)

asyncio.run(main())
"""
_BROKEN: Final = "import types; sys.modules['opentelemetry'] = types.ModuleType('opentelemetry')"
_LATER: Final = (
    *("income_client.polling", "income_client.downloads"),
    *("income_client.disk", "income_client.checkpoints", "income_client.walk"),
    *("income_client.events", "income_client.fetching", "income_client.records.files"),
    *("income_client.exporting", "income_client.emulator", "income_client.telemetry"),
    *("income_client.receivers", "sqlite3", "obstore", "pyarrow", "tenacity"),
    # of the command line, of callbacks, of the tests
    *(
        "aiohttp.web",
        "asyncpg",
        "cryptography",
        "cyclopts",
        "jinja2",
        "joserfc",
        "opentelemetry.trace",
    ),
    *("orjson", "pydantic", "pytest", "rich", "tomlkit", "uvicorn"),
)


@pytest.mark.parametrize("first", ["", _BROKEN], ids=["", "opentelemetry is broken"])
def test_a_client_loads_what_it_needs_when_it_needs_it(first: str) -> None:
    """OpenTelemetry is the program's to import; tenacity is loaded when something has failed."""
    command = [sys.executable, "-W", "error", "-c", _PROGRAM.replace("{first}", first)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    made, asked, (error, *failed) = map(str.split, ended.stdout.splitlines())
    assert "income_client.client" in made
    assert [name for name in made if name.startswith(_LATER)] == []
    assert ("tenacity" in asked, "tenacity" in failed) == (False, True)
    assert error == "ConnectionFailedError"
    assert not {"opentelemetry.trace", "income_client.telemetry"} & {*failed}
