"""How a receiver is doing, for a health endpoint; and a log that nobody can flood."""

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from attrs import field, frozen

logger: Final = logging.getLogger("income_client.receivers")

_QUIET_SECONDS: Final = 60.0


@frozen(kw_only=True)
class ReceiverStatus:
    """How a receiver is doing since it was made."""

    handled: int
    """Callbacks that were answered with 200."""
    repeats: int
    """Runs of ``on_callback``, done or skipped, for bytes that were handled shortly before."""
    waiting: int
    """Callbacks that are being handled or wait for their turn."""
    refused: Mapping[str, int] = field(factory=dict)
    """Requests that were not answered with 200, by reason."""
    last_handled_at: datetime | None
    """When the last callback was answered with 200, in UTC."""


class QuietLog:
    """Logs of each reason one line a minute, since whoever wants can cause many."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}
        self._unsaid: Counter[str] = Counter()

    def warn(self, text: str, *, reason: str, peer: str | None, now: float) -> None:
        """Log a line, or count one that is left unsaid.

        Args:
            text: what it says.
            reason: of which few there are.
            peer: address of who has caused it.
            now: seconds since some fixed moment.
        """
        if now - self._logged_at.get(reason, -_QUIET_SECONDS) < _QUIET_SECONDS:
            self._unsaid[reason] += 1
            return
        self._logged_at[reason] = now
        facts = {"reason": reason, "peer": peer, "unsaid": self._unsaid.pop(reason, 0)}
        logger.warning("%s", text, extra=facts)
