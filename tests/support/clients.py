"""Clients of a scripted server: the whole client, or one of its layers alone.

`running` gives a client, `playing` a session, `connected` a transport of calls, and `pooled`
one of files. Clocks jump.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from attrs import evolve

from income_client import (
    BasicAuth,
    Document,
    IncomeClient,
    IncomeClientError,
    OAuth2ClientCredentials,
)
from income_client.client import find_telemetry
from income_client.downloads.http import FilePool, FileReply
from income_client.downloads.links import Link, read_link
from income_client.errors import copy_without_traceback
from income_client.events.instrumentation import Instrumentation, OnEvent
from income_client.http.endpoints import Request, Response, addresses, get_application
from income_client.http.faults import StaleConnectionError
from income_client.http.replies import failure_of
from income_client.http.session import SessionManager, open_session
from income_client.http.tokens import StoredToken
from income_client.http.transport import MAX_RESPONSE_BYTES, Pool, SocketLimits, Transport
from income_client.settings import DownloadPolicy, Timeouts
from income_client.system.clock import Clock
from income_client.testing import JumpingClock, make_document
from tests.support.server import Answer, ScriptedServer, token_rules
from tests.support.service import until

T = TypeVar("T")
OAUTH = OAuth2ClientCredentials("partner", "invented")
BASIC = BasicAuth("user", "invented")
ASKED = get_application("a/1")
CHUNKED = b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
CANARY = "c4n4ry"
TARGET = f"/{CANARY}-key?X-Amz-Signature={CANARY}-signature"
HERE = DownloadPolicy(
    allowed_hosts=["localhost", "127.0.0.1", "*.example.com:*"],
    require_https=False,
    allow_private_networks=True,
)
_HEADERS = {"Authorization": "Bearer S3CRET"}
_OF_THE_TRANSPORT = ("session", "trace_configs", "max_response_bytes")


def outcome_of(read: Callable[..., T], *arguments: Any) -> T | IncomeClientError:
    """Return what a reply is read as, or the error as it leaves the package."""
    try:
        return read(*arguments)
    except IncomeClientError as error:
        return copy_without_traceback(error)


# A client


@contextlib.asynccontextmanager
async def running(
    call: Answer | None = None,
    token_request: Answer | None = None,
    *,
    clock: Clock | None = None,
    lifetime: int = 3600,
    uses: float = float("inf"),
    most_bytes: int = MAX_RESPONSE_BYTES,
    **options: Any,
) -> AsyncIterator[tuple[ScriptedServer, IncomeClient]]:
    """Run a server of `token_rules` and a client of it; afterwards no task is left.

    Args:
        call: answers calls, as in `token_rules`.
        token_request: answers token requests, as there.
        clock: the client's, which the server tells the time by; one that jumps by default.
        lifetime: of tokens, as there.
        uses: for how many calls a token is accepted, as there.
        most_bytes: length of the longest reply that the client reads.
        options: of the client.
    """
    before = asyncio.all_tasks()
    clock = clock or JumpingClock()
    rules = token_rules(call, token_request, lifetime=lifetime, uses=uses)
    usual: dict[str, Any] = {"auth": OAUTH, "clock": clock}
    async with (
        ScriptedServer(rules, clock=clock) as server,
        client_reading(most_bytes, server.url, **usual | options) as client,
    ):
        yield server, client
    await until(lambda: asyncio.all_tasks() == before)


def client_reading(most_bytes: int, url: str, **options: Any) -> IncomeClient:
    """Return a client that reads replies of this length at most."""
    with patch("income_client.client.MAX_RESPONSE_BYTES", most_bytes):
        return IncomeClient(url, **options)


async def ask(client: IncomeClient, reference: str = "a") -> None:
    """Make a list call that can be told from others by its reference."""
    await client.get_application_page(application_reference_id=reference)


async def outcomes(client: IncomeClient, references: Sequence[str]) -> list[str]:
    """Make calls at a time; return the class of each one's error, or ``done``."""

    async def outcome(reference: str) -> str:
        try:
            await ask(client, reference)
        except IncomeClientError as error:
            return type(error).__name__
        return "done"

    return await asyncio.gather(*map(outcome, references))


@contextlib.asynccontextmanager
async def hosting(
    answer: Answer, **options: Any
) -> AsyncIterator[tuple[IncomeClient, Document, ScriptedServer]]:
    """Run a host of files, a client that may use it, and a document whose file is there."""
    usual: dict[str, Any] = {"auth": BASIC, "downloads": HERE, "clock": JumpingClock()}
    async with (
        ScriptedServer(answer) as server,
        IncomeClient(server.url, **usual | options) as client,
    ):
        yield client, evolve(make_document(url=f"{server.url}/slip"), source=None), server


# A session


@contextlib.asynccontextmanager
async def playing(
    answer: Answer, clock: JumpingClock | None = None, **options: Any
) -> AsyncIterator[tuple[SessionManager, ScriptedServer, JumpingClock]]:
    """Run a server, and a session to it whose clock jumps."""
    clock = clock or JumpingClock()
    async with ScriptedServer(answer) as server:
        usual: dict[str, Any] = {"auth": OAUTH, "clock": clock, "chance": lambda: 0.5}
        session = session_to(server.url, **usual | options)
        try:
            yield session, server, clock
        finally:
            await session.aclose()


def session_to(
    url: str, on_event: OnEvent | None = None, *, telemetry: bool = True, **options: Any
) -> SessionManager:
    """Return a session to a service."""
    to_transport = {name: options.pop(name) for name in _OF_THE_TRANSPORT if name in options}
    return open_session(
        Transport(addresses(url), **to_transport),
        instrumentation=Instrumentation(on_event, find_telemetry if telemetry else None),
        **options,
    )


async def call(session: SessionManager) -> bytes:
    """Make one call and return its body."""

    def read(response: Response) -> bytes:
        if response.status != 200:
            raise failure_of(ASKED, response)
        return response.body

    return await session.call(ASKED, read)


async def failure(session: SessionManager) -> IncomeClientError:
    """Make one call that fails and return its error, raised without a trace of another."""
    with pytest.raises(IncomeClientError) as caught:
        await call(session)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


# A transport of calls


@contextlib.asynccontextmanager
async def connected(
    answer: Answer, **options: Any
) -> AsyncIterator[tuple[Transport, ScriptedServer]]:
    """Run a server and a transport to it."""
    async with ScriptedServer(answer) as server:
        transport = Transport(addresses(server.url), **options)
        try:
            yield transport, server
        finally:
            await transport.pool.aclose()


async def send(
    transport: Transport, request: Request = ASKED, read: float = 5.0
) -> Response | IncomeClientError:
    """Send one request; an error is returned, as the session raises it."""
    try:
        limits = SocketLimits(Timeouts(read=read), transport.pool.connections)
        return await transport.send(request, _HEADERS, limits, lambda response: response)
    except StaleConnectionError as stale:
        return stale.failure
    except IncomeClientError as error:
        return copy_without_traceback(error)


async def one(answer: Answer, read: float = 5.0, **options: Any) -> Response | IncomeClientError:
    """Send one request to a server that answers like this."""
    async with connected(answer, **options) as (transport, _):
        return await send(transport, read=read)


# A transport of files


def link_to(url: str, target: str = TARGET, policy: DownloadPolicy = HERE) -> Link:
    """Return a checked address."""
    return read_link(url + target, policy)


@contextlib.asynccontextmanager
async def pooled(
    answer: Answer, policy: DownloadPolicy = HERE, **options: Any
) -> AsyncIterator[tuple[FilePool, ScriptedServer]]:
    """Run a server and a pool of connections to it."""
    async with ScriptedServer(answer) as server:
        pool = FilePool(policy, **options)
        try:
            yield pool, server
        finally:
            await pool.aclose()


async def body_of(reply: FileReply) -> bytes:
    """Read a body to its end."""
    whole = b""
    while piece := await reply.read():
        whole += piece
    return whole


async def fetched(
    pool: FilePool, url: str, target: str = TARGET, read: float = 5.0
) -> bytes | IncomeClientError:
    """Ask for a file and read it to its end; an error is returned as it leaves the package."""
    try:
        with await pool.get(link_to(url, target), {}, Timeouts(read=read)) as reply:
            return await body_of(reply)
    except IncomeClientError as error:
        return copy_without_traceback(error)


class Shelf:
    """A store of tokens in memory that may be made to fail."""

    def __init__(self, stored: StoredToken | None = None) -> None:
        self.stored = stored
        self.fault: Exception | None = None
        self.saved = 0

    async def load(self) -> StoredToken | None:
        """Return what is there."""
        self._fail()
        return self.stored

    async def save(self, token: StoredToken) -> None:
        """Keep it."""
        self._fail()
        self.saved += 1
        self.stored = token

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault


def open_connections(pool: Pool) -> int:
    """Return how many connections are neither closed nor back in the pool."""
    assert pool._session is not None
    assert pool._session.connector is not None
    return len(pool._session.connector._acquired)
