"""A real object store, moto in another process: files go to it, and come from it."""

import asyncio
import hashlib
import hmac
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import parse_qs, unquote

import aiohttp
import pytest

pytest.importorskip("boto3", reason="object storage needs the extra 'full'")
pytest.importorskip("moto", reason="object storage needs the extra 'full'")
pytest.importorskip("obstore", reason="object storage needs the extra 'full'")

import boto3
from attrs import evolve
from botocore.config import Config
from obstore.store import S3Store
from yarl import URL

from income_client import DownloadError
from income_client.downloads.object_store import StorePlace
from tests.support.clients import hosting
from tests.support.downloads import documents_of, files_below, mode_of
from tests.support.places import FACTS, FLAT, PDF, Landed, put
from tests.support.proxies import forwarded
from tests.support.server import HUNG_UP, Reply, Request, ScriptedServer, in_turn, json_reply
from tests.support.storage import document_payload

BUCKET: Final = "archive"
LONG: Final = b"%PDF-1.7\n" + bytes(range(256)) * 60_000
COUNT: Final = 200
LIFETIME: Final = 900
FILES_PER_LIFETIME: Final = 10
MOST_OVERHEAD: Final = 1.3
SECRET: Final = "invented-secret-access-key"
ISOLATED: Final = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
_MOST_BEFORE_RESET: Final = 32 * 1024
_CALM_EVERY: Final = 3
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


@cache
def session() -> Any:
    """Return a session of the library, made once, since it reads megabytes of descriptions."""
    return boto3.Session(
        aws_access_key_id="INVENTEDKEYID0000000",
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )


def s3_client(endpoint: str) -> Any:
    """Return a client of an endpoint that knows nothing of this machine's own settings."""
    with patch.dict(os.environ, ISOLATED, clear=True):
        config = Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
        )
        return session().client("s3", endpoint_url=endpoint, config=config)


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


def refusal(status: int, code: str, message: str) -> Reply:
    """Return an error as S3 writes it."""
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
        f"<Message>{message}</Message><RequestId>INVENTED</RequestId></Error>"
    ).encode()
    return Reply(status=status, headers={"Content-Type": "application/xml"}, body=body)


def signature_of(head: Request) -> str:
    """Return the signature of a request by the raw bytes of its path and query."""
    pairs = sorted(x for x in head.query.split("&") if not x.startswith("X-Amz-Signature="))
    terms = {name: unquote(text) for name, _, text in (pair.partition("=") for pair in pairs)}
    canonical = "\n".join(
        [
            head.method,
            head.path,
            "&".join(pairs),
            f"host:{head.headers.get('host', '')}\n",
            "host",
            "UNSIGNED-PAYLOAD",
        ]
    )
    scope = terms["X-Amz-Credential"].partition("/")[2]
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", terms["X-Amz-Date"], scope, digest])
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


class ObjectStorage:
    """A bucket behind a proxy, which looks at signatures, expiry and If-Range: moto does not.

    Attributes:
        weather: changes the replies that are given.
        files: content by key.
        time_ahead: seconds by which the storage's clock runs ahead of the machine's.
    """

    def __init__(self, server: ScriptedServer, endpoint: str) -> None:
        self.weather: Callable[[Request, Reply], Reply] = lambda _, reply: reply
        self.files: dict[str, bytes] = {}
        self.time_ahead = 0
        self._endpoint = endpoint
        self._bucket = f"invented-{server.port}"
        self._inside = s3_client(endpoint)
        self._outside = s3_client(server.url)
        self._inside.create_bucket(Bucket=self._bucket)
        server.answer = self._answer

    async def put(self, key: str, content: bytes) -> None:
        """Store a file, in place of one that may be there."""
        await asyncio.to_thread(self._inside.put_object, Bucket=self._bucket, Key=key, Body=content)
        self.files[key] = content

    def address(self, key: str) -> str:
        """Return a signed address of a file, good for a lifetime from its present."""
        address: str = self._outside.generate_presigned_url(
            "get_object",
            Params={"Bucket": self._bucket, "Key": key},
            # It is signed by the machine's clock, so that the seconds ahead have passed already.
            ExpiresIn=LIFETIME + self.time_ahead,
        )
        return address

    def etag(self, key: str) -> str:
        return f'"{hashlib.md5(self.files.get(key, b"")).hexdigest()}"'

    async def _answer(self, request: Request) -> Reply:
        found = self._refusal(request)
        if found is None:
            key = unquote(request.path).removeprefix(f"/{self._bucket}/")
            is_stale = request.headers.get("if-range") not in (None, self.etag(key))
            found = await forwarded(self._endpoint, request, without="range" if is_stale else "")
        return self.weather(request, found)

    def _refusal(self, head: Request) -> Reply | None:
        if "authorization" in head.headers:
            return refusal(400, "InvalidArgument", "Only one auth mechanism allowed")
        terms = {name: texts[0] for name, texts in parse_qs(head.query).items()}
        if not {"X-Amz-Signature", "X-Amz-Date", "X-Amz-Credential"} <= terms.keys():
            return refusal(403, "AccessDenied", "Access Denied")
        if not hmac.compare_digest(terms["X-Amz-Signature"], signature_of(head)):
            return refusal(403, "SignatureDoesNotMatch", "The signature does not match.")
        signed_at = (
            datetime.strptime(terms["X-Amz-Date"], "%Y%m%dT%H%M%S%z").astimezone(UTC).timestamp()
        )
        if time.time() + self.time_ahead >= signed_at + int(terms["X-Amz-Expires"]):
            return refusal(403, "AccessDenied", "Request has expired")
        return None


@asynccontextmanager
async def object_storage(endpoint: str, files: Mapping[str, bytes]) -> AsyncIterator[ObjectStorage]:
    """Run a storage with files."""
    async with ScriptedServer(in_turn(HUNG_UP)) as server:
        storage = ObjectStorage(server, endpoint)
        await asyncio.gather(*(storage.put(key, content) for key, content in files.items()))
        yield storage


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


def invented_files(seed: int) -> dict[str, bytes]:
    """Make files up, ten to an application: a few empty, small ones as many as big ones."""
    chance = Random(seed)
    files = {}
    for number in range(COUNT):
        size = int(math.exp(chance.uniform(math.log(1000), math.log(1_000_000))))
        content = chance.randbytes(0 if number % 50 == 25 else size)
        files[f"app-{number // 10}/doc-{number}"] = content
    return files


async def test_files_of_object_storage_come_whole(endpoint: str, tmp_path: Path) -> None:
    """Over cuts, resets and expiries, for little more than their own bytes."""
    files = invented_files(seed=1)
    asked: Counter[tuple[str, int]] = Counter()
    async with object_storage(endpoint, files) as storage:
        weather = CuttingWeather(storage, seed=1, share=0.5)

        def answer(request: Request) -> Reply:
            application_id = request.path.split("/")[4]
            asked[application_id, storage.time_ahead] += 1
            told = [
                document_payload(key.rpartition("/")[2], storage.address(key))
                for key in files
                if key.startswith(f"{application_id}/")
            ]
            return json_reply(
                {
                    "application_id": application_id,
                    "application_reference_id": "loan-1",
                    "documents": {"unknown_form": told},
                }
            )

        async with hosting(answer) as (client, _, _):
            ids = dict.fromkeys(key.partition("/")[0] for key in files)
            documents = await documents_of(client, ids)
            names, done = "{application_id}/{document_id}", 0
            async for _ in client.download_all(documents, tmp_path / "files", names=names):
                done += 1
                if done % FILES_PER_LIFETIME == 0:
                    storage.time_ahead += LIFETIME
        assert files_below(tmp_path / "files") == files
        assert {mode_of(tmp_path / "files" / key) for key in files} == {0o600}
        assert weather.body_bytes <= MOST_OVERHEAD * sum(map(len, files.values()))
        assert weather.ended_early > 0.4 * weather.replies
        assert weather.refusals > 0
        # An expiry costs an application one request, however many of its files it hits.
        assert set(asked.values()) == {1}


async def get(address: str, **headers: str) -> tuple[int, bytes]:
    """Return the status and the body of a reply, or of an error its code."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(URL(address, encoded=True), headers=headers) as reply,
    ):
        body = await reply.read()
        found = re.search(rb"<Code>(\w+)</Code>", body)
        return reply.status, body if found is None else found[1]


async def test_the_storage_itself_is_as_strict_as_s3(endpoint: str) -> None:
    """It serves the signed address only, until that expires, and no part of another file."""
    key, other = (f"papers/pay stub é+{number}.pdf" for number in range(2))
    content = Random(7).randbytes(100_000)
    async with object_storage(endpoint, {key: content, other: b"other"}) as storage:
        address = storage.address(key)
        bare = address.partition("?")[0]
        assert await get(address) == (200, content)
        for changed in (
            address.replace("Expires=900", "Expires=901"),
            f"{bare}?{storage.address(other).partition('?')[2]}",
        ):
            assert await get(changed) == (403, b"SignatureDoesNotMatch")
        assert await get(bare) == (403, b"AccessDenied")
        assert await get(address, Authorization="Bearer x") == (400, b"InvalidArgument")
        part = {"Range": "bytes=99000-", "If-Range": storage.etag(key)}
        assert await get(address, **part) == (206, content[99_000:])
        await storage.put(key, b"another file")
        assert await get(address, **part) == (200, b"another file")
        storage.time_ahead += LIFETIME
        assert await get(address) == (403, b"AccessDenied")
