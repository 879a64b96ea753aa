"""How hosts are spelled, and which of them an entry names."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import ConfigurationError
from income_client.hosts import is_this_machine, plain_host, read_address, read_host_pattern

LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("entry", "host", "port", "is_allowed"),
    [
        ("files.example.com", "files.example.com", 443, True),
        ("Files.EXAMPLE.com", "files.example.com", 443, True),
        ("files.example.com", "files.example.com", 8443, False),
        ("files.example.com", "xfiles.example.com", 443, False),
        ("files.example.com", "a.files.example.com", 443, False),
        ("files.example.com:8443", "files.example.com", 8443, True),
        ("files.example.com:8443", "files.example.com", 443, False),
        ("files.example.com:*", "files.example.com", 1, True),
        ("*.example.com", "a.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "badexample.com", 443, False),
        ("*.example.com", "a.example.com.evil.net", 443, False),
        ("*.example.com:9000", "a.example.com", 9000, True),
        ("*.example.com:9000", "a.example.com", 443, False),
        ("10.1.2.3", "10.1.2.3", 443, True),
        ("10.1.2.3", "10.1.2.30", 443, False),
        ("[2001:DB8:0:0::1]", "2001:db8::1", 443, True),
        ("[2001:db8::1]:9000", "2001:db8::1", 9000, True),
        ("[2001:db8::1]", "2001:db8::2", 443, False),
        ("[::ffff:a01:203]", "::ffff:10.1.2.3", 443, True),
        ("localhost", "localhost", 12345, True),
        ("127.0.0.1", "127.0.0.1", 12345, True),
        ("127.9.9.9", "127.9.9.9", 12345, True),
        ("127.9.9.9", "127.0.0.1", 443, False),
        ("[::1]", "::1", 12345, True),
        ("localhost:80", "localhost", 12345, False),
        ("127.example.com", "127.example.com", 12345, False),
        ("bucket_1.example.com", "bucket_1.example.com", 443, True),
    ],
)
def test_an_entry_names_hosts_and_ports(
    entry: str, host: str, port: int, *, is_allowed: bool
) -> None:
    """Names match whole or at a label boundary; ports only if named, usual or of this machine."""
    assert read_host_pattern(entry).allows(host, port, 443) is is_allowed


@given(st.lists(LABELS, min_size=1, max_size=4), LABELS)
def test_a_wildcard_is_about_whole_labels(below: list[str], glued: str) -> None:
    """Every host below the domain is meant, and none whose last label only ends like it."""
    pattern = read_host_pattern("*.example.com")
    host = ".".join(below)
    assert pattern.allows(f"{host}.example.com", 443, 443)
    assert not pattern.allows(f"{host}.{glued}example.com", 443, 443)
    assert not pattern.allows(f"{host}.example.com.{glued}", 443, 443)


@given(st.ip_addresses())
def test_an_ip_address_has_one_spelling(ip: object) -> None:
    """The spelling is a fixed point, and an entry names exactly its own address."""
    text = str(ip)
    host = plain_host(f"[{text}]" if ":" in text else text)
    assert host is not None
    assert plain_host(f"[{host}]" if ":" in host else host) == host
    assert read_host_pattern(f"[{text}]" if ":" in text else text).allows(host, 443, 443)


@given(st.text(max_size=30))
def test_any_text_is_an_entry_or_an_error_of_ours(text: str) -> None:
    """Nothing else comes out, and a host has no character that an address gives a meaning."""
    assert not set(plain_host(text) or "") & set("/?#@%[] \\*")
    with contextlib.suppress(ConfigurationError):
        read_host_pattern(text)


def test_this_machine_is_known_by_its_very_names() -> None:
    """Names that only begin or end like them are others."""
    assert all(map(is_this_machine, ["localhost", "127.0.0.1", "127.255.0.3", "::1"]))
    others = ["a.localhost", "localhost.example", "127.example", "::ffff:127.0.0.1", "10.0.0.1"]
    assert not any(map(is_this_machine, others))


@pytest.mark.parametrize(
    ("text", "host", "origin", "is_exposed"),
    [
        ("https://A.example.", "a.example", "https://a.example.", False),
        ("HTTP://a.example:80/x", "a.example", "http://a.example", True),
        ("http://localhost.:8080", "localhost", "http://localhost.:8080", False),
        ("http://[0:0::1]", "::1", "http://[0:0::1]", False),
        ("https://[::FFFF:10.1.2.3]:1", "::ffff:10.1.2.3", "https://[::ffff:10.1.2.3]:1", False),
        ("http://127.0.0.1@a.example", "a.example", "http://a.example", True),
    ],
)
def test_an_address_is_read(text: str, host: str, origin: str, *, is_exposed: bool) -> None:
    found = read_address("base_url", text)
    assert (found.host, found.origin, found.is_exposed) == (host, origin, is_exposed)
