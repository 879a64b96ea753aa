"""The service's replies against the contract's shapes, without a socket."""

import re
from typing import Any

import msgspec
import pytest
from attrs import evolve

from income_client.emulator.api import respond
from tests.support.emulated_replies import LIST, a_service, ask, ask_json, token_request

STAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}")


def test_list_shape() -> None:
    """The list echoes its window without zone and holds summaries of three texts."""
    service = a_service(100, 200, 300)
    page = ask_json(service, query="updated_after=1970-01-01&updated_before=1970-01-01T00:04:00")
    assert list(page) == ["updated_after", "updated_before", "applications"]
    assert page["updated_after"] == "1970-01-01T00:00:00"
    assert page["updated_before"] == "1970-01-01T00:04:00"
    assert [row["application_id"] for row in page["applications"]] == list(service.world.ids[:2])
    for row in page["applications"]:
        assert set(row) == {"application_id", "application_reference_id", "application_date"}
        assert STAMP.fullmatch(row["application_date"])


def test_list_defaults() -> None:
    """Unset bounds are echoed as the beginning of time and the present; 25 rows by default."""
    page = ask_json(a_service(*range(1, 50)))
    assert page["updated_after"] == "1970-01-01T00:00:00"
    assert page["updated_before"] == "1970-01-01T00:16:40"
    assert len(page["applications"]) == 25


def test_list_limit() -> None:
    """A page holds at most the number of rows that was asked for."""
    service = a_service(*[5] * 1500)
    for limit in (1, 25, 999, 1000):
        assert len(ask_json(service, query=f"limit={limit}")["applications"]) == limit


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=ten",
        "limit=",
        "limit=1.0",
        "limit=00000001",
        "updated_after=yesterday",
        "updated_after=2026-02-30",
        "updated_before=2026-01-01T00:00:00Z",
        "updated_before=2026-01-01T00:00",
        "limit=1&limit=2",
        "cursor=abc",
        "limit",
        "%ff=%ff",
    ],
)
def test_bad_list_parameters(query: str) -> None:
    """Parameters that the contract does not allow are answered with 400 and a JSON error."""
    reply = ask(a_service(1), query=query)
    assert reply.status == 400
    assert msgspec.json.decode(reply.body)["error"] == "invalid_parameter"


def test_refused_future_bounds() -> None:
    """A service that refuses bounds in the future says so with 400, for a reference as well."""
    service = a_service(1, future="refuse")
    for query in ("", "&application_reference_id=LOAN-00000000"):
        reply = ask(service, query="updated_before=1970-01-01T00:16:41" + query)
        assert reply.status == 400
        assert b"updated_before" in reply.body


def test_list_by_reference() -> None:
    """A reference selects one application, within the bounds if they are given."""
    service = a_service(100, 200)
    wanted = "application_reference_id=LOAN-00000001"
    for query, found in (
        (wanted, 1),
        (f"{wanted}&updated_after=1970-01-01T00:03:19", 1),
        (f"{wanted}&updated_after=1970-01-01T00:03:20", 0),
        (f"{wanted}&updated_before=1970-01-01T00:03:20", 0),
        (f"{wanted}&updated_before=1970-01-01T00:03:21", 1),
        ("application_reference_id=LOAN-00000002", 0),
        ("application_reference_id=", 0),
    ):
        rows = ask_json(service, query=query)["applications"]
        assert [row["application_id"] for row in rows] == [service.world.ids[1]] * found


def test_application_shape() -> None:
    """An application has the fields of the contract and its update time in Z."""
    service = a_service(100)
    name = service.world.ids[0]
    found = ask_json(service, f"{LIST}/{name}")
    assert set(found) == {
        "application_id",
        "last_updated_at",
        "application_reference_id",
        "application_date",
        "applicants",
        "income_calculations",
        "data_sources",
    }
    assert found["application_id"] == name
    assert found["last_updated_at"] == "1970-01-01T00:01:40Z"
    assert set(found["applicants"]) == set(found["income_calculations"])
    for applicant in found["applicants"].values():
        assert set(applicant) == {
            "first_name",
            "last_name",
            "email",
            "phone",
            "ssn",
            "date_of_birth",
            "address_info",
        }
        assert applicant["phone"].isdecimal()
        assert applicant["ssn"].startswith("666")


def _documents(content: Any) -> list[Any]:
    return [document for documents in content["documents"].values() for document in documents]


def test_documents_shape() -> None:
    """Documents are keyed by type; a pages block is there only when asked for."""
    service = a_service(100)
    path = f"{LIST}/{service.world.ids[0]}/documents"
    fields = {
        "document_id",
        "file_ids",
        "file_reference_ids",
        "url",
        "extracted_data",
        "updated_at",
        "data_action",
    }
    plain = ask_json(service, path)
    assert set(plain) == {"application_id", "application_reference_id", "documents"}
    assert plain == ask_json(service, path, "pages=false")
    paged = ask_json(service, path, "pages=true")
    assert all(set(document) == fields for document in _documents(plain))
    assert all(set(document) == fields | {"pages"} for document in _documents(paged))
    assert all(document["updated_at"].endswith("Z") for document in _documents(plain))


@pytest.mark.parametrize("query", ["pages=yes", "pages=True", "pages=", "pages=1", "page=true"])
def test_bad_pages(query: str) -> None:
    """A pages parameter that is neither true nor false is answered with 400."""
    service = a_service(100)
    assert ask(service, f"{LIST}/{service.world.ids[0]}/documents", query).status == 400


@pytest.mark.parametrize(
    "path",
    [
        f"{LIST}/app-0000000000",
        f"{LIST}/app-0000000000/documents",
        f"{LIST}/",
        f"{LIST}/%2e%2e",
        f"{LIST}/a/b",
        f"{LIST}/a/documents/c",
        "/v2/income/applications",
        "/documents/x",
    ],
)
def test_unknown_paths(path: str) -> None:
    """Unknown applications and paths are answered with 404 and a JSON error."""
    reply = ask(a_service(100), path)
    assert reply.status == 404
    assert msgspec.json.decode(reply.body)["error"] == "not_found"


def test_encoded_ids() -> None:
    """A percent-encoded id is the id."""
    service = a_service(100)
    path = f"{LIST}/{service.world.ids[0].replace('-', '%2D')}"
    assert ask(service, path).status == 200


def test_methods() -> None:
    """Another method than the contract's is answered with 405 and the right one."""
    service = a_service(100)
    posted = respond(service, evolve(token_request(service), path=LIST))
    assert (posted.status, posted.headers["Allow"]) == (405, "GET")
    got = ask(service, "/token")
    assert (got.status, got.headers["Allow"]) == (405, "POST")


def test_touch_changes_the_content() -> None:
    """An update changes an amount, its document and the update time, and nothing else."""
    service = a_service(100)
    path = f"{LIST}/{service.world.ids[0]}"
    before, papers = ask_json(service, path), _documents(ask_json(service, f"{path}/documents"))
    service.world.touch(service.world.ids[0])
    after, changed = ask_json(service, path), _documents(ask_json(service, f"{path}/documents"))
    assert after["last_updated_at"] == "1970-01-01T00:16:40Z"
    assert after["applicants"] == before["applicants"]
    assert after["income_calculations"] != before["income_calculations"]
    moved = [new for old, new in zip(papers, changed, strict=True) if old != new]
    assert [(new["data_action"], new["updated_at"]) for new in moved] == [
        ("update", "1970-01-01T00:16:40Z")
    ]


def test_every_reply_is_dated_and_numbered() -> None:
    """Every reply carries service time, set off as asked, and a request id of its own."""
    service = a_service(100, clock_offset=60)
    replies = [ask(service), ask(service, "/nowhere"), ask(service, authorization="")]
    assert {reply.headers["Date"] for reply in replies} == {"Thu, 01 Jan 1970 00:17:40 GMT"}
    assert len({reply.headers["X-Request-Id"] for reply in replies}) == 3


def test_index_page() -> None:
    """The index page says that all data is invented."""
    reply = ask(a_service(), "/", authorization="")
    assert reply.status == 200
    assert b"invented" in reply.body
