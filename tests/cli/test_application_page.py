"""``income-client application --html``: the page, and the private file that it is."""

import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.application_payloads import (
    ANY,
    CASES,
    Payloads,
    application_of,
    calculation,
    four_applicants,
    source,
    suspicious,
    unfinished_year,
)
from tests.support.cli import Cli
from tests.support.looking import SHOW_ALL, Look

ATTRIBUTES: Final = {"class", "style", "href", "id", "role", "aria-label", "aria-hidden", "lang"}
HEAD: Final = {"charset", "http-equiv", "content", "name"}
ELEMENTS: Final = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "section", "h1", "h2",
    "p", "span", "dl", "dt", "dd", "div", "ul", "ol", "li", "a", "table", "thead", "tbody",
    "tr", "th", "td",
}  # fmt: skip
MARKUP: Final = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onclick='x", "</style>",
    "<!--", "]]>", "&lt;b&gt;", "&#x3c;b>", "javascript:alert(1)", "<a href='https://x.example'>",
)  # fmt: skip


@pytest.fixture
def look(service_cli: Cli, income_service: IncomeService) -> Look:
    """Looks at applications that a test has made up."""
    return Look(service_cli, income_service)


class Reader(HTMLParser):
    """What a parser finds in a page."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.targets: set[str] = set()
        self.ids: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(content)
        self.close()
        self.text = " ".join(self.text.split())
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element and its attributes."""
        self.tags.add(tag)
        if tag != "meta":
            self._open.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "href":
                self.targets.add(value or "")
            if name == "id":
                self.ids.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        """Make sure that it is the one that is open."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


def marked_up(value: Any, markup: str) -> Any:
    """Return JSON whose free texts end with markup."""
    match value:
        case dict():
            return {
                key: each if key in _NOT_FREE else marked_up(each, markup)
                for key, each in value.items()
            }
        case list():
            return [marked_up(each, markup) for each in value]
        case str():
            return value + markup
        case _:
            return value


_NOT_FREE: Final = frozenset(
    {"application_id", "last_updated_at", "application_date", "date_of_birth", "start_date",
     "end_date", "updated_at", "pay_begin_date", "pay_end_date", "pay_date", "current", "ytd"}
)  # fmt: skip


@given(payloads=ANY, markup=st.sampled_from(MARKUP))
def test_what_the_service_says_is_never_markup(payloads: Payloads, markup: str, look: Look) -> None:
    """The page has the elements and attributes that it is made of, whatever the texts are."""
    made = Payloads(marked_up(payloads.application, markup), marked_up(payloads.documents, markup))
    found = Reader(look.page(made, SHOW_ALL))
    assert found.tags <= ELEMENTS
    assert found.attributes <= ATTRIBUTES | HEAD
    assert all(re.fullmatch(r"#D[0-9]+", target) for target in found.targets)
    assert {target[1:] for target in found.targets} <= found.ids


@pytest.mark.parametrize("name", CASES)
def test_it_needs_nothing_else(name: str, look: Look) -> None:
    """No script, no address and nothing that is loaded; its own policy forbids all of it."""
    content = look.page(CASES[name](), SHOW_ALL)
    assert re.search(r"default-src (&#x27;|&#39;|')none(&#x27;|&#39;|');", content)
    assert "<script" not in content
    assert not re.search(r"https?:|//|url\(|@import|javascript:", content)


def test_it_says_what_there_is(look: Look) -> None:
    """The page has what the terminal shows, and says once that no currency is known."""
    text = Reader(look.page(suspicious())).text
    for words in ("app-1", "loan-1", "41,234.50", "self employment", "86,000.50", "D3 w2", "doc-3"):
        assert words in text
    assert text.count("without a currency") == 1


def test_a_doubt_is_said_and_not_only_coloured(look: Look) -> None:
    """What is suspected has words and a sign everywhere, first of all in the headline."""
    text = Reader(look.page(suspicious())).text
    assert "⚠ D2 paystub, suspected" in text
    assert "⚠ Suspected fraudulent" in text
    assert text.count("suspected fraudulent") == 1
    assert "Income 2026 ⚠ 56,234.75 rests on a suspected document" in text
    text = Reader(look.page(four_applicants())).text
    assert "Income 2026 120,000.00 Applicants" in text
    assert "suspected document" not in text


def test_a_sum_over_applicants_carries_a_doubt(look: Look) -> None:
    """It has no document beside it, so it says itself what it rests on."""
    years = {2026: [source("employment", 5, "doc-1")], 2025: [source("employment", 7)]}
    calculations = {"applicant1": calculation(years), "applicant2": calculation({}, "doc-1")}
    text = Reader(look.page(application_of(calculations))).text
    together = text[text.index("All applicants together") :]
    assert together.startswith(
        "All applicants together 2026 ⚠ 5.00 rests on a suspected document 2025 7.00 Documents"
    )


def test_an_unfinished_year_is_said_to_be_one(look: Look) -> None:
    """The year of the last update may not be over, wherever it is named."""
    text = Reader(look.page(unfinished_year())).text
    assert text.count("2024 so far") == 3
    assert "2023 so far" not in text


def test_it_says_whether_somebody_is_named(look: Look) -> None:
    """A page with personal data says so itself, for whoever finds it later."""
    assert "With personal data" not in Reader(look.page(suspicious())).text
    assert "With personal data" in Reader(look.page(suspicious(), SHOW_ALL)).text


# The file


def mode_of(path: Path) -> int:
    """Return who may do what with a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def written(service_cli: Cli, income_service: IncomeService, tmp_path: Path) -> "Written":
    """Writes pages of the first application into a folder of their own."""
    (tmp_path / "pages").mkdir()
    return Written(service_cli, income_service, tmp_path / "pages")


class Written:
    """Writes pages.

    Attributes:
        folder: where they go.
    """

    def __init__(self, cli: Cli, service: IncomeService, folder: Path) -> None:
        self.folder = folder
        self._cli = cli
        self._one = service.ids[0]

    def __call__(self, name: str, *arguments: str) -> tuple[int, str, str]:
        """Write one; return the exit status and what was said on both streams."""
        path = str(self.folder / name)
        ran = self._cli("application", self._one, "--html", path, *arguments)
        return ran.status, ran.stdout, ran.stderr

    @property
    def names(self) -> list[str]:
        """What is in the folder, hidden files too."""
        return sorted(each.name for each in self.folder.iterdir())


@pytest.mark.parametrize("umask", [0, 0o777], ids=oct)
def test_a_page_is_private_and_its_path_is_printed(umask: int, written: Written) -> None:
    """Only its owner can read it, whatever the mask is, and no part of it is left."""
    before = os.umask(umask)
    try:
        ran = written("zürich.html")
    finally:
        os.umask(before)
    assert ran == (0, f"{written.folder}/zürich.html\n", "")
    assert written.names == ["zürich.html"]
    assert mode_of(written.folder / "zürich.html") == 0o600


def test_nothing_is_replaced_unasked(written: Written, income_service: IncomeService) -> None:
    """A file that is there stays as it was, and so does a link, even one to nowhere."""
    (written.folder / "page.html").write_text("old")
    (written.folder / "link.html").symlink_to(written.folder / "nowhere")
    for name in ("page.html", "link.html"):
        status, printed, said = written(name)
        assert (status, printed) == (1, "")
        assert "--overwrite" in said
    assert len(income_service.requests) == 0
    assert (written.folder / "page.html").read_text() == "old"
    assert written.names == ["link.html", "page.html"]


def test_a_page_is_replaced_where_that_is_asked_for(written: Written) -> None:
    """The new one is private, and what a link leads to is left alone."""
    (written.folder / "other").write_text("other")
    (written.folder / "other").chmod(0o644)
    (written.folder / "page.html").symlink_to(written.folder / "other")
    assert written("page.html", "--overwrite")[0] == 0
    assert (written.folder / "page.html").read_bytes().startswith(b"<!DOCTYPE html>")
    assert not (written.folder / "page.html").is_symlink()
    assert mode_of(written.folder / "page.html") == 0o600
    assert (written.folder / "other").read_text() == "other"


@pytest.mark.parametrize("name", ["", "none/page.html"], ids=["a folder", "no folder"])
def test_an_impossible_place_is_reported_at_once(
    name: str, written: Written, income_service: IncomeService
) -> None:
    """A folder in its place, and a folder that is missing, are errors before anything is read."""
    status, printed, said = written(name)
    assert (status, printed, said.count("\n")) == (1, "", 1)
    assert len(income_service.requests) == 0


def test_no_page_is_left_of_a_failure(written: Written, income_service: IncomeService) -> None:
    """Where the documents cannot be read, nothing is written."""
    income_service.faults.add(Fault("status", status=403, path="*/documents", times=None))
    assert written("page.html")[0] == 4
    assert written.names == []


def test_a_page_needs_no_second_names(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hard links it is put at its place all the same, and never over another one."""

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert written("page.html")[0] == 0
    assert written.names == ["page.html"]
    assert mode_of(written.folder / "page.html") == 0o600
    assert written("page.html")[0] == 1
