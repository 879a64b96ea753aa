"""The fields that factories take by keyword, with their types; and how a wrong name is refused."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypedDict, TypeVar

import attrs

from income_client import (
    AddressEntry,
    AmountPair,
    ConfigurationError,
    DataSources,
    IncomeCalculation,
    PaystubApplicant,
)
from income_client.emulator.rules import meant

T = TypeVar("T", bound=attrs.AttrsInstance)


class ApplicantFields(TypedDict, total=False):
    """Fields of `Applicant`."""

    first_name: str
    last_name: str
    email: str
    phone: str
    ssn: str
    date_of_birth: date
    address_info: tuple[AddressEntry, ...]
    extra: Mapping[str, Any]


class ApplicationFields(TypedDict, total=False):
    """Fields of `Application`, its applicants aside."""

    application_id: str
    last_updated_at: datetime
    application_reference_id: str
    application_date: datetime
    income_calculations: Mapping[str, IncomeCalculation]
    data_sources: DataSources
    extra: Mapping[str, Any]


class DocumentFields(TypedDict, total=False):
    """Fields of `Document`."""

    document_id: str
    file_ids: tuple[str, ...]
    file_reference_ids: tuple[str, ...]
    url: str
    extracted_data: object
    updated_at: datetime
    data_action: str
    pages: object
    extracted_extra: Mapping[str, Any]
    extra: Mapping[str, Any]


class PaystubFields(TypedDict, total=False):
    """Fields of `Paystub`."""

    applicants: Mapping[str, PaystubApplicant]
    employer_name: str
    pay_begin_date: date
    pay_end_date: date
    pay_date: date
    pay_period_frequency: str
    hours_worked: Decimal
    regular_pay: AmountPair
    gross_pay: AmountPair
    overtime_pay: AmountPair
    garnishments: AmountPair
    loans401_k: AmountPair
    bonus_pay: AmountPair
    commission_pay: AmountPair
    tips_pay: AmountPair
    sick_pay: AmountPair
    vacation_pay: AmountPair
    net_pay: AmountPair
    earnings: tuple[Any, ...]
    deductions: tuple[Any, ...]
    taxes: tuple[Any, ...]
    extra: Mapping[str, Any]


def changed(record: T, fields: Mapping[str, Any], *others: str) -> T:
    """Return a record in which some fields are others.

    Args:
        record: any attrs record.
        fields: new values by name.
        *others: names that the caller takes besides, for the message.

    Raises:
        ConfigurationError: there is no such field; the message has the closest.
    """
    known = [each.name for each in attrs.fields(type(record)) if each.name != "source"]
    for name in fields:
        if name not in known:
            end = meant(name, (*known, *others))
            raise ConfigurationError(f"{type(record).__name__} has no field {name}{end}")
    whole: Any = record
    made: T = attrs.evolve(whole, **fields)
    return made
