"""The object storage that downloads are tried against, and the proxy that spoils its replies."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from yarl import URL

from tests.support.cutting_proxy import Damage, Ending, RequestHead, in_turn, random_cuts
from tests.support.object_storage import ObjectStorage, moto_server, object_storage

SIZE = 100_000


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Moto in another process."""
    with moto_server() as address:
        yield address


@pytest.fixture
async def storage(endpoint: str) -> AsyncIterator[ObjectStorage]:
    """A bucket of three files."""
    async with object_storage(endpoint, size=SIZE) as opened:
        yield opened


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A plain HTTP client."""
    async with aiohttp.ClientSession() as opened:
        yield opened


async def _get(session: aiohttp.ClientSession, address: str, **headers: str) -> tuple[int, bytes]:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    async with session.get(URL(address, encoded=True), headers=named) as reply:
        return reply.status, await reply.read()


def _code(body: bytes) -> str:
    found = re.search(rb"<Code>(\w+)</Code><Message>([^<]*)</Message>", body)
    assert found is not None
    return b": ".join(found.groups()).decode()


async def test_every_address_leads_to_its_file(
    session: aiohttp.ClientSession, storage: ObjectStorage
) -> None:
    """A signed address gives its file, with type and entity tag, through the proxy."""
    assert len(storage.files) == 3
    for key, content in storage.files.items():
        address = storage.address(key)
        assert address.startswith(f"{storage.proxy.url}/")
        async with session.get(URL(address, encoded=True)) as reply:
            assert reply.status == 200
            assert await reply.read() == content
            assert reply.headers["ETag"] == storage.etag(key)
            assert reply.headers["Content-Type"] == "application/pdf"
            assert reply.headers["Content-Length"] == str(SIZE)
    assert storage.proxy.body_bytes == 3 * SIZE
    assert [head.method for head in storage.proxy.requests] == ["GET"] * 3


async def test_addresses_expire(session: aiohttp.ClientSession, storage: ObjectStorage) -> None:
    """An address expires by the storage's clock; one that is signed then is good."""
    key = next(iter(storage.files))
    address = storage.address(key, lifetime=3600)
    assert (await _get(session, address))[0] == 200
    storage.advance(3600)
    status, body = await _get(session, address)
    assert (status, _code(body)) == (403, "AccessDenied: Request has expired")
    assert (await _get(session, storage.address(key, lifetime=3600)))[0] == 200


async def test_only_the_very_address_is_good(
    session: aiohttp.ClientSession, storage: ObjectStorage
) -> None:
    """A changed, an unsigned and a doubly authorised request are refused as S3 refuses them."""
    first, second, _ = map(storage.address, storage.files)
    for changed in (
        first.replace("%2F", "/"),
        first.replace("%2B", "+"),
        first.replace("Expires=900", "Expires=901"),
        first.partition("?")[0] + "?" + second.partition("?")[2],
    ):
        assert changed != first
        status, body = await _get(session, changed)
        assert (status, _code(body)[:21]) == (403, "SignatureDoesNotMatch")
    status, body = await _get(session, first.partition("?")[0])
    assert (status, _code(body)) == (403, "AccessDenied: Access Denied")
    status, body = await _get(session, first, Authorization="Bearer x")
    assert (status, _code(body)) == (400, "InvalidArgument: Only one auth mechanism allowed")


async def test_ranges(session: aiohttp.ClientSession, storage: ObjectStorage) -> None:
    """A part comes while If-Range names the file that is there, and the whole file after that."""
    key, content = next(iter(storage.files.items()))
    address, etag = storage.address(key), storage.etag(key)
    async with session.get(
        URL(address, encoded=True), headers={"Range": "bytes=99000-", "If-Range": etag}
    ) as reply:
        assert (reply.status, await reply.read()) == (206, content[99_000:])
        assert reply.headers["Content-Range"] == f"bytes 99000-99999/{SIZE}"
    assert (await _get(session, address, Range=f"bytes={SIZE}-"))[0] == 416
    await storage.put(key, b"another file")
    changed = await _get(session, address, Range="bytes=5-", If_Range=etag)
    assert changed == (200, b"another file")
    assert await _get(session, address, Range="bytes=8-") == (206, b"file")


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET])
@pytest.mark.parametrize("after", [0, 1, 50_000, SIZE - 1])
async def test_a_reply_ends_early(
    session: aiohttp.ClientSession, storage: ObjectStorage, ending: Ending, after: int
) -> None:
    """A cut and a reset let no more bytes through than they say, and the next reply is whole."""
    key, content = next(iter(storage.files.items()))
    storage.proxy.weather = in_turn(Damage(ending=ending, after=after))
    with pytest.raises(aiohttp.ClientError):
        await _get(session, storage.address(key))
    assert storage.proxy.body_bytes == after
    assert await _get(session, storage.address(key)) == (200, content)


async def test_a_reply_stops_and_another_is_slow(
    session: aiohttp.ClientSession, storage: ObjectStorage
) -> None:
    """A stalled reply gives its first bytes and no more; a slow one comes whole."""
    key, content = next(iter(storage.files.items()))
    storage.proxy.weather = in_turn(
        Damage(ending=Ending.STALL, after=1000), Damage(pause=0.001, piece=20_000)
    )
    async with session.get(URL(storage.address(key), encoded=True)) as reply:
        assert await reply.content.readexactly(1000) == content[:1000]
        more = asyncio.create_task(reply.content.readany())
        for _ in range(100):
            await asyncio.sleep(0)
        assert not more.done()
        more.cancel()
    assert await _get(session, storage.address(key)) == (200, content)


def test_weather_hangs_on_its_seed() -> None:
    """The same seed spoils the same replies, about the share that was asked for."""
    head = RequestHead(method="GET", target="/", headers={})

    def damages(seed: int) -> list[Damage]:
        weather = random_cuts(seed, share=0.5, most=SIZE)
        return [weather(head) for _ in range(200)]

    assert damages(1) == damages(1) != damages(2)
    spoilt = [damage for damage in damages(1) if damage.ending is not Ending.WHOLE]
    assert {damage.ending for damage in spoilt} == {Ending.CUT, Ending.RESET}
    assert 60 <= len(spoilt) <= 140
    assert all(0 <= damage.after <= SIZE for damage in spoilt)
