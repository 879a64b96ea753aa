"""Arguments become requests (contract sections 4 and 5.1), and addresses origins."""

from urllib.parse import parse_qs, quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.http.endpoints import (
    addresses,
    get_application,
    get_documents,
    list_applications,
    proxy_address,
)

IDS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=60).filter(
    lambda text: text not in {".", ".."}
)


@given(IDS)
def test_an_id_is_one_segment_of_the_path(application_id: str) -> None:
    """Whatever an id holds, it neither adds a segment nor a query and comes out whole."""
    path = get_application(application_id).path
    assert path.isascii()
    assert not set(path) & set("?# \\")
    *folder, last = path.split("/")
    assert folder == ["", "v1", "income", "applications"]
    assert unquote(last) == application_id
    assert get_documents(application_id).path == path + "/documents"
    query = list_applications(application_reference_id=application_id).query
    assert parse_qs(query, strict_parsing=True) == {"application_reference_id": [application_id]}


@given(st.text("aZ09_.~:-/%+ é", min_size=1, max_size=20).filter(lambda text: text.strip(".")))
def test_whatever_needs_it_is_quoted(text: str) -> None:
    """The short way of plain texts leads to the same as the long one."""
    assert get_application(text).path.rpartition("/")[2] == quote(text, safe="")
    query = list_applications(application_reference_id=text).query
    assert query == f"application_reference_id={quote(text, safe='')}"


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


def test_the_address_of_a_proxy_is_kept_secret() -> None:
    """It may hold the proxy's own credentials."""
    found = proxy_address("https://user:S3CRET@proxy.example:8080/")
    assert found.reveal() == "https://user:S3CRET@proxy.example:8080/"
    assert "S3CRET" not in repr(found)
