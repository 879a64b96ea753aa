"""The data that the service reads from a paystub."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from attrs import field, frozen

from .fields import NO_EXTRA, Amount, masked


@frozen(kw_only=True)
class PaystubAddress:
    """An address printed on a paystub (contract section 2.3).

    Attributes:
        street_address: house number and street.
        street_2: second line of the street; None when there is none.
        city: name of the city.
        state: state or its code, as the service writes it.
        zip: postal code.
        extra: fields that the contract does not name.
    """

    street_address: str = field(repr=masked)
    street_2: str | None = field(repr=masked)
    city: str = field(repr=masked)
    state: str = field(repr=masked)
    zip: str = field(repr=masked)
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class PaystubApplicant:
    """A person to whom a paystub was issued (contract section 2.3).

    Attributes:
        address: address printed on the paystub.
        first_name: given name.
        middle_name: middle name; None when there is none.
        last_name: family name.
        suffix: suffix of the name; None when there is none.
        ssn: social security number, masked by the service to its last four digits.
        extra: fields that the contract does not name.
    """

    address: PaystubAddress
    first_name: str = field(repr=masked)
    middle_name: str | None = field(repr=masked)
    last_name: str = field(repr=masked)
    suffix: str | None = field(repr=masked)
    ssn: str = field(repr=masked)
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class AmountPair:
    """A line of a paystub: amounts of the period and of the year (contract section 2.3).

    Attributes:
        current: amount of the pay period; None if the paystub states none.
        ytd: amount of the year up to the pay date; None if the paystub states none.
        extra: fields that the contract does not name.
    """

    current: Amount = field(repr=masked)
    ytd: Amount = field(repr=masked)
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)


@frozen(kw_only=True)
class Paystub:
    """The data read from a paystub (contract section 2.3).

    Attributes:
        applicants: persons named on the paystub, by applicant slot.
        employer_name: name of the employer.
        pay_begin_date: first day of the pay period.
        pay_end_date: last day of the pay period.
        pay_date: day of payment.
        pay_period_frequency: frequency of payment; the contract lists no values.
        hours_worked: hours worked in the pay period, exact.
        regular_pay: pay for regular hours.
        gross_pay: pay before deductions.
        overtime_pay: pay for overtime.
        garnishments: amounts withheld for creditors.
        loans401_k: repayments of loans from a 401(k) plan.
        bonus_pay: bonuses.
        commission_pay: commissions.
        tips_pay: tips.
        sick_pay: pay for sick leave.
        vacation_pay: pay for holidays.
        net_pay: pay after deductions.
        earnings: single earnings as the JSON of the reply; the contract does not show their shape.
        deductions: single deductions as the JSON of the reply; the contract does not show their
            shape.
        taxes: single taxes as the JSON of the reply; the contract does not show their shape.
        extra: fields that the contract does not name.
    """

    applicants: Mapping[str, PaystubApplicant] = field(hash=False)
    employer_name: str = field(repr=masked)
    pay_begin_date: date = field(repr=masked)
    pay_end_date: date = field(repr=masked)
    pay_date: date = field(repr=masked)
    pay_period_frequency: str = field(repr=masked)
    hours_worked: Decimal = field(repr=masked)
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
    earnings: tuple[Any, ...] = field(hash=False, repr=masked)
    deductions: tuple[Any, ...] = field(hash=False, repr=masked)
    taxes: tuple[Any, ...] = field(hash=False, repr=masked)
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
