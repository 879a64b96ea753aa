"""Make one call to the service: authorised, paced, retried and within one deadline.

A `Request` goes in together with the function that reads its reply. Failures are exceptions up to
`SessionManager.call`, which raises a copy: its own frame holds neither a reply nor a header.
"""

import asyncio
import copy
import logging
import random
import ssl as tls
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Self, TypeVar

from income_client.clock import Clock, SystemClock
from income_client.errors import (
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    IncomeClientError,
    RateLimitedError,
)
from income_client.events import OnEvent
from income_client.instrumentation import CallWatch, Instrumentation
from income_client.settings import (
    BasicAuth,
    OAuth2ClientCredentials,
    RetryPolicy,
    Secret,
    Timeouts,
    check_count,
    check_positive,
    merged,
)

from .deadlines import Deadlines
from .endpoints import Request, Response, addresses, check_route, host_of, proxy_address
from .replies import label
from .retry import Chance, FinalError, Gate, Pacer, Retrier, RetryBudget, wait_for_gate
from .tokens import Token, TokenCache, TokenEndpoint, TokenStore
from .transport import BorrowedSession, TraceConfig, Transport

T = TypeVar("T")
Auth = BasicAuth | OAuth2ClientCredentials
Read = Callable[[Response], T | IncomeClientError]
"""Makes the result of a reply; an error is raised, or returned."""

_LOGGER: Final = logging.getLogger("income_client.session")


class SessionManager:
    """Makes calls for one set of credentials; `IncomeClient` describes the arguments.

    ``clock`` measures and sleeps, ``chance`` gives numbers from 0 to 1 for the jitter; tests put in
    their own. Views made by ``with_options`` share all but the timeouts and the retry policy.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: Auth,
        auth_url: str | None = None,
        session: BorrowedSession | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        concurrency: int = 16,
        max_rate: float | None = None,
        token_store: TokenStore | None = None,
        max_response_bytes: int = 64 * 2**20,
        user_agent: str | None = None,
        proxy: str | None = None,
        ssl: tls.SSLContext | None = None,
        trace_configs: Sequence[TraceConfig] = (),
        keep_error_bodies: bool = False,
        on_event: OnEvent | None = None,
        telemetry: bool = True,
        clock: Clock | None = None,
        chance: Chance = random.random,
    ) -> None:
        try:
            found = addresses(base_url, auth_url)
            route = None if proxy is None else proxy_address(proxy)
            if route is not None:
                check_route(found, route)
            credentials = _credentials(auth)
        finally:
            # Crash reporters send the locals of frames; a wrong argument may hold a password.
            del base_url, auth_url, proxy, auth
        self.timeouts: Timeouts = _checked("timeouts", Timeouts, timeouts, Timeouts())
        self.concurrency: int = check_count("concurrency", concurrency)
        self.slots: asyncio.Semaphore = asyncio.Semaphore(self.concurrency)
        self.gate: Gate = Gate()
        self.pacer: Pacer | None = None
        if max_rate is not None:
            self.pacer = Pacer(check_positive("max_rate", max_rate))
        self._deadlines = Deadlines(self.timeouts.deadline)
        policy = _checked("retry", RetryPolicy, retry, RetryPolicy())
        self.clock: Clock = SystemClock() if clock is None else clock
        self._host = host_of(found.api)
        self.instrumentation: Instrumentation = Instrumentation(on_event, telemetry=telemetry)
        self._retrier = Retrier(policy, RetryBudget(policy.budget), self.clock, chance=chance)
        self.transport: Transport = Transport(
            found,
            session=session,
            max_response_bytes=max_response_bytes,
            user_agent=user_agent,
            proxy=route,
            tls=ssl,
            trace_configs=trace_configs,
            keep_error_bodies=keep_error_bodies,
        )
        self.credentials: Secret | TokenCache
        if isinstance(credentials, BasicAuth):
            if token_store is not None:
                raise ConfigurationError("token_store is for OAuth2ClientCredentials")
            self.credentials = credentials.authorization()
            return
        endpoint = TokenEndpoint(
            credentials,
            self.transport,
            self._retrier,
            self.timeouts,
            self.clock,
            instrumentation=self.instrumentation,
            host=host_of(found.token),
        )
        self.credentials = TokenCache(
            endpoint.request,
            self.clock,
            gate=endpoint.gate,
            instrumentation=self.instrumentation,
            store=_store(token_store),
            load_seconds=self.timeouts.deadline / 4,
        )

    async def call(self, request: Request, read: Read[T]) -> T:
        """Send a request until a reply is read, no retry is allowed, or the deadline passes.

        Raises:
            IncomeClientError: the last failure, with ``attempts`` filled in.
        """
        try:
            self.transport.check()
            watch = self.instrumentation.begin(request.name, self._host, self.clock)
            work = self._bounded(request, read, watch)
            return await (work if watch is None else watch.over(work))
        except IncomeClientError as error:
            failure = error.again()
        except asyncio.CancelledError as cancelled:
            # Its frames hold the header of the request that it ended.
            cancelled.__context__ = None
            raise cancelled.with_traceback(None) from None
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
        """Return a view with other timeouts, as far as they are given, or another retry policy.

        Raises:
            ConfigurationError: an argument is of another type.
        """
        view = copy.copy(self)
        if timeouts is not None:
            given = _checked("timeouts", Timeouts, timeouts)
            view.timeouts = merged(given, self.timeouts)
            view._deadlines = Deadlines(view.timeouts.deadline)  # noqa: SLF001 - a Self
        if retry is not None:
            policy = _checked("retry", RetryPolicy, retry)
            view._retrier = self._retrier.with_policy(policy)  # noqa: SLF001 - a Self
        return view

    async def aclose(self) -> None:
        """Close the connections opened here and end a token request; again does nothing.

        Raises:
            ClientClosedError: the connections belong to another event loop.
        """
        try:
            await self.transport.aclose()
        finally:
            # Not so when it refused: then the token request is another loop's as well.
            if self.transport.is_closed and isinstance(self.credentials, TokenCache):
                await self.credentials.aclose()

    async def _bounded(self, request: Request, read: Read[T], watch: CallWatch | None) -> T:
        seconds = self._deadlines.seconds
        deadline_at = self.clock.monotonic() + seconds
        call = _Call(self, request, read, deadline_at=deadline_at, watch=watch)
        with self._deadlines.begin():
            try:
                return await self._retrier.run(
                    call.attempt,
                    deadline_at=deadline_at,
                    gate=self.gate,
                    on_retry=None if watch is None else watch.retried,
                )
            except IncomeClientError as error:
                # A token request has counted its own.
                error.attempts = error.attempts or call.sent
                raise
        # Only a deadline that has passed ends the block without a result.
        message = f"{label(request)}: not done within {seconds:g} s"
        raise DeadlineExceededError(message, attempts=call.sent)


class _Call(Generic[T]):
    """One call: waits for the gate, the token, a slot and its turn, and sends its attempts."""

    def __init__(
        self,
        session: SessionManager,
        request: Request,
        read: Read[T],
        *,
        deadline_at: float,
        watch: CallWatch | None,
    ) -> None:
        self._session = session
        self._request = request
        self._read = read
        self._deadline_at = deadline_at
        self._watch = watch
        self._token: Token | None = None
        self._refusal: AuthenticationError | None = None
        self._has_repeated = False
        self.sent: int = 0

    async def attempt(self) -> T:
        """Make one attempt; the first token that is refused is replaced on the way.

        The repetition that follows a refused token keeps its slot: if it queued again, the calls
        ahead of it could use up the new token before its turn came.
        """
        session = self._session
        while True:
            # Without a slot: a call that cannot wait so long fails at once.
            if self._authorization() is None:
                await self._wait_until_ready()
            await session.slots.acquire()
            try:
                # The gate may have been closed while this call waited for its slot.
                if session.gate.remaining(session.clock.monotonic()) > 0:
                    continue
                try:
                    return await self._send(ahead=False)
                except AuthenticationError as refusal:
                    if not self._replaces_token(refusal):
                        raise
                return await self._send(ahead=True)
            finally:
                session.slots.release()

    def _replaces_token(self, refusal: AuthenticationError) -> bool:
        tokens = self._session.credentials
        if isinstance(tokens, Secret) or self._token is None or self._has_repeated:
            return False
        self._has_repeated = True
        self._refusal = refusal
        tokens.invalidate(self._token)
        return True

    def _authorization(self) -> Secret | None:
        """Return the header to send, None while the gate or the token has to be waited for."""
        session = self._session
        if session.gate.remaining(session.clock.monotonic()) > 0:
            return None
        if isinstance(session.credentials, Secret):
            return session.credentials
        self._token = session.credentials.current()
        return None if self._token is None else self._token.authorization

    async def _wait_until_ready(self) -> Secret:
        """Wait for the gate and the token; return the header to send."""
        session = self._session
        tokens = session.credentials
        while True:
            pause = await wait_for_gate(session.gate, session.clock, deadline_at=self._deadline_at)
            if pause is not None:
                message = f"{label(self._request)}: not sent, the service asked all for a pause"
                raise FinalError(RateLimitedError(message, retry_after=pause))
            if isinstance(tokens, Secret):
                return tokens
            try:
                # The token request has its own retries, and needs no slot.
                token = tokens.current() or await tokens.get(self._deadline_at)
            except IncomeClientError as error:
                raise FinalError(error) from None
            # Sent even if it expired on its way here: the next one would be no better.
            self._token = token
            if session.gate.remaining(session.clock.monotonic()) == 0:
                return token.authorization

    async def _wait_for_turn(self, pacer: Pacer, *, ahead: bool) -> Secret:
        """Queue for the gate, the token and the rate; return the header to send."""
        clock = self._session.clock
        pacer.join(self, ahead=ahead)
        try:
            ready_at = clock.monotonic()
            while True:
                ready = self._authorization()
                if ready is None:
                    ready = await self._wait_until_ready()
                    ready_at = clock.monotonic()
                now = clock.monotonic()
                turn_at = pacer.turn_of(self, ready_at)
                if turn_at <= now:
                    pacer.take(ready_at, now)
                    return ready
                if turn_at >= self._deadline_at:
                    message = "not sent, its turn at max_rate comes after its deadline"
                    message = f"{label(self._request)}: {message}"
                    raise FinalError(DeadlineExceededError(message))
                await clock.sleep(turn_at - now)
        finally:
            pacer.leave(self)

    async def _send(self, *, ahead: bool) -> T:
        """Send once the gate is open, there is a token, and the rate allows it."""
        session = self._session
        if session.pacer is not None:
            authorization = await self._wait_for_turn(session.pacer, ahead=ahead)
        else:
            authorization = self._authorization() or await self._wait_until_ready()
        self.sent += 1
        started_at = session.clock.monotonic()
        if self._watch is not None:
            # Before, it was not known whether there would be a token to repeat it with.
            refusal, self._refusal = self._refusal, None
            if refusal is not None:
                self._watch.retried(refusal, 0.0)
            self._watch.sent()
        response: Response | None = None
        try:
            response = await session.transport.send(self._request, authorization, session.timeouts)
            result = self._read(response)
            if isinstance(result, IncomeClientError):
                raise result
        except IncomeClientError as error:
            if response is None:
                self._report(started_at, error.status, type(error).__name__, error)
            else:
                response.discard()
                self._report(started_at, response.status, response.status, error)
            raise
        self._report(started_at, response.status, response.status, result)
        return result

    def _report(
        self, started_at: float, status: int | None, shown: int | str, outcome: object
    ) -> None:
        """Report how a request ended, to the listeners and the log."""
        if self._watch is not None:
            self._watch.answered(status, outcome)
        if _LOGGER.isEnabledFor(logging.DEBUG):
            facts = {
                "call": self._request.name,
                "application_id": self._request.subject,
                "status": status,
                "attempt": self.sent,
                "duration": self._session.clock.monotonic() - started_at,
            }
            _LOGGER.debug("%s: %s", label(self._request), shown, extra=facts)


def _credentials(auth: object) -> Auth:
    if isinstance(auth, Auth):
        return auth
    kind = type(auth).__name__
    del auth
    raise ConfigurationError(f"auth must be BasicAuth or OAuth2ClientCredentials, found {kind}")


def _store(store: TokenStore | None) -> TokenStore | None:
    has_both = all(callable(getattr(store, name, None)) for name in ("load", "save"))
    if store is not None and not has_both:
        raise ConfigurationError("token_store must have load and save")
    return store


def _checked(name: str, cls: type[T], value: Any, default: T | None = None) -> T:
    if value is None and default is not None:
        return default
    if not isinstance(value, cls):
        raise ConfigurationError(f"{name} must be a {cls.__name__}")
    return value
