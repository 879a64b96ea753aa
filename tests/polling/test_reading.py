"""Reading for a poller: pages whose good rows survive bad ones, and versions by content."""

import json
from datetime import UTC, datetime
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import DecodeError, IncomeClientError, ServerError
from income_client.http.endpoints import Response, get_application, get_documents, list_applications
from income_client.http.replies import read_reply
from income_client.polling.batches import _delivery_id
from income_client.polling.reading import (
    DIGEST_BYTES,
    KEY_BYTES,
    PollSource,
    Versioned,
    canonical,
    digest_of,
    ids_on,
    key_of,
    nameless_on,
    read_page,
    read_version,
    record_of,
    updated_at,
)
from income_client.records.applications import Application, ApplicationPage
from income_client.records.documents import ApplicationDocuments
from income_client.wire.codec import parse_exactly
from income_client.wire.times import wire_time
from tests.support.clients import outcome_of
from tests.support.payloads import (
    APPLICATION,
    BOUNDS,
    DOCUMENTS,
    Path,
    changed,
    leaves,
    row_of_list,
    text_of,
)
from tests.support.strategies import applications, documents_replies, pages


def reply(body: Any, status: int = 200) -> Response:
    data = body if isinstance(body, bytes) else text_of(body)
    return Response(status=status, headers={"content-type": "application/json"}, body=data)


def application_of(payload: Any) -> Versioned[Application]:
    asked = get_application(payload["application_id"])
    return read_version(Application, asked, reply(payload))


def documents_of(payload: Any) -> Versioned[ApplicationDocuments]:
    asked = get_documents(payload["application_id"], pages=False)
    return read_version(ApplicationDocuments, asked, reply(payload))


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (APPLICATION, "applicants applicant1 email"),
        (APPLICATION, "income_calculations applicant1 incomes 0 income_sources 0 source_type"),
        (DOCUMENTS, "documents paystub 0 extracted_data employer_name"),
    ],
)
def test_an_address_in_the_data_is_content(payload: Any, path: str) -> None:
    """A value that was read from a document is content: a web site is not the URL of a file."""
    steps = tuple(int(step) if step.isdigit() else step for step in path.split())
    read = documents_of if payload is DOCUMENTS else application_of
    one, two = (read(changed(payload, steps, address)) for address in ("https://a", "https://b"))
    assert one.digest != two.digest


@given(
    st.sampled_from([98, 101, 240, 255, 260, 1000, 1030, 2000, 100_000]),
    st.sampled_from([(b"[", b"]"), (b'{"documents":', b"}"), (b"[", b"")]),
)
def test_a_reply_nested_too_deeply_is_an_error(depth: int, brackets: tuple[bytes, bytes]) -> None:
    """However deep, the reply is a value or an error; no digest is made of what is refused."""
    opening, closing = brackets
    deep = opening * depth + b"0" + closing * depth
    body = json.dumps(APPLICATION).encode()[:-1] + b',"new":' + deep + b"}"
    result = outcome_of(read_version, Application, get_application("app-1"), reply(body))
    if closing and depth < 100:
        assert isinstance(result, Versioned)
    else:
        assert isinstance(result, IncomeClientError)


@pytest.mark.parametrize("number", ["1e999", "9" * 4000, "-1e-999", "0." + "1" * 60])
def test_a_number_beyond_all_amounts_is_content(number: str) -> None:
    """The number is kept in untyped fields, and two different numbers are different versions."""
    bodies = [
        json.dumps(APPLICATION).encode()[:-1] + b',"new":' + text.encode() + b"}"
        for text in (number, number + "1")
    ]
    asked = get_application("app-1")
    results = [outcome_of(read_version, Application, asked, reply(one)) for one in bodies]
    digests = {one.digest for one in results if isinstance(one, Versioned)}
    assert len(digests) == 2 or all(isinstance(one, DecodeError) for one in results)


def test_a_record_is_both_its_parts() -> None:
    """The ids of both parts count, even if one looks like a URL, which content leaves out."""
    updated = APPLICATION | {"last_updated_at": "2024-02-01T10:00:00Z"}
    others = [APPLICATION | {"application_id": f"https://id/{n}"} for n in range(2)]
    applications = [application_of(one) for one in (APPLICATION, updated, *others)]
    documents = [None, documents_of(DOCUMENTS), documents_of(DOCUMENTS | {"documents": {}})]
    digests = {record_of(one, two).digest for one in applications for two in documents}
    assert len(digests) == 12
    assert {len(digest) for digest in digests} == {DIGEST_BYTES}
    assert record_of(application_of(APPLICATION), documents_of(DOCUMENTS)).digest in digests


RELEASED_APPLICATION = b"""{
    "application_id": "app-1", "application_reference_id": "loan-1",
    "application_date": "2024-01-05T09:30:00", "last_updated_at": "2024-01-31T10:00:00Z",
    "applicants": {"applicant1": {"last_name": "S\\u00e4mple", "ssn": "000112222"}},
    "income_calculations": {"applicant1": {"incomes": [{"year": 2023, "amount": 51234.560}]}},
    "data_sources": {
        "image_files": [{"file_id": "file-1", "url": "https://a/1"}],
        "structured_data": [{"kind": "payroll", "values": [1, 2.5, 1e300]}]
    }
}"""
RELEASED_DOCUMENTS = b"""{
    "application_id": "app-1", "application_reference_id": "loan-1",
    "documents": {
        "w2": [{
            "document_id": "doc-2", "url": "https://a/2", "data_action": "create",
            "file_ids": ["file-1"], "file_reference_ids": ["https://a/name"],
            "extracted_data": {"wages": 51234.56, "site": "https://a"}, "pages": ["https://a/3"]
        }],
        "paystub": [{"document_id": "doc-3"}, {"document_id": "doc-1", "pages": null}]
    }
}"""
"""Replies with fields that releases have compared, whatever fields replies have had since."""


def test_versions_and_delivery_ids_are_those_of_earlier_releases() -> None:
    """Checkpoints and brokers keep them: others would deliver all again after an upgrade."""
    application = evolve(
        application_of(APPLICATION), digest=digest_of("app-1", content_of(RELEASED_APPLICATION))
    )
    documents = evolve(
        documents_of(DOCUMENTS), digest=digest_of("app-1", content_of(RELEASED_DOCUMENTS))
    )
    record = record_of(application, documents)
    assert key_of("app-1").hex() == "dc42b52d80ee"
    assert record_of(application).digest.hex() == "92e0f4f32d306d25"
    assert record.digest.hex() == "2f3719f51cf4cb3e"
    assert [_delivery_id(record, batches) for batches in (0, 1, 256)] == [
        "6fe17ab98a7b85da7763e15febdb0928",
        "067cad8efa5a68f01011ca3cda8b54ef",
        "afd114d587c71bba5ef0252c142a1656",
    ]


def test_a_record_was_updated_when_its_latest_part_was() -> None:
    place = ("documents", "unknown_form", 0, "updated_at")
    late = changed(DOCUMENTS, place, "2024-03-01T00:00:00Z")
    new = APPLICATION | {"last_updated_at": "2024-04-01T00:00:00Z"}
    for application, documents, moment in (
        (APPLICATION, None, datetime(2024, 1, 31, 10, tzinfo=UTC)),
        (APPLICATION, DOCUMENTS, datetime(2024, 1, 31, 10, tzinfo=UTC)),
        (APPLICATION, late, datetime(2024, 3, 1, tzinfo=UTC)),
        (new, late, datetime(2024, 4, 1, tzinfo=UTC)),
    ):
        beside = documents_of(documents) if documents else None
        assert updated_at(record_of(application_of(application), beside).payload) == moment


@given(st.sets(st.text(max_size=8), max_size=30))
def test_ids_have_short_keys_of_their_own(ids: set[str]) -> None:
    assert len({key_of(one) for one in ids} | {key_of("\ud800")}) == len(ids | {"\ud800"})
    assert {len(key_of(one)) for one in ids} <= {KEY_BYTES}


def test_a_version_shows_no_digest() -> None:
    """A log of a version is a log of a record, which hides what is private."""
    shown = repr(application_of(APPLICATION)) + repr(record_of(application_of(APPLICATION)))
    assert "digest" not in shown
    assert APPLICATION["applicants"]["applicant1"]["ssn"] not in shown
    assert msgspec.json.encode(APPLICATION) not in shown.encode()


SIGNED = "https://bucket.s3.amazonaws.com/file-1?X-Amz-Signature="


def meaning(payload: Any) -> bytes:
    return content_of(text_of(payload))


def content_of(text: bytes) -> bytes:
    tree = parse_exactly(text)
    return canonical(ApplicationDocuments if "documents" in tree else Application, tree)


def shuffled(value: Any, chance: Random) -> Any:
    """Return the same JSON with the members of every object in another order."""
    match value:
        case dict():
            names = list(value)
            chance.shuffle(names)
            return {name: shuffled(value[name], chance) for name in names}
        case list():
            return [shuffled(item, chance) for item in value]
        case _:
            return value


def other(payload: Any, path: Path) -> Any:
    """Return another value of the same kind as the one in this place."""
    for step in path:
        payload = payload[step]
    match payload:
        case bool():
            return not payload
        case int() | float():
            return payload + 0.01
        case str():
            return payload + "x"
        case _:
            return "x"


@given(applications() | documents_replies(), st.randoms())
def test_neither_order_nor_the_way_it_is_written_means_anything(
    payload: dict[str, Any], chance: Random
) -> None:
    """The service gives documents in whatever order it likes, and with new addresses each time."""
    again = shuffled(payload, chance)
    for documents in again.get("documents", {}).values():
        chance.shuffle(documents)
        for document in documents:
            document["url"] = SIGNED + str(chance.random())
    plain = text_of(payload)
    spaced = msgspec.json.format(text_of(again), indent=1)
    assert content_of(plain) == content_of(spaced) == content_of(b"\xef\xbb\xbf" + plain)


@pytest.mark.parametrize("payload", [APPLICATION, DOCUMENTS], ids=["application", "documents"])
def test_a_change_of_any_value_is_another_version(payload: Any) -> None:
    """Each leaf of a reply counts, except URLs of documents, and each added or removed field."""
    paths = [path for path, _ in leaves(payload) if path[-1] != "url"]
    assert len(paths) > 25
    seen = {meaning(payload)}
    for other_payload in (
        *(changed(payload, path, other(payload, path)) for path in paths),
        *({**payload, "new": new} for new in (None, "", [1, 2], [2, 1])),
    ):
        assert meaning(other_payload) not in seen
        seen.add(meaning(other_payload))


def test_a_document_more_or_less_is_another_version() -> None:
    """Even one that is the same as another but for its address."""
    first = DOCUMENTS["documents"]["unknown_form"][0]
    same = {**first, "url": SIGNED + "2"}
    choices: list[dict[str, Any]] = [
        {},
        {"unknown_form": []},
        {"unknown_form": [first]},
        {"unknown_form": [first, same]},
        {"unknown_form": [first], "new": [same]},
        {"new": [first, same]},
    ]
    versions = {meaning({**DOCUMENTS, "documents": documents}) for documents in choices}
    assert len(versions) == len(choices)


ADDRESSES: list[Any] = [
    {"url": SIGNED},
    {"link": SIGNED},
    {"pages": {"1": {"image": SIGNED, "text": "Ada"}}},
    {"pages": [[SIGNED, "one"], [SIGNED, "two"]]},
    {"more": {"deep": [{"url": SIGNED}]}},
]


@pytest.mark.parametrize("extra", ADDRESSES)
def test_a_signed_address_outside_the_data_means_nothing(extra: dict[str, Any]) -> None:
    """Wherever a reply holds one, it is another the next time; what is beside it is content."""
    again = json.loads(json.dumps(extra).replace("Signature=", "Signature=123"))
    assert again != extra
    form = DOCUMENTS["documents"]["unknown_form"][0]
    one, two = ({"documents": {"unknown_form": [form | new]}} for new in (extra, again))
    assert meaning(APPLICATION | extra) == meaning(APPLICATION | again)
    assert meaning(DOCUMENTS | extra) == meaning(DOCUMENTS | again)
    assert meaning(DOCUMENTS | one) == meaning(DOCUMENTS | two)
    assert (meaning(APPLICATION | extra) == meaning(APPLICATION)) == (extra == {"url": SIGNED})


ASKED = list_applications()
CANARY = "c4n4ry"
GOOD = row_of_list()
DEEP: Any = CANARY
for _ in range(150):
    DEEP = [DEEP]
FAULTS: list[dict[str, Any]] = [
    *({"application_reference_id": value} for value in (7, None, [CANARY])),
    *({"application_date": value} for value in (CANARY, "2024-02-30T00:00:00", None)),
    {"new": DEEP},
]
NAMELESS: list[Any] = [GOOD | {"application_id": value} for value in (None, 7, [CANARY])]


def page_of(body: Any) -> ApplicationPage:
    return read_page(ASKED, reply(body))


def error_of(body: Any, status: int = 200) -> IncomeClientError:
    """Read an error, which shows nothing of the page."""
    error = outcome_of(read_page, ASKED, reply(body, status))
    assert isinstance(error, IncomeClientError)
    assert CANARY not in repr(error) + str(error) + repr(error.__dict__)
    assert error.__cause__ is error.__context__ is None
    assert error.__traceback__ is None
    return error


@given(pages())
def test_a_page_of_the_contract_is_read_as_ever(payload: dict[str, Any]) -> None:
    """The ids alone are read of a page only if a row is not what the contract says."""
    response = reply(payload)
    assert read_page(ASKED, response) == read_reply(ApplicationPage, ASKED, response)


@given(st.lists(st.none() | st.sampled_from(FAULTS), min_size=1, max_size=20))
def test_good_rows_survive_bad_ones(faults: list[dict[str, Any] | None]) -> None:
    """All good rows are there, in order, also a row listed twice: a full page stays full."""
    rows = [GOOD | {"application_id": f"app-{n}"} | (fault or {}) for n, fault in enumerate(faults)]
    page = page_of({**BOUNDS, "applications": [*rows, rows[0]]})
    found = [row.application_id for row in page.applications]
    assert found == [f"app-{n}" for n in [*range(len(faults)), 0]]
    assert ids_on(page) == tuple(found[:-1])


def test_a_page_whose_own_extra_is_refused_keeps_its_rows() -> None:
    """An unknown field of the page is no reason to wait."""
    page = page_of({**BOUNDS, "applications": [GOOD], "next": DEEP})
    assert [row.application_id for row in page.applications] == ["app-1"]
    assert page.updated_after.isoformat() == BOUNDS["updated_after"]


@pytest.mark.parametrize("row", [None, 7, CANARY, [], {}, *NAMELESS])
def test_a_row_without_an_id_hides_no_other(row: Any) -> None:
    """The row counts as one of the page, has no id, and its error shows no content."""
    page = page_of({**BOUNDS, "applications": [row, GOOD]})
    assert len(page.applications) == 2
    assert ids_on(page) == ("app-1",)
    (nameless,) = nameless_on(page)
    assert nameless.error.message.startswith("list_applications: $.applications[0]")
    assert CANARY not in repr(nameless.error) + repr(nameless.error.__dict__)


def test_a_reply_that_is_not_a_page_is_an_error() -> None:
    """JSON of another shape, or with unreadable bounds, is an error that no retry mends."""
    rows = [GOOD | {"application_date": None}]
    wrong = (None, 7, CANARY, "2024-01-01", "2024-01-01T00:00:00Z")
    bodies: list[Any] = [
        *({**BOUNDS, "applications": rows, name: value} for name in BOUNDS for value in wrong),
        *(None, [], {}, BOUNDS, {"applications": [GOOD]}),
        *({**BOUNDS, "applications": rows} for rows in (None, {"0": GOOD}, CANARY)),
    ]
    for body in bodies:
        error = error_of(body)
        assert isinstance(error, DecodeError)
        assert not error.retryable


def test_what_a_retry_may_mend_can_be_asked_for_again() -> None:
    """No row is salvaged from half a page, nor from the body of a failure."""
    for body in (b"", b'{"applications":[', b"\xff", b"[" + b"{" * 9):
        assert error_of(body).retryable
    assert isinstance(error_of({**BOUNDS, "applications": [GOOD]}, status=503), ServerError)


@pytest.mark.parametrize(
    ("hour", "listed_at"), [(22, "2026-10-25T00:30:00"), (0, "2026-10-25T02:30:00")]
)
def test_an_update_in_an_hour_that_clocks_repeat_has_the_second_that_the_list_shows(
    hour: int, listed_at: str
) -> None:
    """An earlier one would be forgotten, and the update delivered again, while it is listed."""
    day = 24 if hour else 25
    source = PollSource(
        session=None,  # type: ignore[arg-type]
        zone=ZoneInfo("Europe/Berlin"),
        documents=False,
        pages=False,
        concurrency=1,
    )
    second = source.last_second_of(datetime(2026, 10, day, hour, 30, tzinfo=UTC))
    assert wire_time(second) == listed_at
