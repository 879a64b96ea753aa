"""The page of an application as text: what it has, and what can never be in it."""

import re
from html.parser import HTMLParser
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import ApplicationRecord
from income_client.cli.looking.elements import Markup, element
from income_client.cli.looking.page import page
from income_client.cli.looking.reading import view_of
from tests.cli.application_records import (
    CASES,
    RECORDS,
    calculation,
    four_applicants,
    going_on,
    record,
    source,
    suspicious,
)

_ALLOWED: Final = {"class", "style", "href", "id", "role", "aria-label", "aria-hidden", "lang"}
_HEAD: Final = {"charset", "http-equiv", "content", "name"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.targets: set[str] = set()
        self.ids: set[str] = set()
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "href":
                self.targets.add(value or "")
            if name == "id":
                self.ids.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(content: bytes) -> _Reader:
    """Return what a parser finds in a page."""
    reader = _Reader()
    reader.feed(content.decode())
    reader.close()
    assert not reader.open
    return reader


@given(RECORDS)
def test_what_the_service_says_is_never_markup(record: ApplicationRecord) -> None:
    """The page has the elements and attributes that it is made of, whatever the texts are."""
    found = read(page(view_of(record, show_personal_data=True)))
    assert found.tags <= {
        "html", "head", "meta", "title", "style", "body", "main", "header", "section", "h1", "h2",
        "p", "span", "dl", "dt", "dd", "div", "ul", "ol", "li", "a", "table", "thead", "tbody",
        "tr", "th", "td",
    }  # fmt: skip
    assert found.attributes <= _ALLOWED | _HEAD
    assert all(re.fullmatch(r"#D[0-9]+", target) for target in found.targets)
    assert {target[1:] for target in found.targets} <= found.ids


@pytest.mark.parametrize("name", CASES)
def test_it_needs_nothing_else(name: str) -> None:
    """No script, no address and nothing that is loaded; its own policy forbids all of it."""
    content = page(view_of(CASES[name](), show_personal_data=True)).decode()
    assert "default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;" in content
    assert "<script" not in content
    assert not re.search(r"https?:|//|url\(|@import|javascript:", content)


def test_it_says_what_there_is() -> None:
    """The same as on a terminal stands in it."""
    text = read(page(view_of(suspicious()))).text
    for told in ("app-1", "loan-1", "41,234.50", "self employment", "86,000.50", "D3 w2", "doc-3"):
        assert told in text


def test_a_doubt_is_said_and_not_only_coloured() -> None:
    """What is suspected has words and a sign in every place."""
    text = read(page(view_of(suspicious()))).text
    assert "⚠ D2 paystub, suspected" in text
    assert "⚠ 56,234.75" in text
    assert "⚠ Suspected fraudulent" in text
    assert text.count("suspected fraudulent") == 1


def test_the_headline_says_what_it_rests_on() -> None:
    """The first amount that is read has the sign and the word, if a document is suspected."""
    text = read(page(view_of(suspicious()))).text
    assert "Income 2026⚠ 56,234.75rests on a suspected document" in text
    text = read(page(view_of(four_applicants()))).text
    assert "Income 2026120,000.00Applicants" in text
    assert "suspected document" not in text


def test_all_applicants_together_carry_a_doubt() -> None:
    """A sum over them has no document beside it, so it says itself what it rests on."""
    years = {2026: [source("employment", 5, "doc-1")], 2025: [source("employment", 7)]}
    made = record({"applicant1": calculation(years), "applicant2": calculation({}, "doc-1")})
    text = read(page(view_of(made))).text
    together = text[text.index("All applicants together") :]
    assert together.startswith(
        "All applicants together2026⚠ 5.00rests on a suspected document20257.00Documents"
    )


def test_a_year_that_goes_on_is_said_to() -> None:
    """The year of the last update may not be over, wherever it is named."""
    text = read(page(view_of(going_on()))).text
    assert text.count("2024 so far") == 3
    assert "Income 2024 so far1,000.00" in text
    assert "2023 so far" not in text


def test_the_currency_is_said_to_be_unknown_once() -> None:
    """The contract names none."""
    assert read(page(view_of(suspicious()))).text.count("without a currency") == 1


def test_it_says_whether_somebody_is_named() -> None:
    """A page with personal data says so itself, for whoever finds it later."""
    assert "With personal data" not in read(page(view_of(suspicious()))).text
    assert "With personal data" in read(page(view_of(suspicious(), show_personal_data=True))).text


@given(st.text(), st.text())
def test_text_and_attributes_are_escaped(text: str, value: str) -> None:
    """Only what `element` made is markup."""
    made = element("a", text, element("b"), class_=value)
    assert isinstance(made, Markup)
    inner = made.removesuffix("<b></b></a>")
    assert inner.count("<") == 1
    assert inner.count(">") == 1
    assert inner.count('"') == 2 + inner.partition(">")[2].count('"')
