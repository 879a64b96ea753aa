"""Replies are compared by content: the order of members and signed URLs do not matter."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.polling.reading import canonical
from income_client.records.applications import Application
from income_client.records.documents import ApplicationDocuments
from income_client.wire.codec import parse_exactly
from tests.support.payloads import APPLICATION, DOCUMENTS, Path, changed, text_of
from tests.support.strategies import applications, documents_replies

SIGNED = "https://bucket.s3.amazonaws.com/file-1?X-Amz-Signature="


def meaning(payload: Any) -> bytes:
    """Return what a payload says, in one form."""
    return content_of(text_of(payload))


def content_of(text: bytes) -> bytes:
    """Return what a text says, in one form."""
    tree = parse_exactly(text)
    return canonical(ApplicationDocuments if "documents" in tree else Application, tree)


def shuffled(value: Any, chance: Random) -> Any:
    """Return the same JSON with the members of every object in another order."""
    match value:
        case dict():
            names = list(value)
            chance.shuffle(names)
            return {name: shuffled(value[name], chance) for name in names}
        case list():
            return [shuffled(item, chance) for item in value]
        case _:
            return value


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Return where something stands that holds nothing else."""
    inner: list[tuple[str | int, Any]] = []
    match value:
        case dict():
            inner = list(value.items())
        case list():
            inner = list(enumerate(value))
    if not inner:
        yield path
    for step, item in inner:
        yield from leaves(item, (*path, step))


def other(payload: Any, path: Path) -> Any:
    """Return another value of the same kind as the one in this place."""
    for step in path:
        payload = payload[step]
    match payload:
        case bool():
            return not payload
        case int() | float():
            return payload + 0.01
        case str():
            return payload + "x"
        case _:
            return "x"


@given(applications(), st.randoms())
def test_the_order_of_members_means_nothing(payload: dict[str, Any], chance: Random) -> None:
    """JSON gives it no meaning."""
    assert meaning(payload) == meaning(shuffled(payload, chance))


@given(documents_replies(), st.randoms())
def test_the_order_of_documents_means_nothing(payload: dict[str, Any], chance: Random) -> None:
    """The service gives them in whatever order it likes, and with new addresses each time."""
    again = shuffled(payload, chance)
    for documents in again["documents"].values():
        chance.shuffle(documents)
        for document in documents:
            document["url"] = SIGNED + str(chance.random())
    assert meaning(payload) == meaning(again)


@given(applications() | documents_replies())
def test_the_way_it_is_written_means_nothing(payload: dict[str, Any]) -> None:
    """Spaces, escapes and a byte order mark are no content."""
    plain = text_of(payload)
    spaced = msgspec.json.format(plain, indent=1)
    assert content_of(spaced) == content_of(plain) == content_of(b"\xef\xbb\xbf" + plain)


@pytest.mark.parametrize("payload", [APPLICATION, DOCUMENTS], ids=["application", "documents"])
def test_a_change_of_any_value_is_another_version(payload: Any) -> None:
    """Each leaf of a whole reply counts, an address of a document aside."""
    seen = {meaning(payload)}
    paths = [path for path in leaves(payload) if path[-1] != "url"]
    for path in paths:
        found = meaning(changed(payload, path, other(payload, path)))
        assert found not in seen, path
        seen.add(found)
    assert len(paths) > 25


@pytest.mark.parametrize("payload", [APPLICATION, DOCUMENTS], ids=["application", "documents"])
def test_a_value_that_comes_or_goes_is_another_version(payload: Any) -> None:
    """So is one that is there and empty."""
    assert meaning(payload) != meaning({**payload, "new": None})
    assert meaning({**payload, "new": None}) != meaning({**payload, "new": ""})
    assert meaning({**payload, "new": [1, 2]}) != meaning({**payload, "new": [2, 1]})


def test_a_document_more_or_less_is_another_version() -> None:
    """Even one that is the same as another but for its address."""
    first = DOCUMENTS["documents"]["unknown_form"][0]
    same = {**first, "url": SIGNED + "2"}
    choices: list[dict[str, Any]] = [
        {},
        {"unknown_form": []},
        {"unknown_form": [first]},
        {"unknown_form": [first, same]},
        {"unknown_form": [first], "new": [same]},
        {"new": [first, same]},
    ]
    versions = {meaning({**DOCUMENTS, "documents": documents}) for documents in choices}
    assert len(versions) == len(choices)


ADDRESSES: list[Any] = [
    {"url": SIGNED},
    {"link": SIGNED},
    {"pages": {"1": {"image": SIGNED, "text": "Ada"}}},
    {"pages": [[SIGNED, "one"], [SIGNED, "two"]]},
    {"more": {"deep": [{"url": SIGNED}]}},
]


@pytest.mark.parametrize("extra", ADDRESSES)
def test_a_signed_address_outside_the_data_means_nothing(extra: dict[str, Any]) -> None:
    """Wherever a reply holds one, it is another the next time."""
    again = json.loads(json.dumps(extra).replace("Signature=", "Signature=123"))
    document = DOCUMENTS["documents"]["unknown_form"][0]
    for one, two in (
        (APPLICATION | extra, APPLICATION | again),
        (DOCUMENTS | extra, DOCUMENTS | again),
        (
            DOCUMENTS | {"documents": {"unknown_form": [document | extra]}},
            DOCUMENTS | {"documents": {"unknown_form": [document | again]}},
        ),
    ):
        assert one != two
        assert meaning(one) == meaning(two)


@pytest.mark.parametrize("extra", ADDRESSES[1:])
def test_what_is_beside_an_address_is_content(extra: dict[str, Any]) -> None:
    """Only the URL is ignored, not the member that holds it."""
    assert meaning(APPLICATION | extra) != meaning(APPLICATION)
