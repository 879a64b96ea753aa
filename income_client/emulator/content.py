"""Cases as the service's JSON, each name written out by hand from the contract.

Knows the field names of contract sections 2.2 and 2.3; imports none of the
package's own wire rules, so that a wrong name cannot cancel out.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

import msgspec
from attrs import field, frozen

from .cases import Case, Paper, PaperKind, Source
from .pay import EARNED, WITHHELD, Levy, Stub
from .people import applicant_json, paystub_applicant_json
from .times import stamp

_ADDRESS_MARK: Final = "@download-address@"
_PAIRS: Final = (*EARNED, *WITHHELD, "gross_pay", "net_pay")
_CENTS: Final = 100


def _money(cents: int | None) -> float | int | str:
    if cents is None:
        return ""
    return cents // _CENTS if cents % _CENTS == 0 else cents / _CENTS


def _source_json(source: Source) -> dict[str, Any]:
    return {
        "source_type": source.source_type,
        "calculated_income_amount": _money(source.cents),
        "document_ids": [paper.document_id for paper in source.papers],
    }


def _calculation_json(sources: Iterable[Source], suspected: frozenset[str]) -> dict[str, Any]:
    by_year: dict[int, list[dict[str, Any]]] = {}
    document_ids: list[str] = []
    for source in sources:
        by_year.setdefault(source.year, []).append(_source_json(source))
        document_ids += [paper.document_id for paper in source.papers]
    return {
        "incomes": [
            {"year": year, "income_sources": by_year[year]}
            for year in sorted(by_year, reverse=True)
        ],
        "suspected_fraudulent": {
            "document_ids": [name for name in document_ids if name in suspected],
        },
    }


def application_body(case: Case) -> bytes:
    """Write the application response (contract section 2.2)."""
    slots = [f"applicant{place}" for place in range(1, len(case.persons) + 1)]
    return msgspec.json.encode(
        {
            "application_id": case.application_id,
            "last_updated_at": stamp(case.updated) + "Z",
            "application_reference_id": case.reference,
            "application_date": stamp(case.applied),
            "applicants": dict(zip(slots, map(applicant_json, case.persons), strict=True)),
            "income_calculations": {
                slot: _calculation_json(
                    [source for source in case.sources if source.slot == slot], case.suspected
                )
                for slot in slots
            },
            "data_sources": {
                "image_files": [
                    {"file_id": file_id, "file_reference_id": name}
                    for paper in case.papers
                    for file_id, name in zip(paper.file_ids, paper.file_names, strict=True)
                ],
                "structured_data": [],
            },
        }
    )


def _levy_json(levy: Levy) -> dict[str, Any]:
    return {"name": levy.name, "current": _money(levy.current), "ytd": _money(levy.ytd)}


def _pair(name: str, current: Mapping[str, int | None], ytd: Mapping[str, int | None]) -> Any:
    return {"current": _money(current[name]), "ytd": _money(ytd[name])}


def _paystub_json(paper: Paper, stub: Stub) -> dict[str, Any]:
    return {
        "applicants": {paper.slot: paystub_applicant_json(paper.person)},
        "employer_name": paper.payer,
        "pay_begin_date": stub.begins.isoformat(),
        "pay_end_date": stub.ends.isoformat(),
        "pay_date": stub.paid.isoformat(),
        "pay_period_frequency": stub.frequency,
        "hours_worked": stub.hours,
        **{name: _pair(name, stub.current, stub.ytd) for name in _PAIRS},
        "earnings": [
            {
                "name": "Regular",
                "hours": stub.hours,
                "rate": _money(stub.rate),
                **_pair("regular_pay", stub.current, stub.ytd),
            }
        ],
        "deductions": [_levy_json(levy) for levy in stub.deductions],
        "taxes": [_levy_json(levy) for levy in stub.taxes],
    }


def _extracted_json(paper: Paper) -> dict[str, Any]:
    match paper.kind:
        case PaperKind.PAYSTUB:
            return {} if paper.stub is None else _paystub_json(paper, paper.stub)
        case PaperKind.W2:
            return {
                "employee": {"name": f"{paper.person.first_name} {paper.person.last_name}"},
                "employer_name": paper.payer,
                "tax_year": paper.year,
                "wages_tips_other_compensation": _money(paper.cents),
                "federal_income_tax_withheld": _money(paper.cents * 12 // 100),
                "boxes": {"12": [{"code": "D", "amount": _money(paper.cents * 3 // 100)}]},
            }
        case PaperKind.FORM_1099:
            return {
                "recipient": {"name": f"{paper.person.first_name} {paper.person.last_name}"},
                "payer_name": paper.payer,
                "tax_year": paper.year,
                "gross_amount": _money(paper.cents),
            }
        case _ as never:
            assert_never(never)


def _pages_json(paper: Paper) -> dict[str, Any]:
    pages = [{"page_number": at, "file_id": name} for at, name in enumerate(paper.file_ids, 1)]
    return {"count": len(pages), "items": pages}


def _document_json(paper: Paper, *, pages: bool) -> dict[str, Any]:
    return {
        "document_id": paper.document_id,
        "file_ids": paper.file_ids,
        "file_reference_ids": paper.file_names,
        "url": _ADDRESS_MARK,
        "extracted_data": _extracted_json(paper),
        "updated_at": stamp(paper.updated) + "Z",
        "data_action": "update" if paper.version else "create",
        **({"pages": _pages_json(paper)} if pages else {}),
    }


@frozen(kw_only=True)
class DocumentsTemplate:
    """A documents response with gaps for the download addresses, which differ each second."""

    pieces: tuple[bytes, ...] = field(repr=False)
    """What stands before, between and after the addresses."""
    papers: tuple[Paper, ...] = field(repr=False)
    """The document of each gap, in order."""

    def fill(self, addresses: Iterable[str]) -> bytes:
        """Return the response with these addresses, which need no escaping in JSON."""
        parts = [self.pieces[0]]
        for address, piece in zip(addresses, self.pieces[1:], strict=True):
            parts += (address.encode(), piece)
        return b"".join(parts)


def documents_template(case: Case, *, pages: bool) -> DocumentsTemplate:
    """Write the documents response, its addresses left open (contract section 2.3)."""
    by_type: dict[str, list[Paper]] = {}
    for paper in case.papers:
        by_type.setdefault(paper.kind.value, []).append(paper)
    body = msgspec.json.encode(
        {
            "application_id": case.application_id,
            "application_reference_id": case.reference,
            "documents": {
                kind: [_document_json(paper, pages=pages) for paper in papers]
                for kind, papers in by_type.items()
            },
        }
    )
    return DocumentsTemplate(
        pieces=tuple(body.split(_ADDRESS_MARK.encode())),
        papers=tuple(paper for papers in by_type.values() for paper in papers),
    )
