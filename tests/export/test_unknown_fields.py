"""Unknown fields are found wherever they stand, and told with their place."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given

from income_client import ApplicationRecord
from income_client.exporting.rows import ROWS
from income_client.exporting.unknown_fields import unknown_fields
from tests.support.export_records import known_record, record_of, records
from tests.support.payloads import APPLICATION, DOCUMENTS


def _with_unknown(value: Any) -> Any:
    """Add a field to every object."""
    match value:
        case dict():
            return {**{key: _with_unknown(one) for key, one in value.items()}, "unknown": "here"}
        case list():
            return [_with_unknown(one) for one in value]
        case _:
            return value


def _texts(record: ApplicationRecord) -> Iterator[str]:
    for rows in ROWS.values():
        for row in rows(record):
            yield from (text for name, text in row.items() if name.endswith("extra") and text)


def _count(value: Any) -> int:
    match value:
        case dict():
            return ("unknown" in value) + sum(map(_count, value.values()))
        case list():
            return sum(map(_count, value))
        case _:
            return 0


def test_a_record_without_unknown_fields_has_none() -> None:
    """What the contract names stands in columns, and nothing else does in ``extra``."""
    assert unknown_fields(known_record()) == {}
    assert list(_texts(known_record())) == []


def test_no_unknown_field_is_dropped() -> None:
    """One in every object of both replies is found again, as often as there are objects."""
    application = _with_unknown(APPLICATION)
    # By slot and by type stand objects of the service's keys, not of fields.
    for name in ("applicants", "income_calculations"):
        del application[name]["unknown"]
    documents = _with_unknown(DOCUMENTS)
    del documents["documents"]["unknown"]
    for document in documents["documents"]["paystub"]:
        data = document["extracted_data"]
        del data["applicants"]["unknown"]
    record = record_of(application, documents)
    kept = sum(_count(json.loads(text)) for text in _texts(record))
    in_columns = sum(
        _count(json.loads(row[name]))
        for rows in ROWS.values()
        for row in rows(record)
        for name in (
            "structured_data",
            "earnings",
            "deductions",
            "taxes",
            "extracted_data",
            "pages",
        )
        if row.get(name)
    )
    assert kept + in_columns == _count(application) + _count(documents)


@given(records())
def test_unknown_fields_are_told_as_json(record: ApplicationRecord) -> None:
    """Whatever they hold, the text is an object."""
    for text in _texts(record):
        assert isinstance(json.loads(text), dict)
