"""A reply and its version: what was read, whose it is, and a digest of both."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import DecodeError, IncomeClientError
from income_client.http.endpoints import Response, get_application, get_documents
from income_client.polling.batches import _delivery_id
from income_client.polling.reading import (
    DIGEST_BYTES,
    KEY_BYTES,
    Versioned,
    key_of,
    read_version,
    record_of,
    updated_at,
)
from income_client.records.applications import Application
from income_client.records.documents import ApplicationDocuments
from tests.support.clients import outcome_of
from tests.support.payloads import APPLICATION, DOCUMENTS, Path, changed


def reply(body: bytes) -> Response:
    """Return a reply of JSON."""
    return Response(status=200, headers={"content-type": "application/json"}, body=body)


def application_of(payload: Any) -> Versioned[Application]:
    """Read an application, which is no error."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    asked = get_application(json.loads(body)["application_id"])
    return read_version(Application, asked, reply(body))


def documents_of(payload: Any) -> Versioned[ApplicationDocuments]:
    """Read documents, which are no error."""
    body = json.dumps(payload).encode()
    asked = get_documents(payload["application_id"], pages=False)
    return read_version(ApplicationDocuments, asked, reply(body))


@pytest.mark.parametrize(
    "path",
    [
        ("applicants", "applicant1", "email"),
        ("income_calculations", "applicant1", "incomes", 0, "income_sources", 0, "source_type"),
    ],
)
def test_an_address_in_the_data_is_content(path: Path) -> None:
    """What was read from a document is never passed over."""
    one, two = (changed(APPLICATION, path, address) for address in ("https://a", "https://b"))
    assert application_of(one).digest != application_of(two).digest


def test_an_address_read_from_a_document_is_content() -> None:
    """The employer's site on a paystub is not the address of a file."""
    path = ("documents", "paystub", 0, "extracted_data", "employer_name")
    one, two = (changed(DOCUMENTS, path, address) for address in ("https://a", "https://b"))
    assert documents_of(one).digest != documents_of(two).digest


def test_the_id_is_part_of_a_version() -> None:
    """Even where it looks like an address, which content leaves out."""
    one, two = (APPLICATION | {"application_id": f"https://id/{n}"} for n in range(2))
    assert application_of(one).digest != application_of(two).digest


@pytest.mark.parametrize("depth", [10, 100, 240, 2000, 100_000])
@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"documents":', b"}"), (b"[", b"")])
def test_no_depth_breaks_the_reading_of_a_version(
    depth: int, brackets: tuple[bytes, bytes]
) -> None:
    """The reply is a value or an error."""
    opening, closing = brackets
    deep = opening * depth + b"0" + closing * depth
    body = json.dumps(APPLICATION).encode()[:-1] + b',"new":' + deep + b"}"
    result = outcome_of(read_version, Application, get_application("app-1"), reply(body))
    assert isinstance(result, Versioned | IncomeClientError)


@pytest.mark.parametrize("depth", [98, 101, 250, 255, 260, 500, 1000, 1030])
def test_a_reply_nested_too_deeply_is_an_error(depth: int) -> None:
    """The digest is made of nothing that the reader refused."""
    body = json.dumps(APPLICATION).encode()[:-1] + b',"new":' + b"[" * depth + b"]" * depth + b"}"
    result = outcome_of(read_version, Application, get_application("app-1"), reply(body))
    assert isinstance(result, DecodeError) is (depth > 100)


@pytest.mark.parametrize("number", ["1e999", "9" * 4000, "-1e-999", "0." + "1" * 60])
def test_a_number_beyond_all_amounts_is_content(number: str) -> None:
    """It is kept where no type is known, and two that differ are told apart."""
    bodies = [
        json.dumps(APPLICATION).encode()[:-1] + b',"new":' + text.encode() + b"}"
        for text in (number, number + "1")
    ]
    asked = get_application("app-1")
    results = [outcome_of(read_version, Application, asked, reply(one)) for one in bodies]
    digests = {one.digest for one in results if isinstance(one, Versioned)}
    assert len(digests) == 2 or all(isinstance(one, DecodeError) for one in results)


def test_a_record_is_both_its_parts() -> None:
    """A change of either, and the absence of documents, make another version."""
    application, documents = application_of(APPLICATION), documents_of(DOCUMENTS)
    updated = application_of(APPLICATION | {"last_updated_at": "2024-02-01T10:00:00Z"})
    fewer = documents_of(DOCUMENTS | {"documents": {}})
    digests = {
        record_of(one, two).digest
        for one in (application, updated)
        for two in (None, documents, fewer)
    }
    assert len(digests) == 6
    assert {len(digest) for digest in digests} == {DIGEST_BYTES}
    again = record_of(application_of(APPLICATION), documents_of(DOCUMENTS))
    assert again.digest == record_of(application, documents).digest


def test_versions_and_delivery_ids_are_those_of_earlier_releases() -> None:
    """Checkpoints and brokers keep them: others would deliver all again after an upgrade."""
    types = {"paystub": DOCUMENTS["documents"]["paystub"]}
    types["w2"] = DOCUMENTS["documents"]["unknown_form"]
    application = application_of(APPLICATION)
    documents = documents_of(DOCUMENTS | {"documents": types})
    record = record_of(application, documents)
    assert key_of("app-1").hex() == "dc42b52d80ee"
    assert record_of(application).digest.hex() == "b5f86a37482082e5"
    assert record.digest.hex() == "4b6449ce9aa38fe4"
    assert [_delivery_id(record, batches) for batches in (0, 1, 256)] == [
        "e8a0f4c43b948fba8edfec253adf44b4",
        "b9afe05c4e4f5701e98c9d5c8bd8577a",
        "41e503a41912e8d86066b47f9baa01ac",
    ]


def test_a_record_was_updated_when_its_latest_part_was() -> None:
    """A document may be later than its application, and the other way round."""
    moment = datetime(2024, 1, 31, 10, tzinfo=UTC)
    late = documents_of(
        changed(DOCUMENTS, ("documents", "unknown_form", 0, "updated_at"), "2024-03-01T00:00:00Z")
    )
    application = application_of(APPLICATION)
    assert updated_at(record_of(application).payload) == moment
    assert updated_at(record_of(application, documents_of(DOCUMENTS)).payload) == moment
    assert updated_at(record_of(application, late).payload) == datetime(2024, 3, 1, tzinfo=UTC)
    new = application_of(APPLICATION | {"last_updated_at": "2024-04-01T00:00:00Z"})
    assert updated_at(record_of(new, late).payload) == datetime(2024, 4, 1, tzinfo=UTC)


@given(st.sets(st.text(max_size=8), max_size=30))
def test_ids_have_short_keys_of_their_own(ids: set[str]) -> None:
    """Any text has one, lone surrogates included."""
    assert len({key_of(one) for one in ids} | {key_of("\ud800")}) == len(ids | {"\ud800"})
    assert {len(key_of(one)) for one in ids} <= {KEY_BYTES}


def test_a_version_shows_no_digest() -> None:
    """A log of a version is a log of a record, which hides what is private."""
    shown = repr(application_of(APPLICATION)) + repr(record_of(application_of(APPLICATION)))
    assert "digest" not in shown
    assert APPLICATION["applicants"]["applicant1"]["ssn"] not in shown
    assert msgspec.json.encode(APPLICATION) not in shown.encode()
