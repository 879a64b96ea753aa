"""Processes of their own: a fresh one for each measurement, another for the emulator.

So no measurement inherits memory, caches or warm code from the one before, and
the client's process holds nothing of the service.
"""

import asyncio
import enum
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Final, Self, TypeVar, assert_never

from attrs import frozen

from income_client import OAuth2ClientCredentials
from income_client.emulator import Emulator

T = TypeVar("T")

_SPAWN: Final = get_context("spawn")
_LONGEST_SECONDS: Final = 200.0
_PATIENCE_SECONDS: Final = 30.0


def measured_afresh(measure: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """Run a measurement in a process of its own and return what it found.

    Args:
        measure: a coroutine function at the top of its module.
        *arguments: what it is called with.

    Raises:
        TimeoutError: it took more than 200 seconds.
    """
    with ProcessPoolExecutor(max_workers=1, mp_context=_SPAWN) as process:
        return process.submit(_run, measure, *arguments).result()


def _run(measure: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    async def within_bounds() -> T:
        async with asyncio.timeout(_LONGEST_SECONDS):
            return await measure(*arguments)

    return asyncio.run(within_bounds())


class _Ask(enum.Enum):
    COUNTS = "counts"
    FORGET = "forget"
    IDS = "ids"


@frozen(kw_only=True)
class Counts:
    """Requests that the emulator saw since it was told to forget."""

    lists: int
    """List calls."""
    tokens: int
    """Token requests."""


@frozen
class Started:
    """How a service in another process is reached."""

    url: str
    """Address of the API and of the token endpoint."""
    oauth2: tuple[str, str]
    """Client id and secret."""


class ServiceProcess:
    """A service in another process, which answers questions until the block is left.

    Args:
        serve: runs there; is given its end of the connection and the arguments, and first
            sends `Started`.
        *arguments: for that.

    Attributes:
        url: address of the API and of the token endpoint.
        oauth2: the invented credentials that buy tokens there.
    """

    url: str
    oauth2: OAuth2ClientCredentials

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        self._ours, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=serve, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        started = self._received()
        self.url = started.url
        self.oauth2 = OAuth2ClientCredentials(*started.oauth2)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ours.close()
        self._process.join(_PATIENCE_SECONDS)

    def ask(self, question: enum.Enum) -> Any:
        """Return what the service answers to a question."""
        self._ours.send(question)
        return self._received()

    def _received(self) -> Any:
        if not self._ours.poll(_PATIENCE_SECONDS):
            raise TimeoutError("the service's process does not answer")
        return self._ours.recv()


class EmulatorProcess(ServiceProcess):
    """The emulator in another process, until the block is left.

    Args:
        **knobs: arguments of `Emulator`.
    """

    def __init__(self, **knobs: Any) -> None:
        super().__init__(_serve, knobs)

    def counts(self) -> Counts:
        """Return how many requests came since the last `forget`."""
        counts: Counts = self.ask(_Ask.COUNTS)
        return counts

    def forget(self) -> None:
        """Count from zero again."""
        self.ask(_Ask.FORGET)

    def ids(self) -> list[str]:
        """Return the id of every application that there is."""
        ids: list[str] = self.ask(_Ask.IDS)
        return ids


def _serve(connection: "Connection[Any, Any]", knobs: dict[str, Any]) -> None:
    asyncio.run(_served(connection, knobs))


async def _served(connection: "Connection[Any, Any]", knobs: dict[str, Any]) -> None:
    async with Emulator(**knobs) as service:
        secret = service.oauth2.client_secret.reveal()
        connection.send(Started(service.url, (service.oauth2.client_id, secret)))
        while True:
            try:
                question: _Ask = await asyncio.to_thread(connection.recv)
            except EOFError:
                return
            connection.send(_answer(service, question))


def _answer(service: Emulator, question: _Ask) -> Any:
    match question:
        case _Ask.COUNTS:
            names = [request.name for request in service.requests]
            return Counts(lists=names.count("list_applications"), tokens=names.count("token"))
        case _Ask.FORGET:
            return service.requests.clear()
        case _Ask.IDS:
            return list(service.world.ids)
        case _:
            assert_never(question)
