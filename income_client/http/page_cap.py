"""The largest page of the list that a service returns, as far as its pages have shown it.

The contract lets a page have as many rows as are asked for, up to 1,000. A service, or a gateway
before it, that returns fewer hides rows without a sign.
"""

import asyncio
from typing import Final

from attrs import define, field

_LEAST: Final = 25
"""The default page of the contract (section 8): the smallest that a service would cap pages at."""
_BELIEVED_SECONDS: Final = 3_600.0
"""Seconds after which a page size is doubted again: a gateway may be put before the service."""


@define(eq=False)
class PageCap:
    """The largest number of rows of a page, as one client has observed it."""

    least: int = _LEAST
    """Smallest number of rows that is doubted."""
    rows: int | None = None
    """Rows of the largest page, where that is smaller than what is asked for; None if unknown."""
    lock: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    """Lock of the one task that tries whether a page hides rows."""
    _whole: int = field(default=0, init=False)
    """Rows of the largest page that was shown to hide none."""
    _shown_at: float = field(default=0.0, init=False)

    def full_at(self, limit: int) -> int:
        """Return the number of rows from which on a page for ``limit`` rows is full."""
        return limit if self.rows is None else min(self.rows, limit)

    def is_doubtful(self, rows: int, limit: int, now: float) -> bool:
        """Return whether a page may be as large as the service returns any, and hide rows."""
        if self.rows is not None or not self.least <= rows < limit:
            return False
        return rows > self._whole or now > self._shown_at + _BELIEVED_SECONDS

    def receive(self, rows: int) -> None:
        """Forget a cap that a page exceeds: the gateway that had it is gone."""
        if self.rows is not None and rows > self.rows:
            self.rows = None

    def believe(self, rows: int, now: float) -> None:
        """Record that a page with ``rows`` rows hides no others."""
        self._whole, self._shown_at = rows, now
