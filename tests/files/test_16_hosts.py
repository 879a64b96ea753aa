"""Promise 16: downloads carry no credentials, and go only where `DownloadPolicy` allows."""

import errno
import io
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from attrs import evolve, field, frozen
from hypothesis import example, given
from hypothesis import strategies as st

from income_client import (
    DownloadError,
    DownloadPolicy,
    RetryPolicy,
    UnsafeLinkError,
)
from income_client.downloads.links import read_link
from tests.support.downloads import PASSWORD, USER, Trick, document_at, files_below, storing
from tests.support.server import Reply, ScriptedServer, in_turn, reply

ONCE = RetryPolicy(max_attempts=1)
BUCKET = "bucket.s3.amazonaws.com"
PUBLIC = "52.216.8.1"
ALLOWED = re.compile(r"([a-z0-9_-]+\.)+amazonaws\.com", re.IGNORECASE)
PLAINLY_ALLOWED = re.compile(
    r"https://([a-z0-9_-]+\.)+amazonaws\.com(:443)?([/?]|\Z)", re.IGNORECASE
)
SENT = {"host", "user-agent", "accept", "accept-encoding", "range", "if-range", "connection"}


# Names that lead where a test says, and sockets that reach nothing but this machine


@frozen
class Lookups:
    """Names that were looked up, and addresses to which connections were tried."""

    looked_up: list[tuple[str, int]] = field(factory=list)
    connected: list[tuple[str, int]] = field(factory=list)


@contextmanager
def looking_up(names: Mapping[str, list[str]]) -> Iterator[Lookups]:
    """Answer each lookup from a table, where ``*`` is any other name, and guard the sockets.

    Nothing outside of this machine is reached.
    """
    lookups = Lookups()
    lookup = socket.getaddrinfo
    connect = socket.socket.connect

    def found(host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
        with suppress(ValueError):
            ip_address(host)
            return list(lookup(host, port, *args, **options))
        lookups.looked_up.append((host, port))
        addresses = names.get(host) or names.get("*")
        if addresses is None:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [one for ip in addresses for one in lookup(ip, port, type=socket.SOCK_STREAM)]

    def guarded(sock: socket.socket, address: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            lookups.connected.append(address[:2])
            if not ip_address(address[0]).is_loopback:
                raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
        connect(sock, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", found)
        patch.setattr(socket.socket, "connect", guarded)
        yield lookups


def leading_to(location: str, status: int = 307) -> Trick:
    fields = {"Location": location, "Set-Cookie": "of-the-storage=1"}
    return lambda request, honest: Reply(status=status, headers=fields)


# Credentials


async def test_a_storage_sees_no_credential_and_no_cookie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No credential of the client, the caller's session, a netrc file or a reply is sent."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login netrc-user password netrc-password\n", "ascii")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    cookies = aiohttp.CookieJar(unsafe=True)
    async with (
        aiohttp.ClientSession(
            headers={"Authorization": "Bearer of-the-session", "X-Key": "of-the-session"},
            cookies={"session": "of-the-session"},
            cookie_jar=cookies,
            trust_env=True,
        ) as session,
        storing(session=session) as (storage, client),
    ):
        storage.store("/a", bytes(100_000))
        storage.tell("a", storage.address("/a"))
        ((_, document),) = (await client.get_documents("app-1")).all()
        assert "authorization" in storage.api_asked[0].headers
        storage.expired.add("s1")
        storage.documents.clear()
        storage.tell("a", storage.address("/a", "s2"))
        storage.tricks.extend(
            [
                lambda *_: Reply(status=503, headers={"Set-Cookie": "busy=1"}),
                leading_to("/a?X-Signature=s1"),
                leading_to("/a?X-Signature=s2"),
                lambda _, whole: evolve(whole, cut=50_000),
            ]
        )
        await client.download(document, tmp_path / "slip")
        await client.download(document, tmp_path / "slip")
        assert len(storage.asked) >= 6
    for asked in storage.asked:
        assert asked.headers.keys() <= SENT
        for secret in ("of-the", "netrc", "busy", USER, PASSWORD, "Basic", "Bearer"):
            assert secret.encode() not in asked.head


@pytest.mark.parametrize("name", [BUCKET, "other.example"])
async def test_a_host_with_a_wrong_certificate_gets_no_request(name: str, tmp_path: Path) -> None:
    """Over https, a name that resolves elsewhere fails at the certificate."""
    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    policy = DownloadPolicy(
        allowed_hosts=("*.amazonaws.com:*", "localhost"), allow_private_networks=True, ssl=trusting
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    with looking_up({BUCKET: ["127.0.0.1"]}):
        async with (
            ScriptedServer(in_turn(reply(body=b"file")), context) as server,
            storing(downloads=policy, retry=ONCE) as (_, client),
        ):
            document = document_at(f"https://{BUCKET}:{server.port}/a?X-Signature=s1")
            if name == BUCKET:
                await client.download(document, tmp_path / "slip")
            else:
                with pytest.raises(DownloadError, match="certificate") as caught:
                    await client.download(document, tmp_path / "slip")
                assert not caught.value.retryable
            assert len(server.requests) == (name == BUCKET)
    assert files_below(tmp_path) == ({"slip": b"file"} if name == BUCKET else {})


# IP addresses


TRIED: tuple[tuple[list[str], bool, list[str]], ...] = (
    ([PUBLIC], False, [PUBLIC]),
    ([PUBLIC, "10.0.0.1"], False, [PUBLIC]),
    (["10.0.0.1", PUBLIC], False, [PUBLIC]),
    (["10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::10.0.0.1"], False, []),
    (["10.0.0.1"], True, ["10.0.0.1"]),
    (["169.254.169.254"], True, []),
    (["127.0.0.1"], True, []),
    (["::1"], True, []),
)


async def test_only_allowed_ip_addresses_are_tried() -> None:
    """Private networks only on request, this machine only by name, metadata never.

    A name that leads to no other is refused before the first packet, and not retried.
    """
    for ips, allows_private, connected in TRIED:
        policy = DownloadPolicy(allow_private_networks=allows_private)
        with looking_up({BUCKET: ips}) as lookups:
            async with storing(downloads=policy, retry=ONCE) as (_, client):
                with pytest.raises(DownloadError) as caught:
                    await client.download(document_at(f"https://{BUCKET}/a"), io.BytesIO())
        assert lookups.looked_up == [(BUCKET, 443)]
        assert {ip for ip, _ in lookups.connected} == set(connected)
        if not connected:
            assert isinstance(caught.value, UnsafeLinkError)
            assert not caught.value.retryable


# Addresses


GOOD = {"scheme": "https://", "user": "", "host": BUCKET, "port": "", "path": "/a?b=c"}
BAD = {
    "scheme": ("http://", "//", "https:", "https:/", "ftp://", "file://", ""),
    "user": ("@", "user@", "user:word@", f"{BUCKET}@", f"{BUCKET}:443@", "%40", "evil.example\\@"),
    "host": (
        "amazonaws.com", "evil.example", "evilamazonaws.com", f"{BUCKET}.evil.example",
        f"{BUCKET}.", "\uff41mazonaws.com", "s3\u3002amazonaws\u3002com",
        "s3\u00adx.amazonaws.com", "s3.amazon\u200baws.com", "%73%33.amazonaws.com",
        "a..amazonaws.com", ".amazonaws.com", "*.amazonaws.com", "", "localhost", "127.0.0.1",
        "127.1", "0x7f.1", "2130706433", "017700000001", "[::1]", "[::ffff:127.0.0.1]",
        "[fe80::1%25lo]", "169.254.169.254", PUBLIC, f"[{PUBLIC}]",
    ),
    "port": (":", ":0443", ":80", ":8443", ":0", ":65536", ":-1", ":\uff14\uff14\uff13"),
    "path": ("#a", "/a#b", "\\a", "/a b", "/a\tb", "/a\r\nHost: x", "/\u00e9", f"@{BUCKET}/a"),
}  # fmt: skip
ALIKE = {
    "scheme": "HTTPS://", "host": "S3.AMAZONAWS.COM", "port": ":443", "path": "/%2e%2e/a?b=%2F",
}  # fmt: skip
STRAY = ("", "", "", "@", "\\", "#", "?", "/", "\t", "\n", "\r\n", " ", "\0", "%00", ":")


@pytest.mark.parametrize("part", BAD)
def test_one_fault_is_enough_to_refuse_an_address(part: str) -> None:
    for fault in BAD[part]:
        with pytest.raises(UnsafeLinkError):
            read_link("".join((GOOD | {part: fault}).values()), DownloadPolicy())
    for alike in (GOOD, GOOD | ALIKE):
        assert read_link("".join(alike.values()), DownloadPolicy()).url.port == 443


@st.composite
def addresses(draw: st.DrawFn) -> str:
    """Draw a URL with one or two faults, or one that only looks odd."""
    parts = dict(GOOD)
    for name in draw(st.sets(st.sampled_from(sorted(ALIKE)))):
        parts[name] = ALIKE[name]
    for name in draw(st.sets(st.sampled_from(sorted(BAD)), max_size=2)):
        parts[name] = draw(st.sampled_from(BAD[name]))
    text = "".join(parts.values())
    place = draw(st.integers(0, len(text)))
    return text[:place] + draw(st.sampled_from(STRAY)) + text[place:]


@given(addresses())
@example("".join(GOOD.values()))
async def test_an_address_leads_to_an_allowed_host_or_nowhere(address: str) -> None:
    """Over https, at its port, to a name below the domain, however the URL is parsed."""
    with looking_up({"*": [PUBLIC]}) as lookups:
        async with storing(downloads=DownloadPolicy(), retry=ONCE) as (_, client):
            with pytest.raises(DownloadError) as caught:
                await client.download(document_at(address), io.BytesIO())
    is_allowed = PLAINLY_ALLOWED.match(address)
    assert all(ALLOWED.fullmatch(name) and port == 443 for name, port in lookups.looked_up)
    assert lookups.connected in ([], [(PUBLIC, 443)])
    assert is_allowed or isinstance(caught.value, UnsafeLinkError)
    assert is_allowed or lookups.looked_up == []


@given(addresses(), st.sampled_from([301, 302, 303, 307, 308]))
@example("http://127.0.0.1:9/a", 302)
async def test_a_redirect_leads_to_an_allowed_host_or_nowhere(location: str, status: int) -> None:
    """The target is checked like the URL itself, before anything is sent there."""
    with looking_up({"*": [PUBLIC]}) as lookups:
        async with storing(retry=ONCE) as (storage, client):
            port = storage.server.port
            printed = re.sub(r"[^ -~]", "", location)
            storage.tricks.append(leading_to(printed, status))
            with pytest.raises(DownloadError):
                await client.download(document_at(storage.address("/b")), io.BytesIO())
            # A relative one stays where it is.
            assert {asked.headers["host"] for asked in storage.asked} == {f"127.0.0.1:{port}"}
    assert lookups.looked_up == []
    assert set(lookups.connected) <= {("127.0.0.1", port)}


async def test_redirects_within_a_storage_are_followed_three_times(tmp_path: Path) -> None:
    """A fourth one is refused; the bytes of each URL are sent unchanged."""
    target = "/a?X-Signature=s1%2Fs%7E%2B+%20%27&b"
    async with storing() as (storage, client):
        document = storage.store("/a", b"file")
        storage.tricks.extend(leading_to(target) for _ in range(3))
        await client.download(document, tmp_path / "slip")
        assert [asked.target for asked in storage.asked[1:]] == [target] * 3
        storage.tricks.extend(leading_to(target) for _ in range(4))
        with pytest.raises(DownloadError, match="redirects"):
            await client.download(document, tmp_path / "other")
    assert files_below(tmp_path) == {"slip": b"file"}
