"""Which addresses credentials may go to."""

import pytest

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
    "proxy", ["http://proxy:3128", "https://user:S3CRET@proxy.example:8080/", "http://10.0.0.1"]
)
def test_the_address_of_a_proxy_is_kept_secret(proxy: str) -> None:
    """It may hold the proxy's own credentials."""
    found = proxy_address(proxy)
    assert found.reveal() == proxy
    assert "S3CRET" not in repr(found)
