"""Invented income files: who applies, what each source paid, which documents support it.

The same seed, number and version make the same case, whatever was asked before.
Knows no JSON.
"""

import enum
from datetime import date, timedelta
from random import Random
from typing import Final

from attrs import field, frozen

from .pay import Stub, invent_employment, invent_stubs
from .people import Person, invent_person
from .times import moment_of

_EMPLOYERS: Final = (  # noqa: SIM905 - names read best as a text
    "Acme Tool Works|Blue Heron Clinic|Cedar & Sons Logistics|Delta Diner|Foundry Nine|"
    "Evergreen School District|Granite State Credit Union|Hilltop Software, Inc."
).split("|")
_OTHER_SOURCES: Final = ("self_employment", "pension", "social_security")
_RAISE: Final = 12_345
_FIRST_PAY: Final = timedelta(days=40)


class PaperKind(enum.Enum):
    """Type of a document; the value is its key in the documents response."""

    PAYSTUB = "paystub"
    W2 = "w2"
    FORM_1099 = "form_1099"


@frozen(kw_only=True)
class Paper:
    """One document of a case."""

    kind: PaperKind
    """Its type."""
    document_id: str
    """Its id."""
    file_ids: tuple[str, ...]
    """Files that it was built from."""
    file_names: tuple[str, ...]
    """What the partner calls these files."""
    slot: str
    """Applicant that it is about."""
    person: Person = field(repr=False)
    """The same, as a person."""
    payer: str
    """Who paid."""
    year: int
    """Year that it is about."""
    cents: int
    """What was paid in that year up to this document."""
    stub: Stub | None = field(default=None, repr=False)
    """The figures of a paystub."""
    updated: int
    """Service second of its last update."""
    version: int
    """How often it changed."""


@frozen(kw_only=True)
class Source:
    """What one payer paid to one applicant in one year."""

    slot: str
    """Applicant who was paid."""
    year: int
    """Year of the payments."""
    source_type: str
    """Kind of income."""
    papers: tuple[Paper, ...]
    """Documents that support the amount, the decisive one last."""

    @property
    def cents(self) -> int:
        """The calculated amount, which is what the last document says."""
        return self.papers[-1].cents


@frozen(kw_only=True)
class Case:
    """Everything invented about one version of one application."""

    application_id: str
    """Its id."""
    reference: str
    """The partner's own reference."""
    applied: int
    """Service second of the application date."""
    updated: int
    """Service second of the last update."""
    persons: tuple[Person, ...]
    """Applicants, from applicant1 on."""
    sources: tuple[Source, ...]
    """Income sources of all applicants and years."""
    suspected: frozenset[str]
    """Documents that look forged."""

    @property
    def papers(self) -> tuple[Paper, ...]:
        """All documents."""
        return tuple(paper for source in self.sources for paper in source.papers)


@frozen(kw_only=True)
class Seed:
    """What a case hangs on, and nothing else does."""

    seed: int
    """Seed of the world."""
    number: int
    """Number of the application."""
    version: int
    """How often it was touched."""
    application_id: str
    """Its id."""
    reference: str
    """The partner's own reference."""
    applied: int
    """Service second of the application date."""
    first: int
    """Service second of the update that it began with."""
    updated: int
    """Service second of the last update."""


class _Composer:
    """Makes one case up; holds the chance and the running numbers of documents."""

    def __init__(self, seed: Seed) -> None:
        self._seed = seed
        self._rng = Random(seed.seed * 1_000_003 + seed.number)
        self._today = moment_of(seed.applied).date()
        # Early in January nobody has a paystub of the new year yet.
        self._year = (self._today - _FIRST_PAY).year
        self._papers = 0

    def compose(self) -> Case:
        rng, seed = self._rng, self._seed
        persons = [invent_person(rng, self._today) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        sources: list[Source] = []
        for place, person in enumerate(persons):
            sources += self._sources(f"applicant{place + 1}", person, main=place == 0)
        papers = [paper.document_id for source in sources for paper in source.papers]
        suspected = {rng.choice(papers)} if rng.random() < 0.05 else ()  # noqa: PLR2004 - a share
        return Case(
            application_id=seed.application_id,
            reference=seed.reference,
            applied=seed.applied,
            updated=seed.updated,
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
        rng, version = self._rng, self._seed.version if main else 0
        stubs = invent_stubs(
            rng,
            invent_employment(rng),
            year=self._year,
            today=self._today,
            count=rng.choice((1, 2, 2, 3)),
            raised=version * _RAISE,
        )
        papers = [
            self._paper(
                PaperKind.PAYSTUB,
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
        return Source(slot=slot, year=self._year, source_type="employment", papers=tuple(papers))

    def _yearly(
        self, slot: str, person: Person, payer: str, *, year: int, source_type: str
    ) -> Source:
        paper = self._paper(
            PaperKind.W2 if source_type == "employment" else PaperKind.FORM_1099,
            person,
            slot=slot,
            payer=payer,
            day=date(year, 12, 31),
            cents=self._rng.randrange(900_000, 18_000_000),
        )
        return Source(slot=slot, year=year, source_type=source_type, papers=(paper,))

    def _paper(
        self,
        kind: PaperKind,
        person: Person,
        *,
        slot: str,
        payer: str,
        day: date,
        cents: int,
        stub: Stub | None = None,
        version: int = 0,
    ) -> Paper:
        self._papers += 1
        stem = self._seed.application_id[4:]
        name = f"{kind.value} {day.isoformat()} {slot}"
        files = 2 if stub is None and self._rng.random() < 0.2 else 1  # noqa: PLR2004 - a share
        ending = "png" if (self._seed.number + self._papers) % 3 == 0 else "pdf"
        return Paper(
            kind=kind,
            document_id=f"doc-{stem}-{self._papers:02d}",
            file_ids=tuple(
                f"file-{stem}-{self._papers:02d}-{part}" for part in range(1, files + 1)
            ),
            file_names=tuple(f"{name} ({part}).{ending}" for part in range(1, files + 1)),
            slot=slot,
            person=person,
            payer=payer,
            year=day.year if stub is None else self._year,
            cents=cents,
            stub=stub,
            updated=self._seed.updated if version else self._seed.first,
            version=version,
        )


def compose_case(seed: Seed) -> Case:
    """Make everything about one version of one application up."""
    return _Composer(seed).compose()
