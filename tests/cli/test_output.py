"""Output: rows as a table, CSV and JSON; replies; messages beside it; who may be named in it."""

import csv
import io
import json
import logging
import os
import re
import socket
import unicodedata
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from income_client import DeadLetter, SQLiteCheckpointStore
from income_client.cli.rows import csv_line
from income_client.emulator import Fault
from income_client.testing import LoopRunner
from tests.cli.commands import LETTER as GONE
from tests.cli.commands import Form
from tests.support.cli import Cli, Running, few_runs
from tests.support.emulated import parsed, served, without_addresses
from tests.support.processes import Terminal, is_drawn_over

pytestmark = pytest.mark.income_service(applications=6)
HARMFUL: Final = "\x1b[2J\x07\x7f\x9b31m\u2028\u202e\u2066\r\n\U0001f600 Zoë, 東京 [red]"
SHOWN: Final = "?[2J???31m?????\U0001f600 Zoë, 東京 [red]"
LETTER: Final = evolve(
    GONE,
    first_tried_at=datetime(2026, 1, 31),  # noqa: DTZ001 - the service's times carry no zone
    last_tried_at=datetime(2026, 1, 31, 12, 0, 5),  # noqa: DTZ001 - as above
)
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_IDS: Final = st.text(st.characters(categories=["L", "N", "P"]), min_size=1)
_TEXTS: Final = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


Listed = Callable[..., str]


@pytest.fixture
def listed(cli: Cli, income_run: LoopRunner) -> Listed:
    """Returns what ``dead-letters`` prints of some, on a terminal of a width or in a pipe."""

    def run(
        *letters: DeadLetter, output: str | None = None, width: int | None = None, **env: str
    ) -> str:
        store = cli.folder / "polls.db"
        store.unlink(missing_ok=True)
        income_run(
            SQLiteCheckpointStore(store).save("default", "", version=0, dead_letters=letters)
        )
        terminal = None if width is None else Terminal(columns=width)
        form = () if output is None else ("-o", output)
        ran = cli("dead-letters", "--store", str(store), *form, terminal=terminal, env=env)
        assert ran.status == 0, ran
        return ran.stdout + ran.screen.replace("\r\n", "\n")

    return run


def named(*application_ids: str) -> list[DeadLetter]:
    """Return dead letters of applications."""
    return [evolve(LETTER, application_id=one) for one in application_ids]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_json_is_one_array(count: int, listed: Listed) -> None:
    ids = [*map(str, range(count))]
    for width in (None, 80) if ids else (None,):
        text = listed(*named(*ids), output="json", width=width)
        assert [row["application_id"] for row in json.loads(text)] == ids
        assert ('\n  {\n    "application_id": "0",\n' in text) is bool(width)


@pytest.mark.income_service(applications=1500)
@pytest.mark.parametrize("pages", [0, 1, 2])
def test_an_incomplete_array_is_left_open(pages: int, shell: Cli) -> None:
    """The array of an incomplete read stays open, so that no program takes it for all rows."""
    shell.service.faults.add(f"list_applications: ok x{pages}, 403" if pages else "any: 403")
    ran = shell("applications", "-o", "json")
    assert ran.status == 4
    assert ran.stdout.startswith("[")
    with pytest.raises(ValueError, match=r"[Ee]xpecting"):
        json.loads(ran.stdout)


def test_no_cell_of_csv_is_a_formula(listed: Listed) -> None:
    """A cell that a spreadsheet would calculate is marked, also behind a semicolon.

    Numbers, times and empty cells are written as they are.
    """
    header, row = listed(evolve(LETTER, reason="=1+1"), output="csv").splitlines()
    assert header == '"subject","attempts","first_tried_at","last_tried_at","next_try_at","reason"'
    times = '"2026-01-31T00:00:00","2026-01-31T12:00:05","2026-01-31T12:01:05"'
    assert row == f'"app-1","1",{times},"\'=1+1"'
    for value, cell in (
        ("+1", "'+1"), ("-1", "'-1"), ("@x", "'@x"), ("\t=1", "?=1"), ("\uff1d1", "'\uff1d1"),
        ("a,b", "a,b"), ('a"b', 'a""b'), ("a\nb", "a?b"), ("a;=1+1", "a;'=1+1"),
        ('a; "=1', 'a; ""\'=1'), ("a;b-1", "a;b-1"), ("'=1", "''=1"), ("'a", "'a"),
    ):  # fmt: skip
        assert csv_line([value]).decode() == f'"{cell}"'


@few_runs
@given(text=_TEXTS)
def test_a_row_of_csv_is_one_harmless_line(text: str) -> None:
    assert csv_line([text, 1, text], is_terminal=True).decode().isprintable()
    row = csv_line([text, 1, text]).decode()
    assert not any(unicodedata.category(char) == "Cc" for char in row)
    assert len(next(csv.reader(io.StringIO(row)))) == 3
    for delimiter in ",;\t":
        (cells,) = csv.reader(io.StringIO(row), delimiter=delimiter)
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


@few_runs
@given(reason=_TEXTS)
def test_a_line_of_json_says_the_same_and_does_nothing(reason: str, listed: Listed) -> None:
    line = listed(evolve(LETTER, reason=reason))
    assert line.removesuffix("\n").isprintable()
    assert json.loads(line)["reason"] == reason


@few_runs
@given(
    ids=st.lists(_IDS, min_size=1, max_size=3, unique=True),
    reason=_TEXTS,
    width=st.integers(40, 120),
)
def test_a_table_fits_and_loses_nothing(
    ids: list[str], reason: str, width: int, listed: Listed
) -> None:
    letters = [evolve(one, reason=reason) for one in named(*ids)]
    lines = _STYLE.sub("", listed(*letters, output="table", width=width)).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    shown = Counter("".join(lines))
    for text in (reason, *ids):
        assert not Counter(one for one in text if one.isprintable() and one != " ") - shown


def test_ids_stay_whole_where_a_table_has_no_room(listed: Listed) -> None:
    """Optional columns are left out, prose is broken between words, a time before its hour."""
    one = "app-" + "0" * 20
    (letter,) = named(one)
    letter = evolve(letter, attempts=12, reason="404 Not Found: the application was removed")
    head, *rows = listed(letter, output="table", width=60, NO_COLOR="1").splitlines()
    assert _STYLE.sub("", head).split() == ["What", "Tries", "Next", "try", "Reason"]
    assert rows[0].split()[:3] == [one, "12", "2026-02-01"]
    assert "removed" in rows[-1]


def test_a_table_in_a_file_is_complete(listed: Listed) -> None:
    """Numbers are right-aligned, and no reason is cut off."""
    reason = "long " * 59 + "long"
    letters = [
        evolve(one, reason=reason, attempts=10 ** len(one.application_id or ""))
        for one in named("a", "app")
    ]
    head, *rows = listed(*letters, output="table").splitlines()
    assert head.endswith("  Reason")
    assert all(row.endswith(reason) for row in rows)
    ends = {re.search(r"\d+(?=  2026)", row).end() for row in rows}  # type: ignore[union-attr]
    assert ends == {head.index("Tries") + len("Tries")}
    assert "\x1b" not in "".join((head, *rows))


def test_a_long_table_comes_as_it_grows(listed: Listed) -> None:
    lines = listed(*named(*(f"app-{number:03}" for number in range(100))), width=120).splitlines()
    assert len(lines) == 101
    assert sum("Reason" in line for line in lines) == 1
    assert len({_STYLE.sub("", line).index("gone") for line in lines[1:]}) == 1


def test_characters_that_cannot_be_shown_are_replaced(listed: Listed) -> None:
    assert SHOWN in listed(evolve(LETTER, reason=HARMFUL), width=120)
    letter = evolve(LETTER, reason="Zoë")
    assert listed(letter, output="table", PYTHONIOENCODING="ascii").splitlines()[1].endswith("Zo?")


def test_warnings_of_the_package_are_lines(shell: Cli) -> None:
    def log(running: Running) -> None:
        running.write(f"{shell.service.ids[0]}\n")
        running.stdout.wait_for("app-")
        logging.getLogger("income_client.anything").warning("kept %s", "nothing")
        logging.getLogger("income_client.anything").info("not of interest")
        logging.getLogger("another").warning("of another package")

    ran = shell("documents", "-", during=log)
    assert ran.status == 0
    assert "income-client: kept nothing\n" in ran.stderr
    assert "of interest" not in ran.stderr
    assert "income-client: of another" not in ran.stderr


def test_verbose_prints_requests_and_retries(shell: Cli) -> None:
    """Every command takes the option, at any place, and data goes where it went."""
    shell.service.faults.add("get_documents: 503")
    one = shell.service.ids[0]
    said = "income_client.session: get_documents"
    quiet = shell("documents", one, "-q")
    for arguments in (("--verbose", "documents", one, "-q"), ("documents", one, "--verbose", "-q")):
        shell.service.faults.add("get_documents: 503")
        ran = shell(*arguments)
        assert (ran.status, ran.stdout) == (0, quiet.stdout)
        assert "503" in ran.stderr
        # The id of the request is the one that the service gave, of successes as well.
        assert re.search(
            rf"{said}\({one}\): 200 \(request id req-[0-9a-f]{{8}}\)$", ran.stderr, re.MULTILINE
        )
    assert said not in quiet.stderr


@pytest.mark.parametrize("stdout", ["socket", "null"])
def test_progress_is_drawn_beside_files(stdout: str, shell: Cli) -> None:
    """The reader of a socket may write to the same terminal, as that of a pipe; a file does not."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        place = theirs.fileno() if stdout == "socket" else Path(os.devnull)
        line = Form("download").line(shell.service)
        ran = shell(*line, terminal=Terminal(), stdout=place)
    assert ran.status == 0
    assert is_drawn_over(ran.screen) is (stdout != "socket")


# Replies as they come


@pytest.mark.shows_private("output", reason="a reply is printed as it came")
def test_the_reply_is_printed_whole(shell: Cli) -> None:
    """The reply is one line of JSON, with URLs of files and data of the borrower."""
    one = shell.service.ids[0]
    for more in ("", "/documents"):
        ran = shell("get", f"/v1/income/applications/{one}{more}")
        assert (ran.status, ran.stderr, len(ran.lines)) == (0, "", 1)
        assert parsed(ran.stdout) == [served(shell.service, one, more)]


def test_parameters_go_into_the_query(shell: Cli) -> None:
    """Each with its value, whatever that holds; a name may come again."""
    line = ("get", "/v1/income/applications", "--param", "limit=2")
    ran = shell(*line, "--param", "updated_after=2000-01-01T00:00:00")
    assert len(json.loads(ran.stdout)["applications"]) == 2
    shell(*line[:2], "--param", "x=a=b&c d", "--param", "y=", "--param=x=-1")
    assert shell.service.requests[-1].query == "x=a%3Db%26c%20d&x=-1&y="


def test_numbers_keep_their_digits_and_texts_do_nothing_to_a_terminal(shell: Cli) -> None:
    """Numbers are printed with the digits sent; control characters of a terminal are escaped."""
    body = b'{"total":1.10,"rate":1E-7,"many":12345678901234567890.123,"name":"\\u001b[2J\xc2\x9b"}'
    shell.service.faults.add(Fault("body", body=body, path="/v1/*"))
    ran = shell("get", "/v1/x")
    assert ran.status == 0
    for digits in ('"total":1.10', '"rate":1E-7', '"many":12345678901234567890.123'):
        assert digits in ran.stdout
    assert json.loads(ran.stdout)["name"] == "\x1b[2J\x9b"
    assert "\x1b" not in ran.stdout
    assert "\x9b" not in ran.stdout


def test_a_failure_has_the_status_of_any_command(shell: Cli) -> None:
    for fault, status, said in (
        ("any: 404", 1, "get_json: 404 Not Found; is path right?"),
        ("any: 403", 4, "get_json: 403 Forbidden"),
    ):
        shell.service.faults.add(fault)
        ran = shell("get", "/v1/income/applications")
        assert (ran.status, ran.stdout) == (status, "")
        assert said in ran.stderr


# Personal data: masked where people look, whole where programs read; addresses on request

SHOW_ALL: Final = "--show-personal-data"
SIGNED: Final = "Signature="
"""Part of the query of every file's signed address."""
FOR_PEOPLE: Final = (
    Form("application"), Form("documents"), Form("poll"),
)  # fmt: skip
FOR_PROGRAMS: Final = (
    Form("application", ("-o", "json")), Form("documents"), Form("poll"), Form("export"),
)  # fmt: skip


def personal(shell: Cli) -> set[str]:
    """Return what names or describes a borrower, word by word."""
    words = set[str]()
    for one in shell.service.ids:
        for person in served(shell.service, one)["applicants"].values():
            words |= {person[key] for key in ("first_name", "last_name", "email", "phone", "ssn")}
            words |= {entry["address"]["street_address"] for entry in person["address_info"]}
    return words


def found(words: set[str], text: str) -> set[str]:
    """Return the words that are in a text."""
    return {word for word in words if word in text}


@pytest.mark.parametrize("form", FOR_PEOPLE, ids=str)
def test_what_people_look_at_names_nobody_unasked(form: Form, shell: Cli) -> None:
    """On a terminal data of borrowers is shown on request, and addresses of files never."""
    line, terminal = form.line(shell.service), Terminal(columns=400)
    looked = shell(*line, terminal=terminal)
    assert looked.status == 0
    assert shell.service.ids[0] in looked.screen
    assert found(personal(shell), looked.screen) == set()
    if form.name != "documents":
        (shell.folder / "polls.db").unlink(missing_ok=True)
        shown = shell(*line, SHOW_ALL, terminal=terminal)
        assert found(personal(shell), shown.screen)
        assert SIGNED not in looked.screen + shown.screen


def test_an_update_on_a_terminal_is_a_line(shell: Cli) -> None:
    terminal = Terminal(columns=80)
    looked = shell(*Form("poll").line(shell.service), terminal=terminal)
    shown = [" ".join(line.split()) for line in terminal.standing(looked.screen)]
    for one in shell.service.ids:
        application = served(shell.service, one)
        time = application["last_updated_at"].replace("T", " ")
        documents = served(shell.service, one, "/documents")["documents"].values()
        count = sum(map(len, documents))
        what = f"{count} document{'s' if count > 1 else ''}"
        assert f"{time} {one} {what} {application['application_reference_id']}" in shown


def written(form: Form, shell: Cli, *more: str) -> str:
    """Run a command whose output goes to a program, and return what that reads."""
    ran = shell(*form.line(shell.service), *more)
    assert ran.status == 0
    return (shell.folder / "all").read_text("utf-8") if form.name == "export" else ran.stdout


def documents_in(text: str) -> list[Any]:
    """Return the documents of an array or of lines of JSON, in whatever form they come."""
    documents = []
    for line in json.loads(text, parse_float=Decimal) if text[0] == "[" else parsed(text):
        if "document" in line:
            documents.append(line["document"])
        else:
            kinds = line["documents"]["documents"].values()
            documents += [each for kind in kinds for each in kind]
    return documents


@pytest.mark.shows_private("output", "file", reason="programs read addresses as well")
@pytest.mark.parametrize("form", FOR_PROGRAMS, ids=str)
def test_what_programs_read_is_whole(form: Form, shell: Cli) -> None:
    text = written(form, shell)
    assert SIGNED not in text
    wanted = shell.service.ids[: 1 if form.name == "application" else None]
    replies = [without_addresses(served(shell.service, one, "/documents")) for one in wanted]
    assert documents_in(text) == [
        each for reply in replies for kind in reply["documents"].values() for each in kind
    ]
    if form.name != "documents":
        for one in wanted:
            people = served(shell.service, one)["applicants"].values()
            assert all(person["ssn"] in text for person in people)
    # Anybody who has an address can read the file, so it must be asked for.
    for path in (*shell.folder.glob("all*"), *shell.folder.glob("polls.db*")):
        path.unlink()
    addressed = documents_in(written(form, shell, "--addresses"))
    assert addressed
    assert all(SIGNED in document["url"] for document in addressed)


def test_tables_hold_no_addresses(shell: Cli) -> None:
    """Parquet has the borrowers' data, and no column for addresses."""
    line = Form("export", ("--format", "parquet", "--addresses")).line(shell.service)
    assert shell(*line).status == 0
    cells = "\n".join(
        str(pyarrow.parquet.read_table(path).to_pydict())
        for path in sorted((shell.folder / "all").glob("*.parquet"))
    )
    assert found(personal(shell), cells)
    assert SIGNED not in cells


def test_an_export_is_resumed_with_the_same_choice_of_addresses(shell: Cli) -> None:
    """Half of the lines with addresses and half without would be neither."""
    line = Form("export").line(shell.service)
    shell.service.faults.add("get_application: 404")
    assert shell(*line).status == 1
    ended = shell(*line, "--addresses")
    assert ended.status == 2
    assert "was begun with --no-addresses, and not --addresses" in ended.stderr
    assert shell(*line).status == 0
    manifest = json.loads((shell.folder / "all.manifest.json").read_text("utf-8"))
    assert manifest["addresses"] is False
