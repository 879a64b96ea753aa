"""Signed download addresses and the host of document files."""

import re
from urllib.parse import quote, unquote, urlsplit

import pytest
from attrs import evolve

from income_client.emulator import HttpReply, HttpRequest, Service
from income_client.emulator.storage import Region
from tests.support.emulated_replies import HOST, LIST, a_service, ask_json


def _addresses(service: Service) -> list[str]:
    content = ask_json(service, f"{LIST}/{service.world.ids[0]}/documents")
    return [document["url"] for some in content["documents"].values() for document in some]


def _request(address: str, **headers: str) -> HttpRequest:
    parts = urlsplit(address)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return HttpRequest(method="GET", path=parts.path, query=parts.query, headers={**HOST, **named})


def _fetch(service: Service, address: str, **headers: str) -> HttpReply:
    return service.respond_file(_request(address, **headers))


def _code(reply: HttpReply) -> str:
    found = re.search(rb"<Code>(\w+)</Code><Message>([^<]*)</Message>", reply.body)
    assert found is not None
    assert reply.headers["Content-Type"] == "application/xml"
    return b": ".join(found.groups()).decode()


def test_every_address_leads_to_a_file() -> None:
    """Each document's address gives a file of the asked size with type and entity tag."""
    service = a_service(100, file_bytes=3000)
    service.storage.urls[Region.FIRST] = "http://127.0.0.1:9"
    addresses = _addresses(service)
    assert all(address.startswith("http://127.0.0.1:9/documents/") for address in addresses)
    for address in addresses:
        reply = _fetch(service, address)
        assert (reply.status, len(reply.body)) == (200, 3000)
        assert reply.headers["Content-Type"] in ("application/pdf", "image/png")
        assert re.fullmatch(r'"[0-9a-f]{32}"', reply.headers["ETag"])
        assert reply.body == _fetch(service, address).body


def test_addresses_expire() -> None:
    """An address is good until its last second; a later one of the same file is good again."""
    service = a_service(100, url_lifetime=60)
    address = _addresses(service)[0]
    service.world.advance_to(1059)
    assert _fetch(service, address).status == 200
    service.world.advance_to(1060)
    reply = _fetch(service, address)
    assert reply.status == 403
    assert _code(reply) == "AccessDenied: Request has expired"
    assert _fetch(service, _addresses(service)[0]).status == 200


def test_raw_query_is_signed() -> None:
    """Any change of the raw query, even to an equal meaning, breaks the signature."""
    service = a_service(100)
    request = _request(_addresses(service)[0])
    assert service.respond_file(request).status == 200
    for query in (
        request.query.replace("%2F", "/"),
        request.query.replace("%20", "+"),
        request.query.replace("%7E", "~"),
        quote(unquote(request.query), safe="&=/"),
        request.query.replace("Expires=900", "Expires=999"),
    ):
        assert query != request.query
        reply = service.respond_file(evolve(request, query=query))
        assert reply.status == 403
        assert _code(reply).startswith("SignatureDoesNotMatch: ")


def test_unsigned_requests() -> None:
    """A path without a signature is refused."""
    service = a_service(100)
    request = _request(_addresses(service)[0])
    for query in ("", "X-Amz-Signature=", request.query.partition("&X-Amz-Signature")[0]):
        reply = service.respond_file(evolve(request, query=query))
        assert (reply.status, _code(reply)) == (403, "AccessDenied: Access Denied")


def test_signature_holds_for_one_path() -> None:
    """A signature opens no other file."""
    service = a_service(100)
    first, second = map(_request, _addresses(service)[:2])
    assert service.respond_file(evolve(first, path=second.path)).status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/documents/doc-0000000000-01/a.pdf",
        "/documents/doc-{stem}-99/a.pdf",
        "/documents/doc-{stem}-01/other.pdf",
        "/elsewhere",
    ],
)
def test_missing_files(path: str) -> None:
    """A signed address of a file that does not exist is answered with 404."""
    service = a_service(100)
    path = path.format(stem=service.world.ids[0][4:])
    query = service.storage.query(path, "a.pdf", signed_at=1000)
    reply = _fetch(service, f"http://127.0.0.1{path}?{query}")
    assert reply.status == 404
    assert _code(reply).startswith("NoSuchKey")


def test_two_auth_mechanisms() -> None:
    """An Authorization header beside the signature is answered with 400."""
    service = a_service(100)
    reply = _fetch(service, _addresses(service)[0], authorization="Bearer x")
    assert reply.status == 400
    assert _code(reply).startswith("InvalidArgument")


def test_only_reading() -> None:
    """Files are only read, and only from this machine."""
    service = a_service(100)
    request = _request(_addresses(service)[0])
    assert service.respond_file(evolve(request, method="PUT")).status == 405
    assert service.respond_file(evolve(request, headers={"host": "s3.example"})).status == 421


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=0-9", range(10)),
        ("bytes=10-", range(10, 100)),
        ("bytes=90-500", range(90, 100)),
        ("bytes=-10", range(90, 100)),
        ("bytes=-500", range(100)),
        ("bytes=99-99", range(99, 100)),
    ],
)
def test_ranges(asked: str, expected: range) -> None:
    """A range gives its part of the file and says which one it is."""
    service = a_service(100, file_bytes=100)
    address = _addresses(service)[0]
    whole = _fetch(service, address)
    part = _fetch(service, address, range=asked)
    assert part.status == 206
    assert part.body == whole.body[expected.start : expected.stop]
    assert part.headers["Content-Range"] == f"bytes {expected.start}-{expected.stop - 1}/100"
    assert part.headers["ETag"] == whole.headers["ETag"]


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=5-4", "bytes=-0"])
def test_ranges_outside_the_file(asked: str) -> None:
    """A range outside the file is answered with 416 and the size."""
    service = a_service(100, file_bytes=100)
    reply = _fetch(service, _addresses(service)[0], range=asked)
    assert reply.status == 416
    assert reply.headers["Content-Range"] == "bytes */100"


@pytest.mark.parametrize("asked", ["bytes=", "bytes=-", "items=0-1", "bytes=0-1,3-4", "bytes=x-"])
def test_ranges_not_understood(asked: str) -> None:
    """A range that is not understood gives the whole file."""
    service = a_service(100, file_bytes=100)
    reply = _fetch(service, _addresses(service)[0], range=asked)
    assert (reply.status, len(reply.body)) == (200, 100)


def test_changed_file_is_sent_whole() -> None:
    """A range counts only while If-Range names the file's entity tag."""
    service = a_service(100, file_bytes=100)
    address = _addresses(service)[0]
    etag = _fetch(service, address).headers["ETag"]
    assert _fetch(service, address, range="bytes=5-", if_range=etag).status == 206
    assert _fetch(service, address, range="bytes=5-", if_range='"other"').status == 200
