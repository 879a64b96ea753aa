"""A real object store, moto in another process: files go to it, and come from it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

pytest.importorskip("boto3", reason="object storage needs the extra 'full'")
pytest.importorskip("moto", reason="object storage needs the extra 'full'")
pytest.importorskip("obstore", reason="object storage needs the extra 'full'")

import boto3
from attrs import evolve
from botocore.config import Config
from obstore.store import S3Store

from income_client import DownloadError
from income_client.downloads.object_store import StorePlace
from tests.support.clients import hosting
from tests.support.downloads import FACTS, FLAT, PDF, Landed, put
from tests.support.server import HUNG_UP, in_turn

BUCKET: Final = "archive"
LONG: Final = b"%PDF-1.7\n" + bytes(range(256)) * 60_000
ISOLATED: Final = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
SERVER: Final = """
import sys
from ipaddress import ip_address

def loopback_only(event, arguments):
    if event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        if not ip_address(arguments[1][0]).is_loopback:
            raise PermissionError("this server talks to nobody else")

sys.addaudithook(loopback_only)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def s3_client(endpoint: str) -> Any:
    """Return a client of an endpoint that knows nothing of this machine's own settings."""
    with patch.dict(os.environ, ISOLATED, clear=True):
        return boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="INVENTEDKEYID0000000",
            aws_secret_access_key="invented-secret-access-key",
            aws_session_token="invented+session/token==",
            region_name="us-east-1",
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Run moto with an empty bucket, in a process that ends with this one."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env={"PATH": os.environ.get("PATH", ""), "HOME": os.devnull, **ISOLATED},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            address = f"http://127.0.0.1:{int(process.stdout.readline())}"
            s3_client(address).create_bucket(Bucket=BUCKET)
            yield address
        finally:
            process.kill()


# Files go to it


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


# Files come from it


@pytest.mark.parametrize("content", [b"", PDF, LONG], ids=["empty", "short", "long"])
async def test_a_file_comes_from_a_signed_address(
    store: S3Store, endpoint: str, content: bytes, tmp_path: Path
) -> None:
    """Its key and its signature have what is easily quoted twice, or not at all."""
    key = {"Bucket": BUCKET, "Key": "papers/pay stub é+1%2F.pdf"}
    client = s3_client(endpoint)
    await asyncio.to_thread(client.put_object, Body=content, **key)
    address = client.generate_presigned_url("get_object", Params=key)
    async with hosting(in_turn(HUNG_UP)) as (downloading, document, _):
        file = await downloading.download(evolve(document, url=address), tmp_path / "slip")
        assert (tmp_path / "slip").read_bytes() == content
        assert file.size == len(content)
