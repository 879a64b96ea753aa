"""What a demonstration found, beside what there was to find; knows no terminal."""

from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Final

from attrs import frozen

_USABLE_ROWS: Final = 999
"""Most rows of a page that is not full, and so known to hide nothing."""


@frozen(kw_only=True)
class YearTotal:
    """A borrower's income in one year."""

    year: int
    """Calendar year."""
    amount: Decimal
    """Sum over the sources of income."""
    is_over: bool
    """Whether the year has ended; False where more may come."""


@frozen(kw_only=True)
class Borrower:
    """The income of one applicant, without anything that tells who it is."""

    application_id: str
    """Identifier of the application."""
    slot: str
    """Which of its applicants."""
    totals: tuple[YearTotal, ...]
    """Year by year, the earliest first."""


@frozen(kw_only=True)
class Harvest:
    """Records that were read."""

    ids: tuple[str, ...]
    """Ids of their applications."""
    documents: int
    """Documents in them."""
    borrower: Borrower | None
    """Somebody whose income is worth a look; None where no record has one."""


@frozen(kw_only=True)
class Findings:
    """What was read, counted here and at the service."""

    existing: AbstractSet[str]
    """Ids that the service has."""
    found: tuple[str, ...]
    """Ids in the order in which the walk gave them."""
    list_requests: int
    """List calls of the walk."""
    recent: tuple[str, ...]
    """Ids updated in the last days."""
    recent_days: int
    """How many days those are."""
    harvest: Harvest
    """What was read of those."""
    requests: int
    """All requests that the service saw, token requests included."""
    token_requests: int
    """Token requests that it saw."""
    seconds: float
    """How long all of it took."""
    latency: float
    """Seconds that the service takes for a reply."""
    in_flight: int
    """Requests in flight at the most."""

    @property
    def missing(self) -> int:
        """Applications that exist and were not found."""
        return len(self.existing - set(self.found))

    @property
    def unknown(self) -> int:
        """Applications that were found and do not exist."""
        return len(set(self.found) - self.existing)

    @property
    def repeated(self) -> int:
        """Rows that came again although nothing was updated meanwhile."""
        return len(self.found) - len(set(self.found))

    @property
    def unread(self) -> int:
        """Recent applications whose record was not read."""
        return len(set(self.recent) - set(self.harvest.ids))

    @property
    def agree(self) -> bool:
        """Whether everything was found, once, and everything recent was read."""
        return not (self.missing or self.unknown or self.repeated or self.unread)

    @property
    def least_requests(self) -> int:
        """List calls that any walk needs at the least."""
        return -(-len(self.existing) // _USABLE_ROWS)
