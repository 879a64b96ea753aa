"""Make one call to the service: authorised, paced, retried and within one deadline.

A `Request` goes in together with the function that reads its reply. Failures are exceptions up to
`SessionManager.call`, which raises a copy: its own frame holds neither a reply nor a header.
"""

import asyncio
import copy
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar

from income_client.clock import Clock, SystemClock
from income_client.errors import (
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    IncomeClientError,
    RateLimitedError,
    TransportError,
)
from income_client.instrumentation import CallWatch, Instrumentation
from income_client.settings import (
    Auth,
    BasicAuth,
    OAuth2ClientCredentials,
    RetryPolicy,
    Timeouts,
    check_count,
    check_positive,
    invalid,
    merged,
)

from .endpoints import Request, Response, token_request
from .faults import StaleConnectionError, without_frames
from .replies import call_of, label
from .retry import Chance, Deadline, Deadlines, FinalError, Gate, Pacer, Retrier, RetryBudget
from .tokens import FixedCredentials, Token, TokenCache, TokenStore, read_token
from .transport import SocketLimits, Transport

T = TypeVar("T")
Read = Callable[[Response], T]
"""Makes the result of a reply, or raises what it says in place of one."""

_LOGGER: Final = logging.getLogger("income_client.session")
_OK: Final = 200


class SessionManager:
    """Makes calls for one set of credentials; `IncomeClient` describes the arguments.

    ``clock`` measures and sleeps, ``chance`` gives numbers from 0 to 1 for the jitter; tests put in
    their own. Views made by ``with_options`` share all but the timeouts and the retry policy.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        auth: Auth,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        concurrency: int = 16,
        max_rate: float | None = None,
        token_store: TokenStore | None = None,
        instrumentation: Instrumentation | None = None,
        clock: Clock | None = None,
        chance: Chance = random.random,
    ) -> None:
        try:
            credentials = _credentials(auth)
        finally:
            # Crash reporters send the locals of frames; a wrong argument may hold a password.
            del auth
        policy = _checked("retry", RetryPolicy, retry, RetryPolicy())
        self.transport: Transport = transport
        self.instrumentation: Instrumentation = instrumentation or Instrumentation()
        self.clock: Clock = SystemClock() if clock is None else clock
        self.concurrency: int = check_count("concurrency", concurrency)
        self.slots: asyncio.Semaphore = asyncio.Semaphore(self.concurrency)
        self.gate: Gate = Gate()
        self.pacer: Pacer | None = None
        if max_rate is not None:
            self.pacer = Pacer(check_positive("max_rate", max_rate))
        budget = RetryBudget(policy.budget)
        self.retrier: Retrier = Retrier(policy, budget, self.clock, chance=chance)
        self._set_timeouts(_checked("timeouts", Timeouts, timeouts, Timeouts()))
        self.credentials: FixedCredentials | TokenCache
        if isinstance(credentials, BasicAuth):
            if token_store is not None:
                raise ConfigurationError(
                    "token_store is for OAuth2ClientCredentials", argument="token_store"
                )
            self.credentials = FixedCredentials(credentials.authorization())
            return
        # The token endpoint has a deadline and a gate of its own, and shares the retry budget.
        gate = Gate()
        # A copy, so that the cache and the session do not refer to each other.
        requests = copy.copy(self)
        self.credentials = TokenCache(
            partial(_new_token, requests, credentials, gate),
            self.clock,
            gate=gate,
            instrumentation=self.instrumentation,
            store=_store(token_store),
            store_seconds=self.timeouts.deadline / 4,
        )

    async def call(self, request: Request, read: Read[T]) -> T:
        """Send a request until a reply is read, no retry is allowed, or the deadline passes."""
        try:
            self.transport.pool.check()
            return await _Call(self, request, read).result()
        except IncomeClientError as error:
            failure = error.again()
        except asyncio.CancelledError as cancelled:
            # Its frames hold the header of the request that it ended.
            cancelled.__context__ = None
            raise cancelled.with_traceback(None) from None
        except Exception as bug:  # noqa: BLE001 - raised again
            raise without_frames(bug) from None
        try:
            raise failure
        finally:
            del failure

    def with_options(
        self,
        *,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
    ) -> Self:
        """Return a view with other timeouts, as far as they are given, or another retry policy."""
        view = copy.copy(self)
        if timeouts is not None:
            given = _checked("timeouts", Timeouts, timeouts)
            view._set_timeouts(merged(given, self.timeouts))  # noqa: SLF001 - a Self
        if retry is not None:
            view.retrier = self.retrier.with_policy(_checked("retry", RetryPolicy, retry))
        return view

    async def aclose(self) -> None:
        """Close the connections opened here and end a token request; again does nothing."""
        pool = self.transport.pool
        try:
            await pool.aclose()
        finally:
            # Not so when it refused: then the token request is another loop's as well.
            if pool.is_closed:
                await self.credentials.aclose()

    def _set_timeouts(self, timeouts: Timeouts) -> None:
        self.timeouts: Timeouts = timeouts
        self.limits: SocketLimits = SocketLimits(timeouts, self.transport.pool.connections)
        self.deadlines: Deadlines = Deadlines(timeouts.deadline)


class _Sending:
    """A request, and the attempts to have it answered."""

    def __init__(self, session: SessionManager, request: Request, gate: Gate) -> None:
        self._session = session
        self._request = request
        self._gate = gate
        self._now = session.clock.monotonic
        self._deadline_at = self._now() + session.deadlines.seconds
        self._watch: CallWatch | None = None
        self._sent = 0
        self._has_left_stale = False

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make attempts within the deadline, and report how that ends."""
        session = self._session
        if session.instrumentation.is_on:
            host = session.transport.host_of(self._request)
            self._watch = session.instrumentation.begin(self._request.name, host, session.clock)
        watch = self._watch
        try:
            with Deadline(session.deadlines) as deadline:
                session.deadlines.start(deadline)
                result = await session.retrier.run(
                    attempt,
                    deadline_at=self._deadline_at,
                    gate=self._gate,
                    on_retry=None if watch is None else watch.retried,
                )
        except FinalError as final:
            failure = final.error
        except IncomeClientError as error:
            failure = error
        except BaseException as error:
            if watch is not None:
                watch.finished(error)
            raise
        else:
            if not deadline.has_passed:
                if watch is not None:
                    watch.finished(result)
                return result
            message = f"not done within {session.deadlines.seconds:g} s"
            failure = DeadlineExceededError(message, **call_of(self._request))
        # A token request has counted its own.
        failure.attempts = failure.attempts or self._sent
        if watch is not None:
            watch.finished(failure)
        try:
            raise failure
        finally:
            del failure

    async def send(self, headers: Mapping[str, str], read: Read[T]) -> T:
        """Send the request once, and report what comes of it.

        Raises `StaleConnectionError` if it is to be sent again at once: that a connection of the
        pool was dead says nothing about the service. Once in a call, so that a request which the
        service cannot answer is not repeated for long.
        """
        session = self._session
        self._sent += 1
        started_at = self._now()
        if self._watch is not None:
            self._watch.sent()
        try:
            result = await session.transport.send(self._request, headers, session.limits, read)
        except StaleConnectionError as stale:
            failure = stale.failure
        except IncomeClientError as error:
            self._report(started_at, error.status, error)
            raise
        else:
            self._report(started_at, _OK, result)
            return result
        self._report(started_at, None, failure)
        if self._has_left_stale:
            raise failure
        self._has_left_stale = True
        if self._watch is not None:
            self._watch.retried(failure, 0.0)
        raise StaleConnectionError(failure)

    def _report(self, started_at: float, status: int | None, outcome: object) -> None:
        """Report how an attempt ended, to the listeners and the log."""
        if self._watch is not None:
            self._watch.answered(status, outcome)
        if _LOGGER.isEnabledFor(logging.DEBUG):
            shown = type(outcome).__name__ if isinstance(outcome, TransportError) else status
            facts = {
                "call": self._request.name,
                "application_id": self._request.subject,
                "status": status,
                "attempt": self._sent,
                "duration": self._now() - started_at,
            }
            _LOGGER.debug("%s: %s", label(self._request), shown, extra=facts)


async def _new_token(
    session: SessionManager, credentials: OAuth2ClientCredentials, gate: Gate
) -> Token:
    """Request a token (contract section 5.1)."""
    sending = _Sending(session, token_request(), gate)
    headers = {
        "Authorization": credentials.authorization().reveal(),
        "Content-Type": "application/x-www-form-urlencoded",
    }

    async def attempt() -> Token:
        while True:
            sent_at = session.clock.monotonic()
            try:
                return await sending.send(headers, partial(read_token, sent_at=sent_at))
            except StaleConnectionError:
                continue

    return await sending.run(attempt)


class _Call(_Sending, Generic[T]):
    """One call: waits for the gate, the token, a slot and its turn, and sends its attempts."""

    def __init__(self, session: SessionManager, request: Request, read: Read[T]) -> None:
        super().__init__(session, request, session.gate)
        self._read = read
        self._refusals = 0

    async def result(self) -> T:
        """Return what is read from the reply."""
        return await self.run(self._attempt)

    async def _attempt(self) -> T:
        """Make one attempt; the first token that is refused is replaced on the way."""
        session = self._session
        while True:
            # Without a slot: a call that cannot wait so long fails at once.
            if self._ready_token() is None:
                await self._wait_for_token()
            await session.slots.acquire()
            try:
                # The gate may have been closed while this call waited for its slot.
                if self._gate.opens_at > self._now():
                    continue
                token = self._ready_token() if session.pacer is None else None
                if token is None:
                    token = await self._next_token(ahead=False)
                return await self._answer(token)
            finally:
                session.slots.release()

    async def _answer(self, token: Token) -> T:
        """Send the request; again after a dead connection of the pool or a refused token.

        The call keeps its slot: if it queued again, the calls ahead of it could use up the new
        token before its turn came.
        """
        while True:
            refusal = None
            try:
                return await self.send(token.headers, self._read)
            except StaleConnectionError:
                pass  # reported already
            except AuthenticationError as error:
                refusal = error
            if refusal is not None and not self._drop(token):
                raise refusal
            token = await self._next_token(ahead=True)
            if refusal is not None and self._watch is not None:
                self._watch.retried(refusal, 0.0)

    def _drop(self, token: Token) -> bool:
        """Drop a refused token; return whether the call is repeated with another one.

        It is once, and once more if the second is shared: the token of another process may have
        been revoked together with the first.
        """
        if self._refusals > token.is_shared:
            return False
        self._refusals += 1
        return self._session.credentials.invalidate(token)

    def _ready_token(self) -> Token | None:
        """Return the token to send, None while the gate or the token has to be waited for."""
        if self._gate.opens_at > self._now():
            return None
        return self._session.credentials.current()

    async def _wait_for_token(self) -> Token:
        """Wait for the gate and the token."""
        session = self._session
        while True:
            pause = await self._gate.wait(session.clock, self._deadline_at)
            if pause is not None:
                message = "not sent, the service asked all for a pause"
                called = call_of(self._request)
                raise FinalError(RateLimitedError(message, retry_after=pause, **called))
            credentials = session.credentials
            try:
                # The token request has its own retries, and needs no slot.
                token = credentials.current() or await credentials.get(self._deadline_at)
            except IncomeClientError as error:
                raise FinalError(error) from None
            # Sent even if it expired on its way here: the next one would do no better.
            if self._gate.opens_at <= self._now():
                return token

    async def _next_token(self, *, ahead: bool) -> Token:
        """Queue for the gate, the token and the rate."""
        pacer = self._session.pacer
        if pacer is None:
            return await self._wait_for_token()
        pacer.join(self, ahead=ahead)
        try:
            ready_at = self._now()
            while True:
                token = self._ready_token()
                if token is None:
                    token = await self._wait_for_token()
                    ready_at = self._now()
                now = self._now()
                turn_at = pacer.turn_of(self, ready_at)
                if turn_at <= now:
                    pacer.take(ready_at, now)
                    return token
                if turn_at >= self._deadline_at:
                    message = "not sent, its turn at max_rate comes after its deadline"
                    raise FinalError(DeadlineExceededError(message, **call_of(self._request)))
                await self._session.clock.sleep(turn_at - now)
        finally:
            pacer.leave(self)


def _credentials(auth: object) -> Auth:
    if isinstance(auth, Auth):
        return auth
    failure = invalid("auth", "BasicAuth or OAuth2ClientCredentials", auth)
    del auth
    raise failure


def _store(store: TokenStore | None) -> TokenStore | None:
    has_both = all(callable(getattr(store, name, None)) for name in ("load", "save"))
    if store is not None and not has_both:
        raise invalid("token_store", "an object with load and save", store)
    return store


def _checked(name: str, cls: type[T], value: Any, default: T | None = None) -> T:
    if value is None and default is not None:
        return default
    if not isinstance(value, cls):
        raise invalid(name, f"a {cls.__name__}", value)
    return value
