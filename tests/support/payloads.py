"""One full reply of each kind, with a value for every field that the contract names."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import msgspec

from income_client import Application, ApplicationDocuments, ApplicationRecord, from_json

Payload = dict[str, Any]
Path = tuple[str | int, ...]

_EXACT: Final = msgspec.json.Decoder(float_hook=Decimal)
_TEXT: Final = msgspec.json.Encoder(decimal_format="number", order="deterministic")


def text_of(payload: object) -> bytes:
    """Return a payload as JSON, equal for equal payloads, every digit of a Decimal kept."""
    return _TEXT.encode(payload)


def tree_of(text: bytes) -> Any:
    """Return what a JSON text means, every digit of its numbers kept."""
    return _EXACT.decode(text)


def changed(value: Any, path: Path, new: Any) -> Any:
    """Return a copy with another value in one place."""
    copy = json.loads(json.dumps(value))  # what the value holds twice becomes two
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = new
    return copy


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path of each value that contains no other, and the value."""
    inner: list[tuple[str | int, Any]] = []
    match value:
        case dict():
            inner = list(value.items())
        case list():
            inner = list(enumerate(value))
    if not inner:
        yield path, value
    for step, item in inner:
        yield from leaves(item, (*path, step))


def row_of_list(application_id: str | None = "app-1", **changed: Any) -> Payload:
    """Return a row of the list (contract section 2.1), the one place that knows its fields."""
    return {
        "application_id": application_id,
        "application_reference_id": "loan-1",
        "application_date": "2024-01-05T09:30:00",
        **changed,
    }


BOUNDS: Payload = {
    "updated_after": "2024-01-01T00:00:00",
    "updated_before": "2024-02-01T00:00:00",
}
PAGE: Payload = {**BOUNDS, "applications": [row_of_list()]}

_ADDRESS: Payload = {
    "street_address": "1 Invented Way", "city": "Nowhere", "state": "ZZ", "zip": "00000",
}  # fmt: skip

# fmt: off
APPLICATION: Payload = {
    "application_id": "app-1", "application_reference_id": "loan-1",
    "application_date": "2024-01-05T09:30:00", "last_updated_at": "2024-01-31T10:00:00Z",
    "applicants": {"applicant1": {
        "first_name": "Ada", "last_name": "Sample", "email": "ada@example.org",
        "phone": "5550100", "ssn": "000112222", "date_of_birth": "1980-02-29",
        "address_info": [{
            "address": _ADDRESS,
            "is_current": True, "start_date": "2020-01-01", "end_date": None,
        }],
    }},
    "income_calculations": {"applicant1": {
        "incomes": [{
            "year": 2023,
            "income_sources": [{
                "source_type": "wages",
                "calculated_income_amount": 51234.56,
                "document_ids": ["doc-1"],
            }],
        }],
        "suspected_fraudulent": {"document_ids": ["doc-2"]},
    }},
    "data_sources": {
        "image_files": [{"file_id": "file-1", "file_reference_id": "ada-sample-paystub.pdf"}],
        "structured_data": [{"kind": "payroll", "values": [1, 2.5]}],
    },
}

_PAYSTUB: Payload = {
    "applicants": {"applicant1": {
        "address": {**_ADDRESS, "street_2": "Flat 2"},
        "first_name": "Ada", "middle_name": None, "last_name": "Sample", "suffix": "Jr",
        "ssn": "***-**-2222",
    }},
    "employer_name": "Invented Works",
    "pay_begin_date": "2024-01-01", "pay_end_date": "2024-01-14", "pay_date": "2024-01-19",
    "pay_period_frequency": "biweekly",
    "hours_worked": 80.0,
    "regular_pay":    {"current": 1600,    "ytd": 1600.0},
    "gross_pay":      {"current": 1734.5,  "ytd": 1734.5},
    "overtime_pay":   {"current": 134.5,   "ytd": 134.5},
    "garnishments":   {"current": "",      "ytd": ""},
    "loans401_k":     {"current": "",      "ytd": ""},
    "commission_pay": {"current": "",      "ytd": ""},
    "tips_pay":       {"current": "",      "ytd": ""},
    "vacation_pay":   {"current": "",      "ytd": ""},
    "bonus_pay":      {"current": 0,       "ytd": 250},
    "sick_pay":       {"current": "",      "ytd": 12.25},
    "net_pay":        {"current": 1301.07, "ytd": 1301.07},
    "earnings": [{"name": "regular", "amount": 1600}],
    "deductions": [],
    "taxes": [{"name": "federal", "amount": 210.5}],
}

_DOCUMENT: Payload = {
    "document_id": "doc-1",
    "file_ids": ["file-1"], "file_reference_ids": ["ada-sample-paystub.pdf"],
    "url": "https://bucket.s3.amazonaws.com/file-1?X-Amz-Signature=0123456789abcdef",
    "extracted_data": _PAYSTUB,
    "updated_at": "2024-01-31T10:00:00Z", "data_action": "create",
}

DOCUMENTS: Payload = {
    "application_id": "app-1", "application_reference_id": "loan-1",
    "documents": {
        "paystub": [_DOCUMENT, {**_DOCUMENT, "pages": {"1": {"text": "Ada Sample"}}}],
        "unknown_form": [{**_DOCUMENT, "extracted_data": {"wages": 51234.56, "ssn": "000112222"}}],
    },
}
# fmt: on


def record_of(application: Payload, documents: Payload | None) -> ApplicationRecord:
    """Read a record from replies."""
    read = None if documents is None else from_json(ApplicationDocuments, text_of(documents))
    return ApplicationRecord(
        application=from_json(Application, text_of(application)), documents=read
    )


def known_record() -> ApplicationRecord:
    """Return one with a value for every field of the contract."""
    return record_of(APPLICATION, DOCUMENTS)
