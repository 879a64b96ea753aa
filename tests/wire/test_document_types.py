"""Document types with a class of the caller's: read strictly, and nothing lost."""

import csv
import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest

from income_client import (
    ConfigurationError,
    DecodeError,
    Document,
    from_json,
    register_document_type,
    to_json,
)
from income_client.records import ApplicationDocuments, Paystub
from income_client.records.fields import UtcTime
from income_client.wire import readers
from tests.support.canaries import CANARY, held_by
from tests.support.payloads import DOCUMENTS, changed, known_record


@attrs.frozen(kw_only=True)
class Employer:
    """A nested class of a registered one."""

    name: str
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Form:
    """A class that keeps unknown fields."""

    wages: Decimal
    employers: tuple[Employer, ...] = ()
    filed: date | None = None
    seen: datetime | None = None
    stamped: UtcTime | None = None
    rate: float = 0.5
    year: int | None = None
    is_final: bool = False
    notes: Mapping[str, str] | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.define
class Closed:
    """A class without a place for unknown fields."""

    wages: int
    box: str = "none"


@pytest.fixture(autouse=True)
def _own_document_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "_document_types", {"paystub": Paystub})


def _reply(data: dict[str, Any]) -> str:
    return json.dumps(changed(DOCUMENTS, ("documents", "unknown_form", 0, "extracted_data"), data))


def _document(**data: Any) -> Any:
    """Return the document with such data, which goes back as it came."""
    text = _reply(data)
    reply = from_json(ApplicationDocuments, text)
    assert json.loads(to_json(reply)) == json.loads(text)
    (document,) = reply.documents["unknown_form"]
    return document


def test_a_registered_class_holds_the_data_of_its_type() -> None:
    """Fields of the class are typed, absent ones have their defaults, unknown ones are in extra."""
    register_document_type("unknown_form", Form)
    register_document_type("unknown_form", Form)
    data: dict[str, Any] = {
        "wages": 51234.5,
        "employers": [{"name": "Invented Works", "ein": "00-0"}],
        "filed": None,
        "seen": "2024-01-31T10:00:00",
        "stamped": "2024-01-31T10:00:00Z",
        "notes": {"a": "b"},
        "rate": 1,
        "box": [1],
    }
    read = _document(**data).extracted_data
    assert isinstance(read, Form)
    assert read.wages == Decimal("51234.5")
    assert read.employers[0].extra == {"ein": "00-0"}
    assert read.extra == {"box": [1], "filed": None}
    assert json.loads(to_json(read)) == data
    assert _document(wages=1).extracted_data == Form(wages=Decimal(1))


def test_a_class_without_extra_loses_nothing_either() -> None:
    """The document keeps the fields that the class lacks, and writes them back."""
    register_document_type("unknown_form", Closed)
    document = _document(wages=1, box="none", tips={"x": 1})
    assert document.extracted_data == Closed(1)
    assert document.extracted_extra == {"tips": {"x": 1}, "box": "none"}
    assert "tips" not in repr(document)
    assert _document(wages=1).extracted_extra == {}


@pytest.mark.parametrize(
    ("data", "path", "reason"),
    [
        ({"wages": "12"}, ".wages", "a number, found a string"),
        ({"employers": [{"name": 5}]}, ".employers[0].name", "a string, found a number"),
        ({"employers": [{"name": None}]}, ".employers[0].name", "a string, found null"),
        ({"rate": "0.5"}, ".rate", "a number, found a string"),
        ({"rate": True}, ".rate", "a number, found a boolean"),
        ({"year": 2024.5}, ".year", "an integer, found a number"),
        ({"year": "2024"}, ".year", "an integer, found a string"),
        ({"is_final": 1}, ".is_final", "a boolean, found a number"),
        ({"is_final": "no"}, ".is_final", "a boolean, found a string"),
    ],
)
def test_a_registered_class_is_read_strictly(data: dict[str, Any], path: str, reason: str) -> None:
    """Numbers, texts and null are not converted into each other."""
    register_document_type("unknown_form", Form)
    with pytest.raises(DecodeError) as caught:
        from_json(ApplicationDocuments, _reply({"wages": 1, **data}))
    found = [(fault.path, fault.reason) for fault in caught.value.faults]
    assert found == [(f"$.documents.unknown_form[0].extracted_data{path}", f"expected {reason}")]


def test_a_number_beyond_a_float_is_a_fault() -> None:
    """The number would be read as infinity, which JSON cannot carry."""
    register_document_type("unknown_form", Form)
    text = _reply({"wages": 1, "rate": 0.25}).replace("0.25", "1e400")
    with pytest.raises(DecodeError, match="beyond the range of a float"):
        from_json(ApplicationDocuments, text)


@pytest.mark.parametrize(
    "change",
    [
        {"filed": datetime(2026, 6, 30, tzinfo=UTC)},
        {"year": True},
        {"year": Decimal(1)},
        {"rate": float("inf")},
        {"rate": Decimal("1E+400")},
        {"rate": "0.5"},
        {"wages": "1"},
        {"is_final": 1},
        {"employers": (Employer(name=5),)},  # type: ignore[arg-type]
    ],
)
def test_what_would_not_be_read_is_not_written(change: dict[str, Any]) -> None:
    """The data was made by hand."""
    register_document_type("unknown_form", Form)
    with pytest.raises(ConfigurationError, match="cannot carry"):
        to_json(Form(**{"wages": Decimal(1), **change}))


def made(name: str, of: Any, **options: Any) -> type[Any]:
    """Return a class with one field."""
    return attrs.make_class("Made", {name: attrs.field(type=of, **options)})


def refusing(value: str) -> str:
    raise ValueError(value)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"validator": attrs.validators.max_len(2)}, "ValueError"),
        ({"converter": lambda value: value.no_such_method()}, "AttributeError"),
        ({"converter": refusing}, "ValueError"),
        ({"converter": float}, "ValueError"),
    ],
    ids=["validator", "bug", "refusal", "conversion"],
)
def test_what_a_class_raises_is_named_and_no_value_is_shown(
    options: dict[str, Any], name: str
) -> None:
    """A bug of the class looks otherwise than data that it refuses."""
    register_document_type("unknown_form", made("employer", str, **options))
    with pytest.raises(DecodeError, match=f"not accepted by its class: {name}") as caught:
        from_json(ApplicationDocuments, _reply({"employer": CANARY}))
    assert [fault.path for fault in caught.value.faults] == ["$"]
    assert CANARY not in held_by(caught.value)
    assert not caught.value.retryable


@attrs.define
class Tree:
    """Holds itself."""

    children: "tuple[Tree, ...]"
    extra: Mapping[str, Any] = attrs.field(factory=dict)


UNREADABLE: dict[str, Any] = {
    "no class of attrs": dict,
    "a value": Form(wages=Decimal(1)),
    "a type without a strict rule": made("things", list[int]),
    "a class within itself": Tree,
    "a default that cannot be told from what was sent": made(
        "names", tuple[str, ...], factory=tuple
    ),
    "a field that cannot be given": made("name", str, init=False),
    "an extra that must be given": made("extra", Mapping[str, Any]),
    "a class without extra within": made("inner", Closed),
    "an annotation that names nothing": made("name", "Nowhere"),
}


@pytest.mark.parametrize("fault", UNREADABLE)
def test_a_class_that_cannot_be_read_strictly_is_refused(fault: str) -> None:
    with pytest.raises(ConfigurationError):
        register_document_type("unknown_form", UNREADABLE[fault])


def test_a_document_type_is_not_given_away() -> None:
    """A type that has a class keeps it; paystub has had one from the start."""
    register_document_type("unknown_form", Form)
    register_document_type("paystub", Paystub)
    with pytest.raises(ConfigurationError, match="already"):
        register_document_type("unknown_form", Closed)
    key: Any
    for key in ("", 7, "paystub"):
        with pytest.raises(ConfigurationError):
            register_document_type(key, Form)


def test_a_second_type_is_known_everywhere(tmp_path: Path) -> None:
    """An entry in one table: it is decoded, exported, and shown with its period and its facts."""
    pytest.importorskip("pyarrow", reason="tables need the extra 'parquet'")
    program = [sys.executable, "-m", "tests.wire.bank_statements"]
    here = Path(__file__).parents[2]
    environment = {"PYTHONPATH": str(here), "HOME": str(tmp_path), "COLUMNS": "120"}
    ended = subprocess.run(
        program, cwd=here, env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
    shown, exported, *rest = ended.stdout.splitlines()
    listed, page = list(csv.DictReader(rest[:2])), rest[2:]
    row = json.loads(exported)
    assert shown.startswith("BankStatement(bank_name=***, opened_on=datetime.date(")
    assert (row["document_type"], row["bank_name"]) == ("bank_statement", "bank_name 7")
    assert (row["bookings"], row["extracted_data"]) == ("[]", None)
    period = (row["opened_on"], row["closed_on"])
    assert [(one["pay_begin_date"], one["pay_end_date"]) for one in listed] == [period]
    (facts,) = [line for line in page if "D1 bank statement " in line]
    assert f": {period[0]} to {period[1]}, balance {float(row['balance']):,.2f}" in facts
    assert row["bank_name"] not in " ".join(page)


# A document by itself


@pytest.mark.parametrize("kind", ["paystub", "unknown_form"])
def test_a_document_by_itself_is_read_back_with_its_source(kind: str) -> None:
    """The type in the source says which class its data has."""
    documents = known_record().documents
    assert documents is not None
    document = next(one for one in documents if one.document_type == kind)
    read = from_json(Document, to_json(document))
    assert (read, read.source) == (document, document.source)
    assert to_json(read) == to_json(document)


@pytest.mark.parametrize("source", [None, 7, {}, {"application_id": "a"}, {"document_type": 7}])
def test_another_member_called_source_is_an_unknown_field(source: Any) -> None:
    """It is kept, as the service has sent it."""
    documents = known_record().documents
    assert documents is not None
    bare = attrs.evolve(next(iter(documents)), source=None, extracted_data={})
    text = to_json(attrs.evolve(bare, extra={"source": source}))
    read = from_json(Document, text)
    assert (read.source, dict(read.extra), to_json(read)) == (None, {"source": source}, text)


def test_faults_of_a_document_by_itself_are_named() -> None:
    documents = known_record().documents
    assert documents is not None
    text = to_json(next(iter(documents))).replace(b'"hours_worked":', b'"hours":')
    with pytest.raises(DecodeError, match=r"extracted_data\.hours_worked: missing") as caught:
        from_json(Document, text)
    assert not caught.value.retryable
