"""JSON and records: nothing lost, nothing coerced, every fault named and no value shown."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given

from income_client.errors import ConfigurationError, DecodeError
from income_client.protocol.wire import decode, to_json
from income_client.records import (
    AmountPair,
    Application,
    ApplicationDocuments,
    ApplicationPage,
    ApplicationRecord,
    ApplicationSummary,
)
from income_client.records.mapping import UntypedDict
from tests.support import strategies
from tests.support.leaks import held_by
from tests.support.payloads import APPLICATION, DOCUMENTS, PAGE, text_of, tree_of

REPLIES: list[tuple[type[Any], dict[str, Any]]] = [
    (ApplicationPage, PAGE),
    (Application, APPLICATION),
    (ApplicationDocuments, DOCUMENTS),
]


def _assert_round_trip(cls: type[Any], payload: object) -> None:
    record = decode(cls, text_of(payload))
    assert isinstance(record, cls), record
    assert text_of(tree_of(to_json(record))) == text_of(payload)


def _faults(cls: type[Any], payload: object) -> dict[str, str]:
    error = decode(cls, text_of(payload))
    assert isinstance(error, DecodeError)
    return {fault.path: fault.reason for fault in error.faults}


@given(strategies.pages())
def test_a_page_goes_back_as_it_came(payload: dict[str, Any]) -> None:
    """Whatever a list reply holds, unknown fields included, is written back the same."""
    _assert_round_trip(ApplicationPage, payload)


@given(strategies.applications())
def test_an_application_goes_back_as_it_came(payload: dict[str, Any]) -> None:
    """Whatever an application holds, unknown fields included, is written back the same."""
    _assert_round_trip(Application, payload)


@given(strategies.documents_replies())
def test_documents_go_back_as_they_came(payload: dict[str, Any]) -> None:
    """Whatever a documents reply holds, an explicit null for pages included, is written back."""
    _assert_round_trip(ApplicationDocuments, payload)


def test_a_record_is_an_object_of_its_two_parts() -> None:
    """An ApplicationRecord is written with its application and its documents, null without."""
    application = decode(Application, json.dumps(APPLICATION).encode())
    documents = decode(ApplicationDocuments, json.dumps(DOCUMENTS).encode())
    assert isinstance(application, Application)
    assert isinstance(documents, ApplicationDocuments)
    whole = ApplicationRecord(application=application, documents=documents)
    half = ApplicationRecord(application=application, documents=None)
    assert json.loads(to_json(whole)) == {"application": APPLICATION, "documents": DOCUMENTS}
    assert json.loads(to_json(half)) == {"application": APPLICATION, "documents": None}
    assert decode(ApplicationRecord, to_json(whole)) == whole
    assert decode(ApplicationRecord, to_json(half)) == half


def test_values_have_their_own_types() -> None:
    """Times, days, amounts, arrays and objects become what the records are annotated with."""
    application = decode(Application, json.dumps(APPLICATION).encode())
    assert isinstance(application, Application)
    assert application.last_updated_at == datetime(2024, 1, 31, 10, tzinfo=UTC)
    assert application.application_date == datetime(2024, 1, 5, 9, 30)  # noqa: DTZ001
    assert application.applicants["applicant1"].date_of_birth == date(1980, 2, 29)
    (income,) = application.income_calculations["applicant1"].incomes
    assert income.income_sources[0].calculated_income_amount == Decimal("51234.56")
    assert application.data_sources.structured_data == ({"kind": "payroll", "values": [1, 2.5]},)


CANARY = "Canary Text"
WRONG: tuple[Any, ...] = (
    None,
    True,
    41968273,
    4196.8273,
    CANARY,
    [CANARY],
    {"Canary key": CANARY, "ssn": 41968273},
)
NULLABLE = {"end_date", "street_2", "middle_name", "suffix", "pages"}
UNTYPED = {"structured_data", "earnings", "deductions", "taxes", "pages"}


def _leaves(value: Any, path: str = "$") -> Iterator[tuple[Any, Any, str]]:
    """Yield container, key and path of everything that the contract types."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        here = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"
        if key == "pages" or here.startswith("$.documents.w2[0].extracted_data."):
            continue
        yield value, key, here
        if isinstance(item, dict | list) and key not in UNTYPED:
            yield from _leaves(item, here)


def _is_acceptable(key: Any, old: Any, new: Any) -> bool:
    """Say whether the contract allows the new value where the old one stands."""
    match old:
        case _ if key in NULLABLE:
            fits = new is None or (new == CANARY and key != "end_date")
        case list():
            fits = isinstance(new, list) and (key in UNTYPED or str(key).endswith("_ids"))
        case dict():
            fits = isinstance(new, dict) and key == "extracted_data" and "wages" in old
        case bool():
            fits = new is True
        case int() | float() | "":
            fits = type(new) is int or (type(new) is float and key != "year")
        case _:
            fits = new == CANARY and not re.match(r"\d{4}-\d\d-\d\d", old)
    return fits


@pytest.mark.parametrize(
    ("cls", "sample"), REPLIES, ids=lambda value: getattr(value, "__name__", "")
)
def test_every_wrong_value_is_refused_with_its_path_and_stays_unseen(
    cls: type[Any],
    sample: dict[str, Any],
) -> None:
    """A value of the wrong kind anywhere is a DecodeError that has its path and not the value."""
    tried = 0
    payload = json.loads(json.dumps(sample))
    for container, key, path in _leaves(payload):
        old = container[key]
        for new in WRONG:
            if _is_acceptable(key, old, new):
                continue
            tried += 1
            container[key] = new
            error = decode(cls, text_of(payload))
            assert isinstance(error, DecodeError), (path, type(new))
            assert not error.retryable
            found = [fault.path for fault in error.faults]
            assert all(one.startswith(path) for one in found), (path, found)
            assert path in found or isinstance(new, dict | list), (path, found)
            for canary in ("Canary", "41968273", "4196.8273"):
                assert canary not in held_by(error), path
        container[key] = old
    assert tried > 20


@pytest.mark.parametrize(
    ("cls", "sample"), REPLIES, ids=lambda value: getattr(value, "__name__", "")
)
def test_every_missing_field_is_named(cls: type[Any], sample: dict[str, Any]) -> None:
    """A payload without a field of the contract is a DecodeError that says which one."""
    payload = json.loads(json.dumps(sample))
    for container, key, path in list(_leaves(payload)):
        is_open = key in {"applicant1", "paystub", "w2"}
        if isinstance(container, dict) and not is_open:
            old = container.pop(key)
            assert _faults(cls, payload) == {path: "missing"}
            container[key] = old


def test_one_error_names_every_fault() -> None:
    """All faults of a payload are in one error, unknown fields that cannot be kept included."""
    payload = json.loads(json.dumps(APPLICATION))
    payload["application_id"] = None
    payload["new_field"] = payload["ada@example.org"] = json.loads("[" * 101 + "]" * 101)
    payload["applicants"]["applicant1"]["ssn"] = 112222
    payload["applicants"]["ada@example.org"] = "Ada"
    del payload["data_sources"]["image_files"][0]["file_id"]
    assert _faults(Application, payload) == {
        "$.application_id": "expected a string, found null",
        "$.new_field": "nested too deeply",
        "$.*": "nested too deeply",
        "$.applicants.applicant1.ssn": "expected a string, found a number",
        "$.applicants.*": "expected an object, found a string",
        "$.data_sources.image_files[0].file_id": "missing",
    }


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("application_date", "2024-02-30T00:00:00", "not a time without zone"),
        ("application_date", "2024-01-31T00:00:00Z", "not a time without zone"),
        ("last_updated_at", "2024-01-31T00:00:00", "not a time ending in Z"),
        ("last_updated_at", 1706695200, "expected a time ending in Z, found a number"),
        ("applicants", [], "expected an object, found an array"),
        ("data_sources", "x", "expected an object, found a string"),
    ],
)
def test_reasons_say_what_was_expected(path: str, value: object, reason: str) -> None:
    """A reason names what should stand there and what kind of thing does."""
    assert _faults(Application, {**APPLICATION, path: value}) == {f"$.{path}": reason}


ROW = ApplicationSummary(
    application_id="a",
    application_reference_id="r",
    application_date=datetime(2024, 1, 5),  # noqa: DTZ001
)


@pytest.mark.parametrize("thing", [None, {}, "text", ApplicationSummary, [ROW], object()])
def test_only_records_are_written(thing: object) -> None:
    """Anything that is no record is a ConfigurationError."""
    with pytest.raises(ConfigurationError, match="no record"):
        to_json(thing)


@pytest.mark.parametrize(
    "record",
    [
        attrs.evolve(ROW, application_date=datetime(2024, 1, 5, tzinfo=UTC)),
        attrs.evolve(ROW, application_id="\ud800"),
        attrs.evolve(ROW, extra=UntypedDict({"x": object()})),
        AmountPair(current=Decimal("NaN"), ytd=None),
        attrs.evolve(ROW, extra=UntypedDict({"x": [Decimal("NaN")]})),
        attrs.evolve(ROW, extra=UntypedDict({"x": {"y": float("inf")}})),
        AmountPair(current=Decimal("Infinity"), ytd=None),
    ],
)
def test_what_json_cannot_carry_exactly_is_refused(record: object) -> None:
    """A record made by hand with something that would be lost is a ConfigurationError."""
    with pytest.raises(ConfigurationError, match="cannot carry") as caught:
        to_json(record)
    assert caught.value.__context__ is None


def test_times_with_another_zone_are_written_in_utc() -> None:
    """Only the zone changes: the moment is the same."""
    application = decode(Application, json.dumps(APPLICATION).encode())
    assert isinstance(application, Application)
    moment = datetime.fromisoformat("2024-01-31T05:00:00-05:00")
    moved = attrs.evolve(application, last_updated_at=moment)
    assert json.loads(to_json(moved)) == APPLICATION
    naive = attrs.evolve(application, last_updated_at=moment.replace(tzinfo=None))
    with pytest.raises(ConfigurationError):
        to_json(naive)
