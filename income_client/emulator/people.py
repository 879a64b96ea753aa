"""Invented applicants: nobody in here lives, and no number in here was ever given to anyone.

Knows names, addresses and their JSON; knows nothing of income.
"""

from datetime import date, timedelta
from random import Random
from typing import Any, Final

from attrs import field, frozen

_FIRST_NAMES: Final = (  # noqa: SIM905 - words read best as a text
    "Ada Amara Bao Carmen Chidi Dana Elif Emeka Farid Grace Hana Ines Jamal Jonas Keiko Lena "
    "Luis Mara Mateo Mei Nadia Noor Olga Omar Priya Rafael Rosa Sam Tariq Vera Wanda Yusuf"
).split()
_LAST_NAMES: Final = (  # noqa: SIM905 - as above
    "Abara Alvarez Becker Castillo Chandra Dubois Eriksen Farouk Garcia Haddad Ibarra Jensen "
    "Kimura Kowalski Lindqvist Moreau Nakamura O'Neill Okafor Petrov Quist Ramos Sato Tanaka "
    "Underhill Vasquez Whitfield Xu Yilmaz Zielinski Müller Peña"
).split()
_STREETS: Final = (  # noqa: SIM905 - as above
    "Alder Way|Birch Lane|Canyon Road|Dogwood Drive|Elm Street|Foxglove Court|Granite Avenue|"
    "Harbor Boulevard|Juniper Place|Larkspur Street"
).split("|")
_PLACES: Final = (
    ("Springfield", "OR", "97477"),
    ("Riverton", "UT", "84065"),
    ("Fairview", "TN", "37062"),
    ("Georgetown", "TX", "78626"),
    ("Salem", "MA", "01970"),
    ("Franklin", "WI", "53132"),
)
_SUFFIXES: Final = (None, None, None, None, None, "Jr", "Sr", "III")
_UNITS: Final = (None, None, "Apt 4B", "Unit 12", "# 3")
_YEAR: Final = 365


@frozen(kw_only=True)
class Home:
    """An address and the time somebody lived there."""

    street: str
    """Number and street."""
    unit: str | None
    """Second line of the street, if there is one."""
    city: str
    """Name of the city."""
    state: str
    """Two letters."""
    zip_code: str
    """Five digits."""
    since: date
    """First day."""
    until: date | None
    """Last day, None while it lasts."""


@frozen(kw_only=True)
class Person:
    """An applicant who was never born."""

    first_name: str
    """Given name."""
    middle_name: str | None
    """Second given name, if there is one."""
    last_name: str
    """Family name."""
    suffix: str | None
    """Suffix of the name, if there is one."""
    email: str
    """Address in a domain that is kept for examples."""
    phone: str
    """Digits, in the range that is kept for fiction."""
    ssn: str = field(repr=False)
    """Nine digits that begin with 666, which are never issued."""
    born: date
    """Day of birth."""
    homes: tuple[Home, ...]
    """The current one first."""


def _invent_home(rng: Random, since: date, until: date | None) -> Home:
    city, state, zip_code = rng.choice(_PLACES)
    return Home(
        street=f"{rng.randrange(1, 9900)} {rng.choice(_STREETS)}",
        unit=rng.choice(_UNITS),
        city=city,
        state=state,
        zip_code=zip_code,
        since=since,
        until=until,
    )


def invent_person(rng: Random, today: date) -> Person:
    """Make an applicant up.

    Args:
        rng: seeded chance; the same chance makes the same person.
        today: the day of the application.
    """
    first, last = rng.choice(_FIRST_NAMES), rng.choice(_LAST_NAMES)
    digits = rng.randrange(10**6)
    moved = today - timedelta(days=rng.randrange(60, 6 * _YEAR))
    homes = [_invent_home(rng, moved, None)]
    if rng.random() < 0.4:  # noqa: PLR2004 - a share
        earlier = moved - timedelta(days=rng.randrange(_YEAR, 5 * _YEAR))
        homes.append(_invent_home(rng, earlier, moved - timedelta(days=1)))
    return Person(
        first_name=first,
        middle_name=rng.choice(_FIRST_NAMES) if rng.random() < 0.5 else None,  # noqa: PLR2004
        last_name=last,
        suffix=rng.choice(_SUFFIXES),
        email=f"{first.lower()}.{digits}@example.com",
        phone=f"{rng.randrange(201, 990)}55501{rng.randrange(100):02d}",
        ssn=f"666{digits:06d}",
        born=today - timedelta(days=rng.randrange(21 * _YEAR, 70 * _YEAR)),
        homes=tuple(homes),
    )


def applicant_json(person: Person) -> dict[str, Any]:
    """Write an applicant as the application response has it (contract section 2.2)."""
    return {
        "first_name": person.first_name,
        "last_name": person.last_name,
        "email": person.email,
        "phone": person.phone,
        "ssn": person.ssn,
        "date_of_birth": person.born.isoformat(),
        "address_info": [
            {
                "address": {
                    "street_address": home.street,
                    "city": home.city,
                    "state": home.state,
                    "zip": home.zip_code,
                },
                "is_current": home.until is None,
                "start_date": home.since.isoformat(),
                "end_date": None if home.until is None else home.until.isoformat(),
            }
            for home in person.homes
        ],
    }


def paystub_applicant_json(person: Person) -> dict[str, Any]:
    """Write an applicant as a paystub names him (contract section 2.3)."""
    home = person.homes[0]
    return {
        "address": {
            "street_address": home.street,
            "street_2": home.unit,
            "city": home.city,
            "state": home.state,
            "zip": home.zip_code,
        },
        "first_name": person.first_name,
        "middle_name": person.middle_name,
        "last_name": person.last_name,
        "suffix": person.suffix,
        "ssn": f"*****{person.ssn[-4:]}",
    }
