"""A real object store, moto in another process: files go to it, and come from it."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import aiohttp
import pytest

pytest.importorskip("boto3", reason="object storage needs the extra 'full'")
pytest.importorskip("moto", reason="object storage needs the extra 'full'")
pytest.importorskip("obstore", reason="object storage needs the extra 'full'")

from attrs import evolve
from obstore.store import S3Store
from yarl import URL

from income_client import DownloadError, IncomeClient
from income_client.downloads.object_store import StorePlace
from income_client.testing import JumpingClock
from tests.support.files import (
    AUTH,
    NAMES,
    ON_LOOPBACK,
    Paper,
    applications,
    check_all_there,
    documents_of,
    invented_papers,
    paper_service,
    total_bytes,
)
from tests.support.object_storage import ObjectStorage, moto_server, object_storage, s3_client
from tests.support.places import FACTS, FLAT, PDF, Landed, put
from tests.support.server import Reply, Request, ScriptedServer

BUCKET: Final = "archive"
LONG: Final = b"%PDF-1.7\n" + bytes(range(256)) * 60_000
COUNT: Final = 200
LIFETIME: Final = 900
FILES_PER_LIFETIME: Final = 10
MOST_OVERHEAD: Final = 1.3
_MOST_BEFORE_RESET: Final = 32 * 1024
_CALM_EVERY: Final = 3


class CuttingWeather:
    """Ends a share of the replies early, by a FIN or an RST; refusals come whole.

    What it does hangs on the file and on how often it was asked for, not on who comes first: a seed
    spoils the same requests at the same places on a slow machine and on a fast one.

    A reset takes along what is in its sender's buffers, which on a slow machine is
    much: it falls on the first bytes, which fit into the receiver's. After a reply
    that brought nothing, the next one brings something.

    Args:
        storage: whose replies it spoils, from now on.
        seed: what the choice hangs on.
        share: part of the replies that are ended early, from 0 to 1.

    Attributes:
        replies: how many were no refusals.
        ended_early: how many of those were spoilt.
        refusals: how many were.
        body_bytes: of bodies that were handed to clients.
    """

    def __init__(self, storage: ObjectStorage, seed: int, share: float) -> None:
        self.replies = 0
        self.ended_early = 0
        self.refusals = 0
        self.body_bytes = 0
        self._seed = seed
        self._share = share
        self._asked: Counter[str] = Counter()
        storage.weather = self._spoil

    def _spoil(self, request: Request, reply: Reply) -> Reply:
        if reply.status in (400, 403):
            self.refusals += 1
            return reply
        key = request.path[request.path.index("/", 1) :]
        self._asked[key] += 1
        turn = self._asked[key]
        self.replies += 1
        chance = Random(f"{self._seed} {key} {turn}")
        if chance.random() >= self._share:
            self.body_bytes += len(reply.body)
            return reply
        self.ended_early += 1
        left, is_reset = len(reply.body), chance.choice((False, True))
        most = min(left, _MOST_BEFORE_RESET) if is_reset else left
        least = 0 if turn % _CALM_EVERY == 0 else min(1, left)
        after = chance.randint(least, most)
        self.body_bytes += after
        return evolve(reply, cut=reply.body_at + after, reset=is_reset)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Run a storage with an empty bucket."""
    with moto_server() as address:
        s3_client(address).create_bucket(Bucket=BUCKET)
        yield address


@pytest.fixture
def store(endpoint: str) -> Iterator[S3Store]:
    """Return a store on the bucket, emptied afterwards."""
    yield S3Store(
        BUCKET,
        endpoint=endpoint,
        access_key_id="invented",
        secret_access_key="invented",
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    client = s3_client(endpoint)
    for one in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=one["Key"])


@pytest.mark.parametrize("content", [b"", PDF, LONG], ids=["empty", "short", "in parts"])
async def test_an_object_is_whole(store: S3Store, endpoint: str, content: bytes) -> None:
    """The second time it is there; another one is not overwritten silently."""
    place = StorePlace(store, FLAT, FACTS)
    key = "doc-1.pdf" if content else "doc-1.bin"
    assert await put(place, content) == Landed(key, was_there=False)
    client = s3_client(endpoint)
    stored = await asyncio.to_thread(client.get_object, Bucket=BUCKET, Key=key)
    assert stored["Body"].read() == content
    assert await put(place, content) == Landed(key, was_there=True)
    (existing,) = await place.find_existing()
    assert existing.size == len(content)
    other = content[:-1] + b"!" if content else b"?"
    assert isinstance(await put(place, other), DownloadError)
    assert await put(place, other, overwrite=True) == Landed(key, was_there=False)


async def test_an_upload_that_is_cancelled_leaves_nothing(store: S3Store, endpoint: str) -> None:
    """Neither an object nor parts of one, whenever it was cancelled."""
    client = s3_client(endpoint)
    for turns in (5, 50, 200, 400):
        task = asyncio.ensure_future(put(StorePlace(store, FLAT, FACTS), LONG))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        uploads = await asyncio.to_thread(client.list_multipart_uploads, Bucket=BUCKET)
        assert uploads.get("Uploads", []) == []
        found = await asyncio.to_thread(client.list_objects_v2, Bucket=BUCKET)
        sizes = [one["Size"] for one in found.get("Contents", ())]
        assert sizes in ([], [len(LONG)])


@pytest.mark.parametrize("seed", [1])
async def test_files_of_object_storage_come_whole(endpoint: str, tmp_path: Path, seed: int) -> None:
    """Over cuts, resets and expiries, for little more than their own bytes."""
    papers = invented_papers(COUNT, seed=seed)
    folder = tmp_path / "files"
    asked: Counter[tuple[str, int]] = Counter()
    async with object_storage(endpoint, files=0, seed=seed) as storage:
        await asyncio.gather(*(storage.put(paper.place, paper.content) for paper in papers))
        weather = CuttingWeather(storage, seed, share=0.5)

        def address(paper: Paper) -> str:
            return storage.address(paper.place, lifetime=LIFETIME)

        def note(application_id: str) -> None:
            asked[application_id, storage.time_ahead] += 1

        async with (
            ScriptedServer(paper_service(papers, address, note)) as service,
            IncomeClient(
                service.url, auth=AUTH, downloads=ON_LOOPBACK, clock=JumpingClock()
            ) as client,
        ):
            documents = await documents_of(client, applications(papers))
            done = 0
            async for _ in client.download_all(documents, folder, names=NAMES):
                done += 1
                if done % FILES_PER_LIFETIME == 0:
                    storage.advance(LIFETIME)
        check_all_there(folder, papers)
        ratio = weather.body_bytes / total_bytes(papers)
        assert ratio <= MOST_OVERHEAD
        assert weather.ended_early > 0.4 * weather.replies
        assert weather.refusals > 0
        # An expiry costs an application one request, however many of its files it hits.
        assert set(asked.values()) == {1}


async def _get(address: str, **headers: str) -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(URL(address, encoded=True), headers=headers) as reply,
    ):
        return reply.status, await reply.read()


def _code(body: bytes) -> str:
    found = re.search(rb"<Code>(\w+)</Code>", body)
    assert found is not None
    return found[1].decode()


async def test_the_storage_itself_is_as_strict_as_s3(endpoint: str) -> None:
    """It serves the signed address only, until that expires, and no part of another file."""
    async with object_storage(endpoint) as storage:
        (key, content), (other, _), _ = storage.files.items()
        address = storage.address(key, lifetime=LIFETIME)
        assert await _get(address) == (200, content)
        for changed in (
            address.replace("Expires=900", "Expires=901"),
            address.partition("?")[0] + "?" + storage.address(other).partition("?")[2],
        ):
            status, body = await _get(changed)
            assert (status, _code(body)) == (403, "SignatureDoesNotMatch")
        status, body = await _get(address.partition("?")[0])
        assert (status, _code(body)) == (403, "AccessDenied")
        status, body = await _get(address, Authorization="Bearer x")
        assert (status, _code(body)) == (400, "InvalidArgument")
        etag = storage.etag(key)
        part = {"Range": "bytes=99000-", "If-Range": etag}
        assert await _get(address, **part) == (206, content[99_000:])
        await storage.put(key, b"another file")
        assert await _get(address, **part) == (200, b"another file")
        storage.advance(LIFETIME)
        status, body = await _get(address)
        assert (status, _code(body)) == (403, "AccessDenied")
