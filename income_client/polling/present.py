"""What the service says of the time while it is listed; reads no clock of its own."""

from typing import Final

from income_client.errors import UnexpectedResponseError

_HOUR: Final = 3_600
_SKEW: Final = 5
_END_OF_TIME: Final = 3_786_912_000
"""The beginning of 2090: a bound beyond it stands for none, and tells no time."""


class Present:
    """The service's time at the beginning of a poll, before anything else was listed.

    Args:
        lead: seconds by which its `Date` was found to run ahead of the bound that it
            echoes; negative where it lags.
    """

    def __init__(self, lead: int = 0) -> None:
        self.lead: int = lead
        self._echoed: int | None = None
        self._told = 0

    @property
    def is_known(self) -> bool:
        """Whether the service has told it."""
        return self._echoed is not None

    @property
    def echoed(self) -> int:
        """The present second by the clock that the list goes by."""
        return self._told if self._echoed is None else self._echoed

    def hear(self, echoed: int, served_at: int | None) -> UnexpectedResponseError | None:
        """Take the first reply of a poll.

        Args:
            echoed: the upper bound that the service applied, having been given none.
            served_at: the second at which it says that it answered.

        Returns:
            The error of a reply that tells no time.
        """
        if served_at is None and echoed > _END_OF_TIME:
            return UnexpectedResponseError("list_applications: the service tells no time")
        self._echoed, self._told = echoed, echoed if served_at is None else served_at
        return None

    def no_later_than(self, listed: int) -> int:
        """Return service time for a checkpoint: the smaller of what the service says.

        Args:
            listed: the present up to which the list has been followed.
        """
        return min(self._told, listed)

    def no_earlier_than(self, listed: int) -> int:
        """Return a second by which everything was written that was read before the poll.

        Args:
            listed: the present up to which the list has been followed.
        """
        return min(listed, self._told + _HOUR)

    def learn(self, listed: int) -> None:
        """Note how far `Date` is from the echo, if that has proved to be the present."""
        if self._echoed is not None and listed - self._echoed <= _SKEW:
            self.lead = self._told - self._echoed
