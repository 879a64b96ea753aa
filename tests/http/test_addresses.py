"""Which addresses credentials may go to."""

import pytest

from income_client.errors import ConfigurationError
from income_client.http.endpoints import addresses, proxy_address


@pytest.mark.parametrize(
    ("base_url", "api", "token"),
    [
        ("https://api.example.com", "https://api.example.com", "https://api.example.com"),
        ("https://API.Example.com/", "https://api.example.com", "https://api.example.com"),
        ("https://a.example:", "https://a.example", "https://a.example"),
        ("https://[2001:DB8::1]:443", "https://[2001:db8::1]", "https://[2001:db8::1]"),
        ("https://a.example:443/x/y/", "https://a.example/x/y", "https://a.example"),
        ("https://a.example:8443/x", "https://a.example:8443/x", "https://a.example:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://127.8.9.1", "http://127.8.9.1", "http://127.8.9.1"),
        ("http://localhost:1", "http://localhost:1", "http://localhost:1"),
        ("http://[::1]:8080/p", "http://[::1]:8080/p", "http://[::1]:8080"),
        ("https://10.0.0.1", "https://10.0.0.1", "https://10.0.0.1"),
        ("https://a.example/%7Ex", "https://a.example/%7Ex", "https://a.example"),
    ],
)
def test_an_address_is_an_origin_with_a_prefix(base_url: str, api: str, token: str) -> None:
    """The prefix belongs to the API, the token endpoint is at the bare origin."""
    found = addresses(base_url)
    assert (found.api, found.token) == (api, token)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://api.example.com",
        "http://0x7f.0.0.0x1",
        "http://127.0.0.1.",
        "http://127.0.0.1.:8080",
        "https://10.0.0.1.",
        "http://[fe80::1%25lo]",
        "https://",
        "https://:443",
        "https://a.example:0",
        "https://a.example:65536",
        "https://a.example:x",
        "https://a.example:+80",
        "https://a.example:1_0",
        "https://user:S3CRET@a.example",
        "https://user@a.example",
        "https://a.example/?",
        "https://a.example/?key=S3CRET",
        "https://a.example/#",
        "https://a.example/#S3CRET",
        "https://a.example/a b",
        "https://a.example/\r\nX: y",
        "https://a.example\\@evil.example",
        "https://a.example/x/../y",
        "https://a.example/x//y",
        "https://a.example/%zz",
        "https://exämple.com",
        "https://a..example",
        "https://-a.example",
        f"https://{'a' * 64}.example",
        f"https://{'a.' * 127}example",
        "https://[::1",
        b"https://a.example",
        None,
    ],
)
def test_any_other_address_is_refused_without_being_shown(address: str) -> None:
    """An invalid address is refused, as the API's and as the token endpoint's."""
    with pytest.raises(ConfigurationError) as caught:
        addresses(address)
    assert "S3CRET" not in str(caught.value)
    if address is not None:
        with pytest.raises(ConfigurationError, match="auth_url"):
            addresses("https://a.example", address)


@pytest.mark.parametrize(
    "proxy", ["http://proxy:3128", "https://user:S3CRET@proxy.example:8080/", "http://10.0.0.1"]
)
def test_the_address_of_a_proxy_is_kept_secret(proxy: str) -> None:
    """It may hold the proxy's own credentials."""
    found = proxy_address(proxy)
    assert found.reveal() == proxy
    assert "S3CRET" not in repr(found)


@pytest.mark.parametrize(
    "proxy",
    [
        "S3CRET",
        "socks5://user:S3CRET@proxy",
        "http://[S3CRET",
        "http://user:S3CRET@",
        "http://user:S3CRET@proxy:99999",
        "http://user:S3CRET\r\n@proxy",
        "http://127.0.0.1\\@user:S3CRET@proxy",
        b"http://user:S3CRET@proxy",
        7,
        "",
    ],
)
def test_another_address_of_a_proxy_is_refused(proxy: str) -> None:
    """An invalid address is neither used nor shown."""
    with pytest.raises(ConfigurationError) as caught:
        proxy_address(proxy)
    assert "S3CRET" not in str(caught.value)
