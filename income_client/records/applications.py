"""Applications and the income calculated for them, without JSON and without documents."""

from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Context, Decimal
from typing import Any, Final

from attrs import field, frozen

from income_client._lazy import answers_other_names

from .fields import NO_EXTRA, ServiceTime, UtcTime, masked

_EXACT: Final = Context(prec=200)
"""Context whose precision suffices for sums of amounts with 40 digits and exponents up to 40."""


@answers_other_names
@frozen(kw_only=True)
class ApplicationSummary:
    """A row of the application list (contract section 2.1)."""

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
    """A reply of the list call (contract section 2.1)."""

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
    """Name of the city."""
    state: str = field(repr=masked)
    """State or its code, as the service writes it."""
    zip: str = field(repr=masked)
    """Postal code."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class AddressEntry:
    """An address and the time during which the applicant lived there (contract section 2.2)."""

    address: Address
    """Postal address."""
    is_current: bool = field(repr=masked)
    """Whether the applicant lives at the address now."""
    start_date: date = field(repr=masked)
    """First day at the address."""
    end_date: date | None = field(repr=masked)
    """Last day at the address; None while the applicant lives there."""
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
    """A source of income in one year (contract section 2.2)."""

    source_type: str
    """Kind of income; the contract lists no values."""
    calculated_income_amount: Decimal = field(repr=masked)
    """Income from this source in the year, as the service has calculated it, with every digit."""
    document_ids: tuple[str, ...]
    """Identifiers of the documents that support the amount."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class YearlyIncome:
    """The income of an applicant in one year (contract section 2.2)."""

    year: int
    """Calendar year."""
    income_sources: tuple[IncomeSource, ...]
    """Sources of the year's income."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""

    @property
    def total(self) -> Decimal:
        """Sum of the calculated amounts of the year's sources, exact (contract section 2.2)."""
        return _sum(source.calculated_income_amount for source in self.income_sources)


@frozen(kw_only=True)
class SuspectedFraudulent:
    """Documents that the service suspects to be fraudulent (contract section 2.2)."""

    document_ids: tuple[str, ...]
    """Identifiers of the suspected documents; empty when there are none."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class IncomeCalculation:
    """The income that the service calculated for one applicant (contract section 2.2)."""

    incomes: tuple[YearlyIncome, ...]
    """The applicant's income, year by year."""
    suspected_fraudulent: SuspectedFraudulent
    """Documents that the service suspects to be fraudulent."""
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
    """The inputs of an application's income calculations (contract section 2.2)."""

    image_files: tuple[ImageFile, ...]
    """Files that the partner supplied."""
    structured_data: tuple[Any, ...] = field(hash=False, repr=masked)
    """Other inputs as the JSON of the reply; the contract does not show their shape."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@answers_other_names
@frozen(kw_only=True)
class Application:
    """An application with its income calculation (contract section 2.2)."""

    application_id: str
    """Identifier assigned by the service."""
    last_updated_at: UtcTime
    """Time of the application's last update, in UTC."""
    application_reference_id: str
    """The partner's own reference; unique per application."""
    application_date: ServiceTime
    """Date of the application, without zone."""
    applicants: Mapping[str, Applicant] = field(hash=False)
    """Borrowers by slot: ``applicant1`` and so on."""
    income_calculations: Mapping[str, IncomeCalculation] = field(hash=False)
    """Income calculations by applicant slot."""
    data_sources: DataSources
    """Inputs of the income calculations."""
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
    """Add up amounts without rounding; Python's default context would keep 28 digits."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total
