"""A proxy and a private authority, said by variables or a file."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import trustme

from income_client import BasicAuth, DownloadPolicy
from income_client.cli.accounts import connecting
from income_client.cli.accounts.account import Account
from income_client.cli.accounts.authorities import trusting
from income_client.cli.accounts.config_file import read_config
from income_client.cli.accounts.connecting import Ready
from income_client.cli.accounts.service_client import ServiceClient
from income_client.emulator import Emulator
from tests.cli.entry import run
from tests.cli.running import variables
from tests.cli.tls_front import terminating

_PROXY: Final = "http://user:hush@127.0.0.1:{}"


@pytest.fixture
def authority() -> trustme.CA:
    """Who signs the certificates."""
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    """The authority in a file."""
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@contextlib.asynccontextmanager
async def proxying(service: Emulator) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Forward requests that name the whole address; give the port, and what came."""
    came: list[bytes] = []
    whole = f" {service.url}/".encode()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                came.append(piece)
                writer.write(piece.replace(whole, b" /"))
                await writer.drain()
        writer.close()

    async def back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = await asyncio.open_connection("127.0.0.1", urlsplit(service.url).port)
        await asyncio.gather(forward(reader, down), back(up, writer))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], came
    finally:
        server.close()


async def command(service: Emulator, *arguments: str, **changes: str) -> Any:
    """Run a command to its end while the service goes on."""
    together = {**variables(service), **changes}
    return await asyncio.to_thread(run, *arguments, **together)


async def test_all_goes_through_the_proxy() -> None:
    """Requests for tokens and lists name the service to the proxy, with the proxy's password."""
    async with Emulator(3) as service, proxying(service) as (port, came):
        ended = await command(service, "applications", "-q", INCOME_PROXY=_PROXY.format(port))
        assert (ended.returncode, ended.stderr) == (0, "")
        assert sorted(ended.stdout.split()) == sorted(service.world.ids)
        heads = b"".join(came)
        assert f"POST {service.url}/".encode() in heads
        assert f"GET {service.url}/".encode() in heads
        assert b"Proxy-Authorization: Basic" in heads


async def test_doctor_says_what_a_proxy_hides() -> None:
    """What cannot be looked at is skipped in words, and the rest is looked at through it."""
    async with Emulator(20) as service, proxying(service) as (port, _):
        proxy = _PROXY.format(port)
        ended = await command(service, "doctor", "-o", "json", INCOME_PROXY=proxy)
    assert ended.returncode == 0
    found = {row["check"]: row for row in json.loads(ended.stdout)["findings"]}
    assert found["proxy"]["finding"] == f"127.0.0.1:{port} is used"
    assert "INCOME_PROXY" in found["configuration"]["finding"]
    assert found["connection"]["verdict"] == "skipped"
    assert "DNS, TLS, certificate" in found["connection"]["finding"]
    assert found["credentials"]["verdict"] == "ok"
    assert "clock" not in found
    assert "hush" not in ended.stdout + ended.stderr


async def test_doctor_blames_the_proxy_where_there_is_one(tmp_path: Path) -> None:
    """No connection was seen to be good."""
    async with Emulator(2) as service:
        ended = await command(service, "doctor", INCOME_PROXY="http://127.0.0.1:1")
    assert ended.returncode == 1
    assert "is the proxy's address right" in " ".join(ended.stdout.split())


async def test_a_private_authority_is_believed(authority: trustme.CA, ca_file: Path) -> None:
    """With its file the service is read, and without it nothing is sent."""
    issued = authority.issue_cert("localhost")
    async with Emulator(2) as service, terminating(issued, service) as port:
        there = {"INCOME_BASE_URL": f"https://localhost:{port}"}
        ended = await command(service, "applications", "-q", **there, INCOME_CA_FILE=str(ca_file))
        assert (ended.returncode, ended.stderr) == (0, "")
        assert len(ended.stdout.split()) == 2
        service.requests.clear()
        ended = await command(service, "applications", "-q", **there)
        assert ended.returncode == 1
        assert f"at localhost:{port}" in ended.stderr
        assert not service.requests


def test_files_come_under_the_same_authority(
    ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy of downloads gets it, with all else as it was."""
    made: dict[str, Any] = {}

    class Noting(ServiceClient):
        def __init__(self, address: str, **options: Any) -> None:
            made.update(options)
            super().__init__(address, **options)

    monkeypatch.setattr(connecting, "ServiceClient", Noting)
    account = Account(base_url="https://income.example", ca_file=str(ca_file))
    ready = Ready(account=account, auth=BasicAuth("u", "p"), sources={"ca_file": "INCOME_CA_FILE"})
    ready.client(downloads=DownloadPolicy(allowed_hosts=("files.example",)))
    assert made["downloads"].ssl is made["ssl"]
    assert made["downloads"].allowed_hosts == ("files.example",)


def test_the_usual_authorities_stay(ca_file: Path) -> None:
    """A file adds to them."""
    context, usual = trusting(str(ca_file)), ssl.create_default_context()
    assert isinstance(context, ssl.SSLContext)
    assert context.cert_store_stats()["x509_ca"] == usual.cert_store_stats()["x509_ca"] + 1
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_what_is_no_authority_is_told(tmp_path: Path) -> None:
    """A folder, a file of something else, and nothing at all."""
    other = tmp_path / "other\x1b"
    other.write_text("canary", "utf-8")
    assert trusting(str(tmp_path)) == f"{tmp_path} is no regular file"
    assert trusting(str(other)) == f"{tmp_path}/other? holds no certificate"
    assert trusting(f"{tmp_path}/x") == f"cannot read {tmp_path}/x: no such file or directory"
    assert trusting("a\0b") == "cannot read a?b: it is no path"


def test_a_file_says_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path begins where the file is, or at home; the proxy's address is not shown."""
    monkeypatch.setenv("HOME", "/home/somebody")
    path = tmp_path / "config"
    for said, meant in (
        ("ca.pem", f"{tmp_path}/ca.pem"),
        ("~/ca.pem", "/home/somebody/ca.pem"),
        ("/etc/ca.pem", "/etc/ca.pem"),
    ):
        path.write_text(f'proxy = "{_PROXY}"\nca_file = "{said}"\n', "utf-8")
        path.chmod(0o600)
        account = read_config(path, None)
        assert isinstance(account, Account)
        assert account.ca_file == meant
        assert "hush" not in repr(account)
