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
    """A row of the application list (contract section 2.1).

    Attributes:
        application_id: identifier assigned by the service.
        application_reference_id: the partner's own reference; unique per application.
        application_date: date of the application, without zone.
        extra: fields that the contract does not name.
    """

    application_id: str
    application_reference_id: str
    application_date: ServiceTime
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class ApplicationPage:
    """A reply of the list call (contract section 2.1).

    Attributes:
        updated_after: lower bound that the service applied, without zone.
        updated_before: upper bound that the service applied, without zone.
        applications: matching applications, in no documented order.
        extra: fields that the contract does not name.
    """

    updated_after: ServiceTime
    updated_before: ServiceTime
    applications: tuple[ApplicationSummary, ...]
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class Address:
    """A postal address of an applicant (contract section 2.2).

    Attributes:
        street_address: house number and street.
        city: name of the city.
        state: state or its code, as the service writes it.
        zip: postal code.
        extra: fields that the contract does not name.
    """

    street_address: str = field(repr=masked)
    city: str = field(repr=masked)
    state: str = field(repr=masked)
    zip: str = field(repr=masked)
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class AddressEntry:
    """An address and the time during which the applicant lived there (contract section 2.2).

    Attributes:
        address: postal address.
        is_current: whether the applicant lives at the address now.
        start_date: first day at the address.
        end_date: last day at the address; None while the applicant lives there.
        extra: fields that the contract does not name.
    """

    address: Address
    is_current: bool = field(repr=masked)
    start_date: date = field(repr=masked)
    end_date: date | None = field(repr=masked)
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class Applicant:
    """A borrower of an application (contract section 2.2).

    Attributes:
        first_name: given name.
        last_name: family name.
        email: E-mail address.
        phone: telephone number, digits only.
        ssn: social security number, digits only.
        date_of_birth: day of birth.
        address_info: addresses, present and past.
        extra: fields that the contract does not name.
    """

    first_name: str = field(repr=masked)
    last_name: str = field(repr=masked)
    email: str = field(repr=masked)
    phone: str = field(repr=masked)
    ssn: str = field(repr=masked)
    date_of_birth: date = field(repr=masked)
    address_info: tuple[AddressEntry, ...]
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class IncomeSource:
    """A source of income in one year (contract section 2.2).

    Attributes:
        source_type: kind of income; the contract lists no values.
        calculated_income_amount: income from this source in the year, as the service has calculated
            it, with every digit.
        document_ids: identifiers of the documents that support the amount.
        extra: fields that the contract does not name.
    """

    source_type: str
    calculated_income_amount: Decimal = field(repr=masked)
    document_ids: tuple[str, ...]
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class YearlyIncome:
    """The income of an applicant in one year (contract section 2.2).

    Attributes:
        year: calendar year.
        income_sources: sources of the year's income.
        extra: fields that the contract does not name.
    """

    year: int
    income_sources: tuple[IncomeSource, ...]
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)

    @property
    def total(self) -> Decimal:
        """Sum of the calculated amounts of the year's sources, exact (contract section 2.2)."""
        return _sum(source.calculated_income_amount for source in self.income_sources)


@frozen(kw_only=True)
class SuspectedFraudulent:
    """Documents that the service suspects to be fraudulent (contract section 2.2).

    Attributes:
        document_ids: identifiers of the suspected documents; empty when there are none.
        extra: fields that the contract does not name.
    """

    document_ids: tuple[str, ...]
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class IncomeCalculation:
    """The income that the service calculated for one applicant (contract section 2.2).

    Attributes:
        incomes: the applicant's income, year by year.
        suspected_fraudulent: documents that the service suspects to be fraudulent.
        extra: fields that the contract does not name.
    """

    incomes: tuple[YearlyIncome, ...]
    suspected_fraudulent: SuspectedFraudulent
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class ImageFile:
    """A file that was supplied for an application (contract section 2.2).

    Attributes:
        file_id: identifier assigned by the service.
        file_reference_id: the partner's name for the file.
        extra: fields that the contract does not name.
    """

    file_id: str
    file_reference_id: str = field(repr=masked)
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class DataSources:
    """The inputs of an application's income calculations (contract section 2.2).

    Attributes:
        image_files: files that the partner supplied.
        structured_data: other inputs as the JSON of the reply; the contract does not show their
            shape.
        extra: fields that the contract does not name.
    """

    image_files: tuple[ImageFile, ...]
    structured_data: tuple[Any, ...] = field(hash=False, repr=masked)
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@answers_other_names
@frozen(kw_only=True)
class Application:
    """An application with its income calculation (contract section 2.2).

    Attributes:
        application_id: identifier assigned by the service.
        last_updated_at: time of the application's last update, in UTC.
        application_reference_id: the partner's own reference; unique per application.
        application_date: date of the application, without zone.
        applicants: borrowers by slot: ``applicant1`` and so on.
        income_calculations: income calculations by applicant slot.
        data_sources: inputs of the income calculations.
        extra: fields that the contract does not name.
    """

    application_id: str
    last_updated_at: UtcTime
    application_reference_id: str
    application_date: ServiceTime
    applicants: Mapping[str, Applicant] = field(hash=False)
    income_calculations: Mapping[str, IncomeCalculation] = field(hash=False)
    data_sources: DataSources
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)

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
