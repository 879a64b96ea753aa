"""The income that documents support, and what is doubted; knows how to add up, invents the rest."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from income_client import (
    Document,
    IncomeCalculation,
    IncomeSource,
    Paystub,
    SuspectedFraudulent,
    YearlyIncome,
)

from . import invented

_LEAST_CENTS: Final = 2_000_000
_MOST_CENTS: Final = 15_000_000


def calculations(
    number: int, slots: Sequence[str], documents: Sequence[Document], doubted: Iterable[str]
) -> Mapping[str, IncomeCalculation]:
    """Return what was calculated for each applicant.

    Args:
        number: what invented amounts hang on.
        slots: the applicants.
        documents: what supports the amounts.
        doubted: ids of documents; those of no applicant stand with the first.
    """
    papers: dict[str, list[Document]] = {slot: [] for slot in slots}
    doubts: dict[str, list[str]] = {slot: [] for slot in slots}
    slot_of = {document.document_id: _slot_of(document, slots) for document in documents}
    for document in documents:
        if slot := slot_of[document.document_id]:
            papers[slot].append(document)
    for name in doubted:
        if slot := slot_of.get(name, slots[0] if slots else None):
            doubts[slot].append(name)
    return {
        slot: IncomeCalculation(
            incomes=_incomes(number + place, papers[slot]),
            suspected_fraudulent=SuspectedFraudulent(document_ids=tuple(doubts[slot])),
        )
        for place, slot in enumerate(slots)
    }


def _slot_of(document: Document, slots: Sequence[str]) -> str | None:
    data = document.extracted_data
    named = list(data.applicants) if isinstance(data, Paystub) else []
    return next((slot for slot in named if slot in slots), slots[0] if slots else None)


def _incomes(number: int, documents: Sequence[Document]) -> tuple[YearlyIncome, ...]:
    by_year: dict[int, list[Document]] = {}
    for document in documents:
        by_year.setdefault(_year_of(document), []).append(document)
    if not documents:
        by_year = {invented.PRESENT.year - 1: []}
    return tuple(
        YearlyIncome(year=year, income_sources=(_source(number, by_year[year]),))
        for year in sorted(by_year, reverse=True)
    )


def _year_of(document: Document) -> int:
    data = document.extracted_data
    return data.pay_date.year if isinstance(data, Paystub) else invented.PRESENT.year - 1


def _source(number: int, documents: Sequence[Document]) -> IncomeSource:
    slips = [each.extracted_data for each in documents if isinstance(each.extracted_data, Paystub)]
    latest = max(slips, key=lambda slip: slip.pay_date, default=None)
    stated = None if latest is None else latest.gross_pay.ytd
    cents = invented.chance(number, "income").randrange(_LEAST_CENTS, _MOST_CENTS)
    return IncomeSource(
        source_type="employment",
        calculated_income_amount=invented.money(cents) if stated is None else stated,
        document_ids=tuple(document.document_id for document in documents),
    )
