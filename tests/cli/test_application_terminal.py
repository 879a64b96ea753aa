"""An application on terminals of any width, colour and encoding."""

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from income_client import ApplicationRecord
from income_client.cli.looking.amounts import amount_text
from income_client.cli.looking.reading import view_of
from tests.cli.application_records import (
    CASES,
    RECORDS,
    calculation,
    going_on,
    printed,
    record,
    source,
    suspicious,
    twelve_years,
)

_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m")


@given(RECORDS, st.integers(40, 160), st.booleans())
def test_no_line_is_wider_than_the_terminal(
    record: ApplicationRecord,
    width: int,
    shows_all: bool,
) -> None:
    """Whatever the service says, nothing is broken by the terminal, and all amounts are whole."""
    view = view_of(record, show_personal_data=shows_all)
    text = printed(view, width=width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    for person in view.applicants:
        for year in person.years:
            assert re.search(rf"^{year.year}\b", text, re.MULTILINE)
            assert amount_text(year.total) in text
            assert all(amount_text(source.amount) in text for source in year.sources)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_special_records_fit(name: str, width: int) -> None:
    """Long words are folded, amounts are whole, and nothing acts on the terminal."""
    view = view_of(CASES[name](), show_personal_data=True)
    text = printed(view, width=width)
    for person in view.applicants:
        assert all(amount_text(year.total) in text for year in person.years)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "\x1b" not in text
    assert "\u2026" not in text
    assert "\u202e" not in text


def test_it_says_what_there_is() -> None:
    """Years, sources, amounts, documents and totals stand in one line each."""
    lines = printed(view_of(suspicious())).splitlines()
    assert lines[0] == "Application app-1"
    assert lines[1] == "Reference loan-1  applied 2024-01-05  updated 2024-01-31 10:00 UTC"
    assert "Applicant 1  ••••••••" in lines
    flat = [re.sub(r"[ █▏▎▍▌▋▊▉]+", " ", line).strip() for line in lines]
    assert "2026 employment 41,234.50 D1 paystub" in flat
    assert "self employment 12,000.00 doc-nowhere (missing)" in flat
    assert "pension 3,000.25 no document" in flat
    assert "total 56,234.75" in flat
    assert "total 86,000.50" in flat


def test_a_doubt_is_said_and_not_only_coloured() -> None:
    """What is suspected is red where there are colours, and has words and a sign everywhere."""
    view = view_of(suspicious())
    plain = printed(view)
    assert "! Suspected fraudulent: D2 paystub, doc-2. It supports 41,234.50" in plain
    assert "! D2 paystub, suspected" in plain
    assert "suspected fraudulent, doc-2" in plain
    coloured = printed(view, force_terminal=True, color_system="truecolor")
    red = re.findall(r"\x1b\[1;31m([^\x1b]*)", coloured)
    assert any("D2 paystub, suspected" in each for each in red)
    assert any("41,234.50" in each for each in red)
    assert not any("D1 paystub" in each or "D3 w2" in each for each in red)


def test_bars_of_all_applicants_have_one_scale() -> None:
    """The longest bar belongs to the largest amount, and lengths are in proportion."""
    lines = printed(view_of(CASES["four applicants"]()), width=120).splitlines()
    bars = [line.count("█") for line in lines if line.startswith("2026") and "D" in line]
    assert bars == [pytest.approx(bars[2] * share / 3, abs=1) for share in (1, 2, 3)]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_longest_bar_fills_its_column(width: int) -> None:
    """The largest source has it: a sum has no bar, and is no measure of one."""
    text = printed(view_of(suspicious()), width=width)
    assert re.search(r" █+  80,000\.00", text)


def test_a_year_that_goes_on_is_said_to() -> None:
    """Beside the year or below it, as there is room."""
    wide = printed(view_of(going_on()), width=120)
    assert re.search("^2024 so far  employment", wide, re.MULTILINE)
    narrow = printed(view_of(going_on()), width=40)
    assert re.search("^2024 +employment.*\nso far ", narrow, re.MULTILINE)
    assert wide.count("so far") == narrow.count("so far") == 1


def test_all_applicants_together_carry_a_doubt() -> None:
    """A sum over them has no document beside it, so it says itself what it rests on."""
    years = {2026: [source("employment", 5, "doc-1")]}
    view = view_of(record({"applicant1": calculation(years), "b": calculation({}, "doc-1")}))
    text = printed(view, width=120)
    together = text[text.index("All applicants together") :].splitlines()
    assert " ".join(" ".join(together[2:4]).split()) == "2026 total 5.00 ! suspected document"


def test_amounts_below_zero_have_no_bar() -> None:
    """What was lost is said, with its sign, and drawn as nothing."""
    text = printed(view_of(twelve_years()))
    (line,) = (line for line in text.splitlines() if "rental" in line)
    assert "-4,321.09" in line
    assert not set(line) & set("█▏▎▍▌▋▊▉")


def test_ascii_is_enough() -> None:
    """Where the output's encoding knows ASCII only, stars hide names and number signs are bars."""
    text = printed(view_of(suspicious()), encoding="ascii")
    assert text.isascii()
    assert "Applicant 1  ********" in text
    assert "####" in text
    assert "====" in text
    assert "?" not in text


def test_letters_that_the_output_cannot_write_are_replaced() -> None:
    """A name with other letters ends nothing."""
    assert printed(view_of(CASES["long words"](), show_personal_data=True), encoding="ascii")


def test_without_colours_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR leaves weight and words."""
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(view_of(suspicious()), force_terminal=True)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", text)
    assert "! D2 paystub, suspected" in _ESCAPE.sub("", text)


def test_documents_lie_on_a_time_line() -> None:
    """Pay periods are filled, years double lines, below days that are evenly named."""
    lines = printed(view_of(suspicious())).splitlines()
    after = lines[lines.index("Documents") :]
    assert after[2] == "█ pay period  ═ year that it supports"
    assert after[3].split() == ["2025-01", "2025-07", "2026-01"]
    (stub,) = (line for line in after if line.startswith("D1 paystub"))
    (form,) = (line for line in after if line.startswith("D3 w2"))
    start = stub.index("·")
    assert stub.rstrip().endswith("2026-02-01 to 2026-02-14")
    assert form.rstrip().endswith("supports 2025")
    assert form[start] == "═"
    # February comes after the end of 2025.
    assert stub.index("█") > form.rindex("═")
