"""The emulated service on real sockets: its servers, its clock, its log and its controls.

Everything that it serves is invented. It listens on loopback, unless other hosts are allowed
to reach it; what a reply says is decided elsewhere.
"""

import asyncio
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from http import HTTPStatus
from itertools import accumulate, takewhile
from sys import getsizeof
from typing import Any, Final, Self

from attrs import evolve

from income_client.errors import ConfigurationError
from income_client.settings import (
    BasicAuth,
    DownloadPolicy,
    OAuth2ClientCredentials,
    Secret,
    check_flag,
    check_not_negative,
    check_type,
    check_whole,
    invalid,
    wrong,
)
from income_client.system.clock import Clock, SystemClock
from income_client.system.hosts import is_ip, plain_host
from income_client.system.texts import standard_datetime

from .access import (
    SECURITY_HEADERS,
    THIS_MACHINE,
    ControlAccess,
    ServedHosts,
    check_token,
    is_from_no_other_page,
)
from .api import API_CALLS, REQUEST_ID, Call, Service, call_of, respond
from .callbacks import (
    USUAL_EVENT,
    CallbackDelivery,
    CallbackSender,
    CallbackTarget,
    check_text,
    header_fields,
    payload_bytes,
)
from .control import answer
from .exchange import HttpReply, HttpRequest, RecordedRequest, is_loopback
from .fault_player import Faults, play, replacement
from .faults import Fault
from .journal import Journal
from .page import page_reply
from .server import Handle, serve_requests
from .service_rules import ServiceRules, changed_rules, check_integer, names_of
from .storage import Region, StoredFile
from .times import EPOCH, START, second_of
from .update_times import update_times
from .world import World

_SECRET_FIELDS: Final = frozenset({"authorization", "proxy-authorization", "cookie"})
_MAX_REQUESTS: Final = 100_000
_MAX_REQUESTS_SIZE: Final = 128 * 2**20
"""Largest size of all recorded requests in bytes: 100,000 take 100 MB, as measured."""
_LONGEST_RECORDED: Final = 2000
"""Recorded characters of a path, a query and a header field; signed URLs are shorter."""
_CALLBACK_STRIDE: Final = 7919
"""Step from one application to the next: a prime, so that callbacks are about each in turn."""


class Emulator:
    """An income-verification service on this machine, whose data is all invented.

    Args:
        applications: how many, spread over the ``days`` before ``start``; or for
            each one the second of its last update, counted from 1970-01-01T00:00:00.
        seed: a whole number; the same one gives the same data.
        days: span of the update times, in days.
        pattern: uniform, bursts, growth, diurnal, pareto, bmodel or seconds.
        start: service time at the beginning, without zone.
        time_flows: whether service time passes by itself, besides `advance`.
        latency: seconds from a request's arrival to its reply, which is decided at arrival.
        host: a loopback address; with ``allow_hosts`` another IP address, such as 0.0.0.0.
        port: port of the API, 0 for a free one; document files have their own.
        rules: how the service behaves where the contract is silent.
        clock: what latency, passing time and pauses go by; the machine's unless given.
        callbacks: where `fire_callback` leads; callbacks are only sent when asked for.
        allow_hosts: names and addresses, besides this machine's, by which clients of other
            hosts reach it. They need no more than these and ``port``: addresses of files lead
            there too.
        control_token: what must be sent to control it over HTTP, which only this machine may
            without one.
        **knobs: single fields of `ServiceRules`, such as ``order="shuffled"``.

    Attributes:
        world: the applications.
        faults: misbehaviour to be played.
        requests: what was asked so far, in order of arrival; at least the last 100,000, or the
            last 128 MiB; of paths, queries and header fields the first 2,000 characters.
        journal: the last 10,000 requests to the service, with the windows of pages.
        url: address of the API and of the token endpoint, once started.
        files_url: address of the host of document files, once started.
        max_in_flight: most API requests that were seen at the same time.
        token_requests: token requests answered so far, refused ones included.
        basic: the invented user name and password that are accepted here.
        oauth2: the invented client id and secret for which there are access tokens here.

    Raises:
        ConfigurationError: an argument is invalid.
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
        allow_hosts: Iterable[str] | None = None,
        control_token: Secret | None = None,
        **knobs: Any,
    ) -> None:
        # First of all: time flows from start on, also while the applications are invented.
        self._clock: Clock = clock or SystemClock()
        self._began = self._clock.monotonic()
        url_host = f"[{host}]" if ":" in host else host
        hosts = _served_hosts(url_host, allow_hosts)
        check_type("control_token", control_token, Secret)
        if control_token is not None:
            check_token(control_token)
        start = _naive_datetime("start", start)
        check_not_negative("latency", latency)
        check_integer("seed", seed)
        check_whole("port", port)
        rules = changed_rules(rules, knobs, names_of(Emulator))
        self._time_flows = time_flows
        self._start = start
        self._time = (start - EPOCH).total_seconds()
        times = update_times(applications, pattern, seed=seed, days=days, now=second_of(start))
        self._times: array[int] = times
        self._rules = rules
        self._seed = seed
        self._hosts = hosts
        self._is_open = allow_hosts is not None
        self.faults: Faults = Faults(self._service_seconds)
        self.requests: list[RecordedRequest] = []
        self._requests_size = 0
        self.journal: Journal = Journal()
        self.url: str = ""
        self.files_url: str = ""
        self.max_in_flight: int = 0
        self.token_requests: int = 0
        self.callbacks = callbacks
        self._service = self._make_service()
        self.world: World = self._service.world
        self.basic: BasicAuth = self._service.basic
        self.oauth2: OAuth2ClientCredentials = self._service.oauth2
        self._sender = CallbackSender(self._clock)
        self._access = ControlAccess(hosts, control_token)
        self._callbacks_fired = 0
        self._latency = latency
        self._host = host
        self._url_host = url_host
        self._port = port
        self._in_flight = 0
        self._closing = asyncio.Event()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin to listen."""
        self._closing = asyncio.Event()
        self._sender = CallbackSender(self._clock)
        async with AsyncExitStack() as stack:
            for region in Region:
                answer = partial(self._answer_file, region=region)
                handle = partial(self._handle_request, answer=answer)
                self._service.storage.urls[region] = await self._start_server(stack, handle, port=0)
            self.url = await self._start_server(stack, self._handle_api, port=self._port)
            self._open = stack.pop_all()
        self.files_url = self._service.storage.urls[Region.FIRST]

    async def close(self) -> None:
        """Stop listening; requests still open end without a reply, callbacks as ``closed``."""
        self._closing.set()
        await self._sender.close()
        await self._open.aclose()
        # Cancelled handlers need a turn of the loop to leave it.
        await asyncio.sleep(0)

    @property
    def rules(self) -> ServiceRules:
        """Behaviour of the service where the contract is silent; may be replaced at any time."""
        return self.world.rules

    @rules.setter
    def rules(self, rules: ServiceRules) -> None:
        self.world.rules = rules

    @property
    def callbacks(self) -> CallbackTarget | None:
        """Endpoint for callbacks, None if none are sent; may be replaced at any time."""
        return self._callbacks

    @callbacks.setter
    def callbacks(self, target: CallbackTarget | None) -> None:
        if target is not None and not isinstance(target, CallbackTarget):
            raise invalid("callbacks", "a CallbackTarget or None", target)
        self._callbacks = target

    @property
    def now(self) -> int:
        """The present service second."""
        self._keep_time()
        return self.world.now

    def advance(self, seconds: float) -> None:
        """Move service time forward by ``seconds``; tokens and addresses expire by it.

        Raises:
            ConfigurationError: that would be backward.
        """
        check_not_negative("seconds", seconds)
        self._time += seconds
        self._keep_time()

    def touch(self, application_id: str) -> int:
        """Update the application ``application_id``: an amount and its place in the list change.

        Returns:
            The service second of the update.

        Raises:
            ConfigurationError: there is no such application.
        """
        self._keep_time()
        return self.world.touch(application_id)

    def reset(self) -> None:
        """Return to the initial applications, rules and service time; no faults, no requests.

        What was added, removed or changed is undone, and `world` is another one. Tokens stay
        valid for their lifetime, and numbers of the journal continue.
        """
        self._began = self._clock.monotonic()
        self._time = (self._start - EPOCH).total_seconds()
        urls = self._service.storage.urls
        self._service = self._make_service()
        self._service.storage.urls = urls
        self.world = self._service.world
        self.faults.reset()
        self.requests.clear()
        self._requests_size = 0
        self.journal.clear()
        self.token_requests = 0
        self.max_in_flight = self._in_flight
        self._callbacks_fired = 0

    @property
    def service(self) -> Service:
        """The service without sockets, a new one after each `reset`."""
        return self._service

    @property
    def seed(self) -> int:
        """A whole number; the same one gives the same data and credentials."""
        return self._seed

    @property
    def time_flows(self) -> bool:
        """Whether service time passes by itself."""
        return self._time_flows

    @property
    def in_flight(self) -> int:
        """API requests that are being answered."""
        return self._in_flight

    @property
    def download_policy(self) -> DownloadPolicy:
        """Policy that lets a client download from every region of this emulator, nowhere else."""
        return self._service.storage.policy()

    def file_of(self, document_id: str) -> StoredFile:
        """Return the current file of the document ``document_id``.

        Raises:
            ConfigurationError: there is no such document.
        """
        return self._service.storage.file_of(document_id)

    def content_of(self, document_id: str) -> bytes:
        """Return the current bytes of the file of the document ``document_id``.

        Raises:
            ConfigurationError: there is no such document.
        """
        return self.file_of(document_id).content

    def replace_file(self, document_id: str) -> None:
        """Replace the file of the document ``document_id``; its URLs stay valid.

        Raises:
            ConfigurationError: there is no such document.
        """
        self._service.storage.replace(document_id)

    def revoke_tokens(self) -> None:
        """Refuse every access token given out so far with 401."""
        self._service.tokens.revoke_all()

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
                a name may come twice.
            update: whether the application changes first, as `touch` does it.

        Returns:
            What became of it, attempt by attempt.

        Raises:
            ConfigurationError: there is no target or no such application, or an
                argument is invalid.
        """
        check_text("application_id", application_id)
        check_text("event_type", event_type)
        check_flag("update", update)
        target = target or self._callbacks
        if target is None:
            raise ConfigurationError(
                "the emulator has nowhere to send callbacks to: give it callbacks=, "
                "or start income-client emulate with --callbacks"
            )
        self._keep_time()
        fields = header_fields(headers)
        reference = None
        if application_id is None and (payload is None or update):
            application_id = self.world.id_near(self._callbacks_fired * _CALLBACK_STRIDE)
            self._callbacks_fired += application_id is not None
        if application_id is not None:
            number = self.world.number_of(application_id)
            if number is None:
                raise ConfigurationError("the emulator has no application of this id")
            reference = self.world.reference_of(number)
        if payload is None:
            # Assumed (contract section 6).
            usual = {
                "event_type": event_type,
                "application_id": application_id,
                "application_reference_id": reference,
            }
            payload = {name: text for name, text in usual.items() if text is not None}
        body = payload_bytes(payload)
        if update and application_id is not None:
            self.world.touch(application_id)
        answers = await self._sender.deliver(target, body, fields)
        return CallbackDelivery(
            application_id=application_id,
            event_type=event_type,
            attempts=tuple(answer.outcome for answer in answers),
            is_json=answers[-1].is_json,
        )

    def _make_service(self) -> Service:
        now = second_of(self._start)
        world = World(self._times, seed=self._seed, now=now, rules=self._rules)
        return Service(world, self._hosts, serves_files=self._is_open)

    def _answer_file(self, request: HttpRequest, region: Region) -> HttpReply:
        return self._service.respond_file(request, region=region)

    def _service_seconds(self) -> float:
        passed = self._clock.monotonic() - self._began if self._time_flows else 0.0
        return self._time + passed

    def _keep_time(self) -> None:
        self.world.advance_to(int(self._service_seconds()))

    async def _start_server(self, stack: AsyncExitStack, handle: Handle, *, port: int) -> str:
        port = await stack.enter_async_context(serve_requests(handle, self._host, port))
        here = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(self._url_host, self._url_host)  # noqa: S104
        return f"http://{here}:{port}"

    async def _handle_api(
        self, request: HttpRequest, connection: asyncio.Transport | None
    ) -> HttpReply | None:
        call = call_of(request.path)
        if call is Call.CONTROL:
            return await self._carry_out(request)
        if call is Call.INDEX:
            return self._show_page(request)
        return await self._handle_request(
            request, connection, answer=partial(respond, self._service)
        )

    async def _handle_request(
        self,
        request: HttpRequest,
        connection: asyncio.Transport | None,
        answer: Callable[[HttpRequest], HttpReply],
    ) -> HttpReply | None:
        if self._is_foreign(request):
            self._keep_time()
            reply = answer(request)
            # Without this, any page in a browser could use up the faults of a test.
            if reply.status >= HTTPStatus.BAD_REQUEST:
                return reply
        arrived = self._clock.monotonic()
        is_counted = call_of(request.path) in API_CALLS
        self._in_flight += is_counted
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        # Decided on arrival, so that the work hides in the latency and a
        # client that goes away has still been recorded.
        self._keep_time()
        second = self.world.now
        fault = self.faults.take(request.method, request.path)
        instead = replacement(fault) if fault else None
        reply = self._service.stamped(instead) if instead else answer(request)
        status = 0 if fault and fault.withholds else reply.status
        self._record_request(request, status, fault)
        try:
            if self._latency:
                passed = self._clock.monotonic() - arrived
                await self._clock.sleep(max(0.0, self._latency - passed))
            if fault is None or instead is not None:
                return reply
            if connection is not None:
                await play(fault, reply, connection, self._closing)
            return None
        finally:
            self._in_flight -= is_counted
            self.journal.add(
                request,
                status=status,
                fault=None if fault is None else fault.kind.value,
                request_id=reply.headers.get(REQUEST_ID) if status else None,
                listed=reply.listed,
                seconds=self._clock.monotonic() - arrived,
                second=second,
            )

    def _is_foreign(self, request: HttpRequest) -> bool:
        """Return whether a request is for another host, or sent by a page of another origin."""
        is_served = self._hosts.serves(request.headers.get("host", ""))
        return not is_served or not is_from_no_other_page(request)

    def _show_page(self, request: HttpRequest) -> HttpReply:
        """Return a file of the emulator's page, without faults and without a journal entry."""
        self._keep_time()
        if self._hosts.serves(request.headers.get("host", "")):
            reply = self._service.stamped(page_reply(request))
        else:
            reply = self._service.respond(request)
        if not self._is_foreign(request):
            self._record_request(request, reply.status, None)
        return reply

    async def _carry_out(self, request: HttpRequest) -> HttpReply:
        """Answer a command to the emulator, without faults and latency."""
        self._keep_time()
        status = 0
        try:
            has_credentials = self._service.has_credentials(request)
            reply = self._access.refusal(request, has_credentials=has_credentials)
            reply = reply or await answer(self, request)
            status = reply.status
            headers = {**SECURITY_HEADERS, **reply.headers}
            return self._service.stamped(evolve(reply, headers=headers))
        finally:
            if not self._is_foreign(request):
                self._record_request(request, status, None)

    def _record_request(self, request: HttpRequest, status: int, fault: Fault | None) -> None:
        call = call_of(request.path)
        self.token_requests += call is Call.TOKEN
        recorded = RecordedRequest(
            name=call.value,
            method=request.method,
            path=request.path[:_LONGEST_RECORDED],
            query=request.query[:_LONGEST_RECORDED],
            headers={
                name: text[:_LONGEST_RECORDED]
                for name, text in request.headers.items()
                if name not in _SECRET_FIELDS
            },
            authorized="authorization" in request.headers,
            status=status,
            fault=None if fault is None else fault.kind.value,
            time=self.world.now,
        )
        self.requests.append(recorded)
        self._requests_size += _size_of(recorded)
        # Forgotten many at a time, so that remembering costs the same for ever.
        if len(self.requests) >= 2 * _MAX_REQUESTS or self._requests_size >= 2 * _MAX_REQUESTS_SIZE:
            self._forget_requests()

    def _forget_requests(self) -> None:
        """Drop the oldest requests beyond the limit; a user may have removed some as well."""
        sizes = accumulate(map(_size_of, reversed(self.requests[-_MAX_REQUESTS:])))
        kept_sizes = list(takewhile(lambda size: size <= _MAX_REQUESTS_SIZE, sizes))
        del self.requests[: len(self.requests) - len(kept_sizes)]
        self._requests_size = kept_sizes[-1] if kept_sizes else 0


def _served_hosts(url_host: str, allowed: Iterable[str] | None) -> ServedHosts:
    """Return the hosts that an emulator serves, for the host that it listens on."""
    hosts = THIS_MACHINE if allowed is None else ServedHosts.read(allowed)
    if is_loopback(url_host):
        return hosts.with_host(url_host)
    if allowed is None:
        raise wrong("host", "must be a loopback address, where allow_hosts names none")
    if not is_ip(plain_host(url_host) or ""):
        raise wrong("host", "must be an IP address, such as 0.0.0.0")
    return hosts


def _size_of(request: RecordedRequest) -> int:
    """Return the approximate memory size of a request in bytes."""
    headers = request.headers
    texts = (request.method, request.path, request.query, *headers, *headers.values())
    return getsizeof(request) + getsizeof(headers) + sum(map(getsizeof, texts))


def _naive_datetime(name: str, value: object) -> datetime:
    """Return a naive time as a plain `datetime`: subclasses may have other arithmetic."""
    try:
        if isinstance(value, datetime) and value.tzinfo is None:
            return standard_datetime(value)
    except (TypeError, ValueError):
        pass
    raise invalid(name, "a datetime without zone", value)
