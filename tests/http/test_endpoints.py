"""Arguments become requests as contract sections 4 and 5.1 have them."""

from urllib.parse import parse_qs, quote, unquote

from hypothesis import given
from hypothesis import strategies as st

from income_client.http.endpoints import (
    get_application,
    get_documents,
    list_applications,
    token_request,
)

IDS = st.text(
    st.characters(exclude_categories=("Cc", "Cs")),
    min_size=1,
    max_size=60,
).filter(lambda text: text not in {".", ".."})


def test_the_token_request_is_a_form_post_to_the_token_host() -> None:
    """The token request posts the grant type and nothing secret in its body."""
    request = token_request()
    assert request.path == "/token"
    assert request.form == b"grant_type=client_credentials"


def test_a_list_call_without_arguments_has_no_query() -> None:
    """What is not given is left to the service."""
    request = list_applications()
    assert (request.path, request.query) == ("/v1/income/applications", "")
    assert request.form is None


def test_a_list_call_sends_what_it_is_given() -> None:
    """Each parameter is sent under its name, encoded."""
    request = list_applications(
        updated_after="2026-01-02T03:04:05",
        updated_before="2026-02-03",
        limit=1000,
        application_reference_id="ref & 1/2",
    )
    assert parse_qs(request.query, strict_parsing=True) == {
        "updated_after": ["2026-01-02T03:04:05"],
        "updated_before": ["2026-02-03"],
        "limit": ["1000"],
        "application_reference_id": ["ref & 1/2"],
    }


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


@given(IDS)
def test_a_reference_comes_out_whole(reference: str) -> None:
    """Whatever a reference holds, it stays one parameter."""
    query = list_applications(application_reference_id=reference).query
    assert parse_qs(query, strict_parsing=True) == {"application_reference_id": [reference]}


def test_pages_are_asked_for_only_if_wanted() -> None:
    """The parameter is absent unless it is true."""
    assert get_documents("1").query == ""
    assert get_documents("1", pages=True).query == "pages=true"
    assert get_documents("1").subject == "1"


@given(st.text("aZ09_.~:-/%+ é", min_size=1, max_size=20).filter(lambda text: text.strip(".")))
def test_whatever_needs_it_is_quoted(text: str) -> None:
    """The short way of plain texts leads to the same as the long one."""
    assert get_application(text).path.rpartition("/")[2] == quote(text, safe="")
    query = list_applications(application_reference_id=text).query
    assert query == f"application_reference_id={quote(text, safe='')}"
