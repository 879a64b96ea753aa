"""``income-client dead-letters``: what a poller could not read."""

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from attrs import evolve

from income_client import DeadLetter, IncomeClient, Poller, SQLiteCheckpointStore, Window
from income_client.emulator import Fault
from income_client.testing import LoopRunner
from tests.support.cli import Cli, spelt
from tests.support.streams import Terminal

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
    later = NOON + timedelta(seconds=9)
    letters = (
        LOST,
        evolve(LOST, application_id="app-2", attempts=7, last_tried_at=later),
        evolve(LOST, application_id=None, window=Window(1_003, 1_004), last_tried_at=later),
    )
    income_run(checkpoints.save("default", "so far", version=0, dead_letters=letters))
    income_run(checkpoints.save("clean", "so far", version=0))
    return str(tmp_path / "polls.db")


def test_each_is_a_row(store: str, cli: Cli) -> None:
    ran = cli("dead-letters", "--store", store)
    assert (ran.status, ran.stderr) == (0, "")
    first, second, third = map(json.loads, ran.lines)
    assert first == {
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
    assert second["attempts"] == 7
    assert (third["application_id"], third["subject"]) == (None, "second 1970-01-01 00:16:43")
    # A second of the list has no id, and CSV names it.
    assert cli("dead-letters", "--store", store, "-q").lines == ["app-1", "app-2"]
    rows = csv.DictReader(cli("dead-letters", "--store", store, "-o", "csv").lines)
    assert [row["subject"] for row in rows] == ["app-1", "app-2", "second 1970-01-01 00:16:43"]


def test_an_empty_id_and_a_part_of_the_list_are_named(
    tmp_path: Path, cli: Cli, income_run: LoopRunner
) -> None:
    """Neither is taken for a second of the list, and each is forgotten by its key."""
    path = tmp_path / "polls.db"
    letters = (
        evolve(LOST, application_id=""),
        evolve(LOST, application_id=None, window=Window(1_003, 1_090)),
    )
    store = SQLiteCheckpointStore(path)
    income_run(store.save("default", "so far", version=0, dead_letters=letters))
    rows = [json.loads(line) for line in cli("dead-letters", "--store", str(path)).lines]
    assert [(row["key"], row["subject"]) for row in rows] == [
        ("application:", "(empty id)"),
        ("rows:1003", "list from 1970-01-01 00:16:43"),
    ]
    forget = [part for row in rows for part in ("--forget", row["key"])]
    assert len(cli("dead-letters", "--store", str(path), *forget).lines) == 2


def test_some_are_forgotten(store: str, cli: Cli, income_run: LoopRunner) -> None:
    keys = [json.loads(line)["key"] for line in cli("dead-letters", "--store", store).lines]
    before = income_run(SQLiteCheckpointStore(store).load("default"))
    ran = cli("dead-letters", "--store", store, "--forget", "app-2", "--forget", keys[2])
    assert (ran.status, ran.stderr) == (0, "income-client: forgot 2 dead letters\n")
    assert [json.loads(line)["key"] for line in ran.lines] == keys[1:]
    assert cli("dead-letters", "--store", store, "-q").lines == ["app-1"]
    assert income_run(SQLiteCheckpointStore(store).load("default")) == before
    ran = cli("dead-letters", "--store", store, "--forget", keys[0], "-q")
    assert (ran.status, ran.stdout, ran.stderr) == (0, "app-1\n", "")
    assert income_run(SQLiteCheckpointStore(store).dead_letters("default")) == ()


@pytest.mark.parametrize("form", [(), ("-o", "json"), ("-o", "csv"), ("-q",)], ids=spelt)
def test_a_key_that_is_not_there_is_named(store: str, form: tuple[str, ...], cli: Cli) -> None:
    """The others are forgotten all the same; the exit status says that one was missing."""
    wanted = ("--forget", "app-9", "--forget", "app-1")
    ran = cli("dead-letters", "--store", store, *wanted, *form)
    assert ran.status == 1
    assert "no dead letter 'app-9' of 'default'" in ran.stderr
    assert "'app-1'" not in ran.stderr
    assert cli("dead-letters", "--store", store, "-q").lines == ["app-2"]
    again = cli("dead-letters", "--store", store, "--forget", "app-1", "-o", "json")
    assert (again.status, json.loads(again.stdout)) == (1, [])


def test_nothing_lost_is_reported(store: str, cli: Cli) -> None:
    clean = ("dead-letters", "--store", store, "--name", "clean")
    assert "income-client: no dead letters" in cli(*clean, terminal=Terminal()).screen
    ran = cli(*clean)
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (0, "", 1)
    ran = cli(*clean, "-q")
    assert (ran.status, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("line", "status", "named"),
    [
        ("--store nowhere", 1, "nowhere"),
        ("--store home", 1, "home"),
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


@pytest.mark.income_service(applications=6)
def test_a_running_poller_is_not_disturbed(
    shell: Cli, income_client: IncomeClient, income_run: LoopRunner
) -> None:
    lost, touched = shell.service.ids[3:5]
    shell.service.faults.add(Fault("status", path=f"*/{lost}", status=404, times=None))
    store = SQLiteCheckpointStore(shell.folder / "polls.db")
    poller = income_client.poll(store, start=NOON - timedelta(days=400))
    income_run(_delivered(poller, 5))
    shell.service.touch(touched)
    assert income_run(_delivered(poller, 1)) == [touched]
    ran = shell("dead-letters", "--store", "polls.db")
    assert (ran.status, ran.stderr) == (0, "")
    (row,) = map(json.loads, ran.lines)
    assert row["application_id"] == lost
    assert "404" in row["reason"]
    shell.service.touch(touched)
    assert income_run(_delivered(poller, 1)) == [touched]
    income_run(poller.aclose())


async def _delivered(poller: Poller, count: int) -> list[str]:
    """Return the ids of the next records."""
    return [(await anext(poller)).application_id for _ in range(count)]
