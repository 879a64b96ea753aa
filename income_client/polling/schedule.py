"""When the next poll begins; decides only, the time and the chance are given to it."""

from collections.abc import Callable
from typing import Final

from income_client.errors import AuthenticationError, IncomeClientError

_JITTER: Final = 0.1
_FIRST_FAILURE: Final = 1.0
_LONGEST_FAILURE: Final = 60.0
_LONGEST_RETRY_AFTER: Final = 900.0
_MOST_DOUBLINGS: Final = 16
_GAP: Final = 1.0
"""Seconds between two polls, at the least, however often it is woken."""


class Rhythm:
    """The pauses between polls: even, growing after failures, cut short by waking.

    Args:
        interval: seconds from the beginning of one poll to that of the next, at the most.
        chance: the jitter's source, from 0 to 1.
    """

    def __init__(self, interval: float, chance: Callable[[], float]) -> None:
        self._interval = interval
        self._chance = chance
        self._began = float("-inf")
        self._at = float("-inf")
        self._not_before = float("-inf")
        self._is_woken = False
        self._is_urgent = False
        self._is_owed = False

    @property
    def at(self) -> float:
        """The moment at which the next poll begins."""
        if not self._is_woken:
            return self._at
        return max(self._not_before, min(self._at, self._began + _GAP))

    @property
    def is_urgent(self) -> bool:
        """Whether the poll under way was asked for by somebody who knows of an update."""
        return self._is_urgent

    def wake(self) -> None:
        """Have the next poll begin as soon as it may."""
        self._is_woken = True

    def begin(self, now: float) -> None:
        """Note that a poll begins."""
        self._began = now
        self._is_urgent = self._is_woken or self._is_owed
        self._is_woken = self._is_owed = False

    def succeed(self) -> None:
        """Note that a poll has ended."""
        self._at = self._began + self._interval * (1 - _JITTER * self._chance())

    def fail(self, now: float, error: IncomeClientError, failures: int) -> None:
        """Note that a poll has failed.

        Args:
            now: the moment.
            error: why.
            failures: how many have failed in a row, this one included.
        """
        # Refused credentials end the poller after a few minutes: not before they were tried again.
        is_refused = isinstance(error, AuthenticationError)
        longest = _LONGEST_FAILURE if is_refused else max(self._interval, _LONGEST_FAILURE)
        pause = min(longest, growing(failures)) * (1 + self._chance()) / 2
        asked = min(error.retry_after or 0.0, _LONGEST_RETRY_AFTER)
        self._not_before = now + max(asked, _GAP)
        self._at = now + max(pause, asked)
        # Whoever woke it still waits for the update.
        self._is_owed = self._is_urgent or self._is_woken
        self._is_woken = False


def growing(failures: int) -> float:
    """Return the longest pause after so many failures in a row, in seconds; it doubles."""
    return _FIRST_FAILURE * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
