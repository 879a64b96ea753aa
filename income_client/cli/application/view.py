"""What is shown of an application: decides what may be seen, and draws nothing.

Where personal data is masked, nothing of it goes into the view, not even its length:
names, numbers, addresses, employers and the partner's names of files are left out,
and so are kinds and types that are not written like the contract's own words. The
partner's reference of the application stays: it is the partner's key, by which
people find in their own system what they look at here. A file's name is no such key,
and often has a person's name in it.
"""

import calendar
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, date
from decimal import Context, Decimal
from functools import reduce
from typing import Any, Final, Self

import attrs
from attrs import frozen

from income_client import (
    AddressEntry,
    Applicant,
    ApplicationRecord,
    Document,
    IncomeCalculation,
    IncomeSource,
)
from income_client.cli.output import counted
from income_client.records.document_types import DocumentFact, type_of
from income_client.texts import printable

HIDDEN: Final = "\u2022" * 8
"""What is shown in place of a name, however long that is."""

_EXACT: Final = Context(prec=200)
"""Room for every digit of a sum: an amount has at most 40 on either side of the point."""
_LONGEST_AMOUNT: Final = 28
_PLAIN_KEY: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
"""How the contract writes its own words; names are not written like this."""
_LONGEST_KEY: Final = 40
_SLOT: Final = re.compile(r"applicant([0-9]{1,3})", re.ASCII)
_SSN: Final = re.compile(r"([0-9]{3})([0-9]{2})([0-9]{4})", re.ASCII)
_UNKNOWN: Final = frozenset({"extra", "extracted_extra"})
_TICKS: Final = 6
_TICK_YEARS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_TICK_MONTHS: Final = (1, 2, 3, 6, *(12 * years for years in _TICK_YEARS))

Fact = tuple[str, str]
"""What something is called, and what it is; the name is empty where the value says it all."""
Days = tuple[date, date]
"""The first day and the last."""


@frozen(kw_only=True)
class Support:
    """A document behind an amount."""

    mark: str
    """Its mark in the list of documents, such as ``D3``; empty if it is not there."""
    text: str
    is_suspected: bool


@frozen(kw_only=True)
class SourceView:
    """What one source gave in one year."""

    name: str
    amount: Decimal
    support: tuple[Support, ...]

    @property
    def is_suspected(self) -> bool:
        """Whether a document behind it is suspected to be fraudulent."""
        return any(each.is_suspected for each in self.support)


@frozen(kw_only=True)
class YearView:
    """The income of one year."""

    year: int
    is_over: bool
    """Whether it had ended when the application was last updated."""
    sources: tuple[SourceView, ...]

    @property
    def text(self) -> str:
        """The year in words."""
        return f"{self.year}" if self.is_over else f"{self.year} so far"

    @property
    def is_suspected(self) -> bool:
        """Whether an amount of it rests on a suspected document."""
        return any(source.is_suspected for source in self.sources)

    @property
    def total(self) -> Decimal:
        """The exact sum over the sources."""
        return _sum(source.amount for source in self.sources)

    @property
    def height(self) -> Decimal:
        """The sum of the sources above zero: as high as its column has to be."""
        return _sum(source.amount for source in self.sources if source.amount > 0)


@frozen(kw_only=True)
class ApplicantView:
    """A borrower and the calculated income."""

    heading: str
    name: str
    facts: tuple[Fact, ...]
    """What else is known of the person; empty where it may not be seen."""
    years: tuple[YearView, ...]
    """The latest first."""

    @property
    def kinds(self) -> list[str]:
        """The name of each kind of source."""
        return list(dict.fromkeys(source.name for year in self.years for source in year.sources))


@frozen(kw_only=True)
class DocumentView:
    """A document and its place in time."""

    mark: str
    """``D1`` and so on, in the service's order."""
    label: str
    """Mark and type."""
    document_id: str
    is_suspected: bool
    days: str
    """Its period, or the years that it supports, in words."""
    spans: tuple[Days, ...]
    """The same as days: its period, or each of the years."""
    has_period: bool
    paid: date | None
    """The day of payment; None where it says nothing of one."""
    facts: tuple[Fact, ...]


@frozen(kw_only=True)
class RecordView:
    """All that is shown of an application."""

    application_id: str
    facts: tuple[Fact, ...]
    is_masked: bool
    applicants: tuple[ApplicantView, ...]
    documents: tuple[DocumentView, ...]
    suspicions: tuple[str, ...]
    """A sentence about each document that is suspected to be fraudulent."""
    files: tuple[Fact, ...]
    """Ids of the files of the calculation, with the partner's names where these may be seen."""
    notes: tuple[str, ...]

    @property
    def together(self) -> tuple[YearView, ...]:
        """Income of all applicants by year, the latest first."""
        years: dict[int, list[YearView]] = {}
        for person in self.applicants:
            for year in person.years:
                years.setdefault(year.year, []).append(year)
        return tuple(
            YearView(
                year=number,
                is_over=all(each.is_over for each in years[number]),
                sources=tuple(source for each in years[number] for source in each.sources),
            )
            for number in sorted(years, reverse=True)
        )


@frozen(kw_only=True)
class TimeLine:
    """Whole months, from the first day of any document to the last."""

    first: date
    last: date

    @classmethod
    def of(cls, documents: Sequence[DocumentView]) -> Self | None:
        """Return the time line of these documents; None where no day is known."""
        days = [day for each in documents for span in each.spans for day in span]
        days += [each.paid for each in documents if each.paid is not None]
        if not days:
            return None
        last = max(days)
        _, month_end = calendar.monthrange(last.year, last.month)
        return cls(first=min(days).replace(day=1), last=last.replace(day=month_end))

    def place(self, day: date) -> float:
        """Return where a day begins on the line, 0 to 1."""
        return (day - self.first).days / self._days

    def part(self, span: Days) -> tuple[float, float]:
        """Return where a span begins and how long it is, as shares of the line."""
        return self.place(span[0]), ((span[1] - span[0]).days + 1) / self._days

    @property
    def ticks(self) -> Iterator[tuple[float, str]]:
        """Places of months or years on the line, few enough to be legible."""
        first = self.first.year * 12 + self.first.month - 1
        last = self.last.year * 12 + self.last.month - 1
        step = next(step for step in _TICK_MONTHS if last - first < step * _TICKS)
        for month in range(first + -first % step, last + 1, step):
            day = date(month // 12, month % 12 + 1, 1)
            yield self.place(day), day.isoformat()[: 4 if step % 12 == 0 else 7]

    @property
    def _days(self) -> int:
        return (self.last - self.first).days + 1


def amount_text(amount: Decimal) -> str:
    """Return an amount with grouped thousands, at least two decimals and all its digits.

    One that is too long for any place to show is said to be rounded.
    """
    if not amount:
        return "0.00"
    exact = amount.normalize(_EXACT)
    decimals = max(2, -int(exact.as_tuple().exponent))
    text = f"{exact:,.{decimals}f}"
    return text if len(text) <= _LONGEST_AMOUNT else f"about {exact:.6e}"


def view_of(record: ApplicationRecord, *, show_personal_data: bool = False) -> RecordView:
    """Return what is shown of an application, with or without what identifies the borrowers."""
    return _Viewer(record, shows_all=show_personal_data).view()


class _Viewer:
    """Makes the view of one record; decides here alone what of it may be seen."""

    def __init__(self, record: ApplicationRecord, *, shows_all: bool) -> None:
        self._record = record
        self._shows_all = shows_all
        self._calculations = record.application.income_calculations
        self._entries = tuple(record.documents.all()) if record.documents else ()
        self._suspected = {
            document_id
            for each in self._calculations.values()
            for document_id in each.suspected_fraudulent.document_ids
        }
        self._places: dict[str, int] = {}
        for place, entry in enumerate(self._entries, 1):
            self._places.setdefault(entry.document.document_id, place)
        slots = dict.fromkeys([*record.application.applicants, *self._calculations])
        self._slots = {slot: place for place, slot in enumerate(slots, 1)}
        self._uses: dict[str, list[tuple[int, str]]] = {}
        for source, year, slot in self._sources():
            text = (
                f"{amount_text(source.calculated_income_amount)} from "
                f"{self._key_words(source.source_type)} in {year} ({self._heading(slot)})"
            )
            for document_id in dict.fromkeys(source.document_ids):
                self._uses.setdefault(document_id, []).append((year, text))

    def view(self) -> RecordView:
        application = self._record.application
        updated = application.last_updated_at
        return RecordView(
            application_id=printable(application.application_id),
            facts=(
                ("Reference", printable(application.application_reference_id)),
                ("applied", f"{application.application_date.date()}"),
                ("updated", f"{updated.date()} {updated:%H:%M} UTC"),
            ),
            is_masked=not self._shows_all,
            applicants=tuple(self._applicant(slot) for slot in self._slots),
            documents=tuple(self._documents()),
            suspicions=tuple(self._suspicions()),
            files=tuple(
                (
                    printable(file.file_id),
                    printable(file.file_reference_id) if self._shows_all else "",
                )
                for file in application.data_sources.image_files
            ),
            notes=tuple(self._notes()),
        )

    def _sources(self) -> Iterator[tuple[IncomeSource, int, str]]:
        for slot, calculation in self._calculations.items():
            for income in calculation.incomes:
                for source in income.income_sources:
                    yield source, income.year, slot

    def _key_words(self, text: str, other: str = "other") -> str:
        """Return a key or kind in words; a masked one only if it cannot be a name."""
        is_plain = len(text) <= _LONGEST_KEY and _PLAIN_KEY.fullmatch(text)
        if self._shows_all or is_plain:
            return printable(text.replace("_", " ")) or "unnamed"
        return other

    def _heading(self, slot: str) -> str:
        if found := _SLOT.fullmatch(slot):
            return f"Applicant {found[1]}"
        if self._shows_all:
            return printable(slot) or "Applicant"
        return f"Applicant {self._slots[slot]}"

    def _applicant(self, slot: str) -> ApplicantView:
        person = self._record.application.applicants.get(slot)
        calculation = self._calculations.get(slot)
        name = HIDDEN
        facts: tuple[Fact, ...] = ()
        if self._shows_all and person is not None:
            name = printable(f"{person.first_name} {person.last_name}".strip())
            facts = tuple(_person_facts(person))
        years = tuple(self._years(calculation)) if calculation else ()
        return ApplicantView(heading=self._heading(slot), name=name, facts=facts, years=years)

    def _years(self, calculation: IncomeCalculation) -> Iterator[YearView]:
        by_year: dict[int, list[IncomeSource]] = {}
        for income in calculation.incomes:
            by_year.setdefault(income.year, []).extend(income.income_sources)
        for year in sorted(by_year, reverse=True):
            yield YearView(
                year=year,
                # By the service's own time, wherever the year may be over by now.
                is_over=year != self._record.application.last_updated_at.year,
                sources=tuple(self._source(source) for source in by_year[year]),
            )

    def _source(self, source: IncomeSource) -> SourceView:
        return SourceView(
            name=self._key_words(source.source_type),
            amount=source.calculated_income_amount,
            support=tuple(self._support(each) for each in dict.fromkeys(source.document_ids)),
        )

    def _support(self, document_id: str) -> Support:
        place = self._places.get(document_id)
        if place is not None:
            mark, text = f"D{place}", self._label(place)
        else:
            mark, text = "", printable(document_id)
            if self._record.documents is not None:
                text += " (missing)"
        return Support(mark=mark, text=text, is_suspected=document_id in self._suspected)

    def _label(self, place: int) -> str:
        return f"D{place} {self._key_words(self._entries[place - 1].document_type)}"

    def _documents(self) -> Iterator[DocumentView]:
        for place, entry in enumerate(self._entries, 1):
            document = entry.document
            kind = type_of(document.extracted_data)
            period = kind.period(document.extracted_data)
            if period is not None:
                first, last = sorted(period)
                days, spans = f"{first} to {last}", [(first, last)]
            else:
                years = sorted({year for year, _ in self._uses.get(document.document_id, ())})
                days = f"supports {', '.join(map(str, years)) or 'no amount'}"
                spans = [
                    (date(year, 1, 1), date(year, 12, 31))
                    for year in years
                    if MINYEAR <= year <= MAXYEAR
                ]
            yield DocumentView(
                mark=f"D{place}",
                label=self._label(place),
                document_id=printable(document.document_id),
                is_suspected=document.document_id in self._suspected,
                days=days,
                spans=tuple(spans),
                has_period=period is not None,
                paid=kind.paid_on(document.extracted_data),
                facts=tuple(self._document_facts(document)),
            )

    def _document_facts(self, document: Document) -> Iterator[Fact]:
        data = document.extracted_data
        for fact in type_of(data).facts(data):
            if fact.value is not None and (self._shows_all or not fact.is_personal):
                yield fact.name, self._value(fact)
        if isinstance(data, Mapping):
            yield "fields read", f"{len(data):,}"
        if len(document.file_ids) != 1:
            yield "files", f"{len(document.file_ids):,}"

    def _value(self, fact: DocumentFact) -> str:
        match fact.value:
            case Decimal() as amount:
                return amount_text(amount)
            case str() as text:
                return printable(text) if fact.is_personal else self._key_words(text, fact.other)
            case other:
                return f"{other}"

    def _suspicions(self) -> Iterator[str]:
        for place, entry in enumerate(self._entries, 1):
            document_id = entry.document.document_id
            if document_id in self._suspected:
                amounts = ", ".join(text for _, text in self._uses.get(document_id, ()))
                shown = f"{self._label(place)}, {printable(document_id)}"
                yield f"{shown}. It supports {amounts or 'no amount'}."
        for document_id in sorted(self._suspected - self._places.keys()):
            yield f"{printable(document_id)}, which is not among the documents."

    def _notes(self) -> Iterator[str]:
        sources = self._record.application.data_sources
        files = counted(len(sources.image_files), "file")
        yield f"Calculated from {files} and {counted(len(sources.structured_data), 'other input')}."
        if unknown := _unknown_fields(self._record):
            yield f"{counted(unknown, 'further field')}, see --output json."


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return reduce(_EXACT.add, amounts, Decimal(0))


def _person_facts(person: Applicant) -> Iterator[Fact]:
    yield "born", f"{person.date_of_birth}"
    yield "SSN", printable(_SSN.sub(r"\1-\2-\3", person.ssn))
    yield "e-mail", printable(person.email)
    yield "phone", printable(person.phone)
    for entry in sorted(person.address_info, key=lambda one: not one.is_current):
        yield "lives at" if entry.is_current else "lived at", _address_text(entry)


def _address_text(entry: AddressEntry) -> str:
    home = entry.address
    since = f"from {entry.start_date} to {entry.end_date}"
    if entry.end_date is None:
        since = f"since {entry.start_date}"
    return printable(f"{home.street_address}, {home.city}, {home.state} {home.zip} ({since})")


def _unknown_fields(value: Any) -> int:
    """Count fields that the contract does not name, in records within records too."""
    if attrs.has(type(value)):
        names = {each.name for each in attrs.fields(type(value))}
        own = sum(len(getattr(value, name)) for name in names & _UNKNOWN)
        return own + sum(_unknown_fields(getattr(value, name)) for name in names - _UNKNOWN)
    if isinstance(value, Mapping):
        return sum(
            _unknown_fields(each) for each in value.values() if not isinstance(each, Mapping)
        )
    return sum(map(_unknown_fields, value)) if isinstance(value, tuple) else 0
