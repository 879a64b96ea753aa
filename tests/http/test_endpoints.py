"""Arguments become requests as contract sections 4 and 5.1 have them."""

from urllib.parse import parse_qs, quote, unquote

from hypothesis import given
from hypothesis import strategies as st

from income_client.http.endpoints import get_application, get_documents, list_applications

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


@given(IDS)
def test_a_reference_comes_out_whole(reference: str) -> None:
    """Whatever a reference holds, it stays one parameter."""
    query = list_applications(application_reference_id=reference).query
    assert parse_qs(query, strict_parsing=True) == {"application_reference_id": [reference]}


@given(st.text("aZ09_.~:-/%+ é", min_size=1, max_size=20).filter(lambda text: text.strip(".")))
def test_whatever_needs_it_is_quoted(text: str) -> None:
    """The short way of plain texts leads to the same as the long one."""
    assert get_application(text).path.rpartition("/")[2] == quote(text, safe="")
    query = list_applications(application_reference_id=text).query
    assert query == f"application_reference_id={quote(text, safe='')}"
