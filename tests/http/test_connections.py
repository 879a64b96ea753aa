"""Connections that have died, whose event loop has ended, or that a forked child has inherited.

A retry after a failure on a used connection goes out on a new one, and the idle connections of
that time are closed (promise 13): they have the same fate.
"""

import asyncio
import contextlib
import gc
import ssl
import sys
import warnings
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import trustme
from attrs import define, field

from income_client import (
    ClientClosedError,
    ConnectionFailedError,
    DeadlineExceededError,
    IncomeClient,
    RetryPolicy,
)
from income_client.events.kinds import CallFinished, Event, RequestRetried
from income_client.testing import JumpingClock
from tests.support.clients import BASIC, OAUTH
from tests.support.clocks import ManualClock, pass_time
from tests.support.processes import beside
from tests.support.processes import until as until_beside
from tests.support.proxies import tls_pair, tunnelling
from tests.support.server import (
    HUNG_UP,
    RESET,
    SILENT,
    Reply,
    Request,
    ScriptedServer,
    answer_to,
    reply,
)
from tests.support.service import until

ONCE: Final = RetryPolicy(max_attempts=1)
ALL_AT_ONCE: Final = 4


async def get(client: IncomeClient, *names: str) -> None:
    """Make calls at once that give what was asked for."""
    found = await asyncio.gather(*map(client.get_application, names))
    assert [one.application_id for one in found] == [*names]


# Connections that have died in the pool


CUT: Final = reply(body=b" " * 100, cut=-20)
"""Half a reply, and the end."""
WAYS: Final = ("http", "https", "http-proxy", "https-proxy", "borrowed")


@define
class MortalService:
    """A service whose connections die when a test says so."""

    death: Reply
    """Reply of a dead connection when a request comes."""
    server: ScriptedServer = field(init=False)
    released: asyncio.Event = field(factory=asyncio.Event)
    """Until then the replies about the application ``slow`` are kept back."""
    is_always_deadly: bool = False
    """Whether connections die also that are new."""
    _dead: set[int] = field(factory=set)
    _together: asyncio.Barrier | None = None

    @property
    def over(self) -> list[int]:
        """Number of the connection of each request: 0, 1, ..."""
        return [request.connection for request in self.server.requests]

    async def fill(self, client: IncomeClient, number: int = ALL_AT_ONCE) -> None:
        """Make so many calls at once, each over a new connection, which stays in the pool."""
        self._together = asyncio.Barrier(number)
        await get(client, *[f"first-{n}" for n in range(number)])
        self._together = None

    async def start(self, call: Coroutine[Any, Any, None]) -> tuple[asyncio.Task[None], int]:
        """Start a call whose reply is kept back; return it, and the connection that it is on."""
        before = len(self.over)
        task = asyncio.create_task(call)
        await until(lambda: len(self.over) > before)
        return task, self.over[before]

    def die(self, *, but: int | None = None) -> None:
        """Let all connections die that there are, but perhaps one."""
        self._dead = set(self.over) - {but}

    async def answer(self, request: Request) -> Reply:
        """Reply, or do what is done on a dead connection."""
        if request.connection in self._dead or self.is_always_deadly:
            return self.death
        if self._together is not None:
            await self._together.wait()
        if request.name == "slow":
            await self.released.wait()
        return answer_to(request)


@contextlib.asynccontextmanager
async def mortal(
    death: Reply, way: str = "http", **options: Any
) -> AsyncIterator[tuple[MortalService, IncomeClient, list[Event]]]:
    """Run a service and a client of it, whose pauses take no time; give its events too."""
    service, events = MortalService(death), list[Event]()
    tls, trust = tls_pair() if way.startswith("https") else (None, {})
    async with contextlib.AsyncExitStack() as stack:
        service.server = await stack.enter_async_context(ScriptedServer(service.answer, tls))
        usual: dict[str, Any] = {
            "auth": BASIC,
            "clock": JumpingClock(),
            "on_event": events.append,
            "base_url": service.server.url,
        }
        if way == "http-proxy":
            # It takes whole addresses as well, so it is a proxy.
            usual |= {"base_url": "http://localhost:9", "proxy": service.server.url}
        elif way == "https-proxy":
            proxy, _ = await stack.enter_async_context(tunnelling(service.server.port))
            usual |= {"proxy": f"http://{proxy}"}
        elif way == "borrowed":
            session = await stack.enter_async_context(aiohttp.ClientSession())
            usual |= {"session": session}
        client = IncomeClient(**usual | trust | options)
        await stack.enter_async_context(client)
        yield service, client, events


@pytest.mark.parametrize(
    ("death", "way"),
    [
        *((RESET, way) for way in WAYS),
        *((HUNG_UP, "http"), (SILENT, "http"), (SILENT, "https-proxy")),
    ],
)
async def test_no_call_is_lost_when_all_idle_connections_are_dead(death: Reply, way: str) -> None:
    """The first one that fails costs neither an attempt nor a pause, the others cost nothing."""
    once_and_no_budget = RetryPolicy(max_attempts=1, budget=0)
    async with mortal(death, way, retry=once_and_no_budget) as (service, client, events):
        await service.fill(client)
        service.die()
        events.clear()
        for number in range(6):
            call = asyncio.create_task(get(client, f"next-{number}"))
            if death is SILENT and number == 0:
                await until(lambda: len(service.over) > ALL_AT_ONCE)
                pass_time(31)
            await call
        (first, *others) = service.over[ALL_AT_ONCE:]
        assert first < ALL_AT_ONCE
        # All the others went over one new connection, and the dead ones are closed.
        assert others == [ALL_AT_ONCE] * 6
        # A silent one does not even notice that.
        await until(lambda: service.server.connections.keys() - {first} == {ALL_AT_ONCE})
    (retried,) = [event for event in events if isinstance(event, RequestRetried)]
    assert (retried.attempt, retried.pause) == (1, 0)
    finished = [event for event in events if isinstance(event, CallFinished)]
    assert [event.attempts for event in finished] == [2, 1, 1, 1, 1, 1]


async def test_calls_at_once_over_dead_connections_all_succeed() -> None:
    """Each call detects its dead connection and is sent twice.

    If all die, no call lasts for ever.

    It is one request for nothing then, and as many as the policy allows.
    """
    async with mortal(HUNG_UP) as (service, client, _):
        await service.fill(client)
        service.die()
        once = client.with_options(retry=ONCE)
        await get(once, *[f"next-{n}" for n in range(ALL_AT_ONCE)])
        assert len(service.over) == 3 * ALL_AT_ONCE
        service.is_always_deadly = True
        with pytest.raises(ConnectionFailedError) as caught:
            await get(client, "last")
        assert caught.value.attempts == 4
        assert len(service.over) == 3 * ALL_AT_ONCE + 4
        assert len(set(service.over[-3:])) == 3


async def test_a_connection_in_use_is_left_alone() -> None:
    async with mortal(RESET) as (service, client, _):
        await service.fill(client)
        slow, in_use = await service.start(get(client, "slow"))
        service.die(but=in_use)
        await get(client, "next-1")
        assert service.over[6] == 4
        service.released.set()
        await slow
        await get(client, "next-2")
        await get(client, "next-3")
        assert service.over[7:] == [4, in_use]
        assert service.server.connections.keys() == {4, in_use}


async def test_a_borrowed_connection_that_its_owner_uses_is_left_alone() -> None:
    """Though a call of the client has used it before, and finds others dead."""
    async with (
        aiohttp.ClientSession() as session,
        mortal(RESET, session=session) as (service, client, _),
    ):
        await service.fill(client, 2)
        url = f"{service.server.url}/v1/income/applications/slow"

        async def use() -> None:
            async with session.get(url) as answer:
                assert (await answer.json())["application_id"] == "slow"

        owner, in_use = await service.start(use())
        service.die(but=in_use)
        await get(client, "next-1")
        service.released.set()
        await owner
        assert service.over[3:] == [1 - in_use, 2]


async def test_a_reply_that_is_cut_costs_an_attempt() -> None:
    """The service had begun to answer; the retry goes over a new connection all the same."""
    async with mortal(CUT, retry=RetryPolicy(max_attempts=2)) as (service, client, _):
        await service.fill(client)
        service.die()
        await get(client, "next-1")
        assert service.over[ALL_AT_ONCE + 1 :] == [ALL_AT_ONCE]
        service.die()
        with pytest.raises(ConnectionFailedError) as caught:
            await get(client.with_options(retry=ONCE), "next-2")
        assert caught.value.attempts == 1


async def test_a_token_is_requested_over_a_new_connection_as_well() -> None:
    """The token endpoint and the service are one host here, with the same connections."""
    clock = JumpingClock()
    options: dict[str, Any] = {"auth": OAUTH, "clock": clock, "retry": ONCE}
    async with mortal(RESET, **options) as (service, client, _):
        await get(client, "first")
        await service.fill(client)
        service.die()
        clock.advance(4000)
        before = len(service.over)
        await get(client, "next")
        assert service.over[before + 1 :] == [ALL_AT_ONCE] * 2
        paths = [request.name for request in service.server.requests[before:]]
        assert paths == ["token", "token", "next"]


@pytest.mark.parametrize("giving_up", ["deadline", "timeout of the caller"])
async def test_a_call_that_gives_up_a_dead_connection_is_the_last_one(giving_up: str) -> None:
    """After a long silence, the next call need not detect the dead connection by itself."""
    async with mortal(SILENT) as (service, client, _):
        await service.fill(client)
        service.die()
        hurried = client.with_options(deadline=20) if giving_up == "deadline" else client
        call = asyncio.create_task(asyncio.wait_for(get(hurried, "lost"), 25))
        await until(lambda: len(service.over) > ALL_AT_ONCE)
        pass_time(26)
        with pytest.raises((DeadlineExceededError, TimeoutError)):
            await call
        await get(client, "next")
        assert service.over[ALL_AT_ONCE + 1 :] == [ALL_AT_ONCE]


async def test_calls_that_are_cancelled_early_close_no_other_connection() -> None:
    async with mortal(RESET) as (service, client, _):
        await service.fill(client)
        call, cancelled = await service.start(get(client, "slow"))
        call.cancel()
        await asyncio.wait([call])
        for number in range(3):
            await get(client, f"next-{number}")
        assert {*service.over[5:], cancelled} == {0, 1, 2, 3}


async def test_a_repeated_request_waits_for_its_turn() -> None:
    """``max_rate`` counts it, and it goes ahead of calls that were not sent yet."""
    clock = ManualClock()
    async with mortal(RESET, clock=clock, max_rate=1) as (service, client, _):
        await get(client, "first")
        service.die()
        calls = [asyncio.create_task(get(client, name)) for name in ("next", "last")]
        await clock.pass_time(1)
        assert service.over == [0, 0]
        await clock.pass_time(1)
        assert [request.name for request in service.server.requests][2:] == ["next"]
        await clock.pass_time(1)
        await asyncio.gather(*calls)
        assert service.over == [0, 0, 1, 1]


# Connections of another event loop or process


@pytest.mark.parametrize(("is_tls", "in_order"), [(True, True), (True, False), (False, False)])
def test_a_client_whose_loop_has_ended_can_be_closed(
    is_tls: bool, in_order: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """The client's sockets are closed when they are collected, and no call is sent over them."""
    tls, trust = tls_pair() if is_tls else (None, {})
    with (
        beside(ScriptedServer(answer_to, tls)) as server,
        warnings.catch_warnings(action="ignore", category=ResourceWarning),
    ):
        client = IncomeClient(server.url, auth=OAUTH, **trust)
        if in_order:
            asyncio.run(get(client, *"abc"))
        else:
            loop = asyncio.new_event_loop()
            loop.run_until_complete(get(client, *"abc"))
            loop.close()
        for _ in range(2):
            asyncio.run(client.aclose())
        with pytest.raises(ClientClosedError, match="the client was closed"):
            asyncio.run(client.get_application("app-9"))
        gc.collect()
        until_beside(lambda: not server.connections)
    assert capfd.readouterr().err == ""


async def test_a_forked_child_leaves_the_connection_to_its_parent(tmp_path: Path) -> None:
    """In the same, a new or the running event loop, the child can neither use nor close it."""
    issuer, authority = trustme.CA(), tmp_path / "authority.pem"
    issuer.cert_pem.write_to_path(authority)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert("127.0.0.1").configure_cert(tls)
    async with ScriptedServer(answer_to, tls) as server:
        script = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "tests.http.forking"),
            *(server.url, str(authority)),
            cwd=Path(__file__).parents[2],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complaints = await script.communicate()
    assert complaints.decode() == ""
    refusal = "the client was used before this process was forked; make one after the fork"
    assert said.decode().splitlines() == [refusal] * 3
    over = [(request.name, request.connection) for request in server.requests]
    assert over == [(name, 0) for name in ("before", "same", "new", "running")]
