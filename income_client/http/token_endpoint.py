"""Buys access tokens: the token request, retried under a deadline of its own.

Knows nothing of who waits for the token or how long it is kept.
"""

import asyncio

from income_client.clock import Clock
from income_client.errors import (
    DeadlineExceededError,
    IncomeClientError,
    TokenError,
    UnexpectedResponseError,
)
from income_client.instrumentation import CallWatch, Instrumentation
from income_client.settings import OAuth2ClientCredentials, Timeouts

from .endpoints import token_request
from .messages import Response
from .pacing import Gate
from .replies import label
from .retry import Retrier
from .tokens import Token, read_token
from .transport import Transport


class TokenEndpoint:
    """The service's token endpoint (contract section 5.1).

    Args:
        credentials: what tokens are bought with.
        transport: sends the request.
        retrier: shares its budget with the calls, not their count.
        timeouts: the deadline bounds one purchase, pauses included.
        clock: tells when a request was sent.
        instrumentation: told of the purchases.
        host: of the endpoint, for its sake.

    Attributes:
        gate: closed by a 429 for as long as the endpoint wants peace; no
            purchase may begin before it is open.
    """

    def __init__(
        self,
        credentials: OAuth2ClientCredentials,
        transport: Transport,
        retrier: Retrier,
        timeouts: Timeouts,
        clock: Clock,
        *,
        instrumentation: Instrumentation,
        host: str | None,
    ) -> None:
        self._authorization = credentials.authorization()
        self._transport = transport
        self._retrier = retrier
        self._timeouts = timeouts
        self._clock = clock
        self._instrumentation = instrumentation
        self._host = host
        self.gate: Gate = Gate()

    async def buy(self) -> Token | IncomeClientError:
        """Ask for a token until one comes or the policy says no.

        Returns:
            The token, or the error with the number of requests in ``attempts``.
        """
        name = token_request().name
        watch = self._instrumentation.begin(name, self._host, self._clock)
        work = self._by_deadline(watch)
        return await (work if watch is None else watch.over(work))

    async def _by_deadline(self, watch: CallWatch | None) -> Token | IncomeClientError:
        deadline = self._timeouts.deadline
        sent = 0

        async def ask() -> Token | IncomeClientError:
            nonlocal sent
            sent += 1
            return await self._ask(watch)

        outcome: Token | IncomeClientError
        try:
            async with asyncio.timeout(deadline):
                outcome = await self._retrier.run(
                    ask,
                    deadline_at=self._clock.monotonic() + deadline,
                    gate=self.gate,
                    on_retry=None if watch is None else watch.retried,
                )
        except TimeoutError:
            outcome = DeadlineExceededError(f"{label(token_request())}: no token in {deadline:g} s")
        if isinstance(outcome, IncomeClientError):
            outcome.attempts = sent
        return outcome

    async def _ask(self, watch: CallWatch | None) -> Token | IncomeClientError:
        sent_at = self._clock.monotonic()
        if watch is not None:
            watch.sent()
        reply = await self._transport.send(token_request(), self._authorization, self._timeouts)
        outcome: Token | IncomeClientError
        match reply:
            case Response():
                outcome = read_token(reply, sent_at=sent_at)
                if isinstance(outcome, IncomeClientError):
                    reply.discard()
            case UnexpectedResponseError(message=message):
                # A reply came, and was too long to be a token.
                outcome = TokenError(
                    message,
                    status=reply.status,
                    retry_after=reply.retry_after,
                    request_id=reply.request_id,
                )
            case _:
                outcome = reply
        if watch is not None:
            watch.answered(reply.status, outcome)
        return outcome
