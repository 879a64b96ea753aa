"""Invented income files: who applies, what each source paid, which documents support it.

The same seed, number and version give the same file, whatever was asked before. Nobody in
here lives, and no number in here was ever given to anyone. All amounts are in cents.
"""

import enum
from collections.abc import Mapping
from datetime import date, timedelta
from random import Random
from typing import Final

from attrs import field, frozen

from .times import moment_of
from .world import World

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
    unit: str | None
    city: str
    state: str
    zip_code: str
    since: date
    until: date | None
    """Last day, None while it lasts."""


@frozen(kw_only=True)
class Person:
    """An invented applicant."""

    first_name: str
    middle_name: str | None
    last_name: str
    suffix: str | None
    email: str
    """Address in a domain that is kept for examples."""
    phone: str
    """Digits, in the range that is kept for fiction."""
    ssn: str = field(repr=False)
    """Nine digits that begin with 666, which are never issued."""
    born: date
    homes: tuple[Home, ...]


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
    """Invent an applicant as of the day of the application."""
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


EARNED: Final = (
    "regular_pay",
    "overtime_pay",
    "bonus_pay",
    "commission_pay",
    "tips_pay",
    "sick_pay",
    "vacation_pay",
)
WITHHELD: Final = ("garnishments", "loans401_k")

_EMPTY_ALIKE: Final = ("commission_pay", "tips_pay", "garnishments")
_CENT_TAXES: Final = (("Federal income tax", 1200), ("Social Security", 620), ("Medicare", 145))
_DAYS_OF: Final = {"weekly": 7, "biweekly": 14, "semimonthly": 15, "monthly": 30}
_YEAR_DAYS: Final = 365
_PAID_AFTER: Final = timedelta(days=5)


@frozen(kw_only=True)
class Withholding:
    """A tax or a deduction of one paystub, in cents."""

    name: str
    current: int
    """In this period."""
    ytd: int
    """Since the year began."""


@frozen(kw_only=True)
class Paystub:
    """The figures of one paystub, in cents; an amount that the stub does not show is None."""

    begins: date
    ends: date
    paid: date
    frequency: str
    hours: float
    rate: int
    current: Mapping[str, int | None]
    """Amounts of the period by field name, gross and net included."""
    ytd: Mapping[str, int | None]
    """Amounts since the year began by field name, gross and net included."""
    taxes: tuple[Withholding, ...]
    deductions: tuple[Withholding, ...]

    @property
    def gross_to_date(self) -> int:
        """Gross pay since the year began, in cents."""
        return self.ytd["gross_pay"] or 0


@frozen(kw_only=True)
class Employment:
    """What stays the same over the paystubs of one employment."""

    frequency: str
    rate: int
    hours: float
    shown: frozenset[str]
    """Amounts that the employer prints; the others are absent."""
    insured: int
    """Cents for health insurance in each period, 0 for none."""

    @property
    def regular(self) -> int:
        """Regular pay of a period, in cents."""
        return round(self.rate * self.hours)

    @property
    def period(self) -> timedelta:
        """Length of a pay period."""
        return timedelta(days=_DAYS_OF[self.frequency])


def invent_employment(rng: Random) -> Employment:
    """Invent the terms of an employment."""
    frequency = rng.choice(tuple(_DAYS_OF))
    shown = {name for name in (*EARNED, *WITHHELD) if name not in _EMPTY_ALIKE}
    shown |= {name for name in _EMPTY_ALIKE if rng.random() < 0.3}  # noqa: PLR2004 - a share
    return Employment(
        frequency=frequency,
        rate=rng.randrange(1600, 9000, 25) + rng.choice((0, 0, 33)),
        hours=round(_DAYS_OF[frequency] / 7 * rng.choice((40, 40, 37.5, 32, 24)), 2),
        shown=frozenset(shown),
        insured=rng.choice((0, 4250, 11_999)),
    )


def _invent_extras(rng: Random, employment: Employment) -> dict[str, int]:
    regular = employment.regular
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


def _withheld(
    employment: Employment, gross: int, gross_to_date: int, periods: int
) -> list[Withholding]:
    taxes = [
        Withholding(name=name, current=gross * share // 10_000, ytd=gross_to_date * share // 10_000)
        for name, share in _CENT_TAXES
    ]
    insured = employment.insured
    return [*taxes, Withholding(name="Health insurance", current=insured, ytd=insured * periods)]


def _gross(amounts: Mapping[str, int]) -> int:
    return sum(amounts.get(name, 0) for name in EARNED)


def _totals(amounts: Mapping[str, int], withheld: int) -> dict[str, int | None]:
    gross = _gross(amounts)
    net = gross - withheld - sum(amounts.get(name, 0) for name in WITHHELD)
    shown = {name: amounts.get(name) for name in (*EARNED, *WITHHELD)}
    return {**shown, "gross_pay": gross, "net_pay": net}


def invent_paystubs(
    rng: Random, employment: Employment, *, year: int, today: date, count: int, raised: int
) -> tuple[Paystub, ...]:
    """Invent up to ``count`` paystubs of a year, each one's totals built on those before.

    The last one was paid before ``today`` and has a bonus of ``raised`` cents on top.
    """
    new_year = date(year, 1, 1)
    worked = min((today - new_year - _PAID_AFTER).days, _YEAR_DAYS)
    passed = worked // employment.period.days
    periods = max(1, passed)
    count = min(count, periods)
    earlier = _invent_extras(rng, employment)
    to_date = {name: cents * (periods - count) for name, cents in earlier.items()}
    stubs = []
    for turn in range(periods - count, periods):
        amounts = _invent_extras(rng, employment)
        if turn == periods - 1:
            amounts["bonus_pay"] += raised
        to_date = {name: to_date[name] + cents for name, cents in amounts.items()}
        begins = new_year + employment.period * turn
        stubs.append(_stub(employment, begins, turn + 1, amounts, to_date))
    return tuple(stubs)


def _stub(
    employment: Employment,
    begins: date,
    periods: int,
    amounts: Mapping[str, int],
    to_date: Mapping[str, int],
) -> Paystub:
    withheld = _withheld(employment, _gross(amounts), _gross(to_date), periods)
    ends = begins + employment.period - timedelta(days=1)
    return Paystub(
        begins=begins,
        ends=ends,
        paid=ends + _PAID_AFTER,
        frequency=employment.frequency,
        hours=employment.hours,
        rate=employment.rate,
        current=_totals(amounts, sum(one.current for one in withheld)),
        ytd=_totals(to_date, sum(one.ytd for one in withheld)),
        taxes=tuple(withheld[:-1]),
        deductions=tuple(withheld[-1:] if employment.insured else ()),
    )


_EMPLOYERS: Final = (  # noqa: SIM905 - names read best as a text
    "Acme Tool Works|Blue Heron Clinic|Cedar & Sons Logistics|Delta Diner|Foundry Nine|"
    "Evergreen School District|Granite State Credit Union|Hilltop Software, Inc."
).split("|")
_OTHER_SOURCES: Final = ("self_employment", "pension", "social_security")
_RAISE: Final = 12_345
_FIRST_PAY: Final = timedelta(days=40)


class DocumentType(enum.Enum):
    """Type of a document; the value is its key in the documents response."""

    PAYSTUB = "paystub"
    W2 = "w2"
    FORM_1099 = "form_1099"


@frozen
class DocumentFile:
    """What the host of files knows of a document."""

    document_id: str
    file_name: str


@frozen(kw_only=True)
class Document:
    """One document of an application."""

    kind: DocumentType
    document_id: str
    file_ids: tuple[str, ...]
    file_names: tuple[str, ...]
    slot: str
    person: Person = field(repr=False)
    payer: str
    year: int
    cents: int
    """What was paid in that year up to this document."""
    stub: Paystub | None = field(default=None, repr=False)
    updated: int
    """Service second of its last update."""
    version: int
    """How often it changed."""

    @property
    def file(self) -> DocumentFile:
        """The file behind its address."""
        return DocumentFile(self.document_id, self.file_names[0])


@frozen(kw_only=True)
class Source:
    """What one payer paid to one applicant in one year."""

    slot: str
    year: int
    source_type: str
    documents: tuple[Document, ...]
    """Documents that support the amount, the decisive one last."""

    @property
    def cents(self) -> int:
        """The calculated amount, which is what the last document says."""
        return self.documents[-1].cents


@frozen(kw_only=True)
class Application:
    """Everything invented about one version of an application."""

    application_id: str
    reference: str
    applied: int
    updated: int
    """Service second of the last update."""
    persons: tuple[Person, ...]
    sources: tuple[Source, ...]
    suspected: frozenset[str]

    @property
    def documents(self) -> tuple[Document, ...]:
        """All documents."""
        return tuple(document for source in self.sources for document in source.documents)


def invent_application(world: World, number: int) -> Application:
    """Invent everything about an application's number as it is now."""
    return _Composer(world, number).compose()


class _Composer:
    """Invents one application; holds the random numbers and the count of documents."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._id = world.id_of(number)
        self._history = world.history(number)
        self._rng = Random(world.seed * 1_000_003 + number)
        self._today = moment_of(world.applied_at(number)).date()
        # Early in January nobody has a paystub of the new year yet.
        self._year = (self._today - _FIRST_PAY).year
        self._document_count = 0

    def compose(self) -> Application:
        rng, world = self._rng, self._world
        persons = [invent_person(rng, self._today) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        sources: list[Source] = []
        for place, person in enumerate(persons):
            sources += self._sources(f"applicant{place + 1}", person, main=place == 0)
        documents = [document.document_id for source in sources for document in source.documents]
        suspected = {rng.choice(documents)} if rng.random() < 0.05 else ()  # noqa: PLR2004 - a share
        return Application(
            application_id=self._id,
            reference=world.reference_of(self._number),
            applied=world.applied_at(self._number),
            updated=world.updated_second(self._number),
            persons=tuple(persons),
            sources=tuple(sources),
            suspected=frozenset(suspected),
        )

    def _sources(self, slot: str, person: Person, *, main: bool) -> list[Source]:
        rng, year = self._rng, self._year
        payer = rng.choice(_EMPLOYERS)
        sources = [self._employed(slot, person, payer, main=main)]
        sources += [
            self._yearly(slot, person, payer, year=year - back, source_type="employment")
            for back in range(1, rng.choice((1, 2, 2, 3)))
        ]
        if rng.random() < 0.35:  # noqa: PLR2004 - a share
            kind = rng.choice(_OTHER_SOURCES)
            sources.append(
                self._yearly(slot, person, rng.choice(_EMPLOYERS), year=year - 1, source_type=kind)
            )
        return sources

    def _employed(self, slot: str, person: Person, payer: str, *, main: bool) -> Source:
        rng, version = self._rng, self._history.version if main else 0
        stubs = invent_paystubs(
            rng,
            invent_employment(rng),
            year=self._year,
            today=self._today,
            count=rng.choice((1, 2, 2, 3)),
            raised=version * _RAISE,
        )
        documents = [
            self._document(
                DocumentType.PAYSTUB,
                person,
                slot=slot,
                payer=payer,
                day=stub.paid,
                cents=stub.gross_to_date,
                stub=stub,
                version=version if stub is stubs[-1] else 0,
            )
            for stub in stubs
        ]
        return Source(
            slot=slot, year=self._year, source_type="employment", documents=tuple(documents)
        )

    def _yearly(
        self, slot: str, person: Person, payer: str, *, year: int, source_type: str
    ) -> Source:
        document = self._document(
            DocumentType.W2 if source_type == "employment" else DocumentType.FORM_1099,
            person,
            slot=slot,
            payer=payer,
            day=date(year, 12, 31),
            cents=self._rng.randrange(900_000, 18_000_000),
        )
        return Source(slot=slot, year=year, source_type=source_type, documents=(document,))

    def _document(
        self,
        kind: DocumentType,
        person: Person,
        *,
        slot: str,
        payer: str,
        day: date,
        cents: int,
        stub: Paystub | None = None,
        version: int = 0,
    ) -> Document:
        self._document_count += 1
        stem = self._id[4:]
        name = f"{kind.value} {day.isoformat()} {slot}"
        files = 2 if stub is None and self._rng.random() < 0.2 else 1  # noqa: PLR2004 - a share
        ending = "png" if (self._number + self._document_count) % 3 == 0 else "pdf"
        return Document(
            kind=kind,
            document_id=f"doc-{stem}-{self._document_count:02d}",
            file_ids=tuple(
                f"file-{stem}-{self._document_count:02d}-{part}" for part in range(1, files + 1)
            ),
            file_names=tuple(f"{name} ({part}).{ending}" for part in range(1, files + 1)),
            slot=slot,
            person=person,
            payer=payer,
            year=day.year if stub is None else self._year,
            cents=cents,
            stub=stub,
            updated=self._world.updated_second(self._number) if version else self._history.first,
            version=version,
        )
