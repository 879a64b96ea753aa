"""``income-client application``: what is shown of an application, and what is hidden."""

import cProfile
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.cli.application_payloads import (
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
    form,
    four_applicants,
    one_year,
    paystub,
    source,
    suspicious,
    twelve_years,
    unfinished_year,
    unstyled,
    without_documents,
)
from tests.support.cli import Cli, few_runs

BAR: Final = re.compile(r"[ █▏▎▍▌▋▊▉]+")
BRANCHES: Final = re.compile(r"^[│├└─ ]+")


@pytest.fixture
def look(shell: Cli) -> Look:
    """Looks at applications that a test has made up."""
    return Look(shell)


def test_the_command_shows_what_is_drawn(look: Look) -> None:
    """Tests of any application are about the drawing, without the command."""
    for made, arguments in ((suspicious(), ()), (four_applicants(), (SHOW_ALL,))):
        lines = draw(made, *arguments, width=100).splitlines()
        on_terminal = unstyled(look(made, *arguments, width=100)).splitlines()
        assert [line.rstrip() for line in on_terminal] == lines
        assert look(made, *arguments).splitlines() == lines


def flat(line: str) -> str:
    """Return a line without bars and branches."""
    return BAR.sub(" ", BRANCHES.sub("", line)).strip()


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
    assert not set(drawn) & set(LETTERS)
    assert BORN not in drawn
    # How long a word is cannot be seen either.
    assert draw(disguised(payloads, [word * 3 for word in words])) == drawn


@pytest.mark.parametrize("name", ["JOHN", "john smith", "Ada-Sample", "a__b"])
def test_a_name_in_a_place_of_kinds_is_hidden(name: str) -> None:
    """Kinds, types, frequencies and slots that are not written like the contract's are hidden."""
    stub = paystub(1, pay_period_frequency=name)
    odd = application_of({name: calculation({2023: [source(name, 1, "doc-1")]})}, stubs=(stub,))
    odd.documents["documents"][name] = [form(2)]
    hidden = draw(odd)
    assert not any(text in hidden for text in (name, name.replace("_", " ")))
    for text in ("applicant 1", "D2 other", "other  "):
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
    "first name Ada", "last name Sample", "000112222", "ada@example.org", "5550100",
    "1 Invented Way", "1980-02-29", "Invented Works", "ada-sample-paystub.pdf",
)  # fmt: skip
SUSPICIOUS: Final = """\
Application app-1
reference loan-1, applied 2024-01-05, updated 2024-01-31 10:00 UTC
Personal data is hidden; --show-personal-data shows it.
! suspected fraudulent: D2 paystub doc-2
applicant1
2026 56,234.75
employment 41,234.50
D1 paystub, ! D2 paystub (suspected)
self employment 12,000.00
doc-nowhere (missing)
pension 3,000.25
no document
2025 86,000.50
employment 80,000.00
D3 unknown form
pension 6,000.50
D3 unknown form
documents
D1 paystub doc-1: 2026-02-01 to 2026-02-14, pay date 2026-02-19, gross pay: current
1,734.50, ytd 1,734.50, net pay: current 1,301.07, ytd 1,301.07
! D2 paystub doc-2: suspected fraudulent, 2026-03-01 to 2026-03-14, pay date 2026-03-19,
gross pay: current 1,734.50, ytd 1,734.50, net pay: current 1,301.07, ytd 1,301.07
D3 unknown form doc-3: supports 2025, 2 fields read
Calculated from 1 file and 1 other input."""
DRAWN: Final[list[tuple[Payloads, tuple[str, ...], tuple[str, ...]]]] = [
    (suspicious(), (), (SUSPICIOUS,)),
    (suspicious(), (SHOW_ALL,), PERSONAL),
    (four_applicants(), (), ("\napplicant3\n", "\napplicant4\nNo income", "2026 120,000.00")),
    (without_documents(), (), ("no document\n", "\nno documents\n")),
    (twelve_years(), (), ("\nrental -4,321.09\n",)),
    (unfinished_year(), (), ("\n2024 so far 1,000.00\n", "\n2023 12,000.00\n")),
    (TWICE_2025, (), (
        "\n2025 2.00\na 2.00\nno document\n2025 3.00\nb 3.00\n", "\n2023 1.00\na 1.00\n",
    )),
    (application_of(OF_TWO, stubs=(paystub(1),)), (), (
        "\napplicant7\n", "! D1 paystub (suspected)",
        "\nall applicants\n2025 5.00 ! suspected document\n2023 7.00\n",
    )),
    (application_of(OF_TWO), (), (": doc-1, which is not among the documents\n",)),
    (application_of({}, stubs=(TURNED,)), (), ("2026-02-01 to 2026-02-20,",)),
    (application_of({}, stubs=(paystub(1), paystub(1))), (), ("\nD1 paystub d", "\nD2 paystub d")),
    (application_of({}, forms=(form(1),)), (SHOW_ALL,), ("2 fields read",)),
]  # fmt: skip
"""Applications, arguments, and parts of the drawing without bars and branches."""


@pytest.mark.parametrize(("made", "arguments", "drawn"), DRAWN)
def test_it_says_what_there_is(
    made: Payloads, arguments: tuple[str, ...], drawn: tuple[str, ...]
) -> None:
    text = "\n".join(map(flat, draw(made, *arguments).splitlines()))
    assert [words for words in drawn if words not in text] == []
    if not arguments:
        assert not any(words in text for words in PERSONAL)


def test_bars_of_all_applicants_have_one_scale() -> None:
    text = draw(four_applicants())
    assert re.search(r" █{40}  60,000\.00", text)
    bars = [line.count("█") for line in text.splitlines() if "█" in line]
    assert bars == [pytest.approx(bars[2] * share / 3, abs=1) for share in (1, 2, 3)]
    # What was lost has none.
    (lost,) = (line for line in draw(twelve_years()).splitlines() if "rental" in line)
    assert not set(lost) & set("█▏▎▍▌▋▊▉")


def test_a_doubt_is_red(look: Look) -> None:
    red = re.findall(r"\x1b\[1;31m([^\x1b]*)", look(suspicious(), width=80))
    marked = {
        "! suspected fraudulent: D2 paystub doc-2", "employment", "41,234.50",
        "! D2 paystub (suspected)", "! D2 paystub doc-2: suspected fraudulent",
    }  # fmt: skip
    assert marked <= {each.strip() for each in red}
    for words in ("D1 paystub", "D3 unknown form", "12,000.00"):
        assert not any(words in each for each in red)
    bars = re.findall(r"\x1b\[(\d+)[\d;]*m█+", look(suspicious(), width=80))
    assert (bars.count("31"), bars.count("36")) == (1, 4)


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
        assert f"kind {place} {text}" in lines


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


@pytest.mark.parametrize("width", [60, 80, 120])
def test_hostile_text_is_shown_as_text(width: int) -> None:
    """Neither markup of Rich or HTML nor an escape sequence has an effect."""
    hostile = "[red]a[/red] [/] <b>b</b> {c} \\[d] \x1b[31me\x07\u202e"
    made = one_year(source(hostile, 1, hostile), suspected=(hostile,))
    text = draw(made, SHOW_ALL, width=width)
    words = " ".join(" ".join(map(flat, text.splitlines())).split())
    assert words.count("[red]a[/red] [/] <b>b</b> {c} \\[d] ?[31me??") == 2
    # The name of a source is folded beside its bar.
    assert words.count("[red]a[/red] [/]") == 3
    assert not any(each in text for each in "\x1b\x07\u202e")


def test_ascii_is_enough(look: Look) -> None:
    text = look(suspicious(), PYTHONIOENCODING="ascii")
    assert text.isascii()
    assert "+-- applicant1" in text
    assert "####" in text
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
    """The record is not searched again for each kind, applicant or year."""

    def calls(count: int) -> int:
        sources = [source(f"kind_{number}", number + 1) for number in range(count)]
        each_his_own = {f"one {n}": calculation({n: [each]}) for n, each in enumerate(sources)}
        made = one_year(*sources) if of_one else application_of(each_his_own)
        return calls_of(partial(draw, made))

    calls(10)
    assert calls(60) < 2.3 * calls(30)
