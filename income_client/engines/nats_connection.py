"""A connection to NATS that is kept, and whose errors never show its address."""

import asyncio
import socket
import ssl
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from nats.aio.client import Client
from nats.errors import Error as NatsError

from income_client.system.descriptors import find_shortage, shortage_in
from income_client.system.logs import GuardedLogger

_LOGGER: Final = GuardedLogger("income_client.nats")
_CLOSE_SECONDS: Final = 2.0
_PING_SECONDS: Final = 10
_MOST_UNANSWERED_PINGS: Final = 2


class NoConnection(Enum):
    """The reason for a missing connection."""

    ADDRESS = "no connection can be made with this address"
    SILENCE = "no server answers"
    CREDENTIALS = "the server refused the credentials"
    CERTIFICATE = "the server's certificate was not accepted"
    NAME = "the host name was not found"
    DESCRIPTORS = "no file descriptor is left (ulimit -n)"


class NatsConnectionError(Exception):
    """There is no connection to the server.

    The library's error may contain the address and is dropped.
    """

    def __init__(self, reason: NoConnection) -> None:
        super().__init__(reason.value)
        self.reason: Final = reason


async def connect(
    url: str, *, name: str, seconds: float, credentials: Path | None = None
) -> Client:
    """Make a connection that, once it was there, is made again for ever.

    Thirty seconds after its last word a server counts as lost, and another is tried.

    Args:
        url: address of the server, with commas between several.
        name: what the server's logs call this connection.
        seconds: how long it may take.
        credentials: file of credentials.

    Raises:
        NatsConnectionError: there is none.
    """
    known: NoConnection | None = None

    async def note(error: Exception) -> None:
        nonlocal known
        known = known or _reason_in(error)
        _LOGGER.debug("NATS: %s", type(error).__name__)

    client = Client()
    try:
        async with asyncio.timeout(seconds):
            await client.connect(
                url.split(","),
                error_cb=note,
                name=name,
                max_reconnect_attempts=-1,
                reconnect_time_wait=1,
                ping_interval=_PING_SECONDS,
                max_outstanding_pings=_MOST_UNANSWERED_PINGS,
                user_credentials=None if credentials is None else str(credentials),
            )
            return client
    except (NatsError, ValueError) as error:  # faults of servers do not end it
        reason = _reason_in(error) or NoConnection.ADDRESS
    except (TimeoutError, OSError) as error:
        reason = _reason_in(error) or NoConnection.SILENCE
    except asyncio.CancelledError:
        await close(client)
        raise
    await close(client)
    raise NatsConnectionError(known or reason)


def _reason_in(error: Exception) -> NoConnection | None:
    """Return the reason that an error of the library or of the system shows, if it shows one."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return NoConnection.CERTIFICATE
    if shortage_in(error) or (isinstance(error, socket.gaierror) and find_shortage()):
        return NoConnection.DESCRIPTORS
    if isinstance(error, socket.gaierror):
        return NoConnection.NAME
    text = str(error).lower()
    is_refusal = "authorization" in text or "authentication" in text
    return NoConnection.CREDENTIALS if is_refusal else None


async def close(client: Client) -> None:
    """Close a connection, which drops pending messages if the server is away."""
    with suppress(Exception):  # without its server, or never open, it fails in many ways
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()
