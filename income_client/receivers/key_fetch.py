"""One request for a key set; keeps no connection and decides nothing about keys.

What an issuer's address answers is not trusted: no redirect is followed, and neither the
environment nor a cookie has a say. Nothing of the HTTP library leaves this module.
"""

import asyncio
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import aiohttp
from attrs import frozen
from yarl import URL

from income_client.errors import DecodeError
from income_client.wire.codec import parse

_SECONDS: Final = 10.0
_MAX_BYTES: Final = 256 * 1024
_HEADERS: Final = {
    "Accept": "application/json, application/jwk-set+json",
    "Accept-Encoding": "identity",
    "User-Agent": "income-client",
}


@frozen
class FetchFault:
    """Why there is no key set."""

    reason: str
    """In words, without an address and without anything that was received."""


async def fetch_key_set(
    url: str,
    *,
    tls: ssl.SSLContext | None = None,
    seconds: float = _SECONDS,
    max_bytes: int = _MAX_BYTES,
) -> Mapping[str, Any] | FetchFault:
    """Fetch a key set (RFC 7517).

    Args:
        url: its address, as `CallbackBearerAuth` checked it.
        tls: in place of the default context.
        seconds: how long all of it may take.
        max_bytes: longest body.

    Returns:
        The set, an object with a list of keys, or why there is none. Raises nothing but
        cancellation.
    """
    try:
        async with asyncio.timeout(seconds):
            body = await _body(url, tls, max_bytes)
    except TimeoutError:
        return FetchFault("it took too long")
    except Exception as error:  # noqa: BLE001 - its text shows the address
        return FetchFault(f"it failed with {type(error).__name__}")
    return body if isinstance(body, FetchFault) else _key_set(body)


async def _body(url: str, tls: ssl.SSLContext | None, max_bytes: int) -> bytes | FetchFault:
    async with (
        aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            # The time limit is the caller's; aiohttp's own would end a body of 5 minutes.
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            trust_env=False,
        ) as session,
        session.get(
            URL(url, encoded=True),
            headers=_HEADERS,
            allow_redirects=False,
            ssl=True if tls is None else tls,
        ) as reply,
    ):
        if reply.status != HTTPStatus.OK:
            return FetchFault(f"the answer has the status {reply.status}")
        if reply.headers.get("Content-Encoding", "identity").lower() != "identity":
            return FetchFault("the answer is compressed, which was not asked for")
        body = bytearray()
        async for piece in reply.content.iter_any():
            body += piece
            if len(body) > max_bytes:
                return FetchFault(f"the answer is larger than {max_bytes} bytes")
        return bytes(body)


def _key_set(body: bytes) -> Mapping[str, Any] | FetchFault:
    try:
        tree = parse(body)
    except DecodeError:
        return FetchFault("the answer is not JSON that can be relied on")
    if not isinstance(tree, dict) or not isinstance(tree.get("keys"), list):
        return FetchFault("the answer is no key set")
    return tree
