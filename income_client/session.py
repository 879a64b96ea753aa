"""One call to the service: authorised, paced, retried and bound by one deadline.

Knows the order of these things and nothing of what is asked or read: a
`Request` goes in together with the function that reads its reply. Failures
travel as values up to `SessionManager.call`, which holds neither a reply nor a
header when it raises one.
"""

import asyncio
import copy
import math
import random
import ssl as tls
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from .attempt import Call, Shared
from .clock import Clock, SystemClock
from .deadlines import Deadlines
from .errors import ConfigurationError, DeadlineExceededError, IncomeClientError
from .pacing import Gate, Pacer
from .protocol.addresses import addresses
from .protocol.messages import Request, Response
from .protocol.replies import label
from .retrying import Chance, Retrier, RetryBudget
from .settings import BasicAuth, OAuth2ClientCredentials, RetryPolicy, Secret, Timeouts
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
        proxy: address of an HTTP proxy.
        ssl: in place of the default TLS context.
        trace_configs: aiohttp's trace hooks.
        clock: measures and sleeps; tests put in one that jumps.
        chance: the jitter's source, from 0 to 1.

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
        clock: Clock | None = None,
        chance: Chance = random.random,
    ) -> None:
        self._timeouts = _checked("timeouts", Timeouts, timeouts or Timeouts())
        self._deadlines = Deadlines(self._timeouts.deadline)
        policy = _checked("retry", RetryPolicy, retry or RetryPolicy())
        clock = clock or SystemClock()
        self._retrier = Retrier(policy, RetryBudget(policy.budget), clock, chance=chance)
        transport = Transport(
            addresses(base_url, auth_url),
            session=session,
            max_response_bytes=max_response_bytes,
            user_agent=user_agent,
            proxy=proxy,
            tls=ssl,
            trace_configs=trace_configs,
        )
        if isinstance(auth, BasicAuth):
            if token_store is not None:
                raise ConfigurationError("token_store is for OAuth2ClientCredentials")
            credentials: Secret | TokenCache = auth.authorization()
        else:
            auth = _checked("auth", OAuth2ClientCredentials, auth)
            endpoint = TokenEndpoint(auth, transport, self._retrier, self._timeouts, clock)
            credentials = TokenCache(endpoint.buy, clock, store=token_store)
        self._shared = Shared(
            transport=transport,
            credentials=credentials,
            slots=asyncio.Semaphore(_counted("concurrency", concurrency)),
            gate=Gate(),
            pacer=None if max_rate is None else Pacer(_positive("max_rate", max_rate)),
            clock=clock,
        )

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
            timeouts: in place of this one's.
            retry: in place of this one's; the size of the budget stays.

        Raises:
            ConfigurationError: an argument is of another type.
        """
        view = copy.copy(self)
        if timeouts is not None:
            view._timeouts = _checked("timeouts", Timeouts, timeouts)  # noqa: SLF001 - a Self
            view._deadlines = Deadlines(timeouts.deadline)  # noqa: SLF001 - a Self
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
        await shared.transport.aclose()
        if isinstance(shared.credentials, TokenCache):
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
        seconds = self._deadlines.seconds
        deadline_at = shared.clock.monotonic() + seconds
        call = Call(shared, request, read, timeouts=self._timeouts, deadline_at=deadline_at)
        outcome: T | IncomeClientError
        with self._deadlines.begin() as deadline:
            outcome = await self._retrier.run(
                call.attempt,
                deadline_at=deadline_at,
                gate=shared.gate,
            )
        if deadline.has_passed:
            outcome = DeadlineExceededError(f"{label(request)}: not done within {seconds:g} s")
        if isinstance(outcome, IncomeClientError):
            outcome.attempts = call.sent
        return outcome


def _checked(name: str, cls: type[T], value: Any) -> T:
    if not isinstance(value, cls):
        raise ConfigurationError(f"{name} is no {cls.__name__}")
    return value


def _counted(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"{name} is a whole number, 1 or more")
    return value


def _positive(name: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type,operator]
        raise ConfigurationError(f"{name} is a finite number above 0")
    return float(value)  # type: ignore[arg-type]
