"""The client as one object: its views, its sessions, its life."""

import asyncio
from typing import Any

import pytest
from aiohttp import ClientSession

from income_client import (
    AuthenticationError,
    BasicAuth,
    ClientClosedError,
    ConfigurationError,
    IncomeClient,
    OAuth2ClientCredentials,
    RetryPolicy,
    ServerError,
    Timeouts,
)
from income_client.checkpoints import MemoryCheckpointStore
from income_client.emulator import Emulator, Fault
from income_client.records.window import EPOCH
from income_client.testing import JumpingClock
from tests.support.service import client_tasks, ids_of, served, until

BASIC = BasicAuth("user", "invented")


async def test_basic_credentials_work_to_the_end() -> None:
    """A walk and its records are read with user name and password, and no token is bought."""
    async with served(50) as (service, _):
        async with IncomeClient(service.url, auth=service.basic) as client:
            records = [record async for record in client.fetch_records(client.list_applications())]
        assert service.token_requests == 0
    assert sorted(record.application_id for record in records) == sorted(service.world.ids)


@pytest.mark.parametrize("kind", ["basic", "oauth2"])
async def test_wrong_credentials_are_an_error(kind: str) -> None:
    """Neither a wrong password nor a wrong client secret is tried again and again."""
    async with served(5) as (service, _):
        auth: Any = BasicAuth(service.basic.username, "wrong")
        if kind == "oauth2":
            auth = OAuth2ClientCredentials(service.oauth2.client_id, "wrong")
        async with IncomeClient(service.url, auth=auth) as client:
            with pytest.raises(AuthenticationError) as caught:
                await client.get_application_page()
        assert caught.value.status == 401
        assert len(service.requests) == 1


async def test_the_token_may_be_sold_elsewhere() -> None:
    """With ``auth_url`` the token comes from there, and the API is asked with it."""
    async with Emulator(5) as service, Emulator(0) as shop:
        async with IncomeClient(service.url, auth=shop.oauth2, auth_url=shop.url) as client:
            await client.get_application_page()
        assert (shop.token_requests, service.token_requests) == (1, 0)
        assert [request.name for request in service.requests] == ["list_applications"]


async def test_a_thousand_first_calls_buy_one_token() -> None:
    """Nobody asks for a token while another already does."""
    async with served(5) as (service, client):
        one = service.world.ids[0]
        await asyncio.gather(*(client.get_application(one) for _ in range(1000)))
        assert service.token_requests == 1


async def test_a_view_shares_token_and_connections() -> None:
    """Other limits cost neither a token nor a connection."""
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
        await client.get_application_page()


async def test_closing_a_view_closes_nothing() -> None:
    """The client that it was made of goes on; with its end the view ends."""
    async with served(5) as (_, client):
        async with client.with_options() as view:
            await view.get_application_page()
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
    """It cannot be used in this one."""

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
        with pytest.raises(ClientClosedError):
            await client.get_application_page()
        with pytest.raises(ClientClosedError):
            await client.get_application("app-1")
        with pytest.raises(ClientClosedError):
            await anext(fetcher)
        with pytest.raises(ClientClosedError):
            await ids_of(walk)
        with pytest.raises(ClientClosedError):
            await ids_of(client.list_applications())
        assert client_tasks() == set()


async def test_closing_ends_a_call_under_way() -> None:
    """Whoever waits for a reply meanwhile gets the error."""
    async with served(5) as (service, client):
        await client.get_application_page()
        service.faults.add(Fault("stall", times=None))
        waiting = asyncio.create_task(client.get_application_page())
        await until(lambda: service._in_flight == 1)
        await client.aclose()
        with pytest.raises(ClientClosedError):
            await waiting


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
    """A client belongs to the loop in which it was first used."""
    async with served(5) as (_, client):
        await client.get_application_page()

        async def elsewhere() -> None:
            with pytest.raises(ClientClosedError):
                await client.get_application_page()
            with pytest.raises(ClientClosedError):
                await ids_of(client.list_applications())

        await asyncio.to_thread(asyncio.run, elsewhere())
        await client.get_application_page()


def test_a_client_may_be_made_outside_of_any_loop() -> None:
    """Its connections are opened on first use; one that was never used needs no closing."""
    client = IncomeClient("https://income.example", auth=BASIC)
    asyncio.run(client.aclose())


def test_an_argument_of_another_type_is_told_what_it_should_be() -> None:
    """The message names what is wanted, and the type that came."""
    auth: Any = ("user", "invented")
    with pytest.raises(
        ConfigurationError,
        match=r"^auth must be BasicAuth or OAuth2ClientCredentials, not of type tuple$",
    ):
        IncomeClient("https://income.example", auth=auth)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_may_be_plain_http(host: str) -> None:
    """Nothing leaves the machine there."""
    IncomeClient(f"http://{host}:8080", auth=BASIC)


async def test_the_clients_limit_holds_over_all_its_calls() -> None:
    """Two fetches together have no more requests in flight than the client allows."""
    async with served(60, latency=0.001) as (service, _):
        async with IncomeClient(service.url, auth=service.basic, concurrency=3) as client:
            ids = service.world.ids

            async def fetch() -> int:
                return len([one async for one in client.fetch_records(ids, concurrency=8)])

            assert sum(await asyncio.gather(fetch(), fetch())) == 120
        assert service.max_in_flight == 3
