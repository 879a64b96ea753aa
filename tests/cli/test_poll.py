"""``income-client poll``: which lines it writes, where it resumes, and how it ends."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import CheckpointError, IncomeClient, SQLiteCheckpointStore
from income_client.emulator import Fault
from tests.support.beside import until
from tests.support.cli import FULL, Cli, Running, complaints, when, when_shown
from tests.support.payloads import row_of_list
from tests.support.served import ids_in, parsed, served, without_addresses
from tests.support.streams import Ran, Terminal

BEGINNING: Final = ("--start", "beginning")
FROM_THE_BEGINNING: Final = (*BEGINNING, "--once")
AGAIN: Final = ("--interval", "0.05")
STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
pytestmark = pytest.mark.income_service(applications=9)


class Poll:
    """Polls with a store of its own."""

    def __init__(self, shell: Cli) -> None:
        self.service: Final = shell.service
        self.store: Final = shell.folder / "polls.db"
        self._shell = shell

    def __call__(self, *arguments: str, **options: Any) -> Ran:
        """Run it."""
        return self._shell("poll", "--store", "polls.db", *arguments, **options)


@pytest.fixture
def poll(shell: Cli) -> Poll:
    """The command on a service."""
    return Poll(shell)


# Lines


@pytest.mark.parametrize(
    ("switch", "query"), [(None, ""), ("--pages", "pages=true"), ("--no-documents", None)]
)
def test_lines_are_the_services_own_json(switch: str | None, query: str | None, poll: Poll) -> None:
    ran = poll(*FROM_THE_BEGINNING, *([switch] if switch else []))
    assert (ran.status, complaints(ran)) == (0, "")
    assert sorted(ids_in(ran.stdout)) == sorted(poll.service.ids)
    for line in parsed(ran.stdout):
        one = line["application"]["application_id"]
        assert line.keys() == {"application", "documents"}
        assert line["application"] == served(poll.service, one)
        if query is None:
            assert line["documents"] is None
        else:
            documents = served(poll.service, one, "/documents", query)
            assert without_addresses(line["documents"]) == without_addresses(documents)
    assert ('"pages"' in ran.stdout) is bool(query)


# Where it begins


def test_it_begins_now_and_resumes_where_it_was(poll: Poll) -> None:
    """The first run begins with the present; each further one writes what was updated since."""
    assert poll("--once").stdout == ""
    for touched in (poll.service.ids[:3], poll.service.ids[2:4]):
        poll.service.advance(60)
        for one in touched:
            poll.service.touch(one)
        poll.service.advance(60)
        # Once the name is known, it is not asked where to begin.
        ran = poll(*FROM_THE_BEGINNING)
        assert (ran.status, complaints(ran)) == (0, "")
        assert sorted(ids_in(ran.stdout)) == sorted(touched)


@pytest.mark.income_service(applications=1, time_flows=False)
@pytest.mark.usefixtures("without_pauses")
def test_a_new_beginning_is_said_once(poll: Poll) -> None:
    """Whatever standard error is: the name, the file and the time of the service; never again."""
    for name, start, begins in (
        ("default", "", "2026-06-30 11:59:55"),
        ("settled", "--start now --settle 20", "2026-06-30 11:59:40"),
        ("back", "--start 3d", "2026-06-27 12:00:00"),
        ("all", "--start beginning", "1970-01-01 00:00:00"),
    ):
        first, *_ = poll("--once", "--name", name, *start.split()).stderr.splitlines()
        assert first == f"income-client: '{name}' is new in polls.db, begins at {begins}"
    assert "new" not in poll("--once").stderr
    said = "income-client: --start is ignored: 'default' is known, and resumes where it was\n"
    assert said not in poll("--once").stderr
    assert poll("--once", "--start", "7d").stderr.startswith(said)


@pytest.mark.income_service(applications=9, time_flows=False)
@pytest.mark.usefixtures("without_pauses")
def test_a_single_poll_ends_with_what_it_did(poll: Poll) -> None:
    """Polls, records, dead letters, lag and service time are one line, also of a poll in vain."""
    path = f"*/{poll.service.ids[4]}"
    poll.service.faults.add(Fault("status", status=404, times=None, path=path))
    ran = poll(*FROM_THE_BEGINNING)
    assert ran.status == 1
    facts = "1 poll, 8 records, 1 dead letter, 5 s behind, at 2026-06-30 11:59:55"
    assert ran.stderr.splitlines()[-1] == f"income-client: {facts}"
    # It is known now, and no news.
    assert poll("--once").status == 0
    poll.service.faults.clear()
    last = poll("--once", "--name", "other").stderr.splitlines()[-1]
    assert last == "income-client: 1 poll, 0 records, 5 s behind, at 2026-06-30 11:59:55"


def test_a_new_name_can_be_refused(poll: Poll, shell: Cli) -> None:
    poll("--once")
    assert poll("--once", "--must-exist").status == 0
    before = len(poll.service.requests)
    for wrong, place in (
        (("--store", "polls.db", "--name", "defualt"), "'defualt' in polls.db"),
        (("--store", "pols.db"), "'default' in pols.db"),
        (("--store", "pols.db", "--standby"), "'default' in pols.db"),
    ):
        ran = shell("poll", "--once", "--must-exist", *wrong)
        assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
        assert f"--must-exist: there is no checkpoint {place}; " in ran.stderr
        assert "leave out --must-exist to begin anew" in ran.stderr
    assert len(poll.service.requests) == before
    assert not (poll.store.parent / "pols.db").exists()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("is_new", [False, True], ids=["known", "new"])
def test_the_store_is_no_place_for_the_output(
    stream: str, is_new: bool, poll: Poll, shell: Cli
) -> None:
    """Lines appended to the store, also by another path, would be lost: nothing is sent or kept."""
    if is_new:
        poll.store.touch()
    else:
        poll("--once")
    link = shell.folder / "all.jsonl"
    link.symlink_to(poll.store)
    stored, before = poll.store.read_bytes(), len(poll.service.requests)
    for command, *more in (
        ("poll", "--once"),
        ("dead-letters",),
        ("relay", "--to", "nats://127.0.0.1:9"),
    ):
        streams: dict[str, Any] = {stream: link}
        ran = shell(command, "--store", "polls.db", *more, **streams)
        assert ran.status == 2
        # A message on standard error would be written to the store itself.
        said = "income-client: --store: standard output is written to this very file\n"
        assert ran.stdout + ran.stderr == (said if stream == "stdout" else "")
        assert (poll.store.read_bytes(), len(poll.service.requests)) == (stored, before)


# Failures


@pytest.mark.usefixtures("without_pauses")
def test_a_single_poll_that_fails_is_the_end(poll: Poll) -> None:
    poll.service.faults.add("list_applications: 503 x3")
    ran = poll(*FROM_THE_BEGINNING)
    assert (ran.status, ran.stdout, complaints(ran).count("\n")) == (1, "", 1)
    assert complaints(ran).startswith("income-client: list_applications: 503 ")
    assert len(ids_in(poll(*FROM_THE_BEGINNING).stdout)) == 9


@pytest.mark.usefixtures("without_pauses")
def test_failed_polls_are_reported_and_tried_again(poll: Poll) -> None:
    poll.service.faults.add("list_applications: 500 x3")

    def stop(running: Running) -> None:
        running.stdout.wait_for_lines(9)
        running.terminate()

    ran = poll(*BEGINNING, *AGAIN, during=stop)
    assert (ran.status, complaints(ran).count("\n")) == (0, 1)
    assert sorted(ids_in(ran.stdout)) == sorted(poll.service.ids)
    assert "poll failed: list_applications: 500" in ran.stderr
    # Its pause is half a second or more, and less than one.
    assert re.search(r"; next try in (0\.\d|1\.0) s\n", ran.stderr)


@pytest.mark.usefixtures("without_pauses")
def test_a_store_that_fails_is_reported_with_its_own_pause(
    poll: Poll, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figure is that of the next try to store, whenever the next poll is."""
    save, failures = SQLiteCheckpointStore.save, [1]

    async def failing(store: SQLiteCheckpointStore, *arguments: Any, **options: Any) -> int:
        if options["version"] and failures:
            failures.pop()
            raise CheckpointError("the disk is full", retryable=True)
        return await save(store, *arguments, **options)

    monkeypatch.setattr(SQLiteCheckpointStore, "save", failing)
    ran = poll(*FROM_THE_BEGINNING)
    assert (ran.status, len(ids_in(ran.stdout))) == (0, 9)
    assert re.search(r"poll failed: the disk is full; next try in (0\.\d|1\.0) s\n", ran.stderr)


@pytest.mark.usefixtures("without_pauses")
def test_an_unreadable_application_is_named_once(poll: Poll) -> None:
    """It is one line with its id and status 1, only counted after that, and written once read."""
    one = poll.service.ids[7]
    poll.service.faults.add(Fault("status", status=404, times=None, path=f"*/{one}"))
    ran = poll(*FROM_THE_BEGINNING)
    assert (ran.status, len(ids_in(ran.stdout)), complaints(ran).count("\n")) == (1, 8, 1)
    assert one in ran.stderr
    ran = poll("--once")
    assert (ran.status, ran.stdout, complaints(ran).count("\n")) == (0, "", 1)
    assert one not in ran.stderr
    assert "1 could not be read" in ran.stderr
    poll.service.faults.clear()
    poll.service.advance(86_400)
    assert ids_in(poll("--once").stdout) == [one]


@pytest.mark.income_service(applications=1)
@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize(
    ("application_id", "said"),
    [
        ("", "an application with an empty id could not be read in 2 attempts"),
        ("..", ".. could not be read in 2 attempts"),
        (None, "the list in [2"),
    ],
)
def test_a_row_that_cannot_be_asked_for_is_named(
    poll: Poll, application_id: str | None, said: str
) -> None:
    """An empty id is an id, and the window is named only where there is none."""
    bounds = {"updated_after": "2026-06-01T00:00:00", "updated_before": "2026-06-30T12:00:00"}
    page = {**bounds, "applications": [row_of_list(application_id=application_id)]}
    fault = Fault("body", body=json.dumps(page).encode(), path="/v1/income/applications")
    poll.service.faults.add(fault)
    ran = poll(*FROM_THE_BEGINNING)
    assert said in ran.stderr
    assert "could not be read" in ran.stderr
    assert "ConfigurationError" not in ran.stderr


@pytest.mark.income_service(applications=25)
@pytest.mark.usefixtures("without_pauses")
def test_many_unreadable_applications_are_counted(poll: Poll) -> None:
    for one in poll.service.ids[:23]:
        poll.service.faults.add(Fault("status", status=404, times=None, path=f"*/{one}"))
    ran = poll(*FROM_THE_BEGINNING)
    assert (ran.status, len(ids_in(ran.stdout)), complaints(ran).count("\n")) == (1, 2, 11)
    assert "13 more" in complaints(ran).splitlines()[-1]


# Interrupted


def test_an_empty_store_is_no_new_beginning(poll: Poll) -> None:
    """What a full disk or a failed copy leaves is one line, and stays as it is."""
    poll.store.touch()
    ran = poll("--once")
    assert (ran.status, ran.stdout, complaints(ran).count("\n")) == (1, "", 1)
    assert "is empty" in ran.stderr
    assert "restore it from a backup, or remove it to begin anew" in ran.stderr
    assert (len(poll.service.requests), poll.store.read_bytes()) == (0, b"")


@pytest.mark.income_service(applications=100)
def test_sigterm_loses_and_repeats_nothing(poll: Poll, tmp_path: Path) -> None:
    """Stopped in a long first poll, it ends with 0; both runs together write each line once."""
    lines = tmp_path / "lines"

    stop = when(lambda: lines.exists() and lines.stat().st_size > 0, "terminate")
    ran = poll(*BEGINNING, stdout=lines, during=stop)
    assert (ran.status, complaints(ran)) == (0, "")
    first = ids_in(lines.read_text("utf-8"))
    assert first
    rest = ids_in(poll("--once").stdout)
    assert Counter(first + rest) == Counter(poll.service.ids)


@pytest.mark.parametrize(
    ("signal", "start", "status"),
    [
        ("interrupt", BEGINNING, 130),
        ("terminate", FROM_THE_BEGINNING, 143),
    ],
)
def test_each_interruption_has_its_status(
    signal: str, start: tuple[str, ...], status: int, poll: Poll
) -> None:
    """Ctrl-C is 130, and a single poll that did not come to its end is never 0."""
    poll.service.faults.add(Fault("stall", times=None))
    ran = poll(*start, during=when(lambda: poll.service.requests, signal))
    assert (ran.status, ran.stdout, complaints(ran)) == (status, "", "")
    assert ("0 polls, 0 records" in ran.stderr) is ("--once" in start)


def test_a_full_disk_commits_nothing(poll: Poll, tmp_path: Path) -> None:
    ran = poll(*FROM_THE_BEGINNING, stdout=FULL)
    assert (ran.status, complaints(ran).count("\n")) == (1, 1)
    assert "no space left on device" in ran.stderr
    assert len(ids_in(poll("--once").stdout)) == 9
    # A line that was cut off then spoils no other.
    lines = tmp_path / "lines"
    lines.write_bytes(b'{"application_id":"app-')
    for name in ("one", "two"):
        assert poll(*FROM_THE_BEGINNING, "--name", name, stdout=lines).status == 0
    cut, _, rest = lines.read_text("utf-8").partition("\n")
    assert cut == '{"application_id":"app-'
    assert Counter(ids_in(rest)) == Counter(poll.service.ids * 2)


def test_a_poller_that_is_replaced_has_a_status_of_its_own(poll: Poll) -> None:
    """It ends with 3, by which a service manager knows not to start it again."""

    async def poll_once() -> None:
        async with IncomeClient(poll.service.url, auth=poll.service.oauth2) as client:
            newer = client.poll(SQLiteCheckpointStore(poll.store))
            newer.stop(after_poll=True)
            assert [record async for record in newer] == []

    def replace(running: Running) -> None:
        until(lambda: len(poll.service.requests) > 3)
        asyncio.run(poll_once())
        running.wait()

    ran = poll(*AGAIN, during=replace)
    assert (ran.status, ran.stdout, complaints(ran).count("\n")) == (3, "", 1)
    assert "another process" in ran.stderr


# Before a person


def drawn(shown: str) -> list[str]:
    """Return what was in the line of progress, one drawing after the other, without styles."""
    return [part.removeprefix("\x1b[2K") for part in re.split(r"[\r\n]+", STYLE.sub("", shown))]


def test_a_terminal_shows_how_far_it_is(poll: Poll, tmp_path: Path) -> None:
    terminal = Terminal()
    streams = {
        "terminal": terminal,
        "stdout": tmp_path / "lines",
        "during": when_shown("next poll in"),
    }
    shown = poll(*BEGINNING, **streams)
    assert shown.status == 130
    begins, last = terminal.standing(shown.screen)
    assert begins == "income-client: 'default' is new in polls.db, begins at 1970-01-01 00:00:00"
    facts = r"1 poll  9 records  \d s behind  at 2026-06-30 (11:59:5|12:00:0)\d"
    assert re.fullmatch(facts, last)
    lines = drawn(shown.screen)
    assert any(re.fullmatch(rf"next poll in (2\d|30) s  {facts}", line) for line in lines)
    assert "--start is ignored" in poll(*BEGINNING, **streams).screen


def test_failures_and_dead_letters_remain_above(poll: Poll, tmp_path: Path) -> None:
    one = poll.service.ids[4]
    poll.service.faults.add(
        Fault("status", status=500, times=3, path="*/applications"),
        Fault("status", status=404, times=None, path=f"*/{one}"),
    )
    terminal = Terminal(columns=200)
    shown = poll(
        *BEGINNING,
        *AGAIN,
        terminal=terminal,
        stdout=tmp_path / "x",
        during=when_shown("1 dead letter"),
    )
    lines = drawn(shown.screen)
    assert any("1 failure  " in line for line in lines)
    assert any("8 records  1 dead letter  " in line for line in lines)
    _, failed, dead, _ = terminal.standing(shown.screen)
    assert "poll failed" in failed
    assert one in dead
