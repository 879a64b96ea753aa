"""One call to the service: authorised, paced, retried and bound by one deadline.

Knows the order of these things and nothing of what is asked or read: a
`Request` goes in together with the function that reads its reply. Failures
travel as values up to `SessionManager.call`, which holds neither a reply nor a
header when it raises one.
"""

import asyncio
import copy
import random
import ssl as tls
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from income_client.clock import Clock, SystemClock
from income_client.errors import ConfigurationError, DeadlineExceededError, IncomeClientError
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

from .addresses import addresses, check_route, host_of, proxy_address
from .attempt import Call, Shared
from .deadlines import Deadlines
from .messages import Request, Response
from .pacing import Gate, Pacer
from .replies import label
from .retry import Chance, Retrier, RetryBudget
from .token_cache import TokenCache, TokenStore
from .token_endpoint import TokenEndpoint
from .transport import BorrowedSession, TraceConfig, Transport

T = TypeVar("T")
Auth = BasicAuth | OAuth2ClientCredentials


class SessionManager:
    """Makes calls for one set of credentials.

    Args:
        base_url: where the API is; https, or http to loopback.
        auth: user name and password, or client id and secret.
        auth_url: where the token endpoint is; the origin of ``base_url`` by default.
        session: a caller's aiohttp session: its connections are used, it is never closed.
        timeouts: how long things may take.
        retry: when a failed request is made again.
        concurrency: most API requests at a time.
        max_rate: most API requests a second, evenly spaced; None for as they come.
        token_store: shares the token with other processes.
        max_response_bytes: longest body that is read, decompressed.
        user_agent: in place of the package's own.
        proxy: address of an HTTP proxy; on this machine if an address is http.
        ssl: in place of the default TLS context.
        trace_configs: aiohttp's trace hooks.
        on_event: called with what happens.
        telemetry: whether OpenTelemetry is told, where it is set up.
        clock: measures and sleeps; tests put in one that jumps.
        chance: the jitter's source, from 0 to 1.

    Attributes:
        timeouts: how long things may take.
        concurrency: most API requests at a time.

    Raises:
        ConfigurationError: an argument cannot be meant.
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
        self._deadlines = Deadlines(self.timeouts.deadline)
        policy = _checked("retry", RetryPolicy, retry, RetryPolicy())
        clock = SystemClock() if clock is None else clock
        self._host = host_of(found.api)
        instrumentation = Instrumentation(on_event, telemetry=telemetry)
        self._retrier = Retrier(policy, RetryBudget(policy.budget), clock, chance=chance)
        transport = Transport(
            found,
            session=session,
            max_response_bytes=max_response_bytes,
            user_agent=user_agent,
            proxy=route,
            tls=ssl,
            trace_configs=trace_configs,
        )
        if isinstance(credentials, BasicAuth):
            if token_store is not None:
                raise ConfigurationError("token_store is for OAuth2ClientCredentials")
            authorized: Secret | TokenCache = credentials.authorization()
        else:
            endpoint = TokenEndpoint(
                credentials,
                transport,
                self._retrier,
                self.timeouts,
                clock,
                instrumentation=instrumentation,
                host=host_of(found.token),
            )
            authorized = TokenCache(
                endpoint.buy,
                clock,
                gate=endpoint.gate,
                instrumentation=instrumentation,
                store=_store(token_store),
                load_seconds=self.timeouts.deadline / 4,
            )
        self._shared = Shared(
            transport=transport,
            credentials=authorized,
            slots=asyncio.Semaphore(self.concurrency),
            gate=Gate(),
            pacer=None if max_rate is None else Pacer(check_positive("max_rate", max_rate)),
            clock=clock,
            instrumentation=instrumentation,
        )

    @property
    def instrumentation(self) -> Instrumentation:
        """Who is told of what happens."""
        return self._shared.instrumentation

    async def call(
        self,
        request: Request,
        read: Callable[[Response], T | IncomeClientError],
    ) -> T:
        """Send a request until a reply is read, the policy says no, or the deadline passes.

        Args:
            request: what to ask.
            read: makes the result of a reply, or the error that stands for it;
                raises nothing, since what it holds is private.

        Returns:
            What ``read`` made.

        Raises:
            IncomeClientError: the last failure, with ``attempts`` filled in.
        """
        try:
            outcome = await self._outcome(request, read)
        except asyncio.CancelledError as cancelled:
            # Its frames hold the header of the request that it ended.
            raise cancelled.with_traceback(None) from None
        if not isinstance(outcome, IncomeClientError):
            return outcome
        try:
            raise outcome
        finally:
            del outcome

    def with_options(
        self,
        *,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
    ) -> Self:
        """Return a view with other limits: same connections, token, slots, gate and budget.

        Args:
            timeouts: those that are given in it, in place of this one's.
            retry: in place of this one's; the size of the budget stays.

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
        shared = self._shared
        try:
            await shared.transport.aclose()
        finally:
            # Not so when it refused: then the token request is another loop's as well.
            if shared.transport.is_closed and isinstance(shared.credentials, TokenCache):
                await shared.credentials.aclose()

    async def _outcome(
        self,
        request: Request,
        read: Callable[[Response], T | IncomeClientError],
    ) -> T | IncomeClientError:
        shared = self._shared
        refused = shared.transport.refusal()
        if refused is not None:
            return refused
        watch = shared.instrumentation.begin(request.name, self._host, shared.clock)
        work = self._by_deadline(request, read, watch)
        return await (work if watch is None else watch.over(work))

    async def _by_deadline(
        self,
        request: Request,
        read: Callable[[Response], T | IncomeClientError],
        watch: CallWatch | None,
    ) -> T | IncomeClientError:
        shared = self._shared
        seconds = self._deadlines.seconds
        deadline_at = shared.clock.monotonic() + seconds
        call = Call(
            shared,
            request,
            read,
            timeouts=self.timeouts,
            deadline_at=deadline_at,
            watch=watch,
        )
        outcome: T | IncomeClientError
        with self._deadlines.begin() as deadline:
            outcome = await self._retrier.run(
                call.attempt,
                deadline_at=deadline_at,
                gate=shared.gate,
                on_retry=None if watch is None else watch.retried,
            )
        if deadline.has_passed:
            outcome = DeadlineExceededError(f"{label(request)}: not done within {seconds:g} s")
        if isinstance(outcome, IncomeClientError):
            # The purchase of a token counted its own.
            outcome.attempts = outcome.attempts or call.sent
        return outcome


def _credentials(auth: object) -> Auth:
    if isinstance(auth, Auth):
        return auth
    kind = type(auth).__name__
    del auth
    raise ConfigurationError(f"auth must be BasicAuth or OAuth2ClientCredentials, found {kind}")


def _store(store: TokenStore | None) -> TokenStore | None:
    has_both = all(callable(getattr(store, name, None)) for name in ("load", "save"))
    if store is not None and not has_both:
        raise ConfigurationError("token_store has no load and save")
    return store


def _checked(name: str, cls: type[T], value: Any, default: T | None = None) -> T:
    if value is None and default is not None:
        return default
    if not isinstance(value, cls):
        raise ConfigurationError(f"{name} is no {cls.__name__}")
    return value
