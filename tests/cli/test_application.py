"""``income-client application``: what is shown, of whom, on a terminal and as a page."""

import cProfile
import os
import re
import stat
import unicodedata
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from income_client.emulator import Fault
from tests.support.application_payloads import (
    ANY,
    BORN,
    CASES,
    LETTERS,
    WORDS,
    Payloads,
    application_of,
    calculation,
    disguised,
    ending_with,
    form,
    four_applicants,
    one_year,
    paystub,
    source,
    suspicious,
    twelve_years,
    unfinished_year,
    without_documents,
)
from tests.support.cli import Cli, few_runs
from tests.support.looking import SHOW_ALL, Look, draw, page, unstyled
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
    """Return a line without its bars."""
    return BAR.sub(" ", line).strip()


def figure(amount: Decimal) -> str:
    """Return an amount as people write it."""
    return f"{amount + 0:,.2f}"


# Who the borrowers are


@given(payloads=ANY, words=WORDS)
def test_nothing_personal_is_shown(payloads: Payloads, words: list[str]) -> None:
    """No letter of a name, number, address, employer, file's name or unknown field is shown."""
    hidden = disguised(payloads, words)
    drawn = draw(hidden)
    shown = drawn + page(hidden)
    assert not set(shown) & set(LETTERS)
    assert BORN not in shown
    # How long a word is cannot be seen either.
    assert draw(disguised(payloads, [word * 3 for word in words])) == drawn


@pytest.mark.parametrize("name", ["John Smith", "JOHN", "john smith", "Ada-Sample", "a__b"])
def test_a_name_in_a_place_of_kinds_is_hidden(name: str) -> None:
    """Kinds, types, frequencies and slots that are not written like the contract's are hidden."""
    stub = paystub(1, pay_period_frequency=name)
    odd = application_of({name: calculation({2023: [source(name, 1, "doc-1")]})}, stubs=(stub,))
    odd.documents["documents"][name] = [form(2)]
    for hidden in (draw(odd), page(odd)):
        assert name not in hidden
        assert name.replace("_", " ") not in hidden
        assert "Applicant 1" in hidden
        assert "D2 other" in hidden
        assert "other frequency" in hidden
    assert name.replace("_", " ") in draw(odd, SHOW_ALL)


def test_personal_data_is_shown_on_request() -> None:
    personal = (
        "Ada Sample", "000-11-2222", "ada@example.org", "5550100", "1 Invented Way", "1980-02-29",
        "Invented Works",
    )  # fmt: skip
    shown, content = draw(suspicious(), SHOW_ALL), page_text(suspicious(), SHOW_ALL)
    assert all(text in shown for text in personal)
    assert all(
        text in content for text in (*personal, "ada-sample-paystub.pdf", "With personal data")
    )
    for hidden in (draw(suspicious()), page_text(suspicious())):
        for text in ("self employment", "D3 unknown form", "biweekly", "Reference loan-1"):
            assert text in hidden


# Amounts, documents and doubts


@given(
    st.dictionaries(
        st.integers(1990, 2022),
        st.lists(st.decimals(-(10**11), 10**11, places=2), min_size=2, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_amounts_are_exact_and_add_up(years: dict[int, list[Decimal]]) -> None:
    sources = {
        year: [source("pension", str(each)) for each in amounts] for year, amounts in years.items()
    }
    text = draw(application_of({"applicant1": calculation(sources)}), width=120)
    for amounts in years.values():
        assert all(re.search(rf" {figure(each)}\b", text) for each in amounts)
        assert re.search(rf"total +{figure(sum(amounts, Decimal(0)))} *\n", text)


def test_amounts_of_any_form_are_written_alike() -> None:
    amounts = {
        "0": "0.00", "-0": "0.00", "1E+3": "1,000.00", "1234567.5": "1,234,567.50",
        "-4321.09": "-4,321.09", "0.123": "0.123", "52000.100": "52,000.10",
        "999999999999999": "999,999,999,999,999.00", "1E-30": "about 1.000000e-30",
    }  # fmt: skip
    sources = [source(f"kind_{place}", each) for place, each in enumerate(amounts)]
    lines = [flat(line) for line in draw(one_year(*sources), width=120).splitlines()]
    for place, text in enumerate(amounts.values()):
        assert any(re.search(rf"\bkind {place} {text} no document", line) for line in lines), text


def test_short_amounts_of_the_chart_have_two_digits_or_so() -> None:
    totals = ("0", "950.4", "1234", "81234.5", "-4321.09", "1234567", "999000000000", "1E+14")
    years = {2000 + place: [source("wages", each)] for place, each in enumerate(totals)}
    content = page(application_of({"applicant1": calculation(years)}))
    columns = re.findall(r'<div class="top">([^<]*)</div>', content)
    assert columns == ["0", "950", "1.2k", "81k", "-4.3k", "1.2M", "999B", "1e+14"]


def test_it_says_what_there_is() -> None:
    lines = draw(suspicious()).splitlines()
    assert lines[0] == "Application app-1"
    assert lines[1] == "Reference loan-1  applied 2024-01-05  updated 2024-01-31 10:00 UTC"
    assert "Applicant 1  ••••••••" in lines
    rows = [flat(line) for line in lines]
    assert "2026 employment 41,234.50 D1 paystub" in rows
    assert "self employment 12,000.00 doc-nowhere (missing)" in rows
    assert "pension 3,000.25 no document" in rows
    assert "total 56,234.75" in rows
    assert "total 86,000.50" in rows
    content = page_text(suspicious())
    for words in ("app-1", "loan-1", "41,234.50", "86,000.50", "doc-3"):
        assert words in content
    assert content.count("without a currency") == 1
    # Applicants without a calculation are shown.
    text = draw(four_applicants())
    headings = re.findall(r"^Applicant \d", text, re.MULTILINE)
    assert headings == [f"Applicant {n}" for n in range(1, 5)]
    assert "No income" in text[text.index("Applicant 4") :]
    assert "no document" in draw(without_documents())


def test_years_come_once_and_the_latest_first() -> None:
    made = one_year(source("a", 1))
    incomes = made.application["income_calculations"]["applicant1"]["incomes"]
    incomes += [
        {"year": 2025, "income_sources": [source("a", 2)]},
        {"year": 2023, "income_sources": [source("b", 3)]},
    ]
    text = draw(made)
    assert re.findall(r"^20\d\d", text, re.MULTILINE) == ["2025", "2023"]
    assert flat(next(line for line in text.splitlines() if "total" in line)) == "total 4.00"


@few_runs
@given(payloads=ANY)
def test_every_document_is_listed_in_the_services_order(payloads: Payloads) -> None:
    documents = payloads.documents["documents"]
    every = [each["document_id"] for kind in documents for each in documents[kind]]
    suspected = {
        name
        for each in payloads.application["income_calculations"].values()
        for name in each["suspected_fraudulent"]["document_ids"]
    }
    _, _, listed = draw(payloads, width=120).partition("\nDocuments\n")
    marks = re.findall(r"^(! )?(D\d+) ", listed, re.MULTILINE)
    assert [mark for _, mark in marks] == [f"D{place}" for place, _ in enumerate(every, 1)]
    assert [bool(sign) for sign, _ in marks] == [name in suspected for name in every]


def test_a_doubt_is_said_and_not_only_coloured(look: Look) -> None:
    plain = draw(suspicious())
    assert "! Suspected fraudulent: D2 paystub, doc-2. It supports 41,234.50" in plain
    assert "! D2 paystub, suspected" in plain
    assert "suspected fraudulent, doc-2" in plain
    red = re.findall(r"\x1b\[1;31m([^\x1b]*)", look(suspicious(), width=80))
    assert any("D2 paystub, suspected" in each for each in red)
    assert any("41,234.50" in each for each in red)
    assert not any(
        word in each for each in red for word in ("D1 paystub", "D3 unknown form", "12,000.00")
    )
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", look(suspicious(), width=80, NO_COLOR="1"))
    content = page_text(suspicious())
    assert "⚠ Suspected fraudulent" in content
    assert "⚠ D2 paystub, suspected" in content
    assert "Income 2026 ⚠ 56,234.75 rests on a suspected document" in content
    assert "suspected document" not in page_text(four_applicants())


def test_a_doubt_of_one_applicant_holds_for_all() -> None:
    """A document is suspected wherever it is named, and a sum over applicants says so itself."""
    years = {2025: [source("employment", 5, "doc-1")], 2023: [source("employment", 7)]}
    calculations = {"applicant1": calculation(years), "applicant2": calculation({}, "doc-1")}
    made = application_of(calculations, stubs=(paystub(1),))
    text = " ".join(draw(made).split())
    assert "! D1 paystub, suspected" in text
    assert "together 2025 total 5.00 ! suspected document 2023 total 7.00 Documents" in text
    assert "together 2025 ⚠ 5.00 rests on a suspected document 2023 7.00 Documents" in page_text(
        made
    )
    elsewhere = draw(application_of(calculations))
    assert "doc-1, which is not among the documents" in " ".join(elsewhere.split())


def test_an_unfinished_year_is_said_to_be_one() -> None:
    text = draw(unfinished_year(), width=40)
    assert re.search("^2024 +employment.*\nso far ", text, re.MULTILINE)
    assert text.count("so far") == 1
    content = page_text(unfinished_year())
    assert content.count("2024 so far") == 3
    assert "2023 so far" not in content


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
    text = draw(application_of({}, forms=(form(1),)), SHOW_ALL)
    assert "fields read 2" in text
    assert "51234" not in text


# The terminal


@given(payloads=ANY, width=st.integers(40, 160), arguments=st.sampled_from([(), (SHOW_ALL,)]))
def test_no_line_is_wider_than_the_terminal(
    payloads: Payloads, width: int, arguments: tuple[str, ...]
) -> None:
    text = draw(payloads, *arguments, width=width)
    assert all(cell_len(line) <= width for line in text.splitlines())


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


@given(width=st.integers(60, 120))
def test_bars_of_all_applicants_have_one_scale(width: int) -> None:
    text = draw(four_applicants(), width=width)
    assert re.search(r" █+   60,000\.00", text)
    bars = [line.count("█") for line in text.splitlines() if "2026 " in line and " D" in line]
    assert bars == [pytest.approx(bars[2] * share / 3, abs=1) for share in (1, 2, 3)]


def test_what_was_lost_has_its_sign_and_no_bar() -> None:
    (line,) = (line for line in draw(twelve_years()).splitlines() if "rental" in line)
    assert "-4,321.09" in line
    assert not set(line) & set("█▏▎▍▌▋▊▉")


def test_ascii_is_enough(look: Look) -> None:
    text = look(suspicious(), PYTHONIOENCODING="ascii")
    assert text.isascii()
    assert "Applicant 1  ********" in text
    assert "####" in text
    assert "====" in text
    assert "?" not in text
    assert look(CASES["long words"](), SHOW_ALL, PYTHONIOENCODING="ascii").isascii()


def test_documents_lie_on_a_time_line() -> None:
    lines = draw(suspicious()).splitlines()
    after = lines[lines.index("Documents") :]
    assert after[3].split() == ["2025-01", "2025-04", "2025-07", "2025-10", "2026-01"]
    (stub,) = (line for line in after if line.startswith("D1 paystub"))
    (form,) = (line for line in after if line.startswith("D3 unknown form"))
    assert stub.endswith("2026-02-01 to 2026-02-14")
    assert form.endswith("supports 2025")
    assert form[stub.index("·")] == "═"
    # February comes after the end of 2025.
    assert stub.index("█") > form.rindex("═")
    # A period always begins before it ends.
    turned = paystub(1, pay_begin_date="2026-02-20", pay_end_date="2026-02-01")
    assert "2026-02-01 to 2026-02-20" in draw(application_of({}, stubs=(turned,)))


@given(st.lists(st.dates(), min_size=1, max_size=3))
@example([date(2026, 1, 5), date(2026, 3, 20)])
@example([date(2015, 2, 5), date(2026, 3, 20)])
def test_few_days_are_named_and_in_order(days: list[date]) -> None:
    stubs = [
        paystub(number, pay_begin_date=f"{day}", pay_end_date=f"{day}", pay_date=f"{day}")
        for number, day in enumerate(days)
    ]
    lines = draw(application_of({}, stubs=tuple(stubs)), width=160).splitlines()
    ticks = lines[lines.index("Documents") + 3].split()
    assert len(ticks) <= 7
    assert ticks == sorted(set(ticks))
    first, last = min(days), max(days)
    is_short = 12 * (last.year - first.year) + last.month - first.month < 36
    assert all(len(tick) == (7 if is_short else 4) for tick in ticks)


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
def test_a_page_is_private_and_its_path_is_printed(umask: int, write: Write, folder: Path) -> None:
    before = os.umask(umask)
    try:
        ran = write("zürich.html")
    finally:
        os.umask(before)
    assert (ran.status, ran.stdout, ran.stderr) == (0, f"{folder}/zürich.html\n", "")
    assert contents(folder) == {"zürich.html": 0o600}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("page.html", "--overwrite"),
        ("link.html", "--overwrite"),
        ("", "pages is there already"),
        ("none/page.html", "none/page.html: no such file or directory"),
    ],
)
def test_a_place_that_cannot_be_used_is_an_error(
    name: str, said: str, write: Write, folder: Path
) -> None:
    (folder / "page.html").write_text("old")
    (folder / "link.html").symlink_to(folder / "nowhere")
    ran = write(name)
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert said in ran.stderr
    assert (folder / "page.html").read_text() == "old"
    assert {*contents(folder)} == {"link.html", "page.html"}


def test_a_page_is_replaced_where_that_is_asked_for(write: Write, folder: Path) -> None:
    (folder / "other").write_text("other")
    (folder / "other").chmod(0o644)
    (folder / "page.html").symlink_to(folder / "other")
    assert write("page.html", "--overwrite").status == 0
    assert (folder / "page.html").read_bytes().startswith(b"<!DOCTYPE html>")
    assert contents(folder)["page.html"] == 0o600
    assert (folder / "other").read_text() == "other"
    # Root would put the page in the place of a device.
    os.mkfifo(folder / "pipe")
    (folder / "link.html").symlink_to("pipe")
    for name in ("pipe", "link.html"):
        ran = write(name, "--overwrite")
        assert (ran.status, "not a regular file" in ran.stderr) == (1, True)
    assert (folder / "pipe").is_fifo()
    assert (folder / "link.html").is_symlink()


def test_no_page_is_left_of_a_failure(shell: Cli, write: Write, folder: Path) -> None:
    shell.service.faults.add(Fault("status", status=403, path="*/documents", times=None))
    assert write("page.html").status == 4
    assert contents(folder) == {}
