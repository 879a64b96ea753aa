"""Processes of their own: a fresh one for each measurement, others for the services.

So no measurement inherits memory, caches or warm code, and the process that is measured
holds nothing of the service.
"""

import asyncio
import contextlib
import selectors
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, BinaryIO, Final, Self, TypeVar

import orjson
from attrs import define, field, frozen

from income_client import OAuth2ClientCredentials
from income_client.emulator import Emulator

from . import decoding

T = TypeVar("T")

BEGINNING: Final = "2026-06-30T12:00:01"
"""A second of a `LivingService` before its first update, and after all that it began with."""
SMALL: Final = "/small"
"""Added to the address of a `CannedService`, for the shortest replies of the contract."""

_SPAWN: Final = get_context("spawn")
_LONGEST_SECONDS: Final = 200.0
_PATIENCE_SECONDS: Final = 30.0
_TOKEN: Final = b'{"access_token":"invented","token_type":"Bearer","expires_in":3600}'
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n"
    b"Date: Tue, 30 Jun 2026 12:00:00 GMT\r\nContent-Length: %d\r\n\r\n"
)
_FORM: Final = b"grant_type=client_credentials"
_BLOCK_BYTES: Final = 2**26
_FIRST_UPDATE_SECONDS: Final = 2.0


def measured_afresh(measure: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """Run a measurement in a process of its own and return what it found.

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


class PeakGrowth:
    """Watches how far the resident memory of this process grows above what it is now.

    Linux alone says that.
    """

    def __init__(self) -> None:
        # Where the peak so far cannot be forgotten, it counts as growth.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._start = _status_bytes("VmRSS")

    @property
    def megabytes(self) -> float:
        """The largest growth so far, in millions of bytes."""
        return (_status_bytes("VmHWM") - self._start) / 1e6


def _status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(kilobytes) * 1024


class ServiceProcess:
    """A service in another process, which answers questions until the block is left.

    Attributes:
        url: address of the API and of the token endpoint.
        oauth2: the invented credentials that get tokens there.
    """

    url: str
    oauth2: OAuth2ClientCredentials

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        self._ours, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=serve, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        self.url, *credentials = self._received()
        self.oauth2 = OAuth2ClientCredentials(*credentials)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ours.close()
        self._process.join(_PATIENCE_SECONDS)

    def ask(self, question: str) -> Any:
        """Return what the service answers to a question."""
        self._ours.send(question)
        return self._received()

    def _received(self) -> Any:
        if not self._ours.poll(_PATIENCE_SECONDS):
            raise TimeoutError("the service's process does not answer")
        return self._ours.recv()


async def answer(
    connection: "Connection[Any, Any]",
    reached: tuple[str, str, str],
    answers: Mapping[str, Callable[[], Any]],
) -> None:
    """Answer the questions to a service, in its own process, until the other end closes."""
    connection.send(reached)
    while True:
        try:
            question = await asyncio.to_thread(connection.recv)
        except EOFError:
            return
        connection.send(answers[question]())


def _reached(service: Emulator) -> tuple[str, str, str]:
    return service.url, service.oauth2.client_id, service.oauth2.client_secret.reveal()


class EmulatorProcess(ServiceProcess):
    """The emulator in another process, until the block is left."""

    def __init__(self, **knobs: Any) -> None:
        super().__init__(_serve_emulator, knobs)

    def ids(self) -> list[str]:
        """Return the id of every application."""
        ids: list[str] = self.ask("ids")
        return ids


def _serve_emulator(connection: "Connection[Any, Any]", knobs: dict[str, Any]) -> None:
    async def served() -> None:
        async with Emulator(**knobs) as service:
            await answer(connection, _reached(service), {"ids": lambda: list(service.world.ids)})

    asyncio.run(served())


class FastClock:
    """The machine's clock, sped up; two of the same speed agree, also between processes."""

    def __init__(self, speed: float) -> None:
        self._speed = speed

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        """Wait for seconds of the fast clock."""
        await asyncio.sleep(seconds / self._speed)


@frozen(kw_only=True)
class Asked:
    """Counts of a `LivingService` since its start."""

    lists: int
    """List requests, without the one that asks for the time."""
    applications: int
    """Applications read."""
    versions: int
    """Updates made."""


class LivingService(ServiceProcess):
    """An emulator whose applications are updated evenly, in turn, until the block is left."""

    def __init__(self, *, rate: float, speed: float, **knobs: Any) -> None:
        super().__init__(_serve_living, rate, speed, knobs)

    def asked(self) -> Asked:
        """Return what it was asked so far."""
        asked: Asked = self.ask("asked")
        return asked

    def rest(self) -> None:
        """Make no more updates."""
        self.ask("rest")


@define
class _Updates:
    service: Emulator
    clock: FastClock
    rate: float
    made: int = field(default=0, init=False)
    is_over: bool = field(default=False, init=False)

    async def make(self) -> None:
        ids = self.service.world.ids
        await self.clock.sleep(_FIRST_UPDATE_SECONDS)
        began = self.clock.monotonic()
        while not self.is_over:
            self.service.touch(ids[self.made % len(ids)])
            self.made += 1
            due = began + self.made / self.rate
            await self.clock.sleep(max(0.0, due - self.clock.monotonic()))

    def rest(self) -> None:
        self.is_over = True

    def asked(self) -> Asked:
        requests = self.service.requests
        names = [request.name for request in requests if request.query != "limit=1"]
        return Asked(
            lists=names.count("list_applications"),
            applications=names.count("get_application"),
            versions=self.made,
        )


def _serve_living(
    connection: "Connection[Any, Any]", rate: float, speed: float, knobs: dict[str, Any]
) -> None:
    async def served() -> None:
        clock = FastClock(speed)
        async with Emulator(clock=clock, time_flows=True, **knobs) as service:
            updates = _Updates(service, clock, rate)
            answers = {"asked": updates.asked, "rest": updates.rest}
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(updates.make())
                await answer(connection, _reached(service), answers)
                updates.rest()

    asyncio.run(served())


class CannedService(ServiceProcess):
    """A service of bytes that were made beforehand, so that it slows no client down.

    What it answers depends on the path alone; only the id that was asked for is put in. Below
    ``/small`` an application has no applicants, and ``/file/NAME/SIZE`` is a file of that size.
    """

    def __init__(self, latency: float = 0.0) -> None:
        super().__init__(_serve_canned, latency)


class _Canned:
    def __init__(self, latency: float, block: BinaryIO) -> None:
        self._latency = latency
        application = orjson.loads(decoding.application())
        small = application | {"applicants": {}, "income_calculations": {}}
        small["data_sources"] = {"image_files": [], "structured_data": []}
        # What comes before and after the id.
        self._application, self._small, self._documents = (
            body.split(application["application_id"].encode(), 1)
            for body in (orjson.dumps(application), orjson.dumps(small), decoding.documents())
        )
        self._page = decoding.page()
        self._sending: set[asyncio.Task[None]] = set()
        self._block = block
        block.write(Random(7).randbytes(_BLOCK_BYTES))
        block.flush()

    def answer(self, path: bytes, transport: asyncio.Transport) -> None:
        """Answer a request, now or when its time has come."""
        loop = asyncio.get_running_loop()
        if path == b"/token":
            transport.write(_reply(_TOKEN))
        elif path.startswith(b"/file/"):
            task = loop.create_task(self._send_file(int(path.rpartition(b"/")[2]), transport))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        elif self._latency:
            loop.call_later(self._latency, transport.write, _reply(self._body(path)))
        else:
            transport.write(_reply(self._body(path)))

    async def _send_file(self, size: int, transport: asyncio.Transport) -> None:
        transport.write(_HEAD % (b"application/pdf", size))
        loop = asyncio.get_running_loop()
        for at in range(0, size, _BLOCK_BYTES):
            await loop.sendfile(transport, self._block, 0, min(_BLOCK_BYTES, size - at))

    def _body(self, path: bytes) -> bytes:
        if b"?" in path:
            return self._page
        start, _, name = path.rpartition(b"/")
        if name == b"documents":
            return start.rpartition(b"/")[2].join(self._documents)
        is_small = path.startswith(SMALL.encode())
        return name.join(self._small if is_small else self._application)


def _reply(body: bytes) -> bytes:
    return _HEAD % (b"application/json", len(body)) + body


class _Connection(asyncio.Protocol):
    _transport: asyncio.Transport

    def __init__(self, canned: _Canned) -> None:
        self._canned = canned
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        # A form may come with its header or after it.
        self._heard = (self._heard + data).removeprefix(_FORM)
        while b"\r\n\r\n" in self._heard:
            head, _, rest = self._heard.partition(b"\r\n\r\n")
            self._heard = rest.removeprefix(_FORM)
            self._canned.answer(head.split(b" ", 2)[1], self._transport)


def _serve_canned(connection: "Connection[Any, Any]", latency: float) -> None:
    async def served(block: BinaryIO) -> None:
        canned = _Canned(latency, block)
        server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(canned), "127.0.0.1", 0, backlog=1000
        )
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await answer(connection, (url, "client", "invented"), {})

    # Of all selectors this one alone waits for less than a millisecond.
    loop_factory = partial(asyncio.SelectorEventLoop, selectors.SelectSelector())
    with TemporaryFile() as block, asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(served(block))
