"""Files that go to a real S3: whole or not at all, also in parts, also cancelled."""

import asyncio
from collections.abc import Iterator

import pytest
from obstore.store import S3Store

from income_client import DownloadError
from income_client.places import Published, StorePlace
from tests.support.object_storage import moto_server, s3_client
from tests.support.places import FACTS, FLAT, PDF, put, some

BUCKET = "archive"
LONG = b"%PDF-1.7\n" + bytes(range(256)) * 60_000


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
    assert await put(place, content) == Published(key, was_there=False)
    client = s3_client(endpoint)
    stored = await asyncio.to_thread(client.get_object, Bucket=BUCKET, Key=key)
    assert stored["Body"].read() == content
    assert await put(place, content) == Published(key, was_there=True)
    (present,) = some(await place.present())
    assert present.size == len(content)
    other = content[:-1] + b"!" if content else b"?"
    assert isinstance(await put(place, other), DownloadError)
    assert await put(place, other, overwrite=True) == Published(key, was_there=False)


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
