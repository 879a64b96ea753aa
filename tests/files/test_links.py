"""Which download addresses are used, and where a redirect may lead."""

import contextlib
import pickle
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from income_client.downloads.links import Link, read_link, read_redirect
from income_client.errors import LinkRefusal, UnsafeLinkError
from income_client.settings import DownloadPolicy
from tests.support.leaks import held_by

HOST = "bucket.s3.us-east-1.amazonaws.com"
DEFAULT = DownloadPolicy()
LOCAL = DownloadPolicy(
    allowed_hosts=["localhost", "127.0.0.1", "[::1]", "*.example.com:*", "10.0.0.1", "8.8.8.8"],
    require_https=False,
    allow_private_networks=True,
)


def used(address: object, policy: DownloadPolicy = DEFAULT) -> Link:
    """Return an address that is used."""
    return read_link(address, policy)


def refused(address: object, policy: DownloadPolicy = DEFAULT) -> str:
    """Return why an address is not used."""
    with pytest.raises(UnsafeLinkError) as caught:
        read_link(address, policy)
    error = caught.value.again()
    assert not error.retryable
    assert "S3CRET" not in held_by(error)
    return error.message


@pytest.mark.parametrize(
    ("address", "policy", "host", "port"),
    [
        (f"https://{HOST}/k?s=1", DEFAULT, HOST, 443),
        (f"HTTPS://{HOST.upper()}:443/k", DEFAULT, HOST, 443),
        ("https://a.amazonaws.com/k", DEFAULT, "a.amazonaws.com", 443),
        ("http://localhost:8080/k", LOCAL, "localhost", 8080),
        ("http://127.0.0.1:8080/k", LOCAL, "127.0.0.1", 8080),
        ("http://[::1]:8080/k", LOCAL, "::1", 8080),
        ("http://[0:0:0:0:0:0:0:1]/k", LOCAL, "::1", 80),
        ("https://a.example.com:9000/k", LOCAL, "a.example.com", 9000),
        ("https://10.0.0.1/k", LOCAL, "10.0.0.1", 443),
    ],
)
def test_an_allowed_address_is_read(
    address: str, policy: DownloadPolicy, host: str, port: int
) -> None:
    """Its host is spelled in one way, and its text stays out of sight."""
    link = used(address, policy)
    assert (link.host, link.url.port) == (host, port)
    assert link.url.scheme == address.partition(":")[0].lower()
    assert address not in repr(link)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (None, "missing"),
        (b"https://a.amazonaws.com/S3CRET", "missing"),
        ("", "missing"),
        (f"https://{HOST}/{'a' * 8192}", "8192"),
        (f"https://{HOST}/S3CRET ", "printable"),
        (f"https://{HOST}/S3CRET\r\nX: y", "printable"),
        (f"https://{HOST}/S3CRET\n", "printable"),
        (f"https://{HOST}/ä?S3CRET", "printable"),
        (f"https://{HOST}\\@evil.example/S3CRET", "a backslash"),
        (f"https://{HOST}/a#S3CRET", "a fragment"),
        (f"{HOST}/S3CRET", "neither"),
        (f"https:/{HOST}/S3CRET", "names no host"),
        ("data:,S3CRET", "neither"),
        (f"https://user:S3CRET@{HOST}/k", "user name"),
        (f"https://{HOST}:S3CRET/k", "not a valid URL"),
        (f"https://{HOST}:/k", "odd port"),
        (f"https://{HOST}:+443/k", "odd port"),
        (f"https://{HOST}:443:443/k", "not a valid URL"),
        ("https://[@/S3CRET", "not a valid URL"),
        ("https:///S3CRET", "names no host"),
        ("https://:443/k", "names no host"),
        ("https://a%2eamazonaws.com/k", "names no host"),
        ("https://a,b.amazonaws.com/k", "names no host"),
        ("https://[a.amazonaws.com]/k", "not a valid URL"),
        ("https://[::1]a.amazonaws.com/k", "not a valid URL"),
        ("https://0177.0.0.1/k", "names no host"),
        ("https://0x7f000001/k", "names no host"),
        (f"https://{HOST}", "not be sent"),
        (f"https://{HOST}?S3CRET", "not be sent"),
        (f"https://{HOST}/k?", "not be sent"),
        (f"http://{HOST}/S3CRET", "not allowed"),
        (f"https://{HOST}:8443/S3CRET", "port 8443: not an allowed host"),
        ("https://amazonaws.com/S3CRET", "amazonaws.com: not an allowed host"),
        ("https://a.amazonaws.com.evil.example/S3CRET", "evil.example: not an allowed host"),
        ("https://8.8.8.8/S3CRET", "8.8.8.8: not an allowed host"),
    ],
)
def test_any_other_address_is_refused(address: object, reason: str) -> None:
    """The reason names the host at most, and nothing that opens the file."""
    message = refused(address)
    assert reason in message


def test_an_ip_address_is_judged_at_once() -> None:
    """Being named does not help an address that files may not come from."""
    named = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]", "8.8.8.8"]
    policy = DownloadPolicy(allowed_hosts=named)
    assert "this machine" in refused("https://127.0.0.1/S3CRET", policy)
    assert "private" in refused("https://10.0.0.1/S3CRET", policy)
    assert "secrets" in refused("https://169.254.169.254/S3CRET", policy)
    assert "this machine" in refused("https://[::ffff:127.0.0.1]/S3CRET", policy)
    assert used("https://8.8.8.8/k", policy).host == "8.8.8.8"


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("https://other.amazonaws.com/x%2F?y=%7E", "https://other.amazonaws.com/x%2F?y=%7E"),
        ("//other.amazonaws.com/x", "https://other.amazonaws.com/x"),
        ("/x/../y%2F?z=+", f"https://{HOST}/x/../y%2F?z=+"),
        ("?z=%20", f"https://{HOST}/a/b/c?z=%20"),
        ("d?z=%20", f"https://{HOST}/a/b/d?z=%20"),
        ("../d%2F..?z=../e", f"https://{HOST}/a/d%2F..?z=../e"),
        ("./d;", f"https://{HOST}/a/b/d;"),
        ("..", f"https://{HOST}/a/"),
        ("../../../..", f"https://{HOST}/"),
        ("d//e/./f/", f"https://{HOST}/a/b/d//e/f/"),
    ],
)
def test_a_redirect_is_resolved_without_touching_its_bytes(location: str, address: str) -> None:
    """Absolute or relative, what comes out is checked like any address."""
    found = read_redirect(used(f"https://{HOST}/a/b/c?old=S3CRET"), location, DEFAULT)
    assert str(found.url) == address


@pytest.mark.parametrize(
    "location",
    [
        None,
        "",
        b"/x",
        f"http://{HOST}/x",
        "https://evil.example/S3CRET",
        "//evil.example/S3CRET",
        f"//user@{HOST}/S3CRET",
        "file:///etc/passwd",
        "javascript:x",
        "/x#S3CRET",
        "/x y",
        "\\\\evil.example\\x",
        "/\\evil.example",
        "0://:x",
        "0://[",
        "https://169.254.169.254/latest",
    ],
)
def test_a_redirect_leads_nowhere_else(location: object) -> None:
    """A storage cannot send us where its own address could not."""
    link = used(f"https://{HOST}/a?S3CRET")
    with pytest.raises(UnsafeLinkError) as caught:
        read_redirect(link, location, DEFAULT)
    assert "S3CRET" not in held_by(caught.value.again())


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (None, LinkRefusal.ADDRESS),
        ("ftp://a.amazonaws.com/x", LinkRefusal.ADDRESS),
        ("http://a.amazonaws.com/x", LinkRefusal.PLAIN_HTTP),
        ("https://files.example/x", LinkRefusal.HOST),
        ("https://127.0.0.1/x", LinkRefusal.HOST),
    ],
)
def test_a_refusal_names_its_rule(address: object, reason: LinkRefusal) -> None:
    """Whoever catches it need not read its words, and it survives being pickled."""
    with pytest.raises(UnsafeLinkError) as caught:
        read_link(address, DEFAULT)
    error = caught.value
    assert error.reason is reason
    assert pickle.loads(pickle.dumps(error)).reason is reason


def test_a_redirect_may_give_up_https_only_where_http_is_allowed() -> None:
    """The policy decides, not the storage."""
    link = used("https://a.example.com/x", LOCAL)
    assert read_redirect(link, "http://a.example.com/x", LOCAL).url.scheme == "http"


SEGMENTS = st.sampled_from(["a", "%2F", "..", ".", "b;c", "~'"])
PATHS = st.lists(SEGMENTS, min_size=1, max_size=5).map("/".join)


@given(PATHS, st.sampled_from(["", "?x=%7E", "?x=../y"]))
def test_relative_redirects_are_resolved_like_python_does(path: str, query: str) -> None:
    """For plain paths the standard library comes to the same address."""
    base = f"https://{HOST}/a/b/c"
    found = read_redirect(used(base), path + query, DEFAULT)
    assert str(found.url) == urljoin(base, path + query)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=127), max_size=40))
def test_two_parsers_agree_on_every_address_used(text: str) -> None:
    """Host, port and target are those of the HTTP library and of Python alike."""
    policy = DownloadPolicy(allowed_hosts=["*.example.com:*", "8.8.8.8:*"], require_https=False)
    for address in (text, f"https://a.example.com{text}", f"https://{text}.example.com/x"):
        with contextlib.suppress(UnsafeLinkError):
            link = read_link(address, policy)
            url, parts = URL(address, encoded=True), urlsplit(address)
            assert (url.raw_host or "").lower() == parts.hostname == link.host
            assert url.port == link.url.port == (parts.port or 443)
            assert address.endswith(url.raw_path_qs)
