"""What is known of an issuer's key set, and when its address may be asked again.

Knows no clock, no address and no request: every moment is an argument, in seconds of a
monotonic clock. However many tokens come with unknown keys, the address is asked once in
`FETCH_EVERY` seconds.
"""

import enum
from typing import Final

from attrs import define, field

from .refusals import Refusal
from .token_keys import TokenKeys

FETCH_EVERY: Final = 30.0
"""Seconds from one request to the next, at least."""
RENEWED_AFTER: Final = 600.0
"""Seconds after which keys are renewed, while they still serve."""
KEPT_FOR: Final = 86_400.0
"""Seconds after which keys count for nothing, if they could not be renewed."""


class KeyStep(enum.Enum):
    """What is to be done before a token is checked, or checked again."""

    USE = "use"
    """Nothing: what is known serves, or nothing better can be had now."""
    RENEW = "renew"
    """A request, unless one is under way; what is known serves meanwhile."""
    FETCH = "fetch"
    """A request, or the end of the one that is under way; without it there is no answer."""


@define
class KeyRing:
    """The state of one key set."""

    _keys: TokenKeys | None = field(default=None, init=False)
    _keys_asked_at: float = field(default=0.0, init=False)
    """When the request was sent that brought them."""
    _asked_at: float | None = field(default=None, init=False)
    """When the last request was sent."""
    _has_failed: bool = field(default=False, init=False)
    """Whether the last request has brought nothing, or was given up on the way."""

    def keys(self, now: float) -> TokenKeys | None:
        """Return the keys that count, None if there are none."""
        is_kept = now < self._keys_asked_at + KEPT_FOR
        return self._keys if is_kept else None

    def next(self, now: float, *, is_key_unknown: bool = False) -> KeyStep:
        """Say what is to be done.

        Args:
            now: the moment.
            is_key_unknown: whether a token has come whose key is not among those known.
        """
        if self._asked_at is not None and now < self._asked_at + FETCH_EVERY:
            return KeyStep.USE
        if is_key_unknown or self.keys(now) is None:
            return KeyStep.FETCH
        is_old = now >= self._keys_asked_at + RENEWED_AFTER
        return KeyStep.RENEW if is_old else KeyStep.USE

    def begin(self, now: float) -> None:
        """Take note that a request is sent."""
        self._asked_at = now
        self._has_failed = True

    def receive(self, keys: TokenKeys | None) -> None:
        """Take what the request that was begun last has brought.

        Args:
            keys: None, or no key at all, if it failed; what was known is kept then.
        """
        self._has_failed = keys is None or not keys.keys
        if keys is not None and keys.keys and self._asked_at is not None:
            self._keys = keys
            self._keys_asked_at = self._asked_at

    def unknown_refusal(self, now: float, *, since: float) -> Refusal:
        """Return what a token gets whose key is not known after all that could be done.

        Only an answer that was asked for after the token had come shows that nobody has
        its key; before that it may be a new one, and the token is to come again.

        Args:
            now: the moment.
            since: when the token came.
        """
        is_newer = self._keys_asked_at >= since and not self._has_failed
        is_current = self.keys(now) is not None and is_newer
        return Refusal.TOKEN_KEY_UNKNOWN if is_current else Refusal.KEYS_UNAVAILABLE
