"""The emulated service on real sockets: a thin shell around pure replies."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Self, TypeAlias

from aiohttp import web

from income_client.clock import Clock, SystemClock
from income_client.errors import ConfigurationError
from income_client.settings import BasicAuth, DownloadPolicy, OAuth2ClientCredentials

from .api import Call, Service, call_of, respond
from .arguments import check_figure, check_moment, check_whole, names_of
from .callbacks import CallbackDelivery, CallbackTarget
from .control import USUAL_EVENT, CallbackDesk, CallbackOrder
from .exchange import HttpReply, HttpRequest, RecordedRequest, is_loopback
from .faults import Fault, Faults, replacement
from .patterns import update_times
from .playing import play
from .rules import ServiceRules, changed_rules
from .storage import Region, StoredFile
from .times import START, second_of
from .world import World


class ServiceTime:
    """The clock on the service's wall.

    Args:
        start: service second at the beginning.
        flows: whether time passes by itself.
        clock: what it passes by.
    """

    def __init__(self, start: int, *, flows: bool, clock: Clock) -> None:
        self._seconds = float(start)
        self._flows = flows
        self._clock = clock
        self._since = clock.monotonic()

    def now(self) -> int:
        """Return the present service second."""
        passed = self._clock.monotonic() - self._since if self._flows else 0.0
        return int(self._seconds + passed)

    def advance(self, seconds: float) -> None:
        """Move forward.

        Args:
            seconds: how far; fractions add up.

        Raises:
            ConfigurationError: it is no number, or would lead backward.
        """
        check_figure("seconds", seconds)
        self._seconds += seconds


_HIDDEN: Final = frozenset({"authorization", "proxy-authorization", "cookie"})


def joined_fields(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return header fields by their name in lower case, repeated ones joined by a comma."""
    headers: dict[str, str] = {}
    for name, text in fields:
        low = name.lower()
        headers[low] = f"{headers[low]}, {text}" if low in headers else text
    return headers


def recorded(
    name: str, request: HttpRequest, reply: HttpReply, fault: Fault | None, *, time: int
) -> RecordedRequest:
    """Return what is remembered of a request.

    Args:
        name: what it asked for.
        request: what came.
        reply: what was decided on.
        fault: what is played instead or on the way.
        time: service second at which it came.
    """
    return RecordedRequest(
        name=name,
        method=request.method,
        path=request.path,
        query=request.query,
        headers={name: text for name, text in request.headers.items() if name not in _HIDDEN},
        authorized="authorization" in request.headers,
        status=0 if fault and fault.withholds else reply.status,
        fault=None if fault is None else fault.kind.value,
        time=time,
    )


_PATIENCE: Final = 0.05


def _is_ours(record: logging.LogRecord) -> bool:
    """Say whether a record is about more than a request that is not HTTP, answered with 400."""
    error = record.exc_info[1] if record.exc_info else None
    is_not_http = getattr(error, "code", None) == HTTPStatus.BAD_REQUEST
    return not is_not_http and not isinstance(error, web.RequestPayloadError)


_logger: Final = logging.getLogger("income_client.emulator.server")
_logger.addFilter(_is_ours)

Handle: TypeAlias = Callable[[HttpRequest, asyncio.Transport | None], Awaitable[HttpReply | None]]
"""Given a request and its connection: returns the reply, None if it wrote or withheld it itself."""


class _Played(web.StreamResponse):
    """Stands for a reply that was written, or withheld, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


@asynccontextmanager
async def listening(handle: Handle, host: str, port: int) -> AsyncIterator[int]:
    """Serve requests inside; those still open at the end go without a reply.

    Args:
        handle: replies to them.
        host: where to listen.
        port: on which port, 0 for a free one.

    Yields:
        The port.

    Raises:
        OSError: it cannot be had.
    """

    async def handled(request: web.BaseRequest) -> web.StreamResponse:
        reply = await handle(await _read(request), request.transport)
        return _Played() if reply is None else _response(reply)

    server = web.Server(handled, handler_cancellation=True, access_log=None, logger=_logger)
    runner = web.ServerRunner(server, shutdown_timeout=_PATIENCE)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _read(request: web.BaseRequest) -> HttpRequest:
    path, _, query = request.raw_path.partition("?")
    headers = joined_fields(request.headers.items())
    body = await request.read() if request.body_exists else b""
    return HttpRequest(method=request.method, path=path, query=query, headers=headers, body=body)


def _response(reply: HttpReply) -> web.Response:
    return web.Response(status=reply.status, headers=reply.headers, body=reply.body)


class ServiceControls:
    """Everything about a service but its sockets.

    Args:
        service: what is controlled.
        time: its clock on the wall.

    Attributes:
        world: the applications.
    """

    def __init__(self, service: Service, time: ServiceTime) -> None:
        self.world: World = service.world
        self._service = service
        self._time = time

    @property
    def oauth2(self) -> OAuth2ClientCredentials:
        """The invented client id and secret that buy tokens here."""
        return self._service.oauth2

    @property
    def basic(self) -> BasicAuth:
        """The invented user name and password that are accepted here."""
        return self._service.basic

    @property
    def rules(self) -> ServiceRules:
        """How the service behaves; may be replaced at any time."""
        return self.world.rules

    @rules.setter
    def rules(self, rules: ServiceRules) -> None:
        self.world.rules = rules

    @property
    def now(self) -> int:
        """The present service second."""
        self._keep_time()
        return self.world.now

    def advance(self, seconds: float) -> None:
        """Move service time forward; tokens and addresses expire by it.

        Args:
            seconds: how far; fractions add up.

        Raises:
            ConfigurationError: that would be backward.
        """
        self._time.advance(seconds)
        self._keep_time()

    def touch(self, application_id: str) -> int:
        """Update an application now: an amount changes, and its place in the list.

        Args:
            application_id: which one.

        Returns:
            The service second of the update.

        Raises:
            ConfigurationError: there is no such application.
        """
        self._keep_time()
        return self.world.touch(application_id)

    @property
    def download_policy(self) -> DownloadPolicy:
        """What lets a client read files from here, in every region, and from nowhere else."""
        return self._service.storage.policy()

    def file_of(self, document_id: str) -> StoredFile:
        """Return what a document's file is now: content, media type and entity tag.

        Args:
            document_id: whose.

        Raises:
            ConfigurationError: there is no such document.
        """
        return self._service.storage.file_of(document_id)

    def content_of(self, document_id: str) -> bytes:
        """Return the bytes of a document's file as they are now.

        Args:
            document_id: whose.

        Raises:
            ConfigurationError: there is no such document.
        """
        return self.file_of(document_id).content

    def replace_file(self, document_id: str) -> None:
        """Put another file in the place of a document's; addresses given out stay good.

        Args:
            document_id: whose.

        Raises:
            ConfigurationError: there is no such document.
        """
        self._service.storage.replace(document_id)

    def revoke_tokens(self) -> None:
        """Refuse every access token sold so far with 401."""
        self._service.mint.revoke_all()

    def _keep_time(self) -> None:
        self.world.advance_to(self._time.now())


_API_CALLS: Final = (Call.LIST_APPLICATIONS, Call.GET_APPLICATION, Call.GET_DOCUMENTS)
_REMEMBERED: Final = 100_000
_WITHHELD: Final = HttpReply(status=0)


class Emulator(ServiceControls):
    """An income-verification service on loopback, whose data is all invented.

    Args:
        applications: how many, spread over the ``days`` before ``start``; or for
            each one the second of its last update, counted from 1970-01-01T00:00:00.
        seed: what everything invented hangs on, a whole number.
        days: span of the update times, in days.
        pattern: uniform, bursts, growth, diurnal, pareto, bmodel or seconds.
        start: service time at the beginning, without zone.
        time_flows: whether service time passes by itself, besides `advance`.
        latency: seconds from a request's arrival to its reply, which is decided at arrival.
        host: a loopback address.
        port: port of the API, 0 for a free one; document files have their own.
        rules: how the service behaves where the contract is silent.
        clock: what latency, passing time and pauses go by; the machine's unless given.
        callbacks: where `fire_callback` leads; callbacks are only sent when asked for.
        **knobs: single fields of `ServiceRules`, such as ``order="shuffled"``.

    Attributes:
        world: the applications.
        faults: misbehaviour to be played.
        requests: what was asked so far, in order of arrival; at least the last 100,000.
        url: address of the API and of the token endpoint, once started.
        files_url: address of the host of document files, once started.
        max_in_flight: most API requests that were seen at the same time.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """

    def __init__(
        self,
        applications: int | Sequence[int] = 5000,
        *,
        seed: int = 7,
        days: float = 90,
        pattern: str = "bursts",
        start: datetime = START,
        time_flows: bool = False,
        latency: float = 0.0,
        host: str = "127.0.0.1",
        port: int = 0,
        rules: ServiceRules | None = None,
        clock: Clock | None = None,
        callbacks: CallbackTarget | None = None,
        **knobs: Any,
    ) -> None:
        named = f"[{host}]" if ":" in host else host
        if not is_loopback(named):
            raise ConfigurationError("the emulator listens on loopback only")
        check_moment("start", start)
        check_figure("latency", latency)
        check_whole("seed", seed)
        check_whole("port", port, least=0)
        rules = changed_rules(rules, knobs, names_of(Emulator))
        now = second_of(start)
        times = update_times(applications, pattern, seed=seed, days=days, now=now)
        clock = clock or SystemClock()
        service = self._make_service(times, seed=seed, now=now, rules=rules)
        super().__init__(service, ServiceTime(now, flows=time_flows, clock=clock))
        self.faults: Faults = Faults()
        self.requests: list[RecordedRequest] = []
        self.url: str = ""
        self.files_url: str = ""
        self.max_in_flight: int = 0
        self._clock = clock
        self._callbacks = CallbackDesk(self.world, callbacks, self._clock)
        self._latency = latency
        self._host = host
        self._named = named
        self._port = port
        self._in_flight = 0
        self._token_requests = 0
        self._closing = asyncio.Event()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def token_requests(self) -> int:
        """Token requests answered so far, refused ones included."""
        return self._token_requests

    @property
    def callbacks(self) -> CallbackTarget | None:
        """Where callbacks go, None for nowhere; may be replaced at any time."""
        return self._callbacks.target

    @callbacks.setter
    def callbacks(self, target: CallbackTarget | None) -> None:
        self._callbacks.target = target

    async def fire_callback(
        self,
        application_id: str | None = None,
        event_type: str | None = USUAL_EVENT,
        *,
        target: CallbackTarget | None = None,
        payload: Any = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        update: bool = False,
    ) -> CallbackDelivery:
        """Send a callback (contract sections 5.2 and 6).

        It is sent again as its `CallbackTarget` says, which is assumed of the service.

        After `close` and until the next `start` nothing is sent, and the one attempt is
        ``closed``.

        Args:
            application_id: what it is about; one after the other unless given.
            event_type: what it says has happened; None to leave it out.
            target: where to, in place of `callbacks`.
            payload: what it says, in place of the usual: bytes, or what JSON can hold.
            headers: header fields, each in place of the usual one of its name; as pairs,
                one may stand twice.
            update: whether the application changes first, as `touch` does it.

        Returns:
            What became of it, attempt by attempt.

        Raises:
            ConfigurationError: there is no target or no such application, or an
                argument cannot be meant.
        """
        self._keep_time()
        order = CallbackOrder(application_id=application_id, event_type=event_type, update=update)
        return await self._callbacks.fire(order, target=target, payload=payload, headers=headers)

    async def start(self) -> None:
        """Begin to listen."""
        self._closing = asyncio.Event()
        self._callbacks.open()
        async with AsyncExitStack() as stack:
            for region in Region:
                answer = partial(self._service.respond_file, region=region)
                handle = partial(self._handle, answer=answer)
                self._service.storage.urls[region] = await self._listen(stack, handle, port=0)
            self.url = await self._listen(stack, self._handle_api, port=self._port)
            self._open = stack.pop_all()
        self.files_url = self._service.files_url

    async def close(self) -> None:
        """Stop listening; requests still open end without a reply, callbacks as ``closed``."""
        self._closing.set()
        await self._callbacks.close()
        await self._open.aclose()
        # Cancelled handlers need a turn of the loop to leave it.
        await asyncio.sleep(0)

    def _make_service(
        self, updates: Sequence[int], *, seed: int, now: int, rules: ServiceRules
    ) -> Service:
        """Make what replies; who puts more into the service than is invented makes another one."""
        return Service(World(updates, seed=seed, now=now, rules=rules))

    def _answer(self, request: HttpRequest) -> HttpReply:
        return respond(self._service, request)

    async def _listen(self, stack: AsyncExitStack, handle: Handle, *, port: int) -> str:
        port = await stack.enter_async_context(listening(handle, self._host, port))
        return f"http://{self._named}:{port}"

    async def _handle_api(
        self, message: HttpRequest, connection: asyncio.Transport | None
    ) -> HttpReply | None:
        if call_of(message.path) is Call.CONTROL:
            return await self._control(message)
        return await self._handle(message, connection, answer=self._answer)

    async def _handle(
        self,
        message: HttpRequest,
        connection: asyncio.Transport | None,
        answer: Callable[[HttpRequest], HttpReply],
    ) -> HttpReply | None:
        arrived = self._clock.monotonic()
        counted = call_of(message.path) in _API_CALLS
        self._in_flight += counted
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            # Decided on arrival, so that the work hides in the latency and a
            # client that goes away has still been recorded.
            self._keep_time()
            fault = self.faults.take(message.method, message.path)
            instead = replacement(fault) if fault else None
            reply = self._service.stamped(instead) if instead else answer(message)
            self._record(message, fault, reply)
            if self._latency:
                passed = self._clock.monotonic() - arrived
                await self._clock.sleep(max(0.0, self._latency - passed))
            if fault is None or instead is not None:
                return reply
            if connection is not None:
                await play(fault, reply, connection, self._closing)
            return None
        finally:
            self._in_flight -= counted

    async def _control(self, message: HttpRequest) -> HttpReply:
        """Answer what only an emulator is asked: without faults and latency."""
        self._keep_time()
        reply = _WITHHELD
        try:
            order = self._service.order(message)
            if isinstance(order, CallbackOrder):
                order = await self._callbacks.reply_to(order)
            reply = self._service.stamped(order)
        finally:
            self._record(message, None, reply)
        return reply

    def _record(self, message: HttpRequest, fault: Fault | None, reply: HttpReply) -> None:
        call = call_of(message.path)
        self._token_requests += call is Call.TOKEN
        # Forgotten many at a time, so that remembering costs the same for ever.
        if len(self.requests) >= 2 * _REMEMBERED:
            del self.requests[:-_REMEMBERED]
        self.requests.append(recorded(call.value, message, reply, fault, time=self.world.now))
