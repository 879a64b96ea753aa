"""``income-client dead-letters``: what a poller could not read."""

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from attrs import evolve

from income_client import DeadLetter, SQLiteCheckpointStore, Window
from income_client.testing import LoopRunner
from tests.support.cli import Cli, spelt

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
