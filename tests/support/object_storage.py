"""A local server of S3's protocol, moto in another process, with one empty bucket."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import boto3
from botocore.config import Config

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
