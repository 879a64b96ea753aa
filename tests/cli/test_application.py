"""``income-client application``: what is shown, of whom, on a terminal and as a page."""

import cProfile
import os
import re
import stat
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from income_client.emulator import Fault
from tests.support.application_payloads import (
    ANY,
    BORN,
    CASES,
    LETTERS,
    SHOW_ALL,
    WORDS,
    Look,
    Payloads,
    application_of,
    calculation,
    disguised,
    draw,
    ending_with,
    form,
    four_applicants,
    one_year,
    page,
    paystub,
    source,
    suspicious,
    twelve_years,
    unfinished_year,
    unstyled,
    without_documents,
)
from tests.support.cli import Cli, few_runs
from tests.support.streams import Ran

BAR: Final = re.compile(r"[ █▏▎▍▌▋▊▉]+")
HOSTILE: Final = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onclick='x", "</style><b>",
    "</title><b>", "<!--", "]]>", "&lt;b&gt;", "&#x3c;b>", "javascript:alert(1)", "}*{color:red}",
    "<a href='https://x.example'>", "url(//x.example)", "{{ 7 * 7 }}", "{% raw %}", "\u202e\u2066",
)  # fmt: skip


@pytest.fixture
def look(shell: Cli) -> Look:
    """Looks at applications that a test has made up."""
    return Look(shell)


def test_the_command_shows_what_is_drawn(look: Look) -> None:
    """Tests of any application are about the drawing and the page, without the command."""
    for made, arguments in ((suspicious(), ()), (four_applicants(), (SHOW_ALL,))):
        lines = draw(made, *arguments, width=100).splitlines()
        on_terminal = unstyled(look(made, *arguments, width=100)).splitlines()
        assert [line.rstrip() for line in on_terminal] == lines
        assert look(made, *arguments).splitlines() == lines
        assert look.page(made, *arguments) == page(made, *arguments)


class Reader(HTMLParser):
    """What a parser finds in a page: elements with their attributes, and text."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(content)
        self.close()
        self.text = " ".join(self.text.split())
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element and its attributes."""
        self.elements.append((tag, attrs))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Make sure that it is the one that is open."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text, but not the style sheet."""
        if self._open[-1:] != ["style"]:
            self.text += data


def page_text(payloads: Payloads, *arguments: str) -> str:
    """Return the text of the page."""
    return Reader(page(payloads, *arguments)).text


def flat(line: str) -> str:
    """Return a line with no bars, and tracks of one length."""
    line = re.sub(r"·[·█ ]*·", "····", line)
    return BAR.sub(" ", re.sub("═{4,}", "════", line)).strip()


def figure(amount: Decimal) -> str:
    """Return an amount as people write it."""
    return f"{amount + 0:,.2f}"


# Who the borrowers are


@given(payloads=ANY, words=WORDS, width=st.integers(40, 160))
def test_nothing_personal_is_shown(payloads: Payloads, words: list[str], width: int) -> None:
    """No letter of a name, number, address, employer, file's name or unknown field is shown.

    Nor is a line wider than the terminal.
    """
    text = draw(payloads, SHOW_ALL, width=width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    hidden = disguised(payloads, words)
    drawn = draw(hidden)
    shown = drawn + page(hidden)
    assert not set(shown) & set(LETTERS)
    assert BORN not in shown
    # How long a word is cannot be seen either.
    assert draw(disguised(payloads, [word * 3 for word in words])) == drawn


@pytest.mark.parametrize("name", ["JOHN", "john smith", "Ada-Sample", "a__b"])
def test_a_name_in_a_place_of_kinds_is_hidden(name: str) -> None:
    """Kinds, types, frequencies and slots that are not written like the contract's are hidden."""
    stub = paystub(1, pay_period_frequency=name)
    odd = application_of({name: calculation({2023: [source(name, 1, "doc-1")]})}, stubs=(stub,))
    odd.documents["documents"][name] = [form(2)]
    for hidden in (draw(odd), page(odd)):
        assert not any(text in hidden for text in (name, name.replace("_", " ")))
        for text in ("Applicant 1", "D2 other", "other frequency"):
            assert text in hidden
    assert name.replace("_", " ") in draw(odd, SHOW_ALL)


# What is drawn


TWICE_2025: Final = one_year(source("a", 1))
TWICE_2025.application["income_calculations"]["applicant1"]["incomes"] += [
    {"year": 2025, "income_sources": [source("a", 2)]},
    {"year": 2025, "income_sources": [source("b", 3)]},
]
OF_TWO: Final = {
    "applicant1": calculation(
        {2025: [source("employment", 5, "doc-1")], 2023: [source("employment", 7)]}
    ),
    "applicant7": calculation({}, "doc-1"),
}
"""A document is suspected wherever it is named, and a sum over applicants says so itself."""
TURNED: Final = paystub(1, pay_begin_date="2026-02-20", pay_end_date="2026-02-01")
PERSONAL: Final = (
    "Ada Sample", "000-11-2222", "ada@example.org", "5550100", "1 Invented Way", "1980-02-29",
    "Invented Works",
)  # fmt: skip
SUSPICIOUS: Final = """\
Application app-1
Reference loan-1 applied 2024-01-05 updated 2024-01-31 10:00 UTC
Personal data is hidden; --show-personal-data shows it.

! Suspected fraudulent: D2 paystub, doc-2. It supports 41,234.50 from employment in 2026 (Applicant
1).

Applicant 1 ••••••••

2026 employment 41,234.50 D1 paystub
! D2 paystub, suspected
self employment 12,000.00 doc-nowhere (missing)
pension 3,000.25 no document
total 56,234.75

2025 employment 80,000.00 D3 unknown form
pension 6,000.50 D3 unknown form
total 86,000.50

Documents

pay period ═ year that it supports
2025-01 2025-04 2025-07 2025-10 2026-01
D1 paystub ···· 2026-02-01 to 2026-02-14
doc-1, paid on 2026-02-19, biweekly, gross 1,734.50, net 1,301.07
! D2 paystub ···· 2026-03-01 to 2026-03-14
suspected fraudulent, doc-2, paid on 2026-03-19, biweekly, gross 1,734.50, net 1,301.07
D3 unknown form ════···· supports 2025
doc-3, fields read 2

Calculated from 1 file and 1 other input."""
DRAWN: Final[list[tuple[Payloads, tuple[str, ...], tuple[str, ...], tuple[str, ...]]]] = [
    (suspicious(), (), (SUSPICIOUS,), (
        "app-1", "loan-1", "41,234.50", "86,000.50", "doc-3", "without a currency",
        "⚠ Suspected fraudulent", "⚠ D2 paystub, suspected",
        "Income 2026 ⚠ 56,234.75 rests on a suspected document",
    )),
    (suspicious(), (SHOW_ALL,), PERSONAL, (*PERSONAL, "stub.pdf", "With personal data")),
    (four_applicants(), (), ("\nApplicant 3", "\nApplicant 4", "\nNo income"), ("Applicant 4",)),
    (without_documents(), (), ("no document",), ("no document",)),
    (twelve_years(), (), ("\nrental -4,321.09 ",), ("-4,321.09",)),
    (unfinished_year(), (), ("\n2024 employment", "\nso far\n"), ("2024 so far e", "2023 empl")),
    (TWICE_2025, (), ("\n2025 a 2.00 no document\nb 3.00", "\ntotal 5.00\n", "\n2023 a "), ()),
    (application_of(OF_TWO, stubs=(paystub(1),)), (), (
        "\nApplicant 7", "! D1 paystub, suspected",
        "2025 total 5.00 ! suspected document\n2023 total 7.00\n",
    ), ("together 2025 ⚠ 5.00 rests on a suspected document 2023 7.00 Documents",)),
    (application_of(OF_TWO), (), ("doc-1, which is not among the documents",), ()),
    (application_of({}, stubs=(TURNED,)), (), ("2026-02-01 to 2026-02-20\n",), ()),
    (application_of({}, forms=(form(1),)), (SHOW_ALL,), ("fields read 2",), ()),
]  # fmt: skip
"""Applications, arguments, and what is drawn in a terminal and on the page, without bars."""


@pytest.mark.parametrize(("made", "arguments", "drawn", "on_page"), DRAWN)
def test_it_says_what_there_is(
    made: Payloads, arguments: tuple[str, ...], drawn: tuple[str, ...], on_page: tuple[str, ...]
) -> None:
    text = "\n".join(map(flat, draw(made, *arguments).splitlines()))
    content = page_text(made, *arguments)
    assert [words for words in drawn if words not in text] == []
    assert [words for words in on_page if words not in content] == []
    if not arguments:
        assert not any(words in text + content for words in PERSONAL)


def test_bars_of_all_applicants_have_one_scale() -> None:
    text = draw(four_applicants())
    assert re.search(r" █+   60,000\.00", text)
    bars = [line.count("█") for line in text.splitlines() if "2026 " in line and " D" in line]
    assert bars == [pytest.approx(bars[2] * share / 3, abs=1) for share in (1, 2, 3)]
    # What was lost has none.
    (lost,) = (line for line in draw(twelve_years()).splitlines() if "rental" in line)
    assert not set(lost) & set("█▏▎▍▌▋▊▉")


def test_a_doubt_is_red(look: Look) -> None:
    red = re.findall(r"\x1b\[1;31m([^\x1b]*)", look(suspicious(), width=80))
    marked = {"! D2 paystub, suspected", "! D2 paystub", "suspected fraudulent", "41,234.50"}
    assert marked <= {each.strip() for each in red}
    for words in ("D1 paystub", "D3 unknown form", "12,000.00"):
        assert not any(words in each for each in red)


def test_amounts_of_any_form_are_written_alike() -> None:
    amounts = {
        "0": "0.00", "-0": "0.00", "1E+3": "1,000.00", "1234567.5": "1,234,567.50",
        "-4321.09": "-4,321.09", "0.123": "0.123", "52000.100": "52,000.10",
        "999999999999999": "999,999,999,999,999.00", "1E-30": "about 1.000000e-30",
    }  # fmt: skip
    sources = [source(f"kind_{place}", each) for place, each in enumerate(amounts)]
    total = draw(one_year(source("a", "999999999999999"), source("b", "0.01")), width=120)
    assert "999,999,999,999,999.01" in total
    lines = [flat(line) for line in draw(one_year(*sources), width=120).splitlines()]
    for place, text in enumerate(amounts.values()):
        assert any(re.search(rf"\bkind {place} {text} no document", line) for line in lines), text


def test_short_amounts_of_the_chart_have_two_digits_or_so() -> None:
    totals = ("0", "950.4", "1234", "81234.5", "-4321.09", "1234567", "999000000000", "1E+14")
    years = {2000 + place: [source("wages", each)] for place, each in enumerate(totals)}
    content = page(application_of({"applicant1": calculation(years)}))
    columns = re.findall(r'<div class="top">([^<]*)</div>', content)
    assert columns == ["0", "950", "1.2k", "81k", "-4.3k", "1.2M", "999B", "1e+14"]


def test_unknown_fields_are_counted_at_every_depth() -> None:
    def count(payloads: Payloads) -> int:
        found = re.search(r"(\d+) further field", draw(payloads))
        return int(found[1]) if found else 0

    made = suspicious()
    before = count(made)
    made.application["new"] = {"a": 1, "b": 2}
    made.application["applicants"]["applicant1"]["new"] = 1
    stub = made.documents["documents"]["paystub"][0]
    stub["new"] = stub["extracted_data"]["new"] = 1
    assert count(made) == before + 4
    # Of a document without a known shape, only the number of its fields is shown.
    assert "51234" not in draw(application_of({}, forms=(form(1),)), SHOW_ALL)


# The terminal


@few_runs
@given(name=st.sampled_from([*CASES]), width=st.integers(40, 200))
def test_special_applications_fit(name: str, width: int) -> None:
    """Long words are folded, not cut, amounts are whole, and nothing acts on the terminal."""
    made = CASES[name]()
    text = draw(made, SHOW_ALL, width=width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert not any(letter in text for letter in "\x1b\u2026\u202e")
    for each in made.application["income_calculations"].values():
        for income in each["incomes"]:
            for one_source in income["income_sources"]:
                assert figure(Decimal(str(one_source["calculated_income_amount"]))) in text


def test_ascii_is_enough(look: Look) -> None:
    text = look(suspicious(), PYTHONIOENCODING="ascii")
    assert text.isascii()
    assert "Applicant 1  ********" in text
    assert "####" in text
    assert "====" in text
    assert "?" not in text
    assert look(CASES["long words"](), SHOW_ALL, PYTHONIOENCODING="ascii").isascii()


# Size


def calls_of(work: Callable[[], object]) -> int:
    """Return how many calls of functions, ours and others, some work takes."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(each.callcount for each in profile.getstats())


@pytest.mark.parametrize("of_one", [True, False], ids=["kinds", "applicants"])
def test_twice_as_much_is_twice_the_work(of_one: bool) -> None:
    """Nothing is gone through again for each kind, applicant or year."""

    def calls(count: int) -> list[int]:
        sources = [source(f"kind_{number}", number + 1) for number in range(count)]
        each_his_own = {f"one {n}": calculation({n: [each]}) for n, each in enumerate(sources)}
        made = one_year(*sources) if of_one else application_of(each_his_own)
        return [calls_of(partial(show, made)) for show in (page, draw)]

    calls(10)
    once, twice = calls(30), calls(60)
    assert all(more < 2.3 * less for less, more in zip(once, twice, strict=True))


# The page


@few_runs
@given(payloads=ANY)
def test_what_the_service_says_is_never_markup(payloads: Payloads) -> None:
    pages = [
        page(
            Payloads(
                ending_with(payloads.application, text), ending_with(payloads.documents, text)
            ),
            SHOW_ALL,
        )
        for text in (" ".join(HOSTILE), "harmless")
    ]
    found, expected = map(Reader, pages)
    assert found.elements == expected.elements
    assert not any(unicodedata.category(letter) == "Cf" for letter in pages[0])
    targets = {value for _, attributes in found.elements for name, value in attributes
               if name in ("href", "src")}  # fmt: skip
    assert targets <= {f"#{dict(attributes).get('id')}" for _, attributes in found.elements}


def test_a_page_shows_hostile_text_as_it_is() -> None:
    sources = [source(hostile, 1) for hostile in HOSTILE[:-1]]
    text = page_text(one_year(*sources), SHOW_ALL)
    assert all(hostile.replace("_", " ") in text for hostile in HOSTILE[:-1])
    # And needs nothing else.
    for made in CASES.values():
        content = page(made(), SHOW_ALL)
        assert "default-src 'none'; style-src 'unsafe-inline'" in content
        assert "<script" not in content
        assert not re.search(r"https?:|//|url\(|@import|javascript:", content)


# The file


Write = Callable[..., Ran]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where pages go."""
    (tmp_path / "pages").mkdir()
    return tmp_path / "pages"


@pytest.fixture
def write(shell: Cli, folder: Path) -> Write:
    """Writes a page of this name."""
    page = ("application", shell.service.ids[0], "--html")
    return lambda name, *arguments: shell(*page, str(folder / name), *arguments)


def contents(folder: Path) -> dict[str, int]:
    """Return what is in a folder, hidden files too, with who may do what with it."""
    return {each.name: stat.S_IMODE(each.lstat().st_mode) for each in folder.iterdir()}


@pytest.mark.parametrize("umask", [0, 0o777], ids=oct)
def test_a_page_is_private_and_its_path_is_printed(
    umask: int, shell: Cli, write: Write, folder: Path
) -> None:
    """Nothing is left of a failure."""
    before = os.umask(umask)
    try:
        ran = write("zürich.html")
    finally:
        os.umask(before)
    assert (ran.status, ran.stdout, ran.stderr) == (0, f"{folder}/zürich.html\n", "")
    assert contents(folder) == {"zürich.html": 0o600}
    shell.service.faults.add(Fault("status", status=403, path="*/documents", times=None))
    assert write("page.html").status == 4
    assert {*contents(folder)} == {"zürich.html"}


def test_a_page_replaces_a_file_only_where_that_is_asked_for(write: Write, folder: Path) -> None:
    (folder / "other").write_text("other")
    (folder / "other").chmod(0o644)
    (folder / "page.html").symlink_to(folder / "other")
    # Root would put the page in the place of a device.
    os.mkfifo(folder / "pipe")
    (folder / "link.html").symlink_to("pipe")
    (folder / "lost.html").symlink_to(folder / "nowhere")
    for line, said in (
        (("other",), "--overwrite"),
        (("page.html",), "--overwrite"),
        (("lost.html",), "--overwrite"),
        (("",), "pages is there already"),
        (("none/page.html",), "none/page.html: no such file or directory"),
        (("pipe", "--overwrite"), "not a regular file"),
        (("link.html", "--overwrite"), "not a regular file"),
    ):
        ran = write(*line)
        assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
        assert said in ran.stderr
    assert (folder / "pipe").is_fifo()
    assert (folder / "link.html").is_symlink()
    assert write("page.html", "--overwrite").status == 0
    assert (folder / "page.html").read_bytes().startswith(b"<!DOCTYPE html>")
    assert {name for name, mode in contents(folder).items() if mode == 0o600} == {"page.html"}
    assert (folder / "other").read_text() == "other"
    assert {*contents(folder)} == {"link.html", "lost.html", "other", "page.html", "pipe"}
