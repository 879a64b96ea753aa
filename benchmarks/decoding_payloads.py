"""Replies of the sizes that the goals are about, invented from seeded chance; decodes nothing.

An application with two applicants (3.5 KB), the documents of one (24 KB: twelve
paystubs and two W-2), and pages of the list. No amount stands twice by design,
so that nothing is gained by remembering what was seen.
"""

import random
from typing import Any, Final

import orjson

Payload = dict[str, Any]

_PAIRS: Final = (
    *("regular_pay", "gross_pay", "overtime_pay", "garnishments", "loans401_k", "bonus_pay"),
    *("commission_pay", "tips_pay", "sick_pay", "vacation_pay", "net_pay"),
)
_SIGNED: Final = (
    "response-content-disposition=attachment&X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Credential=INVENTEDINVENTED0000%2F20240131%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20240131T100000Z&X-Amz-Expires=3600&X-Amz-SignedHeaders=host"
    f"&X-Amz-Security-Token={'Invented' * 16}"
)
_PAID: Final = frozenset(_PAIRS) - {"garnishments", "loans401_k", "commission_pay", "tips_pay"}


def page(rows: int, first: int = 0) -> bytes:
    """Return a page of the list (contract section 2.1).

    Args:
        rows: how many summaries it has.
        first: the number of its first application; pages of other numbers share no text.
    """
    return orjson.dumps(
        {
            "updated_after": "2024-01-01T00:00:00",
            "updated_before": "2024-02-01T00:00:00",
            "applications": [_summary(number) for number in range(first, first + rows)],
        }
    )


def _summary(number: int) -> Payload:
    return {
        "application_id": f"5f3a1c20-8b1e-4a52-9c07-{number:012d}",
        "application_reference_id": f"loan-{number:08d}",
        "application_date": f"2024-01-{number % 28 + 1:02d}T09:{number % 60:02d}:00",
    }


def application() -> bytes:
    """Return an application with two applicants (contract section 2.2)."""
    chance = random.Random(7)
    slots = ("applicant1", "applicant2")
    return orjson.dumps(
        {
            "last_updated_at": "2024-01-31T10:00:00Z",
            **_summary(1),
            "applicants": {slot: _applicant() for slot in slots},
            "income_calculations": {slot: _calculation(chance) for slot in slots},
            "data_sources": {
                "image_files": [
                    {
                        "file_id": f"9d1b7c44-0000-4f00-8000-{number:012d}",
                        "file_reference_id": f"invented-paystub-{number:04d}.pdf",
                    }
                    for number in range(10)
                ],
                "structured_data": [],
            },
        }
    )


def _applicant() -> Payload:
    return {
        "first_name": "Ada",
        "last_name": "Sample",
        "email": "ada.sample@example.org",
        "phone": "5550100123",
        "ssn": "000112222",
        "date_of_birth": "1980-02-29",
        "address_info": [
            {
                "address": _address(),
                "is_current": end is None,
                "start_date": "2015-06-01",
                "end_date": end,
            }
            for end in (None, "2020-05-31")
        ],
    }


def _address() -> Payload:
    return {
        "street_address": "1 Invented Way",
        "city": "Nowhere",
        "state": "ZZ",
        "zip": "00000",
    }


def _calculation(chance: random.Random) -> Payload:
    return {
        "incomes": [
            {
                "year": year,
                "income_sources": [
                    {
                        "source_type": kind,
                        "calculated_income_amount": chance.randrange(10**7) / 100,
                        "document_ids": [f"2c9e6f10-0000-4d00-8000-{year:012d}"],
                    }
                    for kind in ("wages", "overtime")
                ],
            }
            for year in (2022, 2023)
        ],
        "suspected_fraudulent": {"document_ids": []},
    }


def documents() -> bytes:
    """Return a documents reply with 12 paystubs and 2 W-2 (contract section 2.3)."""
    chance = random.Random(11)
    w2 = {f"box_{number}": chance.randrange(10**7) / 100 for number in range(1, 21)}
    return orjson.dumps(
        {
            "application_id": _summary(1)["application_id"],
            "application_reference_id": _summary(1)["application_reference_id"],
            "documents": {
                "paystub": [_document(number, _paystub(chance)) for number in range(12)],
                "w2": [_document(number, w2) for number in (12, 13)],
            },
        }
    )


def _document(number: int, data: Payload) -> Payload:
    return {
        "document_id": f"2c9e6f10-0000-4d00-8000-{number:012d}",
        "file_ids": [f"9d1b7c44-0000-4f00-8000-{number:012d}"],
        "file_reference_ids": [f"invented-paystub-{number:04d}.pdf"],
        "url": "https://bucket.s3.amazonaws.com/"
        f"9d1b7c44-0000-4f00-8000-{number:012d}?{_SIGNED}&X-Amz-Signature={number:064x}",
        "extracted_data": data,
        "updated_at": "2024-01-31T10:00:00Z",
        "data_action": "create",
    }


def _paystub(chance: random.Random) -> Payload:
    return {
        "applicants": {
            "applicant1": {
                "address": {**_address(), "street_2": None},
                "first_name": "Ada",
                "middle_name": None,
                "last_name": "Sample",
                "suffix": None,
                "ssn": "***-**-2222",
            },
        },
        "employer_name": "Invented Works",
        "pay_begin_date": "2024-01-01",
        "pay_end_date": "2024-01-14",
        "pay_date": "2024-01-19",
        "pay_period_frequency": "biweekly",
        "hours_worked": 80.0,
        **{name: _pair(chance, is_paid=name in _PAID) for name in _PAIRS},
        "earnings": _lines(chance, "Regular", "Overtime"),
        "deductions": _lines(chance, "Medical", "Dental"),
        "taxes": _lines(chance, "Federal", "State"),
    }


def _lines(chance: random.Random, *names: str) -> list[Payload]:
    return [{"name": name, "amount": chance.randrange(10**6) / 100} for name in names]


def _pair(chance: random.Random, *, is_paid: bool) -> Payload:
    if not is_paid:
        return {"current": "", "ytd": ""}
    return {"current": chance.randrange(10**6) / 100, "ytd": chance.randrange(10**7) / 100}
