"""Invented files, and those that were added, as the service's JSON.

Each name is written by hand from contract sections 2.2 and 2.3, and none of the package's own
wire rules is imported: a wrong name could cancel itself out.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

import msgspec
from attrs import field, frozen

from .invented import (
    EARNED,
    WITHHELD,
    Application,
    Document,
    DocumentFile,
    DocumentType,
    Paystub,
    Person,
    Source,
    Withholding,
)
from .times import stamp
from .world import Added

_ADDRESS_MARK: Final = "@download-address@"
_PAIRS: Final = (*EARNED, *WITHHELD, "gross_pay", "net_pay")
_CENTS: Final = 100
# Amounts of applications that were added keep their digits.
_JSON: Final = msgspec.json.Encoder(decimal_format="number")


def _money(cents: int | None) -> float | int | str:
    if cents is None:
        return ""
    return cents // _CENTS if cents % _CENTS == 0 else cents / _CENTS


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


def _paystub_applicant_json(person: Person) -> dict[str, Any]:
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


def _source_json(source: Source) -> dict[str, Any]:
    return {
        "source_type": source.source_type,
        "calculated_income_amount": _money(source.cents),
        "document_ids": [document.document_id for document in source.documents],
    }


def _calculation_json(sources: Iterable[Source], suspected: frozenset[str]) -> dict[str, Any]:
    by_year: dict[int, list[dict[str, Any]]] = {}
    document_ids: list[str] = []
    for source in sources:
        by_year.setdefault(source.year, []).append(_source_json(source))
        document_ids += [document.document_id for document in source.documents]
    return {
        "incomes": [
            {"year": year, "income_sources": by_year[year]}
            for year in sorted(by_year, reverse=True)
        ],
        "suspected_fraudulent": {
            "document_ids": [name for name in document_ids if name in suspected],
        },
    }


def application_body(application: Application) -> bytes:
    """Write the application response (contract section 2.2)."""
    slots = [f"applicant{place}" for place in range(1, len(application.persons) + 1)]
    return _JSON.encode(
        {
            "application_id": application.application_id,
            "last_updated_at": stamp(application.updated) + "Z",
            "application_reference_id": application.reference,
            "application_date": stamp(application.applied),
            "applicants": dict(zip(slots, map(applicant_json, application.persons), strict=True)),
            "income_calculations": {
                slot: _calculation_json(
                    [source for source in application.sources if source.slot == slot],
                    application.suspected,
                )
                for slot in slots
            },
            "data_sources": {
                "image_files": [
                    {"file_id": file_id, "file_reference_id": name}
                    for document in application.documents
                    for file_id, name in zip(document.file_ids, document.file_names, strict=True)
                ],
                "structured_data": [],
            },
        }
    )


def _withholding_json(one: Withholding) -> dict[str, Any]:
    return {"name": one.name, "current": _money(one.current), "ytd": _money(one.ytd)}


def _pair(name: str, current: Mapping[str, int | None], ytd: Mapping[str, int | None]) -> Any:
    return {"current": _money(current[name]), "ytd": _money(ytd[name])}


def paystub_json(stub: Paystub, *, payer: str, applicants: Mapping[str, Any]) -> dict[str, Any]:
    """Write the data of a pay slip (contract section 2.3).

    Args:
        stub: its figures.
        payer: the employer.
        applicants: whose it is, by slot.
    """
    return {
        "applicants": applicants,
        "employer_name": payer,
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
        "deductions": [_withholding_json(one) for one in stub.deductions],
        "taxes": [_withholding_json(one) for one in stub.taxes],
    }


def _extracted_json(document: Document) -> dict[str, Any]:
    match document.kind:
        case DocumentType.PAYSTUB:
            if document.stub is None:
                return {}
            applicants = {document.slot: _paystub_applicant_json(document.person)}
            return paystub_json(document.stub, payer=document.payer, applicants=applicants)
        case DocumentType.W2:
            return {
                "employee": {"name": f"{document.person.first_name} {document.person.last_name}"},
                "employer_name": document.payer,
                "tax_year": document.year,
                "wages_tips_other_compensation": _money(document.cents),
                "federal_income_tax_withheld": _money(document.cents * 12 // 100),
                "boxes": {"12": [{"code": "D", "amount": _money(document.cents * 3 // 100)}]},
            }
        case DocumentType.FORM_1099:
            return {
                "recipient": {"name": f"{document.person.first_name} {document.person.last_name}"},
                "payer_name": document.payer,
                "tax_year": document.year,
                "gross_amount": _money(document.cents),
            }
        case _ as never:
            assert_never(never)


def _pages_json(file_ids: Iterable[str]) -> dict[str, Any]:
    pages = [{"page_number": at, "file_id": name} for at, name in enumerate(file_ids, 1)]
    return {"count": len(pages), "items": pages}


def _document_json(document: Document, *, pages: bool) -> dict[str, Any]:
    return {
        "document_id": document.document_id,
        "file_ids": document.file_ids,
        "file_reference_ids": document.file_names,
        "url": _ADDRESS_MARK,
        "extracted_data": _extracted_json(document),
        "updated_at": stamp(document.updated) + "Z",
        "data_action": "update" if document.version else "create",
        **({"pages": _pages_json(document.file_ids)} if pages else {}),
    }


@frozen(kw_only=True)
class DocumentsTemplate:
    """A documents response with gaps for the download addresses, which differ each second."""

    pieces: tuple[bytes, ...] = field(repr=False)
    """What comes before, between and after the addresses."""
    files: tuple[DocumentFile, ...] = field(repr=False)
    """The file of each gap, in order."""

    def fill(self, addresses: Iterable[str]) -> bytes:
        """Return the response with these addresses, which need no escaping in JSON."""
        parts = [self.pieces[0]]
        for address, piece in zip(addresses, self.pieces[1:], strict=True):
            parts += (address.encode(), piece)
        return b"".join(parts)


def _template(content: Mapping[str, Any], files: Iterable[DocumentFile]) -> DocumentsTemplate:
    pieces = _JSON.encode(content).split(_ADDRESS_MARK.encode())
    return DocumentsTemplate(pieces=tuple(pieces), files=tuple(files))


def documents_template(application: Application, *, pages: bool) -> DocumentsTemplate:
    """Write the documents response, its addresses left open (contract section 2.3)."""
    by_type: dict[str, list[Document]] = {}
    for document in application.documents:
        by_type.setdefault(document.kind.value, []).append(document)
    content = {
        "application_id": application.application_id,
        "application_reference_id": application.reference,
        "documents": {
            kind: [_document_json(document, pages=pages) for document in documents]
            for kind, documents in by_type.items()
        },
    }
    return _template(
        content, (document.file for documents in by_type.values() for document in documents)
    )


def added_row(added: Added) -> str:
    """Write the row of the list of an application that was added (contract section 4.1)."""
    names = ("application_id", "application_reference_id", "application_date")
    return _JSON.encode({name: added.application[name] for name in names}).decode()


def added_body(added: Added, updated: int | None) -> bytes:
    """Write the application response of an application that was added.

    Args:
        added: the application.
        updated: service second of its last update, None for the one that was given.
    """
    if updated is None:
        return _JSON.encode(added.application)
    return _JSON.encode({**added.application, "last_updated_at": stamp(updated) + "Z"})


def added_documents(added: Added, *, pages: bool) -> DocumentsTemplate:
    """Write the documents response of an application that was added."""
    files: list[DocumentFile] = []
    written: dict[str, list[dict[str, Any]]] = {}
    for kind, documents in added.documents["documents"].items():
        written[kind] = [_added_document(document, pages=pages) for document in documents]
        files += added_files(documents)
    return _template({**added.documents, "documents": written}, files)


def added_files(documents: Iterable[Mapping[str, Any]]) -> list[DocumentFile]:
    """Return the files of those documents that have one here."""
    return [
        DocumentFile(
            document["document_id"],
            next(iter(document.get("file_reference_ids", ())), f"{document['document_id']}.pdf"),
        )
        for document in documents
        if not document.get("url")
    ]


def _added_document(document: Mapping[str, Any], *, pages: bool) -> dict[str, Any]:
    written = {**document, "url": document.get("url") or _ADDRESS_MARK}
    if not pages:
        written.pop("pages", None)
    elif "pages" not in written:
        written["pages"] = _pages_json(document.get("file_ids", ()))
    return written
