"""Invented applications for looking at: as small, as large and as odd as the contract allows."""

import copy
import io
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from income_client import Application, ApplicationDocuments, ApplicationRecord
from income_client.cli.looking.terminal import show_record
from income_client.cli.looking.view import RecordView
from income_client.cli.output.screen import Screen
from income_client.protocol.wire import decode
from tests.support import strategies
from tests.support.payloads import APPLICATION, DOCUMENTS, Payload

_KINDS: Final = ("employment", "self_employment", "pension", "social_security")
_STUB: Final[Payload] = DOCUMENTS["documents"]["paystub"][0]
_W2: Final[Payload] = DOCUMENTS["documents"]["w2"][0]


def record_of(application: Payload, documents: Payload) -> ApplicationRecord:
    """Return a record as the service's JSON makes it."""
    return ApplicationRecord(
        application=_read(Application, application),
        documents=_read(ApplicationDocuments, documents),
    )


def _read(cls: Any, payload: Payload) -> Any:
    read = decode(cls, msgspec.json.encode(payload))
    assert isinstance(read, cls), read
    return read


RECORDS: Final = st.builds(record_of, strategies.applications(), strategies.documents_replies())
"""Any record at all."""


def paystub(number: int, *, month: int = 1, year: int = 2026, **data: Any) -> Payload:
    """Return a paystub for the first half of a month."""
    stub = copy.deepcopy(_STUB)
    stub["document_id"] = f"doc-{number}"
    stub["extracted_data"] |= {
        "pay_begin_date": f"{year}-{month:02}-01",
        "pay_end_date": f"{year}-{month:02}-14",
        "pay_date": f"{year}-{month:02}-19",
        **data,
    }
    return stub


def w2(number: int) -> Payload:
    """Return a document whose data has no known shape."""
    return {**copy.deepcopy(_W2), "document_id": f"doc-{number}"}


def source(kind: str, amount: float, *document_ids: str) -> Payload:
    """Return a source of income."""
    return {
        "source_type": kind,
        "calculated_income_amount": round(amount, 2),
        "document_ids": list(document_ids),
    }


def calculation(years: dict[int, list[Payload]], *suspected: str) -> Payload:
    """Return the calculation of one applicant."""
    return {
        "incomes": [{"year": year, "income_sources": each} for year, each in years.items()],
        "suspected_fraudulent": {"document_ids": list(suspected)},
    }


def record(
    calculations: dict[str, Payload],
    *,
    stubs: tuple[Payload, ...] = (),
    w2s: tuple[Payload, ...] = (),
) -> ApplicationRecord:
    """Return a record with these calculations and documents, everybody in it being Ada Sample."""
    application = copy.deepcopy(APPLICATION)
    person = application["applicants"]["applicant1"]
    application["applicants"] = dict.fromkeys(calculations, person)
    application["income_calculations"] = calculations
    documents = {**DOCUMENTS, "documents": {"paystub": list(stubs), "w2": list(w2s)}}
    return record_of(application, documents)


def suspicious() -> ApplicationRecord:
    """Return an applicant with several sources, of whose two paystubs one is suspected."""
    years = {
        2026: [
            source("employment", 41_234.5, "doc-1", "doc-2"),
            source("self_employment", 12_000, "doc-nowhere"),
            source("pension", 3_000.25),
        ],
        2025: [source("employment", 80_000, "doc-3"), source("pension", 6_000.5, "doc-3")],
    }
    stubs = (paystub(1, month=2), paystub(2, month=3))
    return record({"applicant1": calculation(years, "doc-2")}, stubs=stubs, w2s=(w2(3),))


def four_applicants() -> ApplicationRecord:
    """Return a record of four, the last of them without any income."""
    calculations = {
        f"applicant{n}": calculation(
            {2026: [source(_KINDS[n % 4], 20_000.0 * n, f"doc-{n}")]} if n < 4 else {}
        )
        for n in range(1, 5)
    }
    return record(calculations, stubs=tuple(paystub(n, month=n) for n in range(1, 4)))


def without_documents() -> ApplicationRecord:
    """Return a record whose amounts are supported by nothing."""
    return record({"applicant1": calculation({2026: [source("employment", 1000)]})})


def twelve_years() -> ApplicationRecord:
    """Return a record of twelve years with up to four sources, one of them below zero."""
    years = {
        year: [
            source(kind, 61_000.37 * (place + 1) + (year - 2000) * 997.1, f"doc-{year}")
            for place, kind in enumerate(_KINDS[: 1 + year % 4])
        ]
        for year in range(2015, 2027)
    }
    years[2020].append(source("rental", -4_321.09, "doc-2020"))
    papers = tuple(w2(year) for year in range(2015, 2026))
    stubs = (paystub(2026, month=3), paystub(1, month=11, year=2025))
    return record({"applicant1": calculation(years, "doc-2018")}, stubs=stubs, w2s=papers)


def long_words() -> ApplicationRecord:
    """Return a record whose texts are long, act on terminals or look like markup."""
    long = "x" * 400
    evil = "<script>alert(1)</script>&\x1b[31m\u202e" + "[red]"
    odd = paystub(1, employer_name=evil + long)
    odd["document_id"] = evil + long
    return record(
        {
            "applicant1": calculation({2026: [source(evil + long, 9.99e14, evil + long)]}),
            evil + long: calculation({2026: [source("_" * 400, 0.01, long)]}, long),
        },
        stubs=(odd,),
    )


def going_on() -> ApplicationRecord:
    """Return a record with the year of its last update, and the one before."""
    years = {2024: [source("employment", 1000)], 2023: [source("employment", 12_000)]}
    return record({"applicant1": calculation(years)})


CASES: Final = {
    "suspicious": suspicious,
    "four applicants": four_applicants,
    "without documents": without_documents,
    "twelve years": twelve_years,
    "going on": going_on,
    "long words": long_words,
}
"""Records by what is special in them."""


def printed(view: RecordView, *, width: int = 80, encoding: str = "utf-8", **options: Any) -> str:
    """Return what is printed of an application, without a terminal unless that is asked for."""
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding=encoding, write_through=True) as file:
        show_record(view, Screen(file=file, width=width, highlight=False, **options))
        return written.getvalue().decode(encoding)
