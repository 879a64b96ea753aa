"""Output: rows as a table, CSV and JSON; progress and messages beside it."""

import csv
import io
import json
import logging
import os
import re
import socket
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from income_client import DeadLetter, SQLiteCheckpointStore
from income_client.cli.rows import csv_line
from income_client.testing import LoopRunner
from tests.support.cli import Cli, Running, few_runs
from tests.support.commands import LETTER as GONE
from tests.support.commands import Form
from tests.support.streams import Terminal, is_drawn_over

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
    """Where not all rows could be read, no program takes what came for all of them."""
    shell.service.faults.add(f"list_applications: ok x{pages}, 403" if pages else "any: 403")
    ran = shell("applications", "-o", "json")
    assert ran.status == 4
    assert ran.stdout.startswith("[")
    with pytest.raises(ValueError, match=r"[Ee]xpecting"):
        json.loads(ran.stdout)


def test_no_cell_of_csv_is_a_formula(listed: Listed) -> None:
    """What a spreadsheet would calculate is marked, also behind a semicolon; the rest is as it was.

    Numbers, times and empty cells are written as they are.
    """
    header, row = listed(evolve(LETTER, reason="=1+1"), output="csv").splitlines()
    assert header == '"subject","attempts","first_tried_at","last_tried_at","next_try_at","reason"'
    times = '"2026-01-31T00:00:00","2026-01-31T12:00:05","2026-01-31T12:01:05"'
    assert row == f'"app-1","1",{times},"\'=1+1"'
    for value, cell in (
        ("+1", "'+1"), ("-1", "'-1"), ("@x", "'@x"), ("\t=1", "?=1"), ("\uff1d1", "'\uff1d1"),
        ("a,b", "a,b"), ('a"b', 'a""b'), ("a\nb", "a?b"), ("a;=1+1", "a;'=1+1"),
        ('a; "=1', 'a; ""\'=1'), ("a;b-1", "a;b-1"),
    ):  # fmt: skip
        assert csv_line([value]).decode() == f'"{cell}"'


@few_runs
@given(text=_TEXTS)
def test_a_row_of_csv_is_one_harmless_line(text: str) -> None:
    row = csv_line([text, 1, text]).decode()
    assert row.isprintable()
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


@pytest.mark.parametrize("stdout", ["socket", "file", "null"])
def test_progress_is_drawn_beside_files(stdout: str, shell: Cli) -> None:
    """The reader of a socket may write to the same terminal, as that of a pipe; a file does not."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        places: dict[str, int | Path] = {
            "socket": theirs.fileno(), "file": shell.folder / "out", "null": Path(os.devnull),
        }  # fmt: skip
        line = Form("download").line(shell.service)
        ran = shell(*line, terminal=Terminal(), stdout=places[stdout])
    assert ran.status == 0
    assert is_drawn_over(ran.screen) is (stdout != "socket")
