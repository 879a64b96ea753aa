"""Marks: a part is of one version of one document's file at one address, or of nothing."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import DownloadPolicy
from income_client.disk.part_names import is_strong
from income_client.protocol.file_names import FileFacts
from income_client.protocol.links import Link, read_link
from income_client.protocol.marks import Mark, mark_of, read_mark, subject_of

FACTS = FileFacts(
    application_id="app-1",
    document_type="paystub",
    document_id="doc-1",
    file=0,
    file_reference_id=None,
)


def link(address: str) -> Link:
    """Return an address that is allowed."""
    found = read_link(address, DownloadPolicy(allowed_hosts=("files.example",)))
    assert isinstance(found, Link)
    return found


HERE = link("https://files.example/a/b.pdf?signature=1")


@given(st.integers(0, 10**17), st.text("abc0-9.!#~", min_size=1, max_size=62))
def test_a_mark_is_read_as_it_was_written(total: int, etag: str) -> None:
    """It is short and plain enough to stand in a part's name."""
    mark = mark_of(subject_of(FACTS, HERE), total, f'"{etag}"')
    assert isinstance(mark, Mark)
    assert read_mark(str(mark)) == mark
    assert is_strong(str(mark))


@pytest.mark.parametrize(
    ("total", "etag"), [(None, '"1"'), (1, None), (1, f'"{"x" * 63}"'), (1, 'W/"1"'), (1, '""')]
)
def test_what_cannot_be_told_from_others_has_no_mark(total: int | None, etag: str | None) -> None:
    """Without a length and a strong tag of some shortness, nothing is gone on with."""
    assert mark_of(subject_of(FACTS, HERE), total, etag) is None


@pytest.mark.parametrize("text", [None, "", '"1"', "0" * 16 + ".1.x", f'"{"0" * 16}.01.x"'])
def test_other_texts_are_no_marks(text: str | None) -> None:
    """Nobody wrote them."""
    assert read_mark(text) is None


def test_a_signature_does_not_make_another_file() -> None:
    """A fresh address of the same file goes on where the old one was."""
    again = link("https://files.example/a/b.pdf?signature=2&x=3")
    assert subject_of(FACTS, again) == subject_of(FACTS, HERE)


def test_anything_else_does() -> None:
    """An entity tag counts for one address and one document."""
    there = link("https://files.example/a/c.pdf?signature=1")
    others = [
        subject_of(FACTS, there),
        subject_of(evolve(FACTS, application_id=None), HERE),
        subject_of(evolve(FACTS, document_id="doc-2"), HERE),
        subject_of(evolve(FACTS, file=1), HERE),
    ]
    assert len({subject_of(FACTS, HERE), *others}) == 5
