"""The keys of an issuer for many tokens at once: one request, however many wait for it.

Knows when to wait for whom; when a request may be made is decided by the key ring. A request
belongs to nobody who waits for it: it runs to its end, which its own limit of time brings, so
that one who hangs up takes nothing from the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from income_client.protocol.callbacks.key_ring import KeyRing, KeyStep
from income_client.protocol.callbacks.refusals import Refusal
from income_client.protocol.callbacks.token_keys import TokenKeys, import_keys

from .key_fetch import FetchFault
from .status import logger

FetchKeySet: TypeAlias = Callable[[str], Awaitable[Mapping[str, Any] | FetchFault]]
"""Gets the key set of an address; `fetch_key_set` is one."""


class KeySource:
    """The keys at an issuer's address.

    Args:
        url: the address.
        monotonic: a monotonic clock, in seconds.
        fetch: gets what is there.
    """

    def __init__(self, url: str, *, monotonic: Callable[[], float], fetch: FetchKeySet) -> None:
        self._url = url
        self._monotonic = monotonic
        self._fetch = fetch
        self._ring = KeyRing()
        self._flight: asyncio.Task[None] | None = None

    @property
    def has_keys(self) -> bool:
        """Whether there are keys that count now."""
        return self._ring.keys(self._monotonic()) is not None

    async def keys(self) -> TokenKeys | Refusal:
        """Return the keys that count now, fetched if need be, or why there are none."""
        await self._follow(self._ring.next(self._monotonic()))
        return self._ring.keys(self._monotonic()) or Refusal.KEYS_UNAVAILABLE

    async def newer_than(self, keys: TokenKeys, *, since: float) -> TokenKeys | Refusal:
        """Return other keys than these, among which an unknown one may be, or its refusal.

        Args:
            keys: those among which it is not.
            since: when the token came that names it.
        """
        now = self._monotonic()
        known = self._ring.keys(now)
        if known is None or known is keys:
            await self._follow(self._ring.next(now, is_key_unknown=True), is_key_unknown=True)
            known = self._ring.keys(self._monotonic())
        if known is None or known is keys:
            return self._ring.unknown_refusal(self._monotonic(), since=since)
        return known

    async def _follow(self, step: KeyStep, *, is_key_unknown: bool = False) -> None:
        flight = self._flight
        if (flight is None or flight.done()) and step is not KeyStep.USE:
            self._ring.begin(self._monotonic())
            flight = self._flight = asyncio.create_task(
                self._request(), name="income_client key set"
            )
        # Who has keys goes on with them; who needs others waits with the rest.
        if flight is not None and (is_key_unknown or self._ring.keys(self._monotonic()) is None):
            await asyncio.wait((flight,))

    async def _request(self) -> None:
        keys = None
        try:
            found = await self._fetch(self._url)
            if isinstance(found, FetchFault):
                reason = found.reason
            else:
                keys = import_keys(found)
                reason = "it holds no key that can be used"
        except Exception as error:  # noqa: BLE001 - its text may show the address
            reason = f"it failed with {type(error).__name__}"
        finally:
            self._ring.receive(keys)
        if keys is None or not keys.keys:
            logger.warning("key set not fetched: %s", reason, extra={"reason": reason})
