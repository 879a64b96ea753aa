"""``income-client poll`` and ``dead-letters``: lines, where it resumes, what could not be read."""

import asyncio
import csv
import json
import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

from income_client import CheckpointError, DeadLetter, IncomeClient, SQLiteCheckpointStore
from income_client.emulator import Fault
from income_client.records import Window
from income_client.testing import LoopRunner
from tests.support.cli import FULL, Cli, Running, complaints, spelt, when
from tests.support.emulated import ids_in, parsed, served, without_addresses
from tests.support.payloads import row_of_list
from tests.support.processes import Ran, Terminal, until

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
    """Standard error has the name, the file and the service's time of a new name, and only once."""
    for name, start, begins in (
        ("default", "", "2026-06-30 11:59:00"),
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
    facts = "1 poll, 8 records, 1 dead letter, 1 min behind, at 2026-06-30 11:59:00"
    assert ran.stderr.splitlines()[-1] == f"income-client: {facts}"
    # It is known now, and no news.
    assert poll("--once").status == 0
    poll.service.faults.clear()
    last = poll("--once", "--name", "other").stderr.splitlines()[-1]
    assert last == "income-client: 1 poll, 0 records, 1 min behind, at 2026-06-30 11:59:00"


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
    assert (ran.status, complaints(ran).count("\n")) == (0, 2)
    assert sorted(ids_in(ran.stdout)) == sorted(poll.service.ids)
    assert "poller 'default' works again after 1 failure" in ran.stderr
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
    """The first run reports the id, later runs count it, and once read the record is written."""
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
    """An empty file, as after a failed copy or on a full disk, is reported in one line and kept."""
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
    """The status is 3, so that a service manager does not start the poller again."""

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


@pytest.mark.income_service(applications=9, time_flows=False)
def test_failures_and_dead_letters_remain_above(poll: Poll, tmp_path: Path) -> None:
    """The service recovers once a failure is shown, and the next poll is not due for long."""
    one = poll.service.ids[4]
    deleted = Fault("status", status=404, times=None, path=f"*/{one}")
    poll.service.faults.add(Fault("status", status=500, times=None, path="*/applications"), deleted)
    facts = r"1 poll  8 records  1 dead letter  1 min( \d+ s)? behind  at 2026-06-30 11:59:00"

    def recover(running: Running) -> None:
        def shows(pattern: str) -> bool:
            return any(re.match(pattern, line) for line in drawn(running.stderr.text))

        running.stderr.wait_until(lambda: shows(r"next try in [\d.]+ s  \d+ failures?  0 polls"))
        poll.service.faults.clear()
        poll.service.faults.add(deleted)
        running.stderr.wait_until(lambda: shows(rf"next poll in \d+ s  {facts}"))
        running.interrupt()

    terminal, interval = Terminal(columns=200), ("--interval", "50")
    shown = poll(*BEGINNING, *interval, terminal=terminal, stdout=tmp_path / "x", during=recover)
    _, *lines, last = terminal.standing(shown.screen)
    assert re.fullmatch(facts, last)
    *failed, _, _ = lines
    assert failed
    assert all("poll failed" in line for line in failed)
    assert [one in line for line in lines].count(True) == 1
    assert ["works again" in line for line in lines].count(True) == 1


# What it could not read

NOON = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - the service's times carry no zone
LOST = DeadLetter(
    application_id="app-1",
    window=Window(1_001, 1_002),
    reason="NotFoundError: get_application(app-1): 404 Not Found",
    attempts=1,
    first_tried_at=NOON,
    last_tried_at=NOON + timedelta(seconds=1),
)


@pytest.fixture
def store(tmp_path: Path, income_run: LoopRunner) -> str:
    """A store with dead letters of one poller, and none of another."""
    checkpoints = SQLiteCheckpointStore(tmp_path / "polls.db")
    letters = (
        LOST,
        evolve(LOST, application_id="app-2", attempts=7),
        evolve(LOST, application_id=None, window=Window(1_003, 1_004)),
        evolve(LOST, application_id=""),
        evolve(LOST, application_id=None, window=Window(1_003, 1_090)),
    )
    income_run(checkpoints.save("default", "so far", version=0, dead_letters=letters))
    income_run(checkpoints.save("clean", "so far", version=0))
    return str(tmp_path / "polls.db")


def test_each_is_a_row(store: str, cli: Cli) -> None:
    ran = cli("dead-letters", "--store", store)
    assert (ran.status, ran.stderr) == (0, "")
    rows = [*map(json.loads, ran.lines)]
    assert next(row for row in rows if row["application_id"] == "app-1") == {
        "application_id": "app-1",
        "key": "application:app-1",
        "subject": "app-1",
        "window_after": "1970-01-01T00:16:41",
        "window_before": "1970-01-01T00:16:42",
        "attempts": 1,
        "first_tried_at": "2026-03-01T12:00:00",
        "last_tried_at": "2026-03-01T12:00:01",
        "next_try_at": "2026-03-01T12:01:01",
        "reason": LOST.reason,
    }
    columns = ("attempts", "application_id", "key", "subject")
    assert {tuple(row[column] for column in columns) for row in rows} == {
        (1, "app-1", "application:app-1", "app-1"),
        (7, "app-2", "application:app-2", "app-2"),
        (1, "", "application:", "(empty id)"),
        (1, None, "window:1003", "second 1970-01-01 00:16:43"),
        (1, None, "rows:1003", "list from 1970-01-01 00:16:43"),
    }
    table = csv.DictReader(cli("dead-letters", "--store", store, "-o", "csv").lines)
    assert [row["subject"] for row in table] == [row["subject"] for row in rows]


def test_some_are_forgotten(store: str, cli: Cli, income_run: LoopRunner) -> None:
    """By the id of an application or by any key; the checkpoint stays as it is."""
    keys = [json.loads(line)["key"] for line in cli("dead-letters", "--store", store).lines]
    before = income_run(SQLiteCheckpointStore(store).load("default"))
    keys.remove("application:app-1")
    keys[keys.index("application:app-2")] = "app-2"
    forget = [part for key in keys for part in ("--forget", key)]
    ran = cli("dead-letters", "--store", store, *forget)
    assert (ran.status, ran.stderr) == (0, "income-client: forgot 4 dead letters\n")
    assert len(ran.lines) == 4
    assert cli("dead-letters", "--store", store, "-q").lines == ["app-1"]
    assert income_run(SQLiteCheckpointStore(store).load("default")) == before
    ran = cli("dead-letters", "--store", store, "--forget", "application:app-1", "-q")
    assert (ran.status, ran.stdout, ran.stderr) == (0, "app-1\n", "")
    assert income_run(SQLiteCheckpointStore(store).dead_letters("default")) == ()


@pytest.mark.parametrize("form", [(), ("-o", "json")], ids=spelt)
def test_a_key_that_is_not_there_is_named(store: str, form: tuple[str, ...], cli: Cli) -> None:
    """The others are forgotten all the same; the exit status says that one was missing."""
    wanted = ("--forget", "app-9", "--forget", "app-1")
    ran = cli("dead-letters", "--store", store, *wanted, *form)
    assert ran.status == 1
    assert "no dead letter 'app-9' of 'default'" in ran.stderr
    assert "'app-1'" not in ran.stderr
    assert cli("dead-letters", "--store", store, "-q").lines == ["", "app-2"]
    again = cli("dead-letters", "--store", store, "--forget", "app-1", "-o", "json")
    assert (again.status, json.loads(again.stdout)) == (1, [])


def test_nothing_lost_is_reported(store: str, cli: Cli) -> None:
    clean = ("dead-letters", "--store", store, "--name", "clean")
    ran = cli(*clean)
    assert (ran.status, ran.stdout, ran.stderr) == (0, "", "income-client: no dead letters\n")
    ran = cli(*clean, "-q")
    assert (ran.status, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("line", "status", "named"),
    [
        ("--store nowhere", 1, "nowhere"),
        ("--store polls.db --name other", 1, "'other'"),
        ("--store polls.db --name=", 2, "--name: "),
    ],
)
def test_a_store_or_a_name_that_cannot_be_used_is_named(
    line: str, status: int, named: str, cli: Cli
) -> None:
    ran = cli("dead-letters", *line.split())
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (status, "", 1)
    assert named in ran.stderr
    assert not (cli.folder / "nowhere").exists()
