"""Invented income files: applicants, income sources, and documents that support them.

The same seed, number and version give the same file, whatever was asked before. Nobody in
here lives, and no number in here was ever given to anyone. Names of fields are written by hand
from contract sections 2.2 and 2.3, and none of the package's own wire rules is imported: a
wrong name could cancel itself out. Amounts are whole cents until they are written.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from random import Random
from typing import Any, Final

from attrs import field, frozen

from .times import moment_of, stamp
from .world import Contents, World

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
_EMPLOYERS: Final = (  # noqa: SIM905 - as above
    "Acme Tool Works|Blue Heron Clinic|Cedar & Sons Logistics|Delta Diner|Foundry Nine|"
    "Evergreen School District|Granite State Credit Union|Hilltop Software, Inc."
).split("|")
_OTHER_SOURCES: Final = ("self_employment", "pension", "social_security")
_EARNED: Final = (
    "regular_pay",
    "overtime_pay",
    "bonus_pay",
    "commission_pay",
    "tips_pay",
    "sick_pay",
    "vacation_pay",
)
_KEPT_BACK: Final = ("garnishments", "loans401_k")
_SELDOM_SHOWN: Final = ("commission_pay", "tips_pay", "garnishments")
_CENT_TAXES: Final = (("Federal income tax", 1200), ("Social Security", 620), ("Medicare", 145))
_INSURANCE: Final = "Health insurance"
_DAYS_OF: Final = {"weekly": 7, "biweekly": 14, "semimonthly": 15, "monthly": 30}
_YEAR: Final = 365
_PAID_AFTER: Final = timedelta(days=5)
_FIRST_PAY: Final = timedelta(days=40)
_RAISE: Final = 12_345
_CENTS: Final = 100


@frozen
class Person:
    """An invented applicant, written in the two ways of the contract."""

    applicant: Mapping[str, Any] = field(repr=False)
    """The person as in an application (contract section 2.2)."""
    on_paystub: Mapping[str, Any] = field(repr=False)
    """The person as on a paystub (contract section 2.3)."""

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.applicant['first_name']} {self.applicant['last_name']}"


def _invent_address(rng: Random) -> dict[str, Any]:
    city, state, zip_code = rng.choice(_PLACES)
    street = f"{rng.randrange(1, 9900)} {rng.choice(_STREETS)}"
    unit = rng.choice(_UNITS)
    return {
        "street_address": street,
        "street_2": unit,
        "city": city,
        "state": state,
        "zip": zip_code,
    }


def _address_entry(address: Mapping[str, Any], since: date, until: date | None) -> dict[str, Any]:
    return {
        "address": {name: text for name, text in address.items() if name != "street_2"},
        "is_current": until is None,
        "start_date": since.isoformat(),
        "end_date": None if until is None else until.isoformat(),
    }


def invent_person(rng: Random, today: date) -> Person:
    """Invent an applicant as of the day of the application."""
    first, last = rng.choice(_FIRST_NAMES), rng.choice(_LAST_NAMES)
    digits = rng.randrange(10**6)
    moved = today - timedelta(days=rng.randrange(60, 6 * _YEAR))
    home = _invent_address(rng)
    entries = [_address_entry(home, moved, None)]
    if rng.random() < 0.4:  # noqa: PLR2004 - a share
        earlier = moved - timedelta(days=rng.randrange(_YEAR, 5 * _YEAR))
        entries.append(_address_entry(_invent_address(rng), earlier, moved - timedelta(days=1)))
    middle = rng.choice(_FIRST_NAMES) if rng.random() < 0.5 else None  # noqa: PLR2004 - a share
    suffix = rng.choice(_SUFFIXES)
    # Kept for fiction, as the domain of the address is for examples.
    phone = f"{rng.randrange(201, 990)}55501{rng.randrange(100):02d}"
    born = today - timedelta(days=rng.randrange(21 * _YEAR, 70 * _YEAR))
    # Numbers that begin with 666 are never issued.
    ssn = f"666{digits:06d}"
    return Person(
        {
            "first_name": first,
            "last_name": last,
            "email": f"{first.lower()}.{digits}@example.com",
            "phone": phone,
            "ssn": ssn,
            "date_of_birth": born.isoformat(),
            "address_info": entries,
        },
        {
            "address": home,
            "first_name": first,
            "middle_name": middle,
            "last_name": last,
            "suffix": suffix,
            "ssn": f"*****{ssn[-4:]}",
        },
    )


@frozen(kw_only=True)
class Employment:
    """The facts that all paystubs of one employment have in common."""

    frequency: str
    rate: int
    hours: float
    shown: frozenset[str]
    """Names of the amounts on the employer's paystubs; other amounts are absent."""
    insured: int
    """Cents for health insurance in each period, 0 for none."""

    @property
    def period(self) -> timedelta:
        """Length of a pay period."""
        return timedelta(days=_DAYS_OF[self.frequency])


def invent_employment(rng: Random) -> Employment:
    """Invent the terms of an employment."""
    frequency = rng.choice(tuple(_DAYS_OF))
    shown = {name for name in (*_EARNED, *_KEPT_BACK) if name not in _SELDOM_SHOWN}
    shown |= {name for name in _SELDOM_SHOWN if rng.random() < 0.3}  # noqa: PLR2004 - a share
    return Employment(
        frequency=frequency,
        rate=rng.randrange(1600, 9000, 25) + rng.choice((0, 0, 33)),
        hours=round(_DAYS_OF[frequency] / 7 * rng.choice((40, 40, 37.5, 32, 24)), 2),
        shown=frozenset(shown),
        insured=rng.choice((0, 4250, 11_999)),
    )


def _invent_amounts(rng: Random, employment: Employment) -> dict[str, int]:
    """Invent the amounts of one period."""
    regular = round(employment.rate * employment.hours)
    sums = {
        "regular_pay": regular,
        "overtime_pay": round(employment.rate * 1.5) * rng.choice((0, 0, 2, 5)),
        "bonus_pay": rng.choice((0, 0, 0, 50_000)),
        "commission_pay": rng.randrange(regular // 10 + 1),
        "tips_pay": rng.randrange(20_000),
        "sick_pay": employment.rate * rng.choice((0, 0, 0, 8)),
        "vacation_pay": employment.rate * rng.choice((0, 0, 0, 16)),
        "garnishments": 7_500,
        "loans401_k": rng.choice((0, 0, 6_000)),
    }
    return {name: cents for name, cents in sums.items() if name in employment.shown}


def invent_paystubs(
    rng: Random,
    employment: Employment,
    *,
    year: int,
    today: date,
    count: int,
    raised: int,
    payer: str,
    applicants: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Invent up to ``count`` paystubs of a year, with running totals.

    The last one was paid before ``today`` and has a bonus of ``raised`` cents on top.
    """
    new_year = date(year, 1, 1)
    worked = min((today - new_year - _PAID_AFTER).days, _YEAR)
    periods = max(1, worked // employment.period.days)
    count = min(count, periods)
    earlier = _invent_amounts(rng, employment)
    to_date = {name: cents * (periods - count) for name, cents in earlier.items()}
    stubs = []
    for turn in range(periods - count, periods):
        amounts = _invent_amounts(rng, employment)
        if turn == periods - 1:
            amounts["bonus_pay"] += raised
        to_date = {name: to_date[name] + cents for name, cents in amounts.items()}
        begins = new_year + employment.period * turn
        stub = _invent_paystub(employment, begins, turn + 1, amounts, to_date)
        stubs.append({"applicants": applicants, "employer_name": payer, **stub})
    return stubs


def _invent_paystub(
    employment: Employment,
    begins: date,
    periods: int,
    amounts: Mapping[str, int],
    to_date: Mapping[str, int],
) -> dict[str, Any]:
    """Invent the data of a paystub, without payer and applicants (contract section 2.3)."""
    withheld = _withhold_taxes(employment, _gross_pay(amounts), 1)
    withheld_to_date = _withhold_taxes(employment, _gross_pay(to_date), periods)
    current = _with_totals(amounts, sum(withheld.values()))
    ytd = _with_totals(to_date, sum(withheld_to_date.values()))
    ends = begins + employment.period - timedelta(days=1)
    deductions = [
        {"name": name, **_amount_pair(withheld, withheld_to_date, name)} for name in withheld
    ]
    return {
        "pay_begin_date": begins.isoformat(),
        "pay_end_date": ends.isoformat(),
        "pay_date": (ends + _PAID_AFTER).isoformat(),
        "pay_period_frequency": employment.frequency,
        "hours_worked": employment.hours,
        **{name: _amount_pair(current, ytd, name) for name in current},
        "earnings": [
            {
                "name": "Regular",
                "hours": employment.hours,
                "rate": _write_money(employment.rate),
                **_amount_pair(current, ytd, "regular_pay"),
            }
        ],
        "deductions": deductions[-1:] if employment.insured else [],
        "taxes": deductions[:-1],
    }


def _gross_pay(amounts: Mapping[str, int]) -> int:
    return sum(amounts.get(name, 0) for name in _EARNED)


def _withhold_taxes(employment: Employment, gross: int, periods: int) -> dict[str, int]:
    """Return the taxes on a gross pay and, as the last item, the insurance."""
    taxes = {name: gross * share // 10_000 for name, share in _CENT_TAXES}
    return {**taxes, _INSURANCE: employment.insured * periods}


def _with_totals(amounts: Mapping[str, int], withheld: int) -> dict[str, int | None]:
    """Return all amounts of a paystub with totals; None for absent amounts."""
    gross = _gross_pay(amounts)
    net = gross - withheld - sum(amounts.get(name, 0) for name in _KEPT_BACK)
    totals = {name: amounts.get(name) for name in (*_EARNED, *_KEPT_BACK)}
    return {**totals, "gross_pay": gross, "net_pay": net}


def _amount_pair(
    current: Mapping[str, int | None], ytd: Mapping[str, int | None], name: str
) -> dict[str, Any]:
    return {"current": _write_money(current[name]), "ytd": _write_money(ytd[name])}


def _write_money(cents: int | None) -> float | int | str:
    if cents is None:
        return ""
    return cents // _CENTS if cents % _CENTS == 0 else cents / _CENTS


def invent_application(world: World, number: int) -> Contents:
    """Invent the current contents of an application by its number."""
    return _Composer(world, number).compose()


class _Composer:
    """Invents one application, with its random numbers and its documents so far."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._id = world.id_of(number)
        self._history = world.history(number)
        self._rng = Random(world.seed * 1_000_003 + number)
        self._today = moment_of(world.applied_at(number)).date()
        # Early in January nobody has a paystub of the new year yet.
        self._year = (self._today - _FIRST_PAY).year
        self._document_ids: list[str] = []
        self._image_files: list[dict[str, str]] = []
        self._documents: dict[str, list[dict[str, Any]]] = {}
        self._incomes: dict[str, dict[int, list[dict[str, Any]]]] = {}

    def compose(self) -> Contents:
        rng, world, number = self._rng, self._world, self._number
        persons = [invent_person(rng, self._today) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        people = {f"applicant{place}": person for place, person in enumerate(persons, 1)}
        for slot, person in people.items():
            self._add_sources(slot, person)
        suspect = rng.choice(self._document_ids) if rng.random() < 0.05 else None  # noqa: PLR2004 - a share
        reference = world.reference_of(number)
        application = {
            "application_id": self._id,
            "last_updated_at": f"{stamp(world.updated_second(number))}Z",
            "application_reference_id": reference,
            "application_date": stamp(world.applied_at(number)),
            "applicants": {slot: person.applicant for slot, person in people.items()},
            "income_calculations": {
                slot: self._invent_calculation(slot, suspect) for slot in people
            },
            "data_sources": {"image_files": self._image_files, "structured_data": []},
        }
        documents = {
            "application_id": self._id,
            "application_reference_id": reference,
            "documents": self._documents,
        }
        return Contents(application, documents)

    def _invent_calculation(self, slot: str, suspect: str | None) -> dict[str, Any]:
        by_year = self._incomes[slot]
        used = {
            name
            for sources in by_year.values()
            for source in sources
            for name in source["document_ids"]
        }
        return {
            "incomes": [
                {"year": year, "income_sources": by_year[year]}
                for year in sorted(by_year, reverse=True)
            ],
            "suspected_fraudulent": {"document_ids": [suspect] if suspect in used else []},
        }

    def _add_sources(self, slot: str, person: Person) -> None:
        rng = self._rng
        self._incomes[slot] = {}
        payer = rng.choice(_EMPLOYERS)
        self._add_employment(slot, person, payer)
        for back in range(1, rng.choice((1, 2, 2, 3))):
            self._add_yearly(slot, person, payer, year=self._year - back, source_type="employment")
        if rng.random() < 0.35:  # noqa: PLR2004 - a share
            kind, payer = rng.choice(_OTHER_SOURCES), rng.choice(_EMPLOYERS)
            self._add_yearly(slot, person, payer, year=self._year - 1, source_type=kind)

    def _add_employment(self, slot: str, person: Person, payer: str) -> None:
        version = self._history.version if slot == "applicant1" else 0
        stubs = invent_paystubs(
            self._rng,
            invent_employment(self._rng),
            year=self._year,
            today=self._today,
            count=self._rng.choice((1, 2, 2, 3)),
            raised=version * _RAISE,
            payer=payer,
            applicants={slot: person.on_paystub},
        )
        names = [
            self._add_document(
                "paystub", slot, stub["pay_date"], stub, version=version if stub is stubs[-1] else 0
            )
            for stub in stubs
        ]
        amount = stubs[-1]["gross_pay"]["ytd"]
        self._add_source(slot, self._year, "employment", amount, names)

    def _add_yearly(
        self, slot: str, person: Person, payer: str, *, year: int, source_type: str
    ) -> None:
        cents = self._rng.randrange(900_000, 18_000_000)
        data: dict[str, Any]
        if source_type == "employment":
            kind = "w2"
            data = {
                "employee": {"name": person.name},
                "employer_name": payer,
                "tax_year": year,
                "wages_tips_other_compensation": _write_money(cents),
                "federal_income_tax_withheld": _write_money(cents * 12 // 100),
                "boxes": {"12": [{"code": "D", "amount": _write_money(cents * 3 // 100)}]},
            }
        else:
            kind = "form_1099"
            data = {
                "recipient": {"name": person.name},
                "payer_name": payer,
                "tax_year": year,
                "gross_amount": _write_money(cents),
            }
        files = 2 if self._rng.random() < 0.2 else 1  # noqa: PLR2004 - a share
        name = self._add_document(kind, slot, f"{year}-12-31", data, files=files)
        self._add_source(slot, year, source_type, _write_money(cents), [name])

    def _add_source(
        self, slot: str, year: int, source_type: str, amount: Any, names: list[str]
    ) -> None:
        """Add a source of income and its documents, the decisive document last."""
        source = {
            "source_type": source_type,
            "calculated_income_amount": amount,
            "document_ids": names,
        }
        self._incomes[slot].setdefault(year, []).append(source)

    def _add_document(
        self,
        kind: str,
        slot: str,
        day: str,
        data: Mapping[str, Any],
        *,
        files: int = 1,
        version: int = 0,
    ) -> str:
        """Add a document with an open URL, and return its id."""
        place = len(self._document_ids) + 1
        stem = f"{self._id[4:]}-{place:02d}"
        ending = "png" if (self._number + place) % 3 == 0 else "pdf"
        parts = range(1, files + 1)
        ids = [f"file-{stem}-{part}" for part in parts]
        names = [f"{kind} {day} {slot} ({part}).{ending}" for part in parts]
        updated = self._world.updated_second(self._number) if version else self._history.first
        document = {
            "document_id": f"doc-{stem}",
            "file_ids": ids,
            "file_reference_ids": names,
            "url": "",
            "extracted_data": data,
            "updated_at": f"{stamp(updated)}Z",
            "data_action": "update" if version else "create",
        }
        self._document_ids.append(f"doc-{stem}")
        self._documents.setdefault(kind, []).append(document)
        self._image_files += [
            {"file_id": file_id, "file_reference_id": name}
            for file_id, name in zip(ids, names, strict=True)
        ]
        return f"doc-{stem}"
