"""Shared code of the adapters to web servers: a request's body, its connection, the endpoints."""

import asyncio
import secrets
import ssl
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterable
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias

from income_client.errors import ConfigurationError
from income_client.system.logs import GuardedLogger

from .exchange import (
    UNIX_PEER,
    Answer,
    Refusal,
    RefusedError,
    RequestHead,
    check_framing,
    make_answer,
)
from .issuer import MAX_FORM_BYTES, CallbackTokenIssuer

PEER_EXTENSION: Final = "income_client.connection"
"""Key of an ASGI scope's extensions for the peer that `peer_of` read before any middleware ran.
"""

logger: Final = GuardedLogger("income_client.receivers")

_FORM_SECONDS: Final = 10.0
_NONCE_BYTES: Final = 16
_QUIET_SECONDS: Final = 60.0

Body: TypeAlias = bytes | bytearray | AsyncIterable[bytes]
"""The body of a request: bytes, or an asynchronous iterator of chunks."""


class TimeSource(Protocol):
    """The module ``time``, or its replacement in a test."""

    def time(self) -> float:
        """Return seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        ...


class BodyCutError(Exception):
    """The connection ended before the body did; raised by an adapter's chunks."""


class Endpoint(Protocol):
    """Answers requests, and reads as much of their bodies as it needs."""

    async def answer(self, head: RequestHead, body: Body) -> Answer:
        """Answer a request; raises nothing but cancellation."""
        ...


async def read_body(body: Body, *, max_bytes: int, seconds: float) -> bytes:
    """Read a body to its end, within a limit of bytes and of seconds."""
    if isinstance(body, bytes | bytearray):
        if len(body) > max_bytes:
            raise RefusedError(Refusal.TOO_LARGE)
        return bytes(body)
    read = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in body:
                read += chunk
                if len(read) > max_bytes:
                    raise RefusedError(Refusal.TOO_LARGE)  # noqa: TRY301 - ends the reading
    except RefusedError:
        raise
    except TimeoutError:
        raise RefusedError(Refusal.TOO_SLOW) from None
    except Exception:  # noqa: BLE001 - whatever a server raises, the body has not come
        raise RefusedError(Refusal.CUT_SHORT) from None
    return bytes(read)


def is_cancelled() -> bool:
    """Return whether the running task is being cancelled.

    If not, the `asyncio.CancelledError` at hand comes from something that it waited for.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def place_of(error: BaseException) -> str:
    """Return the class of an error and the line that raised it, without its text."""
    where = traceback.extract_tb(error.__traceback__, limit=-1)
    place = f" in {where[-1].filename}:{where[-1].lineno}" if where else ""
    return f"{type(error).__name__}{place}"


class QuietLog:
    """Logs one line a minute for each reason, since anyone can cause many."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}
        self._unsaid: Counter[str] = Counter()

    def warn(self, text: str, *, reason: str, peer: str | None, now: float) -> None:
        """Log a line, or count a suppressed one; ``now`` is in monotonic seconds."""
        if now - self._logged_at.get(reason, -_QUIET_SECONDS) < _QUIET_SECONDS:
            self._unsaid[reason] += 1
            return
        self._logged_at[reason] = now
        facts = {"reason": reason, "peer": peer, "unsaid": self._unsaid.pop(reason, 0)}
        logger.warning("%s", text, extra=facts)


class _TokenEndpoint:
    """The token endpoint of a `CallbackTokenIssuer`."""

    def __init__(self, issuer: CallbackTokenIssuer) -> None:
        self._issuer = issuer
        self._log = QuietLog()

    async def answer(self, head: RequestHead, body: Body) -> Answer:
        """Answer a token request with a token or an error."""
        try:
            check_framing(head)
            form = await read_body(body, max_bytes=MAX_FORM_BYTES, seconds=_FORM_SECONDS)
        except RefusedError as error:
            return make_answer(error.refusal.status, Connection="close")
        nonce = secrets.token_bytes(_NONCE_BYTES)
        try:
            issued = self._issuer.answer(head, form, now=time.time(), nonce=nonce)
        except Exception as error:  # noqa: BLE001 - a bug, in frames that hold the client's secret
            place = place_of(error)
            logger.error("token request not answered: %s", place)  # noqa: TRY400 - as above
            issued = make_answer(HTTPStatus.SERVICE_UNAVAILABLE)
        if issued.status != HTTPStatus.OK:
            self._log.warn(
                f"token request refused with {issued.status:d}",
                reason=f"token_request_{issued.status:d}",
                peer=head.peer,
                now=time.monotonic(),
            )
        return issued


def endpoint_of(served: Endpoint | CallbackTokenIssuer) -> Endpoint:
    """Return the endpoint of a receiver, or the token endpoint of an issuer."""
    if isinstance(served, CallbackTokenIssuer):
        return _TokenEndpoint(served)
    if not callable(getattr(served, "answer", None)):
        raise ConfigurationError("a CallbackReceiver or a CallbackTokenIssuer is meant here")
    return served


def peer_of(transport: asyncio.BaseTransport | None) -> str | None:
    """Return the address of a connection's other end, as `RequestHead.peer`, despite any header."""
    name = None if transport is None else transport.get_extra_info("peername")
    match name:
        case (str() as address, *_):
            return address
        case str() | bytes():
            # A client's socket of the file system has a name seldom, its family always.
            return UNIX_PEER
        case _:
            return None


def certificate_of(transport: asyncio.BaseTransport | None) -> bytes | None:
    """Return the client's certificate in DER; None without a verified one."""
    layer = None if transport is None else transport.get_extra_info("ssl_object")
    if not isinstance(layer, ssl.SSLObject) or layer.context.verify_mode == ssl.CERT_NONE:
        return None
    return layer.getpeercert(binary_form=True)
