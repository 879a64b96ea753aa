"""Object storage on loopback: moto in a process of its own, invented files, signed addresses.

Moto serves ranges and entity tags, but looks neither at the signature of an
address nor at its expiry, and ignores If-Range. A proxy in front of it does.
"""

import asyncio
import contextlib
import hashlib
import hmac
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, unquote

import boto3
from botocore.config import Config

from tests.support.proxies import forwarded
from tests.support.server import HUNG_UP, Reply, Request, ScriptedServer, in_turn

KEY_ID = "INVENTEDKEYID0000000"
SECRET = "invented-secret-access-key"
REGION = "us-east-1"
_DATE = "%Y%m%dT%H%M%S%z"
_ISOLATED = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
_SERVER = """
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


@contextlib.contextmanager
def moto_server() -> Iterator[str]:
    """Run moto in another process, which ends with this one; give its address."""
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": os.devnull, **_ISOLATED}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@cache
def _session() -> Any:
    # Made once, since it reads megabytes of descriptions.
    return boto3.Session(aws_access_key_id=KEY_ID, aws_secret_access_key=SECRET, region_name=REGION)


def s3_client(endpoint: str) -> Any:
    """Return a client of an endpoint that knows nothing of this machine's own settings."""
    with patch.dict(os.environ, _ISOLATED, clear=True):
        config = Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
        )
        return _session().client("s3", endpoint_url=endpoint, config=config)


def storage_refusal(status: int, code: str, message: str) -> Reply:
    """Return an error as S3 writes it."""
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
        f"<Message>{message}</Message><RequestId>INVENTED</RequestId></Error>"
    ).encode()
    return Reply(status=status, headers={"Content-Type": "application/xml"}, body=body)


def _signature(head: Request) -> str:
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
    """A bucket behind a proxy.

    Attributes:
        server: what stands in front of it.
        weather: changes the replies that are given.
        files: content by key.
        time_ahead: seconds by which the storage's clock runs ahead of the machine's.
    """

    def __init__(self, server: ScriptedServer, endpoint: str, seed: int) -> None:
        self.server = server
        self.weather: Callable[[Request, Reply], Reply] = lambda _, reply: reply
        self.files: dict[str, bytes] = {}
        self.time_ahead = 0
        self._endpoint = endpoint
        self._bucket = f"invented-{server.port}-{seed}"
        self._inside = s3_client(endpoint)
        self._outside = s3_client(server.url)
        server.answer = self._answer

    async def put(self, key: str, content: bytes, content_type: str = "application/pdf") -> None:
        """Store a file, in place of one that may be there."""
        await asyncio.to_thread(
            self._inside.put_object,
            Bucket=self._bucket,
            Key=key,
            Body=content,
            ContentType=content_type,
        )
        self.files[key] = content

    def address(self, key: str, *, lifetime: int = 900) -> str:
        """Return a signed address of a file, good for so many seconds from its present."""
        address: str = self._outside.generate_presigned_url(
            "get_object",
            Params={"Bucket": self._bucket, "Key": key},
            # It is signed by the machine's clock, so that the seconds ahead have passed already.
            ExpiresIn=lifetime + self.time_ahead,
        )
        return address

    def advance(self, seconds: int) -> None:
        """Let time pass for the storage; addresses expire by it."""
        self.time_ahead += seconds

    async def open(self, files: int, size: int, seed: int) -> None:
        """Make the bucket and fill it with files that hang on a seed."""
        chance = Random(seed)
        await asyncio.to_thread(self._inside.create_bucket, Bucket=self._bucket)
        for number in range(files):
            await self.put(f"papers/pay stub é+{number:03}.pdf", chance.randbytes(size))

    def close(self) -> None:
        """Close the connections to the storage."""
        self._inside.close()
        self._outside.close()

    async def _answer(self, request: Request) -> Reply:
        found = self._refusal(request)
        if found is None:
            stale = "range" if self._is_stale(request) else ""
            found = await forwarded(self._endpoint, request, without=stale)
        return self.weather(request, found)

    def _refusal(self, head: Request) -> Reply | None:
        if "authorization" in head.headers:
            return storage_refusal(400, "InvalidArgument", "Only one auth mechanism allowed")
        terms = {name: texts[0] for name, texts in parse_qs(head.query).items()}
        if not {"X-Amz-Signature", "X-Amz-Date", "X-Amz-Credential"} <= terms.keys():
            return storage_refusal(403, "AccessDenied", "Access Denied")
        if not hmac.compare_digest(terms["X-Amz-Signature"], _signature(head)):
            return storage_refusal(403, "SignatureDoesNotMatch", "The signature does not match.")
        signed_at = datetime.strptime(terms["X-Amz-Date"], _DATE).astimezone(UTC).timestamp()
        if time.time() + self.time_ahead >= signed_at + int(terms["X-Amz-Expires"]):
            return storage_refusal(403, "AccessDenied", "Request has expired")
        return None

    def _is_stale(self, request: Request) -> bool:
        key = unquote(request.path).removeprefix(f"/{self._bucket}/")
        return request.headers.get("if-range") not in (None, self.etag(key))

    def etag(self, key: str) -> str:
        """Return the entity tag of a file, quotes included."""
        return f'"{hashlib.md5(self.files.get(key, b"")).hexdigest()}"'


@contextlib.asynccontextmanager
async def object_storage(
    endpoint: str, *, files: int = 3, size: int = 100_000, seed: int = 7
) -> AsyncIterator[ObjectStorage]:
    """Run a new bucket of invented files, and the proxy through which its addresses lead.

    Args:
        endpoint: where moto is.
        files: how many there are.
        size: of each, in bytes.
        seed: what their content hangs on.
    """
    async with ScriptedServer(in_turn(HUNG_UP)) as server:
        storage = ObjectStorage(server, endpoint, seed)
        try:
            await storage.open(files, size, seed)
            yield storage
        finally:
            storage.close()
