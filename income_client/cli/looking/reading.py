"""An application's record as what is shown of it: decides what may be seen, and draws nothing.

Where personal data is masked, nothing of it goes into the view, not even its length:
names, numbers, addresses, employers and the partner's names of files are left out,
and so are kinds and types that are not written like the contract's own words. The
partner's reference of the application stays: it is the partner's key, by which
people find in their own system what they look at here. A file's name is no key of
theirs, and often has a person's in it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
from attrs import frozen

from income_client import (
    AddressEntry,
    Applicant,
    ApplicationRecord,
    Document,
    IncomeCalculation,
    IncomeSource,
    Paystub,
)
from income_client.cli.output import printable

from .amounts import amount_text
from .view import (
    ApplicantView,
    Days,
    DocumentView,
    Fact,
    RecordView,
    SourcesView,
    SourceView,
    Support,
    YearView,
)

HIDDEN: Final = "\u2022" * 8
"""What stands for a name, however long that is."""

_PLAIN_KEY: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
"""How the contract writes its own words, and nobody a name."""
_LONGEST_KEY: Final = 40
_SLOT: Final = re.compile(r"applicant([0-9]{1,3})", re.ASCII)
_SSN: Final = re.compile(r"([0-9]{3})([0-9]{2})([0-9]{4})", re.ASCII)
_UNKNOWN: Final = frozenset({"extra", "extracted_extra"})


def view_of(record: ApplicationRecord, *, show_personal_data: bool = False) -> RecordView:
    """Return what is shown of an application.

    Args:
        record: the application, best with its documents.
        show_personal_data: whether that tells who the borrowers are.
    """
    return _Viewer(record, shows_all=show_personal_data).view()


@frozen(kw_only=True)
class _Use:
    """An amount that a document supports."""

    year: int
    """Of which year."""
    text: str
    """In words."""


class _Viewer:
    """Makes the view of one record.

    Args:
        record: the application.
        shows_all: whether personal data may be seen.
    """

    def __init__(self, record: ApplicationRecord, *, shows_all: bool) -> None:
        self._record = record
        self._shows_all = shows_all
        calculations = record.application.income_calculations
        self._calculations = calculations
        self._entries = tuple(record.documents.all()) if record.documents else ()
        self._suspected = {
            one for each in calculations.values() for one in each.suspected_fraudulent.document_ids
        }
        self._marks = {
            entry.document.document_id: Support(
                mark=f"D{place}",
                label=self._key(entry.document_type),
                is_suspected=entry.document.document_id in self._suspected,
            )
            for place, entry in reversed([*enumerate(self._entries, 1)])
        }
        slots = dict.fromkeys([*record.application.applicants, *calculations])
        self._slots = {slot: place for place, slot in enumerate(slots, 1)}
        # What is called the same has the same colour: a key of colours names it once.
        kinds = dict.fromkeys(self._key(each.source_type) for each, _, _ in _sources(calculations))
        self._hues = {kind: place for place, kind in enumerate(kinds)}

    def view(self) -> RecordView:
        application = self._record.application
        return RecordView(
            application_id=printable(application.application_id),
            reference=printable(application.application_reference_id),
            applied=application.application_date.date().isoformat(),
            updated=f"{application.last_updated_at:%Y-%m-%d %H:%M} UTC",
            is_masked=not self._shows_all,
            applicants=tuple(self._applicant(slot) for slot in self._slots),
            documents=tuple(self._documents()),
            suspected_elsewhere=tuple(
                printable(each) for each in sorted(self._suspected - self._marks.keys())
            ),
            sources=self._sources(),
            further_fields=_unknown_fields(self._record),
        )

    def _key(self, text: str, other: str = "other") -> str:
        """Return a key or kind in words; a masked one only if it is no name by its looks."""
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
        is_shown = self._shows_all and person is not None
        return ApplicantView(
            heading=self._heading(slot),
            name=_full_name(person) if person and is_shown else HIDDEN,
            facts=tuple(_person_facts(person)) if person and is_shown else (),
            years=tuple(self._years(calculation)) if calculation else (),
        )

    def _years(self, calculation: IncomeCalculation) -> Iterator[YearView]:
        by_year: dict[int, list[IncomeSource]] = {}
        for income in calculation.incomes:
            by_year.setdefault(income.year, []).extend(income.income_sources)
        for year in sorted(by_year, reverse=True):
            yield YearView(
                year=year,
                sources=tuple(self._source(source) for source in by_year[year]),
                # The service's own time: what is a year's end elsewhere does not matter.
                is_over=year != self._record.application.last_updated_at.year,
            )

    def _source(self, source: IncomeSource) -> SourceView:
        name = self._key(source.source_type)
        return SourceView(
            name=name,
            hue=self._hues[name],
            amount=source.calculated_income_amount,
            support=tuple(self._support(each) for each in dict.fromkeys(source.document_ids)),
        )

    def _support(self, document_id: str) -> Support:
        label = printable(document_id)
        if self._record.documents is not None:
            label += " (missing)"
        return self._marks.get(document_id) or Support(
            mark="", label=label, is_suspected=document_id in self._suspected
        )

    def _documents(self) -> Iterator[DocumentView]:
        uses: dict[str, list[_Use]] = {}
        for source, year, slot in _sources(self._calculations):
            text = (
                f"{amount_text(source.calculated_income_amount)} from "
                f"{self._key(source.source_type)} in {year} ({self._heading(slot)})"
            )
            for each in dict.fromkeys(source.document_ids):
                uses.setdefault(each, []).append(_Use(year=year, text=text))
        for place, entry in enumerate(self._entries, 1):
            document = entry.document
            used = uses.get(document.document_id, [])
            stub = document.extracted_data
            yield DocumentView(
                mark=f"D{place}",
                type_name=self._key(entry.document_type),
                document_id=printable(document.document_id),
                period=_period(stub) if isinstance(stub, Paystub) else None,
                paid=stub.pay_date if isinstance(stub, Paystub) else None,
                years=tuple(sorted({use.year for use in used})),
                supports=tuple(use.text for use in used),
                facts=tuple(self._document_facts(document)),
                is_suspected=document.document_id in self._suspected,
            )

    def _document_facts(self, document: Document) -> Iterator[Fact]:
        match document.extracted_data:
            case Paystub() as stub:
                if self._shows_all:
                    yield Fact(name="employer", value=printable(stub.employer_name))
                yield Fact(name="", value=self._key(stub.pay_period_frequency, "other frequency"))
                for name, pair in (("gross", stub.gross_pay), ("net", stub.net_pay)):
                    if pair.current is not None:
                        yield Fact(name=name, value=amount_text(pair.current))
            case Mapping() as data:
                yield Fact(name="fields read", value=f"{len(data):,}")
            case _:
                pass
        if len(document.file_ids) != 1:
            yield Fact(name="files", value=f"{len(document.file_ids):,}")

    def _sources(self) -> SourcesView:
        sources = self._record.application.data_sources
        return SourcesView(
            files=tuple(
                Fact(
                    name=printable(file.file_id),
                    value=printable(file.file_reference_id) if self._shows_all else "",
                )
                for file in sources.image_files
            ),
            structured=len(sources.structured_data),
        )


def _sources(
    calculations: Mapping[str, IncomeCalculation],
) -> Iterator[tuple[IncomeSource, int, str]]:
    for slot, calculation in calculations.items():
        for income in calculation.incomes:
            for source in income.income_sources:
                yield source, income.year, slot


def _full_name(person: Applicant) -> str:
    return printable(f"{person.first_name} {person.last_name}".strip())


def _person_facts(person: Applicant) -> Iterator[Fact]:
    yield Fact(name="born", value=person.date_of_birth.isoformat())
    yield Fact(name="SSN", value=printable(_SSN.sub(r"\1-\2-\3", person.ssn)))
    yield Fact(name="e-mail", value=printable(person.email))
    yield Fact(name="phone", value=printable(person.phone))
    for entry in sorted(person.address_info, key=lambda one: not one.is_current):
        yield Fact(name="lives at" if entry.is_current else "lived at", value=_home(entry))


def _home(entry: AddressEntry) -> str:
    home = entry.address
    until = f" to {entry.end_date}" if entry.end_date else ""
    since = "from" if until else "since"
    return printable(
        f"{home.street_address}, {home.city}, {home.state} {home.zip} "
        f"({since} {entry.start_date}{until})"
    )


def _period(stub: Paystub) -> Days:
    first, last = sorted((stub.pay_begin_date, stub.pay_end_date))
    return Days(first=first, last=last)


def _unknown_fields(value: Any) -> int:
    """Count fields that the contract does not name, in records within records too."""
    if attrs.has(type(value)):
        own = sum(len(getattr(value, name, ())) for name in _UNKNOWN)
        return own + _unknown_in(
            getattr(value, each.name)
            for each in attrs.fields(type(value))
            if each.name not in _UNKNOWN
        )
    if isinstance(value, Mapping):
        return _unknown_in(each for each in value.values() if not isinstance(each, Mapping))
    return _unknown_in(value) if isinstance(value, tuple) else 0


def _unknown_in(values: Iterable[Any]) -> int:
    return sum(_unknown_fields(each) for each in values)
