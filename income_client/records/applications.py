"""Applications and the income calculated for them; knows nothing of JSON or of documents."""

from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Context, Decimal
from typing import Any, Final

from attrs import field, frozen

from .fields import NO_EXTRA, ServiceTime, UtcTime, masked

_EXACT: Final = Context(prec=200)
"""More digits than a sum of amounts of 40 digits and exponents up to 40 can have."""


@frozen(kw_only=True)
class ApplicationSummary:
    """One row of the application list (contract section 2.1)."""

    application_id: str
    """Identifier assigned by the service."""
    application_reference_id: str
    """The partner's own reference; unique per application."""
    application_date: ServiceTime
    """Date of the application, without zone."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class ApplicationPage:
    """One reply of the list call (contract section 2.1)."""

    updated_after: ServiceTime
    """Lower bound that the service applied, without zone."""
    updated_before: ServiceTime
    """Upper bound that the service applied, without zone."""
    applications: tuple[ApplicationSummary, ...]
    """Matching applications, in no documented order."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class Address:
    """A postal address of an applicant (contract section 2.2)."""

    street_address: str = field(repr=masked)
    """House number and street."""
    city: str = field(repr=masked)
    """City."""
    state: str = field(repr=masked)
    """State, as the service writes it."""
    zip: str = field(repr=masked)
    """Postal code."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class AddressEntry:
    """An address, and when the applicant lived there (contract section 2.2)."""

    address: Address
    """The address itself."""
    is_current: bool = field(repr=masked)
    """Whether the applicant lives there now."""
    start_date: date = field(repr=masked)
    """First day there."""
    end_date: date | None = field(repr=masked)
    """Last day there; None while it lasts."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class Applicant:
    """A borrower of an application (contract section 2.2)."""

    first_name: str = field(repr=masked)
    """Given name."""
    last_name: str = field(repr=masked)
    """Family name."""
    email: str = field(repr=masked)
    """E-mail address."""
    phone: str = field(repr=masked)
    """Telephone number, digits only."""
    ssn: str = field(repr=masked)
    """Social security number, digits only."""
    date_of_birth: date = field(repr=masked)
    """Day of birth."""
    address_info: tuple[AddressEntry, ...]
    """Addresses, present and past."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class IncomeSource:
    """One source of income in one year (contract section 2.2)."""

    source_type: str
    """Kind of source; the contract lists no values."""
    calculated_income_amount: Decimal = field(repr=masked)
    """Income calculated for the year, exact."""
    document_ids: tuple[str, ...]
    """Documents that support the amount."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class YearlyIncome:
    """The income of one year (contract section 2.2)."""

    year: int
    """Calendar year."""
    income_sources: tuple[IncomeSource, ...]
    """Where it came from."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""

    @property
    def total(self) -> Decimal:
        """Sum of the calculated amounts of all sources, exact (contract section 2.2)."""
        return _sum(source.calculated_income_amount for source in self.income_sources)


@frozen(kw_only=True)
class SuspectedFraudulent:
    """Documents that the service has doubts about (contract section 2.2)."""

    document_ids: tuple[str, ...]
    """Their identifiers; empty when there are none."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class IncomeCalculation:
    """What was calculated for one applicant (contract section 2.2)."""

    incomes: tuple[YearlyIncome, ...]
    """Income, year by year."""
    suspected_fraudulent: SuspectedFraudulent
    """Documents that the service has doubts about."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class ImageFile:
    """A file that was supplied for an application (contract section 2.2)."""

    file_id: str
    """Identifier assigned by the service."""
    file_reference_id: str = field(repr=masked)
    """The partner's name for the file."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class DataSources:
    """What the calculation was made from (contract section 2.2)."""

    image_files: tuple[ImageFile, ...]
    """Files supplied by the partner."""
    structured_data: tuple[Any, ...] = field(hash=False, repr=masked)
    """Other inputs, as JSON gave them; the contract does not show their shape."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class Application:
    """An application with its income calculation (contract section 2.2)."""

    application_id: str
    """Identifier assigned by the service."""
    last_updated_at: UtcTime
    """Last update, in UTC."""
    application_reference_id: str
    """The partner's own reference; unique per application."""
    application_date: ServiceTime
    """Date of the application, without zone."""
    applicants: Mapping[str, Applicant] = field(hash=False)
    """Borrowers by slot: ``applicant1`` and so on."""
    income_calculations: Mapping[str, IncomeCalculation] = field(hash=False)
    """Results by applicant slot."""
    data_sources: DataSources
    """What the calculation was made from."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""

    def total_income(self, year: int) -> Decimal | None:
        """Return the income of all applicants in one year, exact (contract section 2.2).

        Args:
            year: calendar year.

        Returns:
            The sum; None if no applicant has a calculation for that year.
        """
        totals = [
            income.total
            for calculation in self.income_calculations.values()
            for income in calculation.incomes
            if income.year == year
        ]
        return _sum(totals) if totals else None


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    """Add up without rounding: the usual context keeps 28 digits."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total
