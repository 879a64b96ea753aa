"""A session against a scripted server, on a clock that jumps."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pytest

from income_client.errors import IncomeClientError
from income_client.http.endpoints import Request, Response, addresses, get_application
from income_client.http.replies import failure_of
from income_client.http.session import SessionManager
from income_client.http.transport import Transport
from income_client.instrumentation import Instrumentation
from income_client.settings import BasicAuth, OAuth2ClientCredentials, OnEvent
from income_client.testing import JumpingClock
from tests.support.server import Answer, ScriptedServer

T = TypeVar("T")
OAUTH = OAuth2ClientCredentials("partner", "invented")
ASKED = get_application("1")
BASIC = BasicAuth("user", "invented")
_OF_THE_TRANSPORT = ("session", "trace_configs", "max_response_bytes")


@contextlib.asynccontextmanager
async def playing(
    answer: Answer,
    clock: JumpingClock | None = None,
    **options: Any,
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
    return SessionManager(
        Transport(addresses(url), **to_transport),
        instrumentation=Instrumentation(on_event, telemetry=telemetry),
        **options,
    )


async def call(session: SessionManager) -> bytes:
    """Make one call and return its body."""
    return await session.call(ASKED, body_of(ASKED))


async def failure(session: SessionManager) -> IncomeClientError:
    """Make one call that fails and return its error, raised without a trace of another."""
    with pytest.raises(IncomeClientError) as caught:
        await call(session)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def outcome_of(read: Callable[..., T], *arguments: Any) -> T | IncomeClientError:
    """Return what a reply is read as, or the error as it leaves the package."""
    try:
        return read(*arguments)
    except IncomeClientError as error:
        return error.again()


def body_of(request: Request) -> Callable[[Response], bytes]:
    """Return a reader that takes any body as it is."""

    def read(response: Response) -> bytes:
        if response.status != 200:
            raise failure_of(request, response)
        return response.body

    return read
