"""``income-client application``: what is shown of an application, and of nobody unasked."""

import json
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from income_client import ApplicationRecord, IncomeClient, to_json
from income_client.testing import IncomeService, LoopRunner
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
    four_applicants,
    one_year,
    paystub,
    source,
    suspicious,
    twelve_years,
    unfinished_year,
    w2,
    without_documents,
)
from tests.support.cli import Cli
from tests.support.looking import SHOW_ALL, Look

BAR: Final = re.compile(r"[ █▏▎▍▌▋▊▉]+")
one: Final = pytest.mark.income_service(applications=1)


@pytest.fixture
def look(service_cli: Cli, income_service: IncomeService) -> Look:
    """Looks at applications that a test has made up."""
    return Look(service_cli, income_service)


@pytest.fixture
def record(
    income_client: IncomeClient, income_run: LoopRunner, income_service: IncomeService
) -> ApplicationRecord:
    """The first application, as a client reads it."""
    (read,) = income_run(income_client.fetch_records(income_service.ids[:1]))
    assert isinstance(read, ApplicationRecord)
    return read


def personal(record: ApplicationRecord) -> set[str]:
    """Return texts that tell who the first applicant is."""
    person = record.application.applicants["applicant1"]
    home = person.address_info[0].address
    return {person.first_name, person.last_name, person.email, person.phone, home.street_address}


def flat(line: str) -> str:
    """Return a line without its bars."""
    return BAR.sub(" ", line).strip()


# Who the borrowers are


@one
def test_income_is_shown_and_nobody(service_cli: Cli, record: ApplicationRecord) -> None:
    """Unasked, income and documents are shown, and nothing that tells whose they are."""
    ran = service_cli("application", record.application_id)
    assert (ran.status, ran.stderr) == (0, "")
    assert record.application_id in ran.stdout
    assert "Applicant 1  ••••••••" in ran.stdout
    assert not any(text in ran.stdout for text in personal(record))
    assert record.documents is not None
    assert all(entry.document.document_id in ran.stdout for entry in record.documents.all())
    shown = service_cli("application", record.application_id, SHOW_ALL).stdout
    assert all(text in shown for text in personal(record))


@given(payloads=ANY, words=WORDS)
def test_nothing_personal_is_shown(payloads: Payloads, words: list[str], look: Look) -> None:
    """No letter of a name, number, address, employer, file's name or unknown field is shown."""
    hidden = disguised(payloads, words)
    shown = look(hidden) + look.page(hidden)
    assert not set(shown) & set(LETTERS)
    assert BORN not in shown


def test_the_length_of_a_name_is_not_shown(look: Look) -> None:
    """The dots are as many for everybody."""
    longer = suspicious()
    longer.application["applicants"]["applicant1"] |= {"first_name": "A" * 30, "ssn": "9" * 30}
    assert look(longer) == look(suspicious())


@pytest.mark.parametrize(
    "name", ["John Smith", "Smith", "JOHN", "john smith", "Ada-Sample", "a__b"]
)
def test_a_name_in_a_place_of_kinds_is_hidden(name: str, look: Look) -> None:
    """Kinds, types, frequencies and slots that are not written like the contract's are hidden."""
    stub = paystub(1, pay_period_frequency=name)
    odd = application_of({name: calculation({2023: [source(name, 1, "doc-1")]})}, stubs=(stub,))
    odd.documents["documents"][name] = [w2(2)]
    for hidden in (look(odd), look.page(odd)):
        assert name not in hidden
        assert name.replace("_", " ") not in hidden
        assert "Applicant 1" in hidden
        assert "D2 other" in hidden
        assert "other frequency" in hidden
    assert name.replace("_", " ") in look(odd, SHOW_ALL)


def test_personal_data_is_shown_where_that_is_asked_for(look: Look) -> None:
    """Names, numbers, addresses, employers and file names are there, and only then."""
    personal_texts = (
        "Ada Sample", "000-11-2222", "ada@example.org", "5550100", "1 Invented Way", "1980-02-29",
        "Invented Works",
    )  # fmt: skip
    shown, hidden = look(suspicious(), SHOW_ALL, width=120), look(suspicious(), width=120)
    assert all(text in shown for text in personal_texts)
    for text in (*personal_texts, "Ada", "Sample", "2222", "Invented", "ada-sample-paystub.pdf"):
        assert text not in hidden
    assert "ada-sample-paystub.pdf" in look.page(suspicious(), SHOW_ALL)
    for text in ("self employment", "D3 w2", "biweekly", "Reference loan-1"):
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
def test_amounts_are_exact_and_add_up(look: Look, years: dict[int, list[Decimal]]) -> None:
    """Every amount is shown with all its digits, and every year with the sum of its own."""
    sources = {
        year: [source("pension", str(each)) for each in amounts] for year, amounts in years.items()
    }
    text = look.plain(application_of({"applicant1": calculation(sources)}), width=120)
    for amounts in years.values():
        assert all(re.search(rf" {figure(each)}\b", text) for each in amounts)
        assert re.search(rf"total +{figure(sum(amounts, Decimal(0)))} *\n", text)


def figure(amount: Decimal) -> str:
    """Return an amount as people write it."""
    return f"{amount + 0:,.2f}"


def test_amounts_of_any_form_are_written_alike(look: Look) -> None:
    """Thousands are grouped, there are two decimals at least, and no digit is lost silently."""
    amounts = {
        "0": "0.00",
        "-0": "0.00",
        "1E+3": "1,000.00",
        "1234567.5": "1,234,567.50",
        "-4321.09": "-4,321.09",
        "0.123": "0.123",
        "52000.100": "52,000.10",
        "999999999999999": "999,999,999,999,999.00",
        "1E-30": "about 1.000000e-30",
    }
    sources = [source(f"kind_{place}", each) for place, each in enumerate(amounts)]
    lines = [flat(line) for line in look.plain(one_year(*sources), width=120).splitlines()]
    for place, text in enumerate(amounts.values()):
        assert any(re.search(rf"\bkind {place} {text} no document", line) for line in lines), text


def test_short_amounts_of_the_chart_have_two_digits_or_so(look: Look) -> None:
    """Where many years leave little room, amounts are rounded with a letter."""
    totals = ("0", "950.4", "1234", "81234.5", "-4321.09", "1234567", "999000000000", "1E+14")
    years = {2000 + place: [source("wages", each)] for place, each in enumerate(totals)}
    page = look.page(application_of({"applicant1": calculation(years)}))
    columns = re.findall(r'<div class="top">([^<]*)</div>', page)
    assert sorted(columns) == sorted(["0", "950", "1.2k", "81k", "-4.3k", "1.2M", "999B", "1e+14"])


def test_it_says_what_there_is(look: Look) -> None:
    """Years, sources, amounts, documents and totals are in one line each."""
    lines = look(suspicious()).splitlines()
    assert lines[0] == "Application app-1"
    assert lines[1] == "Reference loan-1  applied 2024-01-05  updated 2024-01-31 10:00 UTC"
    assert "Applicant 1  ••••••••" in lines
    rows = [flat(line) for line in lines]
    assert "2026 employment 41,234.50 D1 paystub" in rows
    assert "self employment 12,000.00 doc-nowhere (missing)" in rows
    assert "pension 3,000.25 no document" in rows
    assert "total 56,234.75" in rows
    assert "total 86,000.50" in rows


def test_years_come_once_and_the_latest_first(look: Look) -> None:
    """A year that the service gives twice is one year."""
    made = application_of(
        {
            "applicant1": {
                "incomes": [
                    {"year": 2020, "income_sources": [source("a", 1)]},
                    {"year": 2022, "income_sources": [source("a", 2)]},
                    {"year": 2020, "income_sources": [source("b", 3)]},
                ],
                "suspected_fraudulent": {"document_ids": []},
            }
        }
    )
    text = look(made)
    assert re.findall(r"^20\d\d", text, re.MULTILINE) == ["2022", "2020"]
    assert flat(next(line for line in text.splitlines() if "total" in line)) == "total 4.00"


def test_applicants_without_a_calculation_are_shown(look: Look) -> None:
    """All of them are there, with income or without."""
    text = look(four_applicants())
    headings = re.findall(r"^Applicant \d", text, re.MULTILINE)
    assert headings == [f"Applicant {n}" for n in range(1, 5)]
    assert "No income" in text[text.index("Applicant 4") :]
    assert "no document" in look(without_documents())


@given(payloads=ANY)
def test_every_document_is_listed_in_the_services_order(payloads: Payloads, look: Look) -> None:
    """Each has its mark once, and those that are suspected have a sign."""
    documents = payloads.documents["documents"]
    every = [(kind, each["document_id"]) for kind in documents for each in documents[kind]]
    suspected = {
        name
        for each in payloads.application["income_calculations"].values()
        for name in each["suspected_fraudulent"]["document_ids"]
    }
    text = look.plain(payloads, width=120)
    listed = text[re.search(r"^Documents$", text, re.MULTILINE).end() :]  # type: ignore[union-attr]
    marks = re.findall(r"^(! )?(D\d+) ", listed, re.MULTILINE)
    assert [mark for _, mark in marks] == [f"D{place}" for place, _ in enumerate(every, 1)]
    assert [bool(sign) for sign, _ in marks] == [name in suspected for _, name in every]


def test_a_doubt_is_said_and_not_only_coloured(look: Look) -> None:
    """What is suspected is red where there are colours, and has words and a sign everywhere."""
    plain = look(suspicious())
    assert "! Suspected fraudulent: D2 paystub, doc-2. It supports 41,234.50" in plain
    assert "! D2 paystub, suspected" in plain
    assert "suspected fraudulent, doc-2" in plain
    coloured = look(suspicious(), width=80)
    red = re.findall(r"\x1b\[1;31m([^\x1b]*)", coloured)
    assert any("D2 paystub, suspected" in each for each in red)
    assert any("41,234.50" in each for each in red)
    assert not any(word in each for each in red for word in ("D1 paystub", "D3 w2", "12,000.00"))
    without = look(suspicious(), width=80, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", without)
    assert "! D2 paystub, suspected" in re.sub(r"\x1b\[[0-9;]*m", "", without)


def test_a_doubt_of_one_applicant_holds_for_all(look: Look) -> None:
    """A document is suspected wherever it is named, and a sum over applicants says so itself."""
    years = {2023: [source("employment", 5, "doc-1")]}
    calculations = {"applicant1": calculation(years), "applicant2": calculation({}, "doc-1")}
    text = look.plain(application_of(calculations, stubs=(paystub(1),)), width=120)
    assert "! D1 paystub, suspected" in text
    together = text[text.index("All applicants together") :].splitlines()
    assert " ".join(" ".join(together[2:4]).split()).endswith("total 5.00 ! suspected document")
    elsewhere = look(application_of(calculations))
    assert "doc-1, which is not among the documents" in " ".join(elsewhere.split())


def test_an_unfinished_year_is_said_to_be_one(look: Look) -> None:
    """Below the year of the last update it says so far."""
    text = look.plain(unfinished_year(), width=40)
    assert re.search("^2024 +employment.*\nso far ", text, re.MULTILINE)
    assert text.count("so far") == 1


def test_unknown_fields_are_counted_at_every_depth(look: Look) -> None:
    """One in the application, one in an applicant, one in a document and one in its paystub."""

    def count(payloads: Payloads) -> int:
        found = re.search(r"(\d+) further field", look(payloads))
        return int(found[1]) if found else 0

    made = suspicious()
    before = count(made)
    made.application["new"] = {"a": 1, "b": 2}
    made.application["applicants"]["applicant1"]["new"] = 1
    stub = made.documents["documents"]["paystub"][0]
    stub["new"] = stub["extracted_data"]["new"] = 1
    assert count(made) == before + 4


def test_data_of_unknown_shape_is_counted(look: Look) -> None:
    """Of a document without a known shape, only the number of its fields is shown."""
    text = look(application_of({}, w2s=(w2(1),)), SHOW_ALL)
    assert "fields read 2" in text
    assert "51234" not in text


# Layout


@given(payloads=ANY, width=st.integers(40, 160), arguments=st.sampled_from([(), (SHOW_ALL,)]))
def test_no_line_is_wider_than_the_terminal(
    payloads: Payloads, width: int, arguments: tuple[str, ...], look: Look
) -> None:
    """Whatever the service says, the terminal breaks no line."""
    text = look.plain(payloads, *arguments, width=width)
    assert all(cell_len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("name", CASES)
def test_special_applications_fit(name: str, width: int, look: Look) -> None:
    """Long words are folded, not cut, amounts are whole, and nothing acts on the terminal."""
    made = CASES[name]()
    text = look.plain(made, SHOW_ALL, width=width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert not any(letter in text for letter in "\x1b\u2026\u202e")
    for each in made.application["income_calculations"].values():
        for income in each["incomes"]:
            for one_source in income["income_sources"]:
                assert figure(Decimal(str(one_source["calculated_income_amount"]))) in text


def test_bars_of_all_applicants_have_one_scale(look: Look) -> None:
    """The longest bar belongs to the largest amount, and lengths are in proportion."""
    lines = look.plain(four_applicants(), width=120).splitlines()
    bars = [line.count("█") for line in lines if "2026" in line and " D" in line]
    assert bars == [pytest.approx(bars[2] * share / 3, abs=1) for share in (1, 2, 3)]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_longest_bar_fills_its_column(width: int, look: Look) -> None:
    """The largest source has it: a sum has no bar, and is no measure of one."""
    assert re.search(r" █+  80,000\.00", look.plain(suspicious(), width=width))


def test_amounts_below_zero_have_no_bar(look: Look) -> None:
    """What was lost is shown with its sign, and drawn as nothing."""
    (line,) = (line for line in look(twelve_years()).splitlines() if "rental" in line)
    assert "-4,321.09" in line
    assert not set(line) & set("█▏▎▍▌▋▊▉")


def test_ascii_is_enough(look: Look) -> None:
    """Where the output is ASCII, stars hide names, number signs are bars, letters are replaced."""
    text = look(suspicious(), PYTHONIOENCODING="ascii")
    assert text.isascii()
    assert "Applicant 1  ********" in text
    assert "####" in text
    assert "====" in text
    assert "?" not in text
    assert look(CASES["long words"](), SHOW_ALL, PYTHONIOENCODING="ascii").isascii()


def test_documents_lie_on_a_time_line(look: Look) -> None:
    """Pay periods are filled, years double lines, below days that are evenly named."""
    lines = look(suspicious()).splitlines()
    after = lines[lines.index("Documents") :]
    assert after[3].split() == ["2025-01", "2025-04", "2025-07", "2025-10", "2026-01"]
    (stub,) = (line for line in after if line.startswith("D1 paystub"))
    (form,) = (line for line in after if line.startswith("D3 w2"))
    start = stub.index("·")
    assert stub.rstrip().endswith("2026-02-01 to 2026-02-14")
    assert form.rstrip().endswith("supports 2025")
    assert form[start] == "═"
    # February comes after the end of 2025.
    assert stub.index("█") > form.rindex("═")


@pytest.mark.parametrize(
    ("days", "ticks"),
    [
        (("2026-01-05", "2026-03-20"), ["2026-01", "2026-02", "2026-03"]),
        (
            ("2025-01-05", "2026-03-20"),
            ["2025-01", "2025-04", "2025-07", "2025-10", "2026-01"],
        ),
        (("2015-02-05", "2026-03-20"), ["2016", "2018", "2020", "2022", "2024"]),
    ],
    ids=["months", "quarters", "years"],
)
def test_days_are_named_by_months_quarters_or_years(
    days: tuple[str, str], ticks: list[str], look: Look
) -> None:
    """Whichever fit on the line."""
    assert ticks_in(look.plain(_paid_on(*days), width=160)) == ticks


@given(st.lists(st.dates(), min_size=1, max_size=3))
def test_few_days_are_named_and_in_order(look: Look, days: list[Any]) -> None:
    """No span of time, from a day to all there is, has more than fit on the line."""
    ticks = ticks_in(look.plain(_paid_on(*map(str, days)), width=160))
    assert len(ticks) <= 7
    assert ticks == sorted(set(ticks))


def ticks_in(text: str) -> list[str]:
    """Return the days that the time line names."""
    lines = text.splitlines()
    return lines[lines.index("Documents") + 3].split()


def _paid_on(*days: str) -> Payloads:
    stubs = tuple(
        paystub(number, pay_begin_date=day, pay_end_date=day, pay_date=day)
        for number, day in enumerate(days)
    )
    return application_of({}, stubs=stubs)


def test_a_pay_period_that_is_upside_down_is_turned(look: Look) -> None:
    """A period always begins before it ends."""
    stub = paystub(1, pay_begin_date="2026-02-20", pay_end_date="2026-02-01")
    assert "2026-02-01 to 2026-02-20" in look(application_of({}, stubs=(stub,)))


# Size


def many_kinds(count: int) -> Payloads:
    """Return an application with as many kinds of source in one year."""
    return one_year(*(source(f"kind_{number}", number + 1) for number in range(count)))


def many_applicants(count: int) -> Payloads:
    """Return an application with as many applicants, each with income in a year of its own."""
    return application_of(
        {
            f"anybody {number}": calculation({number: [source("employment", number + 1)]})
            for number in range(count)
        }
    )


def many_years(count: int) -> Payloads:
    """Return an application of one applicant with as many years."""
    years = {year: [source("employment", year + 1)] for year in range(count)}
    return application_of({"applicant1": calculation(years)})


def calls_of(work: Callable[[], object]) -> int:
    """Return how many calls of functions, ours and others, some work takes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("many", [many_kinds, many_applicants, many_years])
def test_twice_as_much_is_twice_the_work(many: Callable[[int], Payloads], look: Look) -> None:
    """Nothing is gone through again for each kind, applicant or year."""
    look.page(many(10))
    once, twice = many(40), many(80)
    assert calls_of(lambda: look.page(twice)) < 2.3 * calls_of(lambda: look.page(once))
    assert calls_of(lambda: look(twice)) < 2.3 * calls_of(lambda: look(once))


# JSON and misuse


@one
def test_json_is_the_services_own(service_cli: Cli, record: ApplicationRecord) -> None:
    """All of the record is there but the addresses of files, unless these are asked for."""
    command = ("application", record.application_id, "-o", "json", SHOW_ALL)
    bare, whole = service_cli(*command), service_cli(*command, "--addresses")
    shown, expected = json.loads(bare.stdout), json.loads(to_json(record))
    assert shown["application"] == expected["application"]
    addresses = [
        [
            document.pop("url")
            for kind in each["documents"]["documents"].values()
            for document in kind
        ]
        for each in (shown, json.loads(whole.stdout), expected)
    ]
    assert set(addresses[0]) == {""}
    assert all(address.startswith("http") for address in addresses[1])
    assert shown == expected


@one
def test_json_on_a_page_is_misuse(service_cli: Cli, income_service: IncomeService) -> None:
    """It is said before anything is sent."""
    both = ("--output", "json", "--html", "x")
    ran = service_cli("application", income_service.ids[0], *both)
    assert (ran.status, ran.stdout) == (2, "")
    assert "--output json" in ran.stderr
    assert len(income_service.requests) == 0


@one
def test_an_unknown_application_is_a_failure(service_cli: Cli) -> None:
    """An unknown id is one line on standard error."""
    ran = service_cli("application", "app-nobody")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
