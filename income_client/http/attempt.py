"""One attempt of one call: the gate, the token, a slot, the pace, the request, its reply.

Knows what calls share and what a single one has used up. Whether there is
another attempt, and when, is not decided here; only the one repetition that
follows a refused token is, since it costs neither a pause nor an attempt. It
keeps its slot: if it queued again, the calls ahead of it could use up the new
token before its turn came.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from attrs import frozen

from income_client.clock import Clock
from income_client.errors import (
    AuthenticationError,
    DeadlineExceededError,
    IncomeClientError,
    RateLimitedError,
)
from income_client.instrumentation import CallWatch, Instrumentation
from income_client.settings import Secret, Timeouts

from .messages import Request, Response
from .pacing import Gate, Pacer
from .replies import label
from .retry import Settled, pause_at
from .token_cache import TokenCache
from .tokens import Token
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
    instrumentation: Instrumentation
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
        shared = self._shared
        while True:
            # Without a slot: a call that cannot wait so long fails at once.
            ready = self._authorization() or await self._wait_until_ready()
            if isinstance(ready, IncomeClientError):
                return Settled(error=ready)
            await shared.slots.acquire()
            try:
                # The gate may have been closed while this call waited for its slot.
                if shared.gate.remaining(shared.clock.monotonic()) == 0:
                    return await self._in_slot()
            finally:
                shared.slots.release()

    async def _in_slot(self) -> T | Settled | IncomeClientError:
        outcome = await self._send_in_turn(ahead=False)
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
            return await self._send_in_turn(ahead=True)
        return outcome

    def _authorization(self) -> Secret | None:
        """Return the header to send, None while the gate or the token has to be waited for."""
        shared = self._shared
        if shared.gate.remaining(shared.clock.monotonic()) > 0:
            return None
        if isinstance(shared.credentials, Secret):
            return shared.credentials
        self._token = shared.credentials.current()
        return None if self._token is None else self._token.authorization

    async def _wait_until_ready(self) -> Secret | IncomeClientError:
        """Wait for the gate and the token; return the header to send."""
        shared = self._shared
        tokens = shared.credentials
        while True:
            pause = await pause_at(shared.gate, shared.clock, deadline_at=self._deadline_at)
            if pause is not None:
                return RateLimitedError(
                    f"{label(self._request)}: not sent, the service asked all for a pause",
                    retry_after=pause,
                )
            if isinstance(tokens, Secret):
                return tokens
            # The token request has its own retries, and needs no slot.
            token = tokens.current() or await tokens.get(self._deadline_at)
            if isinstance(token, IncomeClientError):
                return token
            # Sent even if it expired on its way here: the next one would be no better.
            self._token = token
            if shared.gate.remaining(shared.clock.monotonic()) == 0:
                return token.authorization

    async def _wait_for_turn(self, pacer: Pacer, *, ahead: bool) -> Secret | IncomeClientError:
        """Wait in line for the gate, the token and the rate; return the header to send."""
        clock = self._shared.clock
        pacer.join(self, ahead=ahead)
        try:
            ready_at = clock.monotonic()
            while True:
                ready = self._authorization()
                if ready is None:
                    waited = await self._wait_until_ready()
                    if isinstance(waited, IncomeClientError):
                        return waited
                    ready, ready_at = waited, clock.monotonic()
                now = clock.monotonic()
                turn_at = pacer.turn_of(self, ready_at)
                if turn_at <= now:
                    pacer.take(ready_at, now)
                    return ready
                if turn_at >= self._deadline_at:
                    return DeadlineExceededError(
                        f"{label(self._request)}: not sent, "
                        "its turn at max_rate comes after its deadline",
                    )
                await clock.sleep(turn_at - now)
        finally:
            pacer.leave(self)

    async def _send_in_turn(self, *, ahead: bool) -> T | Settled | IncomeClientError:
        """Send once the gate is open, there is a token, and the rate allows it."""
        shared = self._shared
        if shared.pacer is not None:
            ready = await self._wait_for_turn(shared.pacer, ahead=ahead)
        else:
            ready = self._authorization() or await self._wait_until_ready()
        if isinstance(ready, IncomeClientError):
            return Settled(error=ready)
        self.sent += 1
        started_at = shared.clock.monotonic()
        watch = self._watch
        if watch is not None:
            # Before, it was not known whether there would be a token to repeat it with.
            refusal, self._refusal = self._refusal, None
            if refusal is not None:
                watch.retried(refusal, 0.0)
            watch.sent()
        reply = await shared.transport.send(self._request, ready, self._timeouts)
        outcome = self._read(reply) if isinstance(reply, Response) else reply
        if isinstance(outcome, IncomeClientError) and isinstance(reply, Response):
            reply.discard()
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
