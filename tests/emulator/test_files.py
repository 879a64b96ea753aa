"""Document files: signed addresses and what storage answers, without a socket and over one."""

import asyncio
import re
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import aiohttp
import pytest
from attrs import evolve
from yarl import URL

from income_client.emulator import Emulator, Fault, HttpReply, HttpRequest, Service
from income_client.emulator.storage import Region
from income_client.errors import ConfigurationError
from tests.support.emulated import HOST, LIST, a_service, ask_documents, get_json
from tests.support.service import until

LARGE = 3 * 2**20


def _address(service: Service) -> str:
    address = ask_documents(service)[0]["url"]
    assert isinstance(address, str)
    return address


def _request(address: str, **headers: str) -> HttpRequest:
    parts = urlsplit(address)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return HttpRequest(method="GET", path=parts.path, query=parts.query, headers={**HOST, **named})


def _fetch(
    service: Service, address: str, region: Region = Region.FIRST, **headers: str
) -> HttpReply:
    return service.respond_file(_request(address, **headers), region)


def _code(reply: HttpReply) -> str:
    found = re.search(rb"<Code>(\w+)</Code><Message>([^<]*)</Message>", reply.body)
    assert found is not None
    assert reply.headers["Content-Type"] == "application/xml"
    return b": ".join(found.groups()).decode()


def _change_rules(service: Service, **knobs: Any) -> None:
    service.world.rules = evolve(service.world.rules, **knobs)


def test_every_address_leads_to_a_file() -> None:
    """The file has the requested size, a type and a tag; only its own signature opens it."""
    service = a_service(100, file_bytes=3000)
    service.storage.urls[Region.FIRST] = "http://127.0.0.1:9"
    for document in ask_documents(service):
        address = document["url"]
        assert address.startswith("http://127.0.0.1:9/documents/")
        reply = _fetch(service, address)
        assert (reply.status, len(reply.body)) == (200, 3000)
        assert reply.headers["Content-Type"] in ("application/pdf", "image/png")
        assert re.fullmatch(r'"[0-9a-f]{32}"', reply.headers["ETag"])
        assert reply.body == _fetch(service, address).body
    first, second = (_request(document["url"]) for document in ask_documents(service)[:2])
    for query in ("", "X-Amz-Signature=", first.query.partition("&X-Amz-Signature")[0]):
        reply = service.respond_file(evolve(first, query=query))
        assert (reply.status, _code(reply)) == (403, "AccessDenied: Access Denied")
    assert service.respond_file(evolve(first, path=second.path)).status == 403


def test_addresses_expire_and_their_age_is_a_rule() -> None:
    """Valid to the last second, at whatever age they are given; signed once, they never change."""
    service = a_service(100, url_lifetime=60)
    address = _address(service)
    service.world.advance_to(1059)
    assert _fetch(service, address).status == 200
    service.world.advance_to(1060)
    reply = _fetch(service, address)
    assert (reply.status, _code(reply)) == (403, "AccessDenied: Request has expired")
    assert b"<Expires>1970-01-01T00:17:40Z</Expires>" in reply.body
    for age, status in ((0, 200), (59, 200), (60, 403)):
        _change_rules(service, url_age=age)
        assert _fetch(service, _address(service)).status == status
    _change_rules(service, url_age=0, url_signed_once=True)
    address = _address(service)
    service.world.advance_to(1120)
    assert _address(service) == address
    assert _fetch(service, address).status == 403
    _change_rules(service, url_signed_once=False)
    assert _fetch(service, _address(service)).status == 200


def test_the_raw_query_is_signed() -> None:
    """Any change of the raw query, even to an equal meaning, breaks the signature."""
    service = a_service(100)
    request = _request(_address(service))
    for query in (
        request.query.replace("%2F", "/"),
        request.query.replace("%20", "+"),
        request.query.replace("%7E", "~"),
        quote(unquote(request.query), safe="&=/"),
        request.query.replace("Expires=900", "Expires=999"),
        request.query.replace("&X-Amz-Signature", "&x-hops=1&X-Amz-Signature"),
    ):
        assert query != request.query
        reply = service.respond_file(evolve(request, query=query))
        assert reply.status == 403
        assert _code(reply).startswith("SignatureDoesNotMatch: ")
        shown = f"<SignatureProvided>{query[-64:]}</SignatureProvided>"
        assert shown.encode() in reply.body


@pytest.mark.parametrize("name", ["doc-0000000000-01/a.pdf", "doc-{}-99/a.pdf", "doc-{}-01/b.pdf"])
def test_files_of_no_document_are_missing(name: str) -> None:
    """A signed address is answered with 404; whoever asks the emulator itself is told."""
    service = a_service(100)
    path = f"/documents/{name.format(service.world.ids[0][4:])}"
    query = service.storage.query(path, "a.pdf", signed_at=1000)
    reply = _fetch(service, f"http://127.0.0.1{path}?{query}")
    assert reply.status == 404
    assert _code(reply).startswith("NoSuchKey")
    for document_id in ("", "doc", "doc-0000000000-01", service.world.ids[0]):
        for call in (service.storage.file_of, service.storage.replace):
            with pytest.raises(ConfigurationError, match="there is no document"):
                call(document_id)


def test_other_requests_are_refused() -> None:
    """Files are only read, by their signature alone, and only from this machine."""
    service = a_service(100)
    request = _request(_address(service))
    reply = _fetch(service, _address(service), authorization="Bearer <x>")
    assert reply.status == 400
    assert _code(reply).startswith("InvalidArgument")
    assert b"<ArgumentValue>Bearer &lt;x&gt;</ArgumentValue>" in reply.body
    assert _fetch(service, _address(service), cookie="a=b").status == 400
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
        *((asked, 416) for asked in ("bytes=100-", "bytes=5-4", "bytes=-0")),
        *((asked, 200) for asked in ("bytes=", "bytes=-", "bytes=x-", "items=0-1")),
        *((asked, 200) for asked in ("bytes=0-1,3-4", f"bytes=0-{'9' * 5000}")),
    ],
)
def test_ranges(asked: str, expected: range | int) -> None:
    """A part of the file; 416 where it lies outside; the whole where it is not understood."""
    service = a_service(100, file_bytes=100)
    address = _address(service)
    whole, reply = _fetch(service, address), _fetch(service, address, range=asked)
    match expected:
        case range(start=start, stop=stop):
            assert (reply.status, reply.body) == (206, whole.body[start:stop])
            assert reply.headers["Content-Range"] == f"bytes {start}-{stop - 1}/100"
            assert reply.headers["ETag"] == whole.headers["ETag"]
        case 416:
            assert (reply.status, reply.headers["Content-Range"]) == (416, "bytes */100")
        case _:
            assert (reply.status, reply.body) == (200, whole.body)


def test_no_range_continues_a_replaced_file() -> None:
    """The old address leads to the new bytes."""
    service = a_service(100, file_bytes=500)
    document, other = ask_documents(service)[:2]
    before = service.storage.file_of(other["document_id"])
    whole = _fetch(service, document["url"])
    rest = _request(document["url"], range="bytes=100-", if_range=whole.headers["ETag"])
    assert service.respond_file(rest).status == 206
    service.storage.replace(document["document_id"])
    again = service.respond_file(rest)
    assert (again.status, len(again.body)) == (200, 500)
    assert {again.body, again.headers["ETag"]}.isdisjoint({whole.body, whole.headers["ETag"]})
    assert service.storage.file_of(other["document_id"]) == before


@pytest.mark.parametrize("redirects", [1, 2, 5])
def test_regions_redirect(redirects: int) -> None:
    """A region redirects to the other with a fresh signature, as often as the rules say."""
    service = a_service(100, file_redirects=redirects, url_lifetime=60)
    service.storage.urls = {Region.FIRST: "http://127.0.0.1:1", Region.SECOND: "http://127.0.0.1:2"}
    address, region = _address(service), Region.FIRST
    reply = _fetch(service, address, Region.SECOND)
    assert reply.status == 400
    assert _code(reply).startswith("AuthorizationQueryParametersError")
    for _ in range(redirects):
        service.world.advance_to(service.world.now + 59)
        reply = _fetch(service, address, region)
        assert reply.status == 307
        assert b"<Code>TemporaryRedirect</Code>" in reply.body
        address, region = reply.headers["Location"], region.other
        assert address.startswith(service.storage.urls[region])
    assert _fetch(service, address, region).status == 200


async def _document(session: aiohttp.ClientSession, service: Emulator) -> dict[str, Any]:
    content = await get_json(session, service, f"{LIST}/{service.world.ids[0]}/documents")
    document: dict[str, Any] = next(iter(content["documents"].values()))[0]
    return document


@pytest.mark.parametrize("keep", [0, 70_000, LARGE - 1])
@pytest.mark.parametrize("kind", ["cut", "stall"])
async def test_a_large_file_ends_where_the_fault_says(
    session: aiohttp.ClientSession, service: Emulator, keep: int, kind: str
) -> None:
    """Status and length are those of the whole; as many bytes come as it says, and no more."""
    service.rules = evolve(service.rules, file_bytes=LARGE)
    document = await _document(session, service)
    content = service.content_of(document["document_id"])[:keep]
    service.faults.add(Fault(kind, path="/documents/*", keep=keep))
    async with session.get(URL(document["url"], encoded=True)) as reply:
        assert (reply.status, reply.headers["Content-Length"]) == (200, str(LARGE))
        assert await reply.content.readexactly(keep) == content
        if kind == "stall":
            await service.close()
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.content.read()


async def test_a_cut_file_that_nobody_reads() -> None:
    async with Emulator(1, file_bytes=16 * 2**20) as service, aiohttp.ClientSession() as session:
        document = await _document(session, service)
        service.faults.add(Fault("cut", path="/documents/*", keep=15 * 2**20))
        address = URL(document["url"], encoded=True)
        _reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(
            f"GET {address.raw_path_qs} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode("ascii")
        )
        await until(lambda: service.requests[-1].fault == "cut")
    writer.close()
