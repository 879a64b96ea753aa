"""Invented people and pay, as records; the same number makes the same, and none of it is real.

Takes what the emulator invents; knows no application.
"""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any, Final

from income_client import (
    Address,
    AddressEntry,
    AmountPair,
    Applicant,
    Paystub,
    PaystubAddress,
    PaystubApplicant,
)
from income_client.emulator.pay import EARNED, WITHHELD, Levy, Stub, invent_employment, invent_stubs
from income_client.emulator.people import invent_person
from income_client.emulator.times import START

PRESENT: Final[datetime] = START
"""Where the emulator's time begins, without zone."""

EMPLOYERS: Final = ("Acme Tool Works", "Blue Heron Clinic", "Delta Diner", "Foundry Nine")
_PAIRS: Final = (*EARNED, *WITHHELD, "gross_pay", "net_pay")
_CENTS: Final = 100

_numbers = count(1)


def next_number() -> int:
    """Return a number that nothing was invented from yet."""
    return next(_numbers)


def chance(number: int | str, what: str) -> Random:
    """Return the chance that one thing of a number hangs on."""
    return Random(f"{what} {number}")  # noqa: S311 - invents data


def applicant(number: int) -> Applicant:
    """Make an applicant up."""
    person = invent_person(chance(number, "applicant"), PRESENT.date())
    return Applicant(
        first_name=person.first_name,
        last_name=person.last_name,
        email=person.email,
        phone=person.phone,
        ssn=person.ssn,
        date_of_birth=person.born,
        address_info=tuple(
            AddressEntry(
                address=Address(
                    street_address=home.street,
                    city=home.city,
                    state=home.state,
                    zip=home.zip_code,
                ),
                is_current=home.until is None,
                start_date=home.since,
                end_date=home.until,
            )
            for home in person.homes
        ),
    )


def paystubs(number: int | str, slot: str, person: Applicant, how_many: int) -> tuple[Paystub, ...]:
    """Make the latest pay slips of a person up, one after the other, such that all sums agree."""
    rng = chance(number, "pay")
    employer = rng.choice(EMPLOYERS)
    today = PRESENT.date() - timedelta(days=1)
    stubs = invent_stubs(
        rng, invent_employment(rng), year=today.year, today=today, count=how_many, raised=0
    )
    named = {slot: _named(person)}
    return tuple(_paystub(stub, employer, named) for stub in stubs)


def _paystub(stub: Stub, employer: str, named: Mapping[str, PaystubApplicant]) -> Paystub:
    pairs: dict[str, Any] = {
        name: AmountPair(current=money(stub.current[name]), ytd=money(stub.ytd[name]))
        for name in _PAIRS
    }
    return Paystub(
        applicants=named,
        employer_name=employer,
        pay_begin_date=stub.begins,
        pay_end_date=stub.ends,
        pay_date=stub.paid,
        pay_period_frequency=stub.frequency,
        hours_worked=Decimal(str(stub.hours)),
        earnings=(),
        deductions=_levies(stub.deductions),
        taxes=_levies(stub.taxes),
        **pairs,
    )


def _levies(levies: Iterable[Levy]) -> tuple[Any, ...]:
    return tuple(
        {"name": levy.name, "current": money(levy.current), "ytd": money(levy.ytd)}
        for levy in levies
    )


def _named(person: Applicant) -> PaystubApplicant:
    home = person.address_info[0].address if person.address_info else None
    return PaystubApplicant(
        address=PaystubAddress(
            street_address=home.street_address if home else "1 Elm Street",
            street_2=None,
            city=home.city if home else "Salem",
            state=home.state if home else "MA",
            zip=home.zip if home else "01970",
        ),
        first_name=person.first_name,
        middle_name=None,
        last_name=person.last_name,
        suffix=None,
        ssn=f"*****{person.ssn[-4:]}",
    )


def money(cents: int | None) -> Any:
    """Return cents as an amount, None as none."""
    return None if cents is None else Decimal(cents) / _CENTS


def day(number: int) -> date:
    """Return the day of an application's date."""
    return PRESENT.date() - timedelta(days=1 + number % 3)
