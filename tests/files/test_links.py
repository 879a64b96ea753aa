"""Checks of download addresses, of redirects and of the addresses that sockets connect to."""

import contextlib
import ipaddress
import pickle
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from income_client.downloads.links import check_peer, read_link, read_redirect
from income_client.errors import LinkRefusal, UnsafeLinkError, copy_without_traceback
from income_client.settings import DownloadPolicy
from tests.support.canaries import held_by

HOST = "bucket.s3.us-east-1.amazonaws.com"
DEFAULT = DownloadPolicy()
LOCAL = DownloadPolicy(
    allowed_hosts=["localhost", "127.0.0.1", "[::1]", "*.example.com:*", "10.0.0.1", "8.8.8.8"],
    require_https=False,
    allow_private_networks=True,
)


def reason_of(address: object, policy: DownloadPolicy = DEFAULT) -> LinkRefusal:
    """Return why an address is not used; what opens the file is in nothing that leaves."""
    with pytest.raises(UnsafeLinkError) as caught:
        read_link(address, policy)
    error = copy_without_traceback(caught.value)
    assert not error.retryable
    assert "S3CRET" not in held_by(error)
    assert pickle.loads(pickle.dumps(error)).reason is error.reason
    return caught.value.reason


READ = {
    "http://localhost:8080/k": ("localhost", 8080),
    "HTTP://LOCALHOST/k": ("localhost", 80),
    "http://127.0.0.1:8080/k": ("127.0.0.1", 8080),
    "http://[::1]:8080/k": ("::1", 8080),
    "http://[0:0:0:0:0:0:0:1]/k": ("::1", 80),
    "https://a.example.com:9000/k": ("a.example.com", 9000),
    "https://10.0.0.1/k": ("10.0.0.1", 443),
}


def test_an_allowed_address_is_read() -> None:
    """A host has one spelling, and the address's text is hidden."""
    for address, expected in READ.items():
        link = read_link(address, LOCAL)
        assert (link.host, link.url.port) == expected
        assert address not in repr(link)


REFUSED = {
    LinkRefusal.ADDRESS: (
        *(None, b"https://a.amazonaws.com/S3CRET", "", f"https://{HOST}/{'a' * 8192}"),
        *(f"https://{HOST}/S3CRET{sign}" for sign in (" ", "\r\nX: y", "\n", "\u00e4", "#", "\\")),
        *(f"{HOST}/S3CRET", "data:,S3CRET", "ftp://a.amazonaws.com/x", f"https:/{HOST}/S3CRET"),
        *(f"https://{user}@{HOST}/k" for user in ("user:S3CRET", "\\")),
        *(f"https://{HOST}{port}/k" for port in (":", ":+443", ":S3CRET", ":443:443")),
        *("https://[@/S3CRET", "https://[a.amazonaws.com]/k", "https://[::1]a.amazonaws.com/k"),
        *("https:///S3CRET", "https://:443/k", "https://0177.0.0.1/k", "https://0x7f000001/k"),
        *("https://a%2eamazonaws.com/k", "https://a,b.amazonaws.com/k"),
        *(f"https://{HOST}{rest}" for rest in ("", "?S3CRET", "/k?")),
    ),
    LinkRefusal.PLAIN_HTTP: (f"http://{HOST}/S3CRET",),
    LinkRefusal.HOST: (
        *(f"https://{HOST}:8443/S3CRET", "https://amazonaws.com/S3CRET", "https://8.8.8.8/S3CRET"),
        "https://a.amazonaws.com.evil.example/S3CRET",
    ),
}


def test_any_other_address_is_refused() -> None:
    for reason, addresses in REFUSED.items():
        assert [one for one in addresses if reason_of(one) is not reason] == []


def test_an_ip_address_is_judged_at_once() -> None:
    """Being named does not help an address that files may not come from."""
    reasons = {
        "127.0.0.1": LinkRefusal.THIS_MACHINE,
        "10.0.0.1": LinkRefusal.PRIVATE_NETWORK,
        "169.254.169.254": LinkRefusal.SPECIAL_NETWORK,
        "[::ffff:127.0.0.1]": LinkRefusal.THIS_MACHINE,
    }
    policy = DownloadPolicy(allowed_hosts=[*reasons, "8.8.8.8"])
    assert {host: reason_of(f"https://{host}/S3CRET", policy) for host in reasons} == reasons
    assert read_link("https://8.8.8.8/k", policy).host == "8.8.8.8"


REDIRECTS = {
    "https://other.amazonaws.com/x%2F?y=%7E": "https://other.amazonaws.com/x%2F?y=%7E",
    "//other.amazonaws.com/x": "https://other.amazonaws.com/x",
    "/x/../y%2F?z=+": f"https://{HOST}/x/../y%2F?z=+",
    "?z=%20": f"https://{HOST}/a/b/c?z=%20",
    "d?z=%20": f"https://{HOST}/a/b/d?z=%20",
    "../d%2F..?z=../e": f"https://{HOST}/a/d%2F..?z=../e",
    "./d;": f"https://{HOST}/a/b/d;",
    "..": f"https://{HOST}/a/",
    "../../../..": f"https://{HOST}/",
    "d//e/./f/": f"https://{HOST}/a/b/d//e/f/",
}


def test_a_redirect_is_resolved_without_touching_its_bytes() -> None:
    """Absolute or relative, what comes out is checked like any address; a path keeps the port."""
    link = read_link(f"https://{HOST}/a/b/c?old=S3CRET", DEFAULT)
    found = {place: str(read_redirect(link, place, DEFAULT).url) for place in REDIRECTS}
    assert found == REDIRECTS
    policy = DownloadPolicy(allowed_hosts=("files.example:8443",))
    link = read_link("https://files.example:8443/a", policy)
    assert str(read_redirect(link, "/b", policy).url) == "https://files.example:8443/b"


NO_REDIRECTS = (
    None, "", b"/x", f"http://{HOST}/x", "https://evil.example/S3CRET", "//evil.example/S3CRET",
    f"//user@{HOST}/S3CRET", "file:///etc/passwd", "javascript:x", "/x#S3CRET", "/x y",
    "\\\\evil.example\\x", "/\\evil.example", "0://:x", "0://[",
    "https://169.254.169.254/latest",
)  # fmt: skip


def test_a_redirect_leads_nowhere_else() -> None:
    """A storage cannot send us where its own address could not; the policy decides on https."""
    link = read_link(f"https://{HOST}/a?S3CRET", DEFAULT)
    for location in NO_REDIRECTS:
        with pytest.raises(UnsafeLinkError) as caught:
            read_redirect(link, location, DEFAULT)
        assert "S3CRET" not in held_by(copy_without_traceback(caught.value))
    link = read_link("https://a.example.com/x", LOCAL)
    assert read_redirect(link, "http://a.example.com/x", LOCAL).url.scheme == "http"


SEGMENTS = st.sampled_from(["a", "%2F", "..", ".", "b;c", "~'"])
PATHS = st.lists(SEGMENTS, min_size=1, max_size=5).map("/".join)


@given(PATHS, st.sampled_from(["", "?x=%7E", "?x=../y"]))
def test_relative_redirects_are_resolved_like_python_does(path: str, query: str) -> None:
    """The standard library resolves plain paths to the same URL."""
    base = f"https://{HOST}/a/b/c"
    found = read_redirect(read_link(base, DEFAULT), path + query, DEFAULT)
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


# Peers


NAMED = DownloadPolicy(allowed_hosts=["localhost", "127.0.0.1", "[::1]"])
PRIVATE = DownloadPolicy(allow_private_networks=True)
OPEN = DownloadPolicy(allowed_hosts=["localhost:9"], allow_private_networks=True)

PUBLIC = (
    "8.8.8.8", "52.216.1.1", "172.32.0.1", "100.128.0.1", "2600:1fa0::1", "2a05:d050::1",
    "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7",
)  # fmt: skip
PRIVATE_RANGES = (
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1",
    "fc00::1", "fd12:3456::1", "::ffff:10.0.0.1", "64:ff9b::192.168.1.1", "2002:a00:1::1",
    "2001:0:808:808::f5ff:fffe", "2001:0:a00:1::f7f7:f7f7", "64:ff9b:1::8.8.8.8",
)  # fmt: skip
LOOPBACK = (
    "127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1",
    "2002:7f00:1::", "64:ff9b:1::127.0.0.1", "64:ff9b:1:7f00:0:100::",
)  # fmt: skip
NEVER = (
    "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%2", "febf::1", "fd00:ec2::254",
    "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1",
    "239.1.2.3", "ff02::1", "0.0.0.0", "0.1.2.3", "::", "240.0.0.1", "255.255.255.255",
    "192.0.0.9", "192.0.0.10", "2001:1::1", "2001:3::1", "2001:4:112::1",
    "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "2001:db8::1", "3fff::1",
    "fec0::1", "100::1", "4000::1", "2001:20::1", "5f00::1", "::8.8.8.8", "::127.0.0.1",
    "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1",
    "2001:0:808:808::5601:5601", "64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1::168.63.129.16", "64:ff9b:1:a83f:81:1000::", "64:ff9b:1:a8:3f:8110::",
    "64:ff9b:1:0:a8:3f81:1000:0",
    "::ffff:0:8.8.8.8", "localhost", "", "1.2.3", "0x7f.1", "1.2.3.4:80",
)  # fmt: skip


def peer_refusal(ip: str, policy: DownloadPolicy) -> LinkRefusal | None:
    """Return why files may not come from an address."""
    try:
        check_peer(ip, policy)
    except UnsafeLinkError as refused:
        return refused.reason
    return None


def judged(ips: tuple[str, ...], policy: DownloadPolicy) -> dict[str, LinkRefusal | None]:
    return {ip: peer_refusal(ip, policy) for ip in ips}


def test_a_peer_is_public_or_let_in_by_the_policy() -> None:
    """In whatever it is wrapped; this machine must be allowed and named, and some never pass."""
    assert judged(PUBLIC, DEFAULT) == dict.fromkeys(PUBLIC)
    for policy in (DEFAULT, NAMED):
        private = judged(PRIVATE_RANGES, policy)
        assert private == dict.fromkeys(PRIVATE_RANGES, LinkRefusal.PRIVATE_NETWORK)
        assert None not in judged(LOOPBACK + NEVER, policy).values()
    assert judged(PRIVATE_RANGES, PRIVATE) == dict.fromkeys(PRIVATE_RANGES)
    assert judged(LOOPBACK, PRIVATE) == dict.fromkeys(LOOPBACK, LinkRefusal.THIS_MACHINE)
    assert None not in judged(NEVER, PRIVATE).values()
    assert judged(LOOPBACK, OPEN) == dict.fromkeys(LOOPBACK)
    assert judged(NEVER, OPEN) == dict.fromkeys(NEVER, LinkRefusal.SPECIAL_NETWORK)


@given(st.ip_addresses())
def test_nothing_passes_that_python_knows_to_be_special(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    """The tables of the standard library call each accepted address public."""
    if peer_refusal(str(ip), DEFAULT) is None:
        # Releases of Python differ on what holds an IPv4 address.
        bare = getattr(ip, "ipv4_mapped", None) or getattr(ip, "sixtofour", None) or ip
        assert bare.is_global or ip in ipaddress.ip_network("2001::/32")
        assert not ip.is_multicast


@given(st.ip_addresses(v=4))
def test_a_wrapped_address_is_judged_like_the_bare_one(ip: ipaddress.IPv4Address) -> None:
    """Mapped, translated, 6to4 and Teredo: nothing passes wrapped that does not pass bare."""
    number = int(ip)
    hidden = number ^ 0xFFFFFFFF
    wrapped = [
        0xFFFF << 32 | number,
        0x64FF9B << 96 | number,
        0x2002 << 112 | number << 80 | 1,
        0x20010000 << 96 | 0x08080808 << 64 | hidden,
        0x20010000 << 96 | number << 64 | 0xF7F7F7F7,
    ]
    for policy in (DEFAULT, OPEN):
        bare = peer_refusal(str(ip), policy) is None
        found = [peer_refusal(str(ipaddress.IPv6Address(one)), policy) is None for one in wrapped]
        assert found == [bare] * len(wrapped)
