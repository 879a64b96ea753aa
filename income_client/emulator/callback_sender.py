"""One POST to this machine and what it came to: the emulator's only use of an HTTP client.

Knows neither callbacks nor credentials. Nothing of the client leaves it, its errors least
of all; redirects, cookies, proxies and netrc do not exist for it.
"""

import asyncio
import errno
from collections.abc import Iterable
from ssl import SSLContext, SSLError
from typing import Final

import aiohttp
from attrs import field, frozen
from yarl import URL

from .callback_answer import CallbackAnswer, seconds_of

_LONGEST_BODY: Final = 64 * 1024
_OWN_FIELDS: Final = (
    ("Accept", "application/json"),
    ("Accept-Encoding", "identity"),
    ("User-Agent", "income-emulator"),
)
_FAULTS: Final = (
    (aiohttp.ClientSSLError, "tls"),
    (SSLError, "tls"),
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorError, "unreachable"),
    (aiohttp.ServerDisconnectedError, "dropped"),
    (OSError, "reset"),
    (aiohttp.ClientPayloadError, "cut_short"),
    (aiohttp.ClientResponseError, "unreadable"),
)
"""What an error is called; the first that fits."""


@frozen(kw_only=True)
class Post:
    """What is sent, and how."""

    url: str = field(repr=False)
    """Where to, on this machine."""
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    """Header fields in their order; one that stands here takes the place of a usual one."""
    body: bytes = field(repr=False)
    """The content."""
    tls: SSLContext | None = None
    """In place of the default TLS context."""
    timeout: float
    """Seconds for the whole."""


async def send(post: Post) -> CallbackAnswer:
    """Send once and read the answer; raises nothing but cancellation."""
    try:
        async with asyncio.timeout(post.timeout), _session() as session:
            return await _exchange(session, post)
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        fault = _name_of(error)
    return CallbackAnswer(fault=fault)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


async def _exchange(session: aiohttp.ClientSession, post: Post) -> CallbackAnswer:
    async with session.post(
        URL(post.url, encoded=True),
        data=post.body,
        headers=_with_usual(post.headers),
        allow_redirects=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_read=post.timeout),
        ssl=True if post.tls is None else post.tls,
    ) as reply:
        return CallbackAnswer(
            status=reply.status,
            body=await _start_of(reply),
            retry_after=seconds_of(reply.headers.get("Retry-After")),
        )


def _with_usual(fields: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    given = list(fields)
    names = {name.lower() for name, _ in given}
    return [one for one in _OWN_FIELDS if one[0].lower() not in names] + given


async def _start_of(reply: aiohttp.ClientResponse) -> bytes:
    """Read a body; one that is too long counts as none."""
    body = bytearray()
    async for piece in reply.content.iter_any():
        body += piece
        if len(body) > _LONGEST_BODY:
            reply.close()
            return b""
    return bytes(body)


def _name_of(error: Exception) -> str:
    # Within TLS 1.3 a certificate is refused after the handshake, as a broken connection.
    if isinstance(error.__cause__, SSLError):
        return "tls"
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return "refused"
    return next((name for kind, name in _FAULTS if isinstance(error, kind)), "failed")
