"""Files come from a real object store, and the example of the guide uploads files to it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("boto3", reason="object storage needs the extra 'full'")
pytest.importorskip("moto", reason="object storage needs the extra 'full'")
pytest.importorskip("obstore", reason="object storage needs the extra 'full'")

import os
import subprocess
import sys
from contextlib import contextmanager
from unittest.mock import patch

import boto3
from attrs import evolve
from botocore.config import Config
from obstore.exceptions import BaseError
from obstore.store import S3Store

from income_client import ConfigurationError, IncomeClient, to_json
from income_client.emulator import Emulator, Fault
from income_client.testing import make_record
from tests.examples.store_files import store_files
from tests.support.clients import hosting
from tests.support.downloads import FILES, PDF, documents_of, files_below
from tests.support.server import HUNG_UP, in_turn

LONG: Final = b"%PDF-1.7\n" + bytes(range(256)) * 60_000
HOSTILE: Final = "../../outbox\\..%2F#é?\r\nx"
"""The id of a document that leads elsewhere where it is taken for a path or a part of a URL."""


BUCKET: Final = "archive"
_ISOLATED: Final = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Environment in which no client reads credentials of this machine."""
_SERVER: Final = """
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
    """Return a boto3 client of a server."""
    with patch.dict(os.environ, _ISOLATED, clear=True):
        return boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="INVENTEDKEYID0000000",
            aws_secret_access_key="invented-secret-access-key",
            aws_session_token="invented+session/token==",
            region_name="us-east-1",
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )


@contextmanager
def running_object_storage() -> Iterator[str]:
    """Run a server, and yield its address."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        env={"PATH": os.environ.get("PATH", ""), "HOME": os.devnull, **_ISOLATED},
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


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with running_object_storage() as address:
        yield address


@pytest.fixture
def store(endpoint: str) -> Iterator[S3Store]:
    """Return a store on the bucket, emptied afterwards."""
    yield store_of(endpoint, BUCKET)
    client = s3_client(endpoint)
    for key in objects_in(endpoint):
        client.delete_object(Bucket=BUCKET, Key=key)


def store_of(endpoint: str, bucket: str) -> S3Store:
    """Return a store on a bucket, which need not exist."""
    return S3Store(
        bucket,
        endpoint=endpoint,
        access_key_id="invented",
        secret_access_key="invented",
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def objects_in(endpoint: str) -> dict[str, bytes]:
    """Return the content of each object in the bucket, by its key."""
    client = s3_client(endpoint)
    listed = client.list_objects_v2(Bucket=BUCKET).get("Contents", ())
    return {
        item["Key"]: client.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read()
        for item in listed
    }


# Files come from it


@pytest.mark.parametrize("content", [b"", PDF, LONG], ids=["empty", "short", "long"])
async def test_a_file_comes_from_a_signed_address(
    store: S3Store, endpoint: str, content: bytes, tmp_path: Path
) -> None:
    """Key and signature contain characters that are easily quoted twice, or not at all."""
    key = {"Bucket": BUCKET, "Key": "papers/pay stub é+1%2F.pdf"}
    client = s3_client(endpoint)
    await asyncio.to_thread(client.put_object, Body=content, **key)
    address = client.generate_presigned_url("get_object", Params=key)
    async with hosting(in_turn(HUNG_UP)) as (downloading, document, _):
        file = await downloading.download(evolve(document, url=address), tmp_path / "slip")
        assert (tmp_path / "slip").read_bytes() == content
        assert file.size == len(content)


# Files go to it, by the example of the guide


@asynccontextmanager
async def serving(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Emulator, IncomeClient]]:
    """Run a service, and a client that may download its files, in a folder of the example."""
    monkeypatch.chdir(folder)
    async with Emulator(12) as service:
        policy = service.download_policy
        async with IncomeClient(service.url, auth=service.oauth2, downloads=policy) as client:
            yield service, client


def add_hostile_document(service: Emulator, address: str) -> str:
    """Add an application whose only document has a hostile id, and its file at this address."""
    record = make_record()
    application, documents = (
        json.loads(to_json(part), parse_float=Decimal)
        for part in (record.application, record.documents)
    )
    (paystub,) = documents["documents"]["paystub"]
    documents["documents"]["paystub"] = [paystub | {"document_id": HOSTILE, "url": address}]
    return service.world.add(application, documents)


async def test_a_store_as_a_destination_is_refused(
    store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the page that shows how to upload."""
    destination: Any = store
    async with serving(tmp_path, monkeypatch) as (service, client):
        document, *_ = await documents_of(client, service.world.ids[:1])
        with pytest.raises(ConfigurationError, match="income-client guide files"):
            await client.download(document, destination)
        with pytest.raises(ConfigurationError, match="income-client guide files"):
            client.download_all(document, destination)


async def test_every_file_becomes_an_object_and_none_stays_on_the_disk(
    store: S3Store, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile id is one safe part of a key; a second run changes nothing."""
    async with serving(tmp_path, monkeypatch) as (service, client):
        documents = await documents_of(client, service.world.ids[:3])
        expected = [service.content_of(document.document_id) for document in documents]
        ids = [*service.world.ids[:3], add_hostile_document(service, documents[0].url)]
        expected = sorted([*expected, expected[0]])
        for _ in range(2):
            await store_files(client, ids, store)
            stored = await asyncio.to_thread(objects_in, endpoint)
            assert sorted(stored.values()) == expected
            assert {key.count("/") for key in stored} == {2}
            assert {key.partition("/")[0] for key in stored} == set(ids)
            assert files_below(tmp_path) == {}


async def test_a_file_that_fails_is_printed_and_the_others_are_stored(
    store: S3Store,
    endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with serving(tmp_path, monkeypatch) as (service, client):
        ids = [*service.world.ids[:3]]
        documents = await documents_of(client, ids)
        service.faults.add(Fault("status", status=404, path=FILES, times=1))
        await store_files(client, ids, store)
    stored = await asyncio.to_thread(objects_in, endpoint)
    assert len(stored) == len(documents) - 1
    assert files_below(tmp_path) == {}
    printed = capsys.readouterr().out.splitlines()
    (failed,) = [line for line in printed if " failed: " in line]
    assert failed.split()[0] in {document.document_id for document in documents}


async def test_a_run_after_one_whose_uploads_failed_stores_every_file(
    store: S3Store, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were not uploaded wait in the folder."""
    async with serving(tmp_path, monkeypatch) as (service, client):
        ids = [*service.world.ids[:3]]
        documents = await documents_of(client, ids)
        with pytest.raises((BaseError, FileNotFoundError)):
            await store_files(client, ids, store_of(endpoint, "no-such-bucket"))
        waiting = files_below(tmp_path)
        assert waiting
        await store_files(client, ids, store)
        stored = await asyncio.to_thread(objects_in, endpoint)
        contents = [service.content_of(document.document_id) for document in documents]
    assert sorted(stored.values()) == sorted(contents)
    assert {f"outbox/{key}" for key in stored} >= set(waiting)
    assert files_below(tmp_path) == {}
