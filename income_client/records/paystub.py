"""The data that the service reads from a paystub."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from attrs import field, frozen

from .fields import NO_EXTRA, Amount, masked


@frozen(kw_only=True)
class PaystubAddress:
    """An address printed on a paystub (contract section 2.3)."""

    street_address: str = field(repr=masked)
    """House number and street."""
    street_2: str | None = field(repr=masked)
    """Second line of the street; None when there is none."""
    city: str = field(repr=masked)
    """Name of the city."""
    state: str = field(repr=masked)
    """State or its code, as the service writes it."""
    zip: str = field(repr=masked)
    """Postal code."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class PaystubApplicant:
    """A person to whom a paystub was issued (contract section 2.3)."""

    address: PaystubAddress
    """Address printed on the paystub."""
    first_name: str = field(repr=masked)
    """Given name."""
    middle_name: str | None = field(repr=masked)
    """Middle name; None when there is none."""
    last_name: str = field(repr=masked)
    """Family name."""
    suffix: str | None = field(repr=masked)
    """Suffix of the name; None when there is none."""
    ssn: str = field(repr=masked)
    """Social security number, masked by the service to its last four digits."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class AmountPair:
    """A line of a paystub: amounts of the period and of the year (contract section 2.3)."""

    current: Amount = field(repr=masked)
    """Amount of the pay period; None if the paystub states none."""
    ytd: Amount = field(repr=masked)
    """Amount of the year up to the pay date; None if the paystub states none."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""


@frozen(kw_only=True)
class Paystub:
    """The data read from a paystub (contract section 2.3)."""

    applicants: Mapping[str, PaystubApplicant] = field(hash=False)
    """Persons named on the paystub, by applicant slot."""
    employer_name: str = field(repr=masked)
    """Name of the employer."""
    pay_begin_date: date = field(repr=masked)
    """First day of the pay period."""
    pay_end_date: date = field(repr=masked)
    """Last day of the pay period."""
    pay_date: date = field(repr=masked)
    """Day of payment."""
    pay_period_frequency: str = field(repr=masked)
    """Frequency of payment; the contract lists no values."""
    hours_worked: Decimal = field(repr=masked)
    """Hours worked in the pay period, exact."""
    regular_pay: AmountPair
    """Pay for regular hours."""
    gross_pay: AmountPair
    """Pay before deductions."""
    overtime_pay: AmountPair
    """Pay for overtime."""
    garnishments: AmountPair
    """Amounts withheld for creditors."""
    loans401_k: AmountPair
    """Repayments of loans from a 401(k) plan."""
    bonus_pay: AmountPair
    """Bonuses."""
    commission_pay: AmountPair
    """Commissions."""
    tips_pay: AmountPair
    """Tips."""
    sick_pay: AmountPair
    """Pay for sick leave."""
    vacation_pay: AmountPair
    """Pay for holidays."""
    net_pay: AmountPair
    """Pay after deductions."""
    earnings: tuple[Any, ...] = field(hash=False, repr=masked)
    """Single earnings as the JSON of the reply; the contract does not show their shape."""
    deductions: tuple[Any, ...] = field(hash=False, repr=masked)
    """Single deductions as the JSON of the reply; the contract does not show their shape."""
    taxes: tuple[Any, ...] = field(hash=False, repr=masked)
    """Single taxes as the JSON of the reply; the contract does not show their shape."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""
