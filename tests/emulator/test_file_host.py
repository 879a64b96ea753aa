"""The host of document files over real sockets, in good and in bad weather."""

import asyncio
from typing import Any

import aiohttp
import pytest
from attrs import evolve
from yarl import URL

from income_client.emulator import Emulator, Fault
from tests.support.emulated_calls import get_json, until
from tests.support.emulated_replies import LIST

LARGE = 3 * 2**20


async def _document(session: aiohttp.ClientSession, service: Emulator) -> dict[str, Any]:
    content = await get_json(session, service, f"{LIST}/{service.world.ids[0]}/documents")
    document: dict[str, Any] = next(iter(content["documents"].values()))[0]
    return document


async def _received(
    session: aiohttp.ClientSession, address: str, **headers: str
) -> tuple[int, bytes, bool]:
    """Return the status, the bytes that came and whether they were all."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    url = URL(address, encoded=True)
    body = b""
    async with session.get(url, headers=named, allow_redirects=False) as reply:
        try:
            async for piece in reply.content.iter_any():
                body += piece
        except aiohttp.ClientPayloadError:
            return reply.status, body, False
        return reply.status, body, True


async def test_a_file_is_what_a_test_is_told(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    """The bytes, the type and the tag of a file are known beforehand, after a change as well."""
    document = await _document(session, service)
    name = document["document_id"]
    for _ in range(2):
        async with session.get(URL(document["url"], encoded=True)) as reply:
            assert await reply.read() == service.content_of(name)
            stored = service.file_of(name)
            assert reply.headers["ETag"] == stored.etag
            assert reply.headers["Content-Type"] == stored.content_type
        service.replace_file(name)


@pytest.mark.parametrize("keep", [0, 1, 70_000, LARGE - 1])
async def test_a_large_file_is_cut(
    session: aiohttp.ClientSession, service: Emulator, keep: int
) -> None:
    """A cut lets as many bytes of a large file through as it says, and no more."""
    service.rules = evolve(service.rules, file_bytes=LARGE)
    document = await _document(session, service)
    service.faults.add(Fault("cut", path="/documents/*", keep=keep))
    status, body, is_whole = await _received(session, document["url"])
    assert (status, is_whole) == (200, False)
    assert body == service.content_of(document["document_id"])[:keep]


async def test_a_part_is_cut(session: aiohttp.ClientSession, service: Emulator) -> None:
    """A cut of a part counts the bytes of the part; asked again from there, the rest comes."""
    service.rules = evolve(service.rules, file_bytes=LARGE)
    document = await _document(session, service)
    content = service.content_of(document["document_id"])
    service.faults.add(Fault("cut", path="/documents/*", keep=1000))
    part = await _received(session, document["url"], range="bytes=500-")
    assert part == (206, content[500:1500], False)
    assert await _received(session, document["url"], range="bytes=1500-") == (
        206,
        content[1500:],
        True,
    )
    ranges = [each.headers.get("range") for each in service.requests if each.name == "file"]
    assert ranges == ["bytes=500-", "bytes=1500-"]


async def test_faults_of_files_leave_the_api(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    """A fault on the paths of files falls on no other request."""
    service.faults.add(Fault("redirect", path="/documents/*", location="http://127.0.0.1:9/else"))
    document = await _document(session, service)
    assert await _received(session, document["url"]) == (307, b"", True)
    status, body, is_whole = await _received(session, document["url"])
    assert (status, len(body), is_whole) == (200, 20_000, True)


@pytest.mark.parametrize("kind", ["reset", "drop"])
async def test_files_that_never_come(
    session: aiohttp.ClientSession, service: Emulator, kind: str
) -> None:
    """A reset and a drop take the connection of a file away."""
    document = await _document(session, service)
    # A dropped request on a connection that was used before is made again by the client itself.
    service.faults.add(Fault(kind, path="/documents/*", times=None))
    with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
        await _received(session, document["url"])


async def test_a_file_that_stops_coming(session: aiohttp.ClientSession, service: Emulator) -> None:
    """A stall gives nothing, not even a status, until the client goes away."""
    document = await _document(session, service)
    service.faults.add(Fault("stall", path="/documents/*"))
    waiting = asyncio.create_task(_received(session, document["url"]))
    await until(lambda: service.requests[-1].name == "file")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert service.requests[-1].fault == "stall"


async def test_a_file_that_stops_in_its_middle(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    """A stall that keeps something gives the status and so many bytes, and no more."""
    document = await _document(session, service)
    service.faults.add(Fault("stall", path="/documents/*", keep=1000))
    async with session.get(URL(document["url"], encoded=True)) as reply:
        assert (reply.status, reply.headers["Content-Length"]) == (200, "20000")
        begun = service.content_of(document["document_id"])[:1000]
        assert await reply.content.readexactly(1000) == begun
        assert service.requests[-1].status == 200
        await service.close()
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.content.read()


async def test_a_cut_file_that_nobody_reads() -> None:
    """Closing waits for no client that leaves a large file unread."""
    async with Emulator(1, file_bytes=32 * 2**20) as service, aiohttp.ClientSession() as session:
        document = await _document(session, service)
        service.faults.add(Fault("cut", path="/documents/*", keep=31 * 2**20))
        address = URL(document["url"], encoded=True)
        _reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(
            f"GET {address.raw_path_qs} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode("ascii")
        )
        await until(lambda: service.requests[-1].fault == "cut")
    writer.close()


async def test_regions_send_on_over_the_wire(session: aiohttp.ClientSession) -> None:
    """A client that follows by hand reaches the file on another port, with a fresh signature."""
    async with Emulator(1, file_redirects=1) as service:
        document = await _document(session, service)
        async with session.get(URL(document["url"], encoded=True), allow_redirects=False) as reply:
            assert reply.status == 307
            location = URL(reply.headers["Location"], encoded=True)
        assert location.port not in (URL(service.files_url).port, URL(service.url).port)
        assert f"127.0.0.1:{location.port}" in service.download_policy.allowed_hosts
        async with session.get(location) as reply:
            assert await reply.read() == service.content_of(document["document_id"])


async def test_the_policy_names_the_ports(service: Emulator) -> None:
    """The policy allows the host of files by its port, and not the API."""
    hosts = service.download_policy.allowed_hosts
    assert service.files_url.removeprefix("http://") == hosts[0]
    assert service.url.removeprefix("http://") not in hosts
