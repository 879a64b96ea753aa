"""Make one call to the service: authorised, paced, retried and within one deadline.

A `Request` goes in together with the function that reads its reply. `_Call.result` is the loop that
makes the attempts; a token is requested by the same loop, with the client's own credentials.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import evolve, field, frozen

from income_client.errors import (
    AuthenticationError,
    DeadlineExceededError,
    IncomeClientError,
    RateLimitedError,
    TransportError,
)
from income_client.events.instrumentation import Instrumentation
from income_client.settings import (
    Auth,
    AuthFunction,
    BasicAuth,
    RetryPolicy,
    Timeouts,
    check_count,
    check_positive,
    invalid,
    merged,
)
from income_client.system.clock import Clock, SystemClock
from income_client.system.logs import GuardedLogger

from .credentials import CredentialSource
from .deadlines import Deadlines
from .endpoints import Request, Response, token_request
from .faults import StaleConnectionError
from .page_cap import PageCap
from .replies import call_of, label, request_id
from .retry import Chance, Gate, Pacer, Retries, RetryBudget
from .tokens import (
    FixedCredentials,
    Token,
    TokenCache,
    TokenStore,
    fixed_token,
    needless_store_error,
    read_token,
    utc_now,
)
from .transport import SocketLimits, Transport

if TYPE_CHECKING:
    from income_client.events.call_watch import CallWatch

T = TypeVar("T")
Read = Callable[[Response], T]
"""Function that turns a reply into a call's result, or raises the reply's error."""

_LOGGER: Final = GuardedLogger("income_client.session")
_OK: Final = 200
_AN_AUTH: Final = "BasicAuth, OAuth2ClientCredentials or a function that returns one of them"


@frozen(kw_only=True, eq=False, repr=False)
class SessionManager:
    """Makes calls with one set of credentials; each view of a client has its own manager.

    Views made by ``with_options`` have the parts of the session that they are made of, all but the
    timeouts and the retry policy.
    """

    transport: Transport
    credentials: FixedCredentials | TokenCache
    instrumentation: Instrumentation
    clock: Clock
    """Measures and sleeps."""
    chance: Chance
    """Gives numbers from 0 to 1 for the jitter."""
    concurrency: int
    slots: asyncio.Semaphore
    """Semaphore of ``concurrency`` slots, one for each request in flight."""
    gate: Gate
    pacer: Pacer | None
    """Queue for ``max_rate``; None if the rate is not limited."""
    budget: RetryBudget
    retry: RetryPolicy
    timeouts: Timeouts
    limits: SocketLimits
    """Timeouts of a single request."""
    deadlines: Deadlines
    """Timer of the deadlines of whole calls."""
    page_cap: PageCap = field(factory=PageCap)
    """The largest page of the list that the service returns."""
    on_retry: Callable[[IncomeClientError], object] | None = None
    """Function that takes the error of a request that is sent again."""

    def call(self, request: Request, read: Read[T]) -> Coroutine[Any, Any, T]:
        """Send a request until a reply is read, no retry is allowed, or the deadline passes."""
        self.transport.pool.check()
        return _Call(self, request).result(read)

    def with_options(
        self,
        *,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
    ) -> "SessionManager":
        """Copy the manager with the timeouts or retry policy given; all other parts are shared.

        Timeouts that are not set in ``timeouts`` remain.
        """
        session = self
        if timeouts is not None:
            changes = _check_instance("timeouts", Timeouts, timeouts)
            limits = _time_limits(merged(changes, self.timeouts), self.transport)
            session = evolve(session, **limits)
        if retry is not None:
            session = evolve(session, retry=_check_instance("retry", RetryPolicy, retry))
        return session

    async def aclose(self) -> None:
        """Close the connections opened here and end a token request.

        A second call does nothing.
        """
        pool = self.transport.pool
        try:
            await pool.aclose()
        finally:
            # Not so when it refused: then the token request is another loop's as well.
            if pool.is_closed:
                await self.credentials.aclose()


def open_session(
    transport: Transport,
    *,
    auth: Auth | AuthFunction,
    timeouts: Timeouts | None = None,
    retry: RetryPolicy | None = None,
    concurrency: int = 16,
    max_rate: float | None = None,
    token_store: TokenStore | None = None,
    instrumentation: Instrumentation | None = None,
    clock: Clock | None = None,
    wall_time: Callable[[], datetime] = utc_now,
    chance: Chance = random.random,
) -> SessionManager:
    """Return a session; `IncomeClient` describes the arguments.

    ``wall_time`` gives the time of day for tokens that processes share. Tests put in a ``clock``
    and a ``chance`` of their own.
    """
    # A class would be called to make credentials, not to ask for them.
    if not isinstance(auth, Auth) and (isinstance(auth, type) or not callable(auth)):
        raise invalid("auth", _AN_AUTH, auth)
    check_count("concurrency", concurrency)
    pacer = None if max_rate is None else Pacer(check_positive("max_rate", max_rate))
    retry = _check_instance("retry", RetryPolicy, retry, RetryPolicy())
    timeouts = _check_instance("timeouts", Timeouts, timeouts, Timeouts())
    clock = SystemClock() if clock is None else clock
    instrumentation = instrumentation or Instrumentation()
    make_session = partial(
        SessionManager,
        transport=transport,
        instrumentation=instrumentation,
        clock=clock,
        chance=chance,
        concurrency=concurrency,
        budget=RetryBudget(retry.budget),
        retry=retry,
        **_time_limits(timeouts, transport),
    )
    credentials: FixedCredentials | TokenCache
    if isinstance(auth, BasicAuth):
        if token_store is not None:
            raise needless_store_error()
        credentials = FixedCredentials(auth.authorization())
    else:
        # The token endpoint has a gate of its own, and no part in the limits of the other calls.
        gate = Gate()
        to_endpoint = partial(
            make_session,
            gate=gate,
            slots=asyncio.Semaphore(1),
            pacer=None,
            on_retry=_warn_of_silence,
        )
        request_token = partial(_request_token, to_endpoint)
        if isinstance(auth, Auth):
            obtain_token = partial(request_token, auth)
        else:
            source = CredentialSource(auth, timeouts.deadline)
            obtain_token = partial(source.obtain_token, request_token)
        credentials = TokenCache(
            obtain_token,
            clock,
            gate=gate,
            instrumentation=instrumentation,
            store=_check_store(token_store),
            store_seconds=timeouts.deadline / 4,
            wall_time=wall_time,
        )
    slots = asyncio.Semaphore(concurrency)
    return make_session(credentials=credentials, gate=Gate(), slots=slots, pacer=pacer)


def _warn_of_silence(error: IncomeClientError) -> None:
    """Warn of a token endpoint that hangs: the calls that wait for it fail minutes later."""
    if isinstance(error, DeadlineExceededError):
        name = type(error).__name__
        message = "the token endpoint: no answer (%s: %s), sent again"
        _LOGGER.warning(message, name, error, extra={"error": name})


async def _request_token(make_session: Callable[..., SessionManager], auth: Auth) -> Token:
    """Request a token with credentials (section 5.1); Basic credentials become a token unsent."""
    authorization = auth.authorization()
    if isinstance(auth, BasicAuth):
        return fixed_token(authorization)
    call = _Call(make_session(credentials=FixedCredentials(authorization)), token_request())
    return await call.result(lambda response: read_token(response, sent_at=call.sent_at))


def _time_limits(timeouts: Timeouts, transport: Transport) -> dict[str, Any]:
    """Return the fields of a session that follow from its timeouts."""
    return {
        "timeouts": timeouts,
        "limits": SocketLimits(timeouts, transport.pool.connections),
        "deadlines": Deadlines(timeouts.deadline),
    }


class _Call:
    """A call: its attempts, each after the gate, the token, a slot and the rate limit."""

    __slots__ = ("_has_left_stale", "_refusals", "_request", "_retries", "_sent", "_session",
                 "_watch", "sent_at")  # fmt: skip

    def __init__(self, session: SessionManager, request: Request) -> None:
        self._session = session
        self._request = request
        self._retries = Retries(
            session.retry,
            session.budget,
            session.clock,
            seconds=session.deadlines.seconds,
            chance=session.chance,
        )
        self._watch: CallWatch | None = None
        self._sent = 0
        self._refusals = 0
        self._has_left_stale = False
        self.sent_at: float = -math.inf
        """Time at which the last request was sent, by the client's clock."""

    async def result(self, read: Read[T]) -> T:
        """Make attempts until a reply is read, no retry is allowed, or the deadline passes."""
        session, retries = self._session, self._retries
        with self, session.deadlines.limit(self._deadline_error):
            while True:
                # Without a slot: a call that cannot wait so long fails at once.
                token = self._ready_token() or await self._wait_for_token()
                has_queued = session.slots.locked()
                async with session.slots:
                    if has_queued and self._is_gate_closed():
                        continue
                    if has_queued or session.pacer is not None:
                        token = await self._wait_for_turn(ahead=False)
                    while True:
                        try:
                            return await self._send_once(token, read)
                        except StaleConnectionError as stale:
                            token = await self._wait_for_turn(ahead=True)
                            self._report_retry(stale.failure, 0.0)
                        except AuthenticationError as error:
                            token = await self._replace_token(token, error)
                            self._report_retry(error, 0.0)
                        except IncomeClientError as error:
                            pause = retries.pause_after(error, session.gate)
                            if pause is None:
                                raise
                            self._report_retry(error, pause)
                            break
                await session.clock.sleep(pause)

    def __enter__(self) -> None:
        """Begin to report the call."""
        session = self._session
        if session.instrumentation.is_on:
            request = self._request
            url = session.transport.url_of(request)
            self._watch = session.instrumentation.watch_call(
                request.name,
                session.clock,
                method=request.method,
                host=url.raw_host,
                port=url.port,
                template=request.template,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Emit the event of the call's end, and store the number of attempts in its error."""
        # A token request has counted its own.
        if isinstance(error, IncomeClientError) and error.attempts == 0:
            error.attempts = self._sent
        if self._watch is not None:
            self._watch.finished(error)

    async def _send_once(self, token: Token, read: Read[T]) -> T:
        """Send the request once, and report its outcome.

        Raises `StaleConnectionError` if the call sends the request again at once: a dead connection
        of the pool says nothing about the service. A call does so only once, since the service may
        close connections because of the request.
        """
        session = self._session
        self._sent += 1
        self.sent_at = session.clock.monotonic()
        if self._watch is not None:
            self._watch.sent()
        try:
            result, response = await session.transport.send(
                self._request,
                token.headers,
                session.limits,
                lambda response: (read(response), response),
            )
        except StaleConnectionError as stale:
            self._report_answer(None, stale.failure, None)
            if self._has_left_stale:
                raise stale.failure from None
            self._has_left_stale = True
            raise
        except IncomeClientError as error:
            self._report_answer(error.status, error, error.request_id)
            raise
        if self._watch is not None or _LOGGER.isEnabledFor(logging.DEBUG):
            self._report_answer(_OK, result, request_id(response))
        self._retries.succeed()
        return result

    def _report_answer(self, status: int | None, outcome: object, answer_id: str | None) -> None:
        """Report how an attempt ended, to the listeners and the log."""
        if self._watch is not None:
            self._watch.answered(status, outcome, answer_id)
        if _LOGGER.isEnabledFor(logging.DEBUG):
            text = type(outcome).__name__ if isinstance(outcome, TransportError) else str(status)
            if answer_id is not None:
                text += f" (request id {answer_id})"
            facts = {
                "call": self._request.name,
                "application_id": self._request.subject,
                "status": status,
                "request_id": answer_id,
                "attempt": self._sent,
                "duration": self._session.clock.monotonic() - self.sent_at,
            }
            _LOGGER.debug("%s: %s", label(self._request), text, extra=facts)

    def _report_retry(self, failure: IncomeClientError, pause: float) -> None:
        if self._session.on_retry is not None:
            self._session.on_retry(failure)
        if self._watch is not None:
            self._watch.retried(failure, pause)

    def _deadline_error(self) -> DeadlineExceededError:
        seconds = self._session.deadlines.seconds
        return DeadlineExceededError(f"not done within {seconds:g} s", **call_of(self._request))

    async def _replace_token(self, refused: Token, error: AuthenticationError) -> Token:
        """Drop a refused token and return another one; raise the error if the call was repeated.

        A call is repeated once, and once more if the second token is shared: another process may
        have saved a token that was revoked together with the first one.
        """
        if self._refusals > refused.is_shared:
            raise error
        self._refusals += 1
        if not self._session.credentials.invalidate(refused):
            raise error
        # The call keeps its slot: if it queued again, the calls ahead of it could use up the new
        # token before its turn came.
        token = await self._wait_for_turn(ahead=True)
        if not token.is_issued and token == refused:
            raise error
        return token

    def _is_gate_closed(self) -> bool:
        """Return whether the gate is closed."""
        return self._session.gate.opens_at > self._session.clock.monotonic()

    def _ready_token(self) -> Token | None:
        """Return the token to send; None while the gate is closed, or there is no usable token."""
        return None if self._is_gate_closed() else self._session.credentials.current()

    async def _wait_for_token(self) -> Token:
        """Wait for the gate and the token."""
        session, ends_at = self._session, self._retries.ends_at
        while True:
            pause = await session.gate.wait(session.clock, ends_at)
            if pause is not None:
                message = "not sent, the service asked all for a pause"
                called = call_of(self._request)
                raise RateLimitedError(message, retry_after=pause, **called)
            # The token request has its own retries, and needs no slot.
            token = session.credentials.current() or await session.credentials.get(ends_at)
            # Sent even if it expired on its way here: the next one would do no better.
            if not self._is_gate_closed():
                return token

    async def _wait_for_turn(self, *, ahead: bool) -> Token:
        """Queue for the gate, the token and the rate."""
        session = self._session
        clock, pacer = session.clock, session.pacer
        if pacer is None:
            return self._ready_token() or await self._wait_for_token()
        pacer.join(self, ahead=ahead)
        try:
            ready_at = clock.monotonic()
            while True:
                token = self._ready_token()
                if token is None:
                    token = await self._wait_for_token()
                    ready_at = clock.monotonic()
                now = clock.monotonic()
                turn_at = pacer.turn_of(self, ready_at)
                if turn_at <= now:
                    pacer.take_turn(ready_at, now)
                    return token
                if turn_at >= self._retries.ends_at:
                    message = "not sent, its turn at max_rate comes after its deadline"
                    raise DeadlineExceededError(message, **call_of(self._request))
                await clock.sleep(turn_at - now)
        finally:
            pacer.leave(self)


def _check_store(store: TokenStore | None) -> TokenStore | None:
    has_both = all(callable(getattr(store, name, None)) for name in ("load", "save"))
    if store is not None and not has_both:
        raise invalid("token_store", "an object with load and save", store)
    return store


def _check_instance(name: str, cls: type[T], value: Any, default: T | None = None) -> T:
    if value is None and default is not None:
        return default
    if not isinstance(value, cls):
        raise invalid(name, f"a {cls.__name__}", value)
    return value
