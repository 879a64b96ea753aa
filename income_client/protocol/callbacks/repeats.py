"""Which callbacks were handled shortly before; remembers digests, never content.

A callback carries no id that is known of, so that a second one with the same bytes may be
the first, sent again, or another event that looks the same. That it is one or the other is
all that can be said here.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import Final

_MOST: Final = 10_000


class Repeats:
    """Callbacks that were handled, for a while.

    Args:
        window: seconds for which one is remembered.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._handled: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._handled)

    def holds(self, digest: bytes, *, now: float) -> bool:
        """Say whether an equal one was handled within the window.

        Args:
            digest: as `digest_of` gives it.
            now: seconds since some fixed moment.
        """
        handled_at = self._handled.get(digest)
        return handled_at is not None and now - handled_at < self._window

    def add(self, digest: bytes, *, now: float) -> None:
        """Note that one was handled just now; the oldest are forgotten."""
        self._handled[digest] = now
        self._handled.move_to_end(digest)
        while self._handled and self._is_over(now):
            self._handled.popitem(last=False)

    def _is_over(self, now: float) -> bool:
        oldest = next(iter(self._handled.values()))
        return len(self._handled) > _MOST or now - oldest >= self._window


def digest_of(body: bytes) -> bytes:
    """Return what two bodies have in common only if they are equal."""
    return sha256(body).digest()
