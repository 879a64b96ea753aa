"""What a poller keeps from one poll to the next; asks nothing and hands out nothing."""

import contextlib
from collections.abc import Callable
from datetime import datetime

from attrs import define, field

from income_client.errors import ConfigurationError
from income_client.records.dead_letters import key_of_application

from .dead_letters import DeadLetters, reason_of
from .ledger import Ledger
from .reading import GivenUp, Row
from .versions import RecordVersion, key_of


@define(kw_only=True)
class Memory:
    """What was delivered, what could not be read, and what is known of the service."""

    ledger: Ledger
    """What was delivered."""
    letters: DeadLetters = field(factory=DeadLetters)
    """What could not be read."""
    lead: int = 0
    """Seconds by which the service's `Date` was found to run ahead of its echo, or behind it."""
    witness: str | None = None
    """An application that was read not long ago."""
    echoed: int | None = None
    """The present that the service told the last poll."""

    def __attrs_post_init__(self) -> None:
        """Hold on to what is known of the dead letters."""
        for application_id in self.letters.application_ids:
            self.ledger.hold(key_of(application_id))

    def is_seen(self, row: Row) -> bool:
        """Tell whether some version of a listed application is remembered."""
        return self.ledger.is_seen(key_of(row.application_id))

    def admit(
        self, row: Row, version: RecordVersion, *, frame: Callable[[datetime], int], now: int
    ) -> bool:
        """Take a version that was read; tell whether it is new.

        Args:
            row: what was listed.
            version: what was read.
            frame: turns an aware time into a second of the service's frame.
            now: service time.
        """
        updated = None
        with contextlib.suppress(ConfigurationError):  # beyond the calendar
            updated = frame(version.updated_at)
        key = key_of(row.application_id)
        self.letters.resolve(key_of_application(row.application_id))
        self.ledger.release(key)
        return self.ledger.admit(
            key, version.digest, listed_in=row.window, updated=updated, now=now
        )

    def give_up(self, lost: GivenUp, *, now: int) -> None:
        """Make a dead letter of an application that could not be read.

        Args:
            lost: which one, and why.
            now: service time.
        """
        row = lost.row
        self.ledger.hold(key_of(row.application_id))
        reason = reason_of(lost.error)
        self.letters.put(row.application_id, row.window, reason, attempts=row.attempts, now=now)
