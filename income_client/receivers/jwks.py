"""The key set of an issuer: fetched from its URL, cached, renewed, and rarely requested.

What the address answers is not trusted: no redirect is followed, and neither the environment
nor a cookie has a say. However many tokens come with unknown keys, it is asked once in
`FETCH_EVERY` seconds, and once for all who wait.
"""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import aiohttp
from yarl import URL

from income_client.errors import DecodeError
from income_client.system.http_messages import HEAD_LIMITS, is_encoded
from income_client.wire.codec import parse

from .adapters import logger
from .exchange import Refusal, RefusedError
from .jwt import TokenKeys, import_key_set

FETCH_EVERY: Final = 30.0
"""Least seconds between two requests."""
RENEWED_AFTER: Final = 600.0
"""Age in seconds from which cached keys are renewed, while they are still used."""
KEPT_FOR: Final = 86_400.0
"""Age in seconds from which cached keys are not used any more."""

_SECONDS: Final = 10.0
_MAX_BYTES: Final = 256 * 1024
_HEADERS: Final = {
    "Accept": "application/json, application/jwk-set+json",
    "Accept-Encoding": "identity",
    "User-Agent": "income-client",
}

FetchKeySet: TypeAlias = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Function that fetches the key set at a URL, such as `fetch_key_set`."""


class KeySetError(Exception):
    """The key set could not be fetched.

    The reason contains no URL and nothing that was received.
    """


async def fetch_key_set(
    url: str,
    *,
    tls: ssl.SSLContext | None = None,
    seconds: float = _SECONDS,
    max_bytes: int = _MAX_BYTES,
) -> Mapping[str, Any]:
    """Return the key set (RFC 7517) at a URL, an object with a list of keys."""
    try:
        async with asyncio.timeout(seconds):
            body = await _fetch_body(url, tls, max_bytes)
    except TimeoutError:
        raise KeySetError("it took too long") from None
    try:
        tree = parse(body)
    except DecodeError:
        raise KeySetError("the answer is not JSON that can be relied on") from None
    if not isinstance(tree, dict) or not isinstance(tree.get("keys"), list):
        raise KeySetError("the answer is not a key set")
    return tree


async def _fetch_body(url: str, tls: ssl.SSLContext | None, max_bytes: int) -> bytes:
    async with (
        aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            # The time limit is the caller's; aiohttp's own would end a body of 5 minutes.
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            trust_env=False,
            **HEAD_LIMITS,
        ) as session,
        session.get(
            URL(url, encoded=True),
            headers=_HEADERS,
            allow_redirects=False,
            ssl=True if tls is None else tls,
        ) as reply,
    ):
        if reply.status != HTTPStatus.OK:
            raise KeySetError(f"the answer has the status {reply.status}")
        if is_encoded(reply.headers.get("Content-Encoding", "")):
            raise KeySetError("the answer is compressed, which was not asked for")
        body = bytearray()
        async for piece in reply.content.iter_any():
            body += piece
            if len(body) > max_bytes:
                raise KeySetError(f"the answer is larger than {max_bytes} bytes")
        return bytes(body)


class KeySetCache:
    """The cached keys of an issuer, shared by many tokens, in any thread and event loop.

    A request belongs to none of those who wait for it: it runs to its end, which its own time limit
    brings, so that one who hangs up takes nothing from the others. It does end with its event loop,
    which may live for one callback only; the next callback then waits for a new request.
    """

    def __init__(self, url: str, *, monotonic: Callable[[], float], fetch: FetchKeySet) -> None:
        self._url = url
        self._monotonic = monotonic
        self._fetch = fetch
        self._keys: TokenKeys | None = None
        self._keys_asked_at = 0.0
        """Monotonic time at which the request for the cached keys was sent."""
        self._asked_at: float | None = None
        """Monotonic time at which the last request was sent; None before the first."""
        self._has_failed = False
        """Whether the last request has returned no key set so far."""
        self._lock = threading.Lock()
        """Guards the start of a request against other threads; never held across an await."""
        self._flight: _Flight | None = None
        """The last request, in flight or over."""
        self._was_abandoned = False
        """Whether the last request ended with its event loop."""

    @property
    def current(self) -> TokenKeys | None:
        """The cached keys; None without usable ones."""
        is_kept = self._monotonic() < self._keys_asked_at + KEPT_FOR
        return self._keys if is_kept else None

    async def keys(self) -> TokenKeys:
        """Return the cached keys: fetch missing ones, and start to renew old ones."""
        is_old = self._monotonic() >= self._keys_asked_at + RENEWED_AFTER
        must_wait = self.current is None or self._was_abandoned
        if self.current is None or is_old:
            self._start_request()
        if must_wait:
            await self._wait_for_flight()
        if (keys := self.current) is None:
            raise RefusedError(Refusal.KEYS_UNAVAILABLE)
        return keys

    async def newer_than(self, keys: TokenKeys, *, since: float) -> TokenKeys:
        """Return a newer key set than ``keys``, for a token whose key ``keys`` lacks.

        Only an answer that was requested after the token had come shows that no set has its
        key. Before that it may be a new one, and the token is to come again. ``since`` is when
        the token came, by the monotonic clock.
        """
        newest = self.current
        if newest is None or newest is keys:
            self._start_request()
            await self._wait_for_flight()
            newest = self.current
        is_current = self._keys_asked_at >= since and not self._has_failed
        if newest is None or (newest is keys and not is_current):
            raise RefusedError(Refusal.KEYS_UNAVAILABLE)
        if newest is keys:
            raise RefusedError(Refusal.TOKEN_KEY_UNKNOWN)
        return newest

    def _start_request(self) -> None:
        """Send a request, unless one is in flight or was sent a moment ago."""
        with self._lock:
            now = self._monotonic()
            is_throttled = self._asked_at is not None and now < self._asked_at + FETCH_EVERY
            is_in_flight = self._flight is not None and not self._flight.is_over
            if is_in_flight or (is_throttled and not self._was_abandoned):
                return
            self._asked_at = now
            self._has_failed = True
            self._was_abandoned = False
            self._flight = _Flight(self._request_keys(now), self._end_request)

    def _end_request(self, *, was_cancelled: bool) -> None:
        self._was_abandoned = was_cancelled

    async def _wait_for_flight(self) -> None:
        if self._flight is not None:
            await self._flight.wait()

    async def _request_keys(self, asked_at: float) -> None:
        try:
            keys = import_key_set(await self._fetch(self._url))
            reason = None if keys.keys else "it holds no key that can be used"
        except KeySetError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - its text may show the address
            reason = f"it failed with {type(error).__name__}"
        if reason is not None:
            logger.warning("key set not fetched: %s", reason, extra={"reason": reason})
            return
        self._keys, self._keys_asked_at, self._has_failed = keys, asked_at, False


class _Flight:
    """A request for keys in the event loop that began it; tasks of any loop may wait for its end.

    Args:
        request: sends the request.
        at_end: called with whether the request was cancelled.
    """

    def __init__(self, request: Coroutine[Any, Any, None], at_end: Callable[..., None]) -> None:
        self._at_end = at_end
        self._lock = threading.Lock()
        self._waiters: set[asyncio.Future[None]] = set()
        self._has_ended = False
        self._task = asyncio.create_task(request, name="income_client key set")
        self._task.add_done_callback(self._end)

    @property
    def is_over(self) -> bool:
        """Whether the request has ended, perhaps with its event loop."""
        return self._has_ended or self._task.get_loop().is_closed()

    async def wait(self) -> None:
        """Wait until the request for keys has ended, for at most ``_SECONDS``."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self.is_over:
                return
            self._waiters.add(waiter)
        # The loop of the request may stop without ending its tasks.
        await asyncio.wait((waiter,), timeout=_SECONDS)

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._at_end(was_cancelled=task.cancelled())
        with self._lock:
            self._has_ended = True
        for waiter in self._waiters:
            with suppress(RuntimeError):  # its event loop is closed
                waiter.get_loop().call_soon_threadsafe(_finish, waiter)


def _finish(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
