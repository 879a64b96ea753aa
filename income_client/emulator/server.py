"""The emulated service on real sockets: a thin shell around pure replies.

Everything that it serves is invented. It listens on loopback only, turns
bytes into values and back, plays faults and keeps the clock; what a reply
means is decided elsewhere.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from typing import Any, Final, Self

from aiohttp import web

from income_client.clock import Clock, SystemClock
from income_client.errors import ConfigurationError
from income_client.settings import BasicAuth, DownloadPolicy, OAuth2ClientCredentials

from .arguments import check_figure, check_moment, check_whole
from .exchange import HttpReply, HttpRequest, RecordedRequest
from .faults import Fault, Faults, replacement
from .files import StoredFile
from .gate import is_loopback
from .patterns import update_times
from .playing import play
from .recording import joined_fields, recorded
from .rules import ServiceRules, changed_rules
from .seconds import START, second_of
from .service import Call, Service, call_of, respond
from .service_time import ServiceTime
from .signing import Region
from .world import World

_API_CALLS: Final = (Call.LIST_APPLICATIONS, Call.GET_APPLICATION, Call.GET_DOCUMENTS)
_PATIENCE: Final = 0.05
_REMEMBERED: Final = 100_000


class _Played(web.StreamResponse):
    """Stands for a reply that was written, or withheld, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


class Emulator:
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
        clock: what latency and passing time go by; the machine's unless given.
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
        **knobs: Any,
    ) -> None:
        named = f"[{host}]" if ":" in host else host
        if not is_loopback(named):
            raise ConfigurationError("the emulator listens on loopback only")
        check_moment("start", start)
        check_figure("latency", latency)
        check_whole("seed", seed)
        check_whole("port", port, least=0)
        rules = changed_rules(rules, knobs)
        now = second_of(start)
        times = update_times(applications, pattern, seed=seed, days=days, now=now)
        self.world = World(times, seed=seed, now=now, rules=rules)
        self.faults = Faults()
        self.requests: list[RecordedRequest] = []
        self.url = ""
        self.files_url = ""
        self.max_in_flight = 0
        self._service = Service(self.world)
        self._clock = clock or SystemClock()
        self._time = ServiceTime(now, flows=time_flows, clock=self._clock)
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
        self.world.advance_to(self._time.now())
        return self.world.now

    @property
    def token_requests(self) -> int:
        """Token requests answered so far, refused ones included."""
        return self._token_requests

    def advance(self, seconds: float) -> None:
        """Move service time forward; tokens and addresses expire by it.

        Args:
            seconds: how far; fractions add up.

        Raises:
            ConfigurationError: that would be backward.
        """
        self._time.advance(seconds)
        self.world.advance_to(self._time.now())

    def touch(self, application_id: str) -> int:
        """Update an application now: an amount changes, and its place in the list.

        Returns:
            The service second of the update.

        Raises:
            ConfigurationError: there is no such application.
        """
        self.world.advance_to(self._time.now())
        return self.world.touch(application_id)

    @property
    def download_policy(self) -> DownloadPolicy:
        """What lets a client read files from here, in every region, and from nowhere else."""
        return self._service.storage.policy()

    def file_of(self, document_id: str) -> StoredFile:
        """Return what a document's file is now: content, media type and entity tag.

        Raises:
            ConfigurationError: there is no such document.
        """
        return self._service.storage.file_of(document_id)

    def content_of(self, document_id: str) -> bytes:
        """Return the bytes of a document's file as they are now.

        Raises:
            ConfigurationError: there is no such document.
        """
        return self.file_of(document_id).content

    def replace_file(self, document_id: str) -> None:
        """Put another file in the place of a document's; addresses given out stay good.

        Raises:
            ConfigurationError: there is no such document.
        """
        self._service.storage.replace(document_id)

    def revoke_tokens(self) -> None:
        """Refuse every access token sold so far with 401."""
        self._service.mint.revoke_all()

    async def start(self) -> None:
        """Begin to listen."""
        self._closing = asyncio.Event()
        async with AsyncExitStack() as stack:
            for region in Region:
                answer = partial(self._service.respond_file, region=region)
                self._service.storage.urls[region] = await self._listen(stack, answer, port=0)
            self.url = await self._listen(stack, self._answer, port=self._port)
            self._open = stack.pop_all()
        self.files_url = self._service.files_url

    async def close(self) -> None:
        """Stop listening; requests that are still open end without a reply."""
        self._closing.set()
        await self._open.aclose()
        # Cancelled handlers need a turn of the loop to leave it.
        await asyncio.sleep(0)

    def _answer(self, request: HttpRequest) -> HttpReply:
        return respond(self._service, request)

    async def _listen(
        self, stack: AsyncExitStack, answer: Callable[[HttpRequest], HttpReply], *, port: int
    ) -> str:
        handle = partial(self._handle, answer=answer)
        server = web.Server(handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_PATIENCE)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, self._host, port).start()
        return f"http://{self._named}:{runner.addresses[0][1]}"

    async def _handle(
        self, request: web.BaseRequest, answer: Callable[[HttpRequest], HttpReply]
    ) -> web.StreamResponse:
        arrived = self._clock.monotonic()
        message = await _read(request)
        counted = call_of(message.path) in _API_CALLS
        self._in_flight += counted
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            # Decided on arrival, so that the work hides in the latency and a
            # client that goes away has still been recorded.
            self.world.advance_to(self._time.now())
            fault = self.faults.take(message.method, message.path)
            instead = replacement(fault) if fault else None
            reply = self._service.stamped(instead) if instead else answer(message)
            self._record(message, fault, reply)
            if self._latency:
                passed = self._clock.monotonic() - arrived
                await self._clock.sleep(max(0.0, self._latency - passed))
            if fault is None or instead is not None:
                return _response(reply)
            if request.transport is not None:
                await play(fault, reply, request.transport, self._closing)
            return _Played()
        finally:
            self._in_flight -= counted

    def _record(self, message: HttpRequest, fault: Fault | None, reply: HttpReply) -> None:
        call = call_of(message.path)
        self._token_requests += call is Call.TOKEN
        # Forgotten many at a time, so that remembering costs the same for ever.
        if len(self.requests) >= 2 * _REMEMBERED:
            del self.requests[:-_REMEMBERED]
        self.requests.append(recorded(call.value, message, reply, fault, time=self.world.now))


async def _read(request: web.BaseRequest) -> HttpRequest:
    path, _, query = request.raw_path.partition("?")
    headers = joined_fields(request.headers.items())
    body = await request.read() if request.body_exists else b""
    return HttpRequest(method=request.method, path=path, query=query, headers=headers, body=body)


def _response(reply: HttpReply) -> web.Response:
    return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
