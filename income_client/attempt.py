"""One attempt of one call: the gate, the token, a slot, the pace, the request, its reply.

Knows what calls share and what a single one has used up. Whether there is
another attempt, and when, is not decided here; only the one repetition that
follows a refused token is, since it costs neither a pause nor an attempt.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from attrs import frozen

from .audience import Audience, CallWatch
from .clock import Clock
from .errors import (
    AuthenticationError,
    DeadlineExceededError,
    IncomeClientError,
    RateLimitedError,
)
from .pacing import Gate, Pacer
from .protocol.messages import Request, Response
from .protocol.replies import label
from .protocol.tokens import Token
from .retrying import Settled, pause_at
from .settings import Secret, Timeouts
from .token_cache import TokenCache
from .transport import Transport

T = TypeVar("T")

_LOGGER: Final = logging.getLogger("income_client.session")


@frozen(kw_only=True)
class Shared:
    """What all calls of a client have in common."""

    transport: Transport
    """Sends their requests."""
    credentials: Secret | TokenCache
    """The Authorization header itself, or where its token comes from."""
    slots: asyncio.Semaphore
    """As many as requests may be in flight; free during pauses."""
    gate: Gate
    """Closed by a 429."""
    pacer: Pacer | None
    """Spaces the requests, where a rate is set."""
    clock: Clock
    """Measures and sleeps."""
    audience: Audience
    """Is told of them."""


class Call(Generic[T]):
    """The state of one call.

    Args:
        shared: what it has in common with others.
        request: what to ask.
        read: makes the result, or the error, of a reply.
        timeouts: limits of the connection.
        deadline_at: the moment of the clock at which it ends.
        watch: tells of it, where somebody listens.

    Attributes:
        sent: API requests so far.
    """

    __slots__ = (
        "_deadline_at",
        "_has_repeated",
        "_read",
        "_refusal",
        "_request",
        "_shared",
        "_timeouts",
        "_token",
        "_watch",
        "sent",
    )

    def __init__(
        self,
        shared: Shared,
        request: Request,
        read: Callable[[Response], T | IncomeClientError],
        *,
        timeouts: Timeouts,
        deadline_at: float,
        watch: CallWatch | None,
    ) -> None:
        self._shared = shared
        self._request = request
        self._read = read
        self._timeouts = timeouts
        self._deadline_at = deadline_at
        self._watch = watch
        self._token: Token | None = None
        self._has_repeated = False
        self._refusal: AuthenticationError | None = None
        self.sent: int = 0

    async def attempt(self) -> T | Settled | IncomeClientError:
        """Make one attempt; the first token that is refused is replaced on the way."""
        outcome = await self._admitted()
        tokens = self._shared.credentials
        if (
            isinstance(outcome, AuthenticationError)
            and isinstance(tokens, TokenCache)
            and self._token is not None
            and not self._has_repeated
        ):
            self._has_repeated = True
            self._refusal = outcome
            tokens.invalidate(self._token)
            return await self._admitted()
        return outcome

    async def _admitted(self) -> T | Settled | IncomeClientError:
        """Send once gate, token, slot and pace allow it."""
        shared = self._shared
        while True:
            if not self._is_free_to_go():
                refused = await self._wait_outside()
                if refused is not None:
                    return Settled(error=refused)
            await shared.slots.acquire()
            try:
                if shared.pacer is not None and not await self._wait_for_turn(shared.pacer):
                    return Settled(error=self._too_late())
                # It may have been closed while this call waited for its slot or turn.
                if shared.gate.remaining(shared.clock.monotonic()) == 0:
                    return await self._send()
            finally:
                shared.slots.release()

    def _is_free_to_go(self) -> bool:
        """Tell whether neither the gate nor the token has to be waited for."""
        shared = self._shared
        if shared.gate.remaining(shared.clock.monotonic()) > 0:
            return False
        return isinstance(shared.credentials, Secret) or shared.credentials.current() is not None

    async def _wait_outside(self) -> IncomeClientError | None:
        """Wait, without a slot, for the gate and the token; return what keeps this call out."""
        shared = self._shared
        pause = await pause_at(shared.gate, shared.clock, deadline_at=self._deadline_at)
        if pause is not None:
            return RateLimitedError(
                f"{label(self._request)}: not sent, the service asked all for a pause",
                retry_after=pause,
            )
        tokens = shared.credentials
        if isinstance(tokens, Secret) or tokens.current() is not None:
            return None
        # The purchase had its own retries.
        token = await tokens.get(self._deadline_at)
        return token if isinstance(token, IncomeClientError) else None

    async def _wait_for_turn(self, pacer: Pacer) -> bool:
        clock = self._shared.clock
        seconds = pacer.reserve(clock.monotonic(), latest=self._deadline_at)
        if seconds is None:
            return False
        if seconds > 0:
            await clock.sleep(seconds)
        return True

    def _too_late(self) -> DeadlineExceededError:
        return DeadlineExceededError(
            f"{label(self._request)}: not sent, its turn at max_rate comes after its deadline",
        )

    async def _send(self) -> T | Settled | IncomeClientError:
        shared = self._shared
        credentials = shared.credentials
        if isinstance(credentials, Secret):
            authorization = credentials
        else:
            # It may have ended while this call waited for its slot or turn.
            token = credentials.current() or await credentials.get(self._deadline_at)
            if isinstance(token, IncomeClientError):
                return Settled(error=token)
            self._token = token
            authorization = token.authorization
        self.sent += 1
        started_at = shared.clock.monotonic()
        watch = self._watch
        if watch is not None:
            # Before, it was not known whether there would be a token to repeat it with.
            refusal, self._refusal = self._refusal, None
            if refusal is not None:
                watch.retried(refusal, 0.0)
            watch.sent()
        reply = await shared.transport.send(self._request, authorization, self._timeouts)
        outcome = self._read(reply) if isinstance(reply, Response) else reply
        if watch is not None:
            watch.answered(reply.status, outcome)
        if _LOGGER.isEnabledFor(logging.DEBUG):
            self._log(reply, shared.clock.monotonic() - started_at)
        return outcome

    def _log(self, reply: Response | IncomeClientError, duration: float) -> None:
        is_reply = isinstance(reply, Response)
        _LOGGER.debug(
            "%s: %s",
            label(self._request),
            reply.status if is_reply else type(reply).__name__,
            extra={
                "call": self._request.name,
                "application_id": self._request.subject,
                "status": reply.status,
                "attempt": self.sent,
                "duration": duration,
            },
        )
