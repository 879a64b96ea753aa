"""What is shown of an application: values that hold no more than may be seen; knows no layout."""

from collections.abc import Iterable
from datetime import date
from decimal import Decimal

from attrs import field, frozen

from .amounts import exact_sum


@frozen(kw_only=True)
class Fact:
    """Something about a borrower or a document, and what it is called."""

    name: str
    """What it is; empty where the value says that itself."""
    value: str = field(repr=False)
    """What it says."""


@frozen(kw_only=True)
class Support:
    """A document that is named beside an amount."""

    mark: str
    """What it is called in the list of documents, such as ``D3``; empty if it is not there."""
    label: str = field(repr=False)
    """Its type; its id if it is not among the documents, which is said."""
    is_suspected: bool
    """Whether it is suspected to be fraudulent."""


@frozen(kw_only=True)
class SourceView:
    """What one source gave in one year."""

    name: str
    """Kind of source."""
    hue: int
    """Number of the kind within the application, from 0: the same kind has the same colour."""
    amount: Decimal = field(repr=False)
    """Calculated for the year, exact."""
    support: tuple[Support, ...]
    """Documents that support it."""

    @property
    def is_suspected(self) -> bool:
        """Whether a document behind it is suspected."""
        return any(each.is_suspected for each in self.support)


@frozen(kw_only=True)
class YearView:
    """The income of one year."""

    year: int
    """Calendar year."""
    sources: tuple[SourceView, ...]
    """Where it came from."""
    is_over: bool
    """Whether it had ended when the application was last updated; False where more may come."""

    @property
    def text(self) -> str:
        """The year in words."""
        return f"{self.year}" if self.is_over else f"{self.year} so far"

    @property
    def is_suspected(self) -> bool:
        """Whether an amount of it rests on a suspected document."""
        return any(source.is_suspected for source in self.sources)

    @property
    def total(self) -> Decimal:
        """Sum over the sources, exact."""
        return exact_sum(source.amount for source in self.sources)

    @property
    def height(self) -> Decimal:
        """Sum of what is above zero: as high as its bar has to be."""
        return exact_sum(max(source.amount, Decimal(0)) for source in self.sources)


@frozen(kw_only=True)
class ApplicantView:
    """A borrower and the income that was calculated."""

    heading: str = field(repr=False)
    """Which of the applicants."""
    name: str = field(repr=False)
    """Given and family name, or dots."""
    facts: tuple[Fact, ...]
    """What else is known of the person; empty unless it may be seen."""
    years: tuple[YearView, ...]
    """Income by year, the latest first."""


@frozen(kw_only=True)
class Days:
    """Days from one to another, both included."""

    first: date
    """The earlier one."""
    last: date
    """The later one."""


@frozen(kw_only=True)
class DocumentView:
    """A document on the time line."""

    mark: str
    """``D1`` and so on, in the service's order."""
    type_name: str = field(repr=False)
    """Its type."""
    document_id: str
    """Its id."""
    period: Days | None
    """Its pay period, None where it has none."""
    paid: date | None
    """Day of payment, None where it has none."""
    years: tuple[int, ...]
    """Years whose income it supports."""
    supports: tuple[str, ...] = field(repr=False)
    """Amounts that it supports, in words."""
    facts: tuple[Fact, ...]
    """What was read from it, as far as it is shown."""
    is_suspected: bool
    """Whether it is suspected to be fraudulent."""

    @property
    def label(self) -> str:
        """Mark and type."""
        return f"{self.mark} {self.type_name}"


@frozen(kw_only=True)
class SourcesView:
    """What the calculation was made from."""

    files: tuple[Fact, ...]
    """Ids of files, with the partner's names for them where these may be seen."""
    structured: int
    """How many other inputs there are."""


@frozen(kw_only=True)
class RecordView:
    """All that is shown of an application."""

    application_id: str
    """Identifier assigned by the service."""
    reference: str
    """The partner's own reference."""
    applied: str
    """Day of the application."""
    updated: str
    """Last update, in UTC."""
    is_masked: bool
    """Whether what tells who the borrowers are is left out."""
    applicants: tuple[ApplicantView, ...]
    """Borrowers by slot."""
    documents: tuple[DocumentView, ...]
    """Documents in the service's order."""
    suspected_elsewhere: tuple[str, ...]
    """Ids of suspected documents that are not among the documents."""
    sources: SourcesView
    """What the calculation was made from."""
    further_fields: int
    """How many fields the contract does not name."""

    @property
    def suspected(self) -> tuple[DocumentView, ...]:
        """Documents that are suspected to be fraudulent."""
        return tuple(each for each in self.documents if each.is_suspected)

    @property
    def together(self) -> tuple[YearView, ...]:
        """Income of all applicants by year, the latest first."""
        years: dict[int, list[YearView]] = {}
        for person in self.applicants:
            for year in person.years:
                years.setdefault(year.year, []).append(year)
        return tuple(
            YearView(
                year=number,
                sources=tuple(source for each in years[number] for source in each.sources),
                is_over=all(each.is_over for each in years[number]),
            )
            for number in sorted(years, reverse=True)
        )

    @property
    def highest(self) -> Decimal:
        """As high as the highest column of a year has to be, and never zero."""
        return _most(year.height for person in self.applicants for year in person.years)

    @property
    def largest(self) -> Decimal:
        """As long as the longest bar of one source has to be, and never zero."""
        return _most(
            source.amount
            for person in self.applicants
            for year in person.years
            for source in year.sources
        )


def _most(amounts: Iterable[Decimal]) -> Decimal:
    return max((amount for amount in amounts if amount > 0), default=Decimal(1))
