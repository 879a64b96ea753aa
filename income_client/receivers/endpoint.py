"""What a web framework's adapter sees of an endpoint: a head and chunks in, an answer out."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterable
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias

from income_client.errors import ConfigurationError
from income_client.protocol.callbacks.exchange import Answer, RequestHead, answer
from income_client.protocol.callbacks.issuer import MAX_FORM_BYTES, CallbackTokenIssuer
from income_client.protocol.callbacks.refusals import Refusal

from .status import QuietLog

_FORM_SECONDS: Final = 10.0
_NONCE_BYTES: Final = 16


Body: TypeAlias = bytes | bytearray | AsyncIterable[bytes]
"""The body of a request: the whole of it, or chunks as they come."""


class BodyCutError(Exception):
    """The connection ended before the body did; raised by an adapter's chunks."""


class Endpoint(Protocol):
    """Answers requests; reads as much of their bodies as it wants."""

    async def answer(self, head: RequestHead, body: Body) -> Answer:
        """Answer a request; raises nothing but cancellation.

        Args:
            head: what came before the body.
            body: the whole of it where it has come, else chunks that raise if it ends early.
        """
        ...


async def read_body(body: Body, *, max_bytes: int, seconds: float) -> bytes | Refusal:
    """Read a body to its end, or say why not.

    Args:
        body: the whole of it, or chunks as they come.
        max_bytes: the longest that is read.
        seconds: how long it may take.
    """
    if isinstance(body, bytes | bytearray):
        return bytes(body) if len(body) <= max_bytes else Refusal.TOO_LARGE
    read = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in body:
                read += chunk
                if len(read) > max_bytes:
                    return Refusal.TOO_LARGE
    except TimeoutError:
        return Refusal.TOO_SLOW
    except Exception:  # noqa: BLE001 - whatever a server raises, the body has not come
        return Refusal.CUT_SHORT
    return bytes(read)


class TokenEndpoint:
    """The token endpoint of a `CallbackTokenIssuer`.

    Args:
        issuer: who decides.
    """

    def __init__(self, issuer: CallbackTokenIssuer) -> None:
        self._issuer = issuer
        self._log = QuietLog()

    async def answer(self, head: RequestHead, body: Body) -> Answer:
        """Sell a token, or say why not."""
        form = await read_body(body, max_bytes=MAX_FORM_BYTES, seconds=_FORM_SECONDS)
        if isinstance(form, Refusal):
            return answer(form.status, Connection="close")
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sold = self._issuer.answer(head, form, now=time.time(), nonce=nonce)
        if sold.status != HTTPStatus.OK:
            self._log.warn(
                f"token request refused with {sold.status:d}",
                reason=f"token_request_{sold.status:d}",
                peer=head.peer,
                now=time.monotonic(),
            )
        return sold


def endpoint_of(served: Endpoint | CallbackTokenIssuer) -> Endpoint:
    """Return what answers the requests to a receiver or to an issuer's token address.

    Raises:
        ConfigurationError: it is neither.
    """
    if isinstance(served, CallbackTokenIssuer):
        return TokenEndpoint(served)
    if not callable(getattr(served, "answer", None)):
        raise ConfigurationError("a CallbackReceiver or a CallbackTokenIssuer is meant here")
    return served
