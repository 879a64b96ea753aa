"""``income-client dead-letters``: what a poller could not read, told while it runs or not."""

import asyncio
import csv
import json
import re
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import SQLiteCheckpointStore
from income_client.emulator import Emulator, Fault
from income_client.protocol.dead_letters import DeadLetters
from income_client.protocol.echo import second_of
from tests.cli.entry import run, run_on_terminal
from tests.cli.polling import Command, until
from tests.support.store_files import letter


@pytest.fixture
async def store(tmp_path: Path) -> str:
    """A store with dead letters of one poller, and none of another."""
    path = tmp_path / "polls.db"
    checkpoints = SQLiteCheckpointStore(path)
    letters = (letter(1), letter(2, attempts=7), letter(3, window=True))
    await checkpoints.save("default", "so far", version=0, dead_letters=letters)
    await checkpoints.save("clean", "so far", version=0)
    return str(path)


async def test_each_is_a_row(store: str) -> None:
    """What, why, how often, since when and until when, in the order of the first tries."""
    ran = await asyncio.to_thread(run, "dead-letters", "--store", store)
    assert (ran.returncode, ran.stderr) == (0, "")
    first, second, third = (json.loads(line) for line in ran.stdout.splitlines())
    assert first == {
        "application_id": "app-1",
        "subject": "app-1",
        "window_after": "1970-01-01T00:16:41",
        "window_before": "1970-01-01T00:16:42",
        "attempts": 1,
        "first_tried_at": "2026-03-01T12:00:01",
        "last_tried_at": "2026-03-01T12:00:02",
        "next_try_at": "2026-03-01T12:01:02",
        "reason": "the service knows no such application",
    }
    assert second["attempts"] == 7
    assert (third["application_id"], third["subject"]) == (None, "second 1970-01-01 00:16:43")


async def test_ids_alone_are_those_of_applications(store: str) -> None:
    """A second of the list has none, and CSV names it."""
    ran = await asyncio.to_thread(run, "dead-letters", "--store", store, "-q")
    assert ran.stdout == "app-1\napp-2\n"
    ran = await asyncio.to_thread(run, "dead-letters", "--store", store, "-o", "csv")
    rows = list(csv.DictReader(ran.stdout.splitlines()))
    assert [row["subject"] for row in rows] == ["app-1", "app-2", "second 1970-01-01 00:16:43"]


async def test_a_person_sees_a_table(store: str) -> None:
    """It fits a terminal; where nothing is wrong, that is said."""
    whole = ("dead-letters", "--store", store)
    shown = await asyncio.to_thread(run_on_terminal, *whole)
    assert shown.status == 0
    assert "Next try" in shown.screen
    clean = await asyncio.to_thread(run_on_terminal, *whole, "--name", "clean")
    assert clean.screen == "income-client: all that was listed could be read\r\n"
    ran = await asyncio.to_thread(run, *whole, "--name", "clean")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr == "income-client: all that was listed could be read\n"
    ran = await asyncio.to_thread(run, *whole, "--name", "clean", "-q")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


async def test_a_table_says_why_in_full(tmp_path: Path) -> None:
    """On 80 columns the reason is all there, without the id that stands in the row already."""
    path = tmp_path / "polls.db"
    one = "app-e3" + "0123456789" * 3
    reason = f"NotFoundError: get_documents({one}): 404 Not Found"
    lost = evolve(letter(1), application_id=one, reason=reason)
    await SQLiteCheckpointStore(path).save("default", "", version=0, dead_letters=[lost])
    whole = ("dead-letters", "--store", str(path))
    shown = await asyncio.to_thread(run_on_terminal, *whole, NO_COLOR="1")
    text = " ".join(shown.screen.split())
    assert re.search(r"get_documents: .*404 Not Found", text)
    assert text.count(one) == 1
    ran = await asyncio.to_thread(run, *whole)
    assert json.loads(ran.stdout)["reason"] == reason


async def test_what_is_not_there_is_told_and_not_made(store: str, tmp_path: Path) -> None:
    """A file that is missing stays missing, and a name that nobody polled under is an error."""
    nowhere = tmp_path / "nowhere"
    ran = await asyncio.to_thread(run, "dead-letters", "--store", str(nowhere))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"income-client: there is no store at {nowhere}\n"
    assert not nowhere.exists()
    ran = await asyncio.to_thread(run, "dead-letters", "--store", store, "--name", "x")
    assert ran.stderr == f"income-client: nobody has polled as 'x' in {store}\n"
    nowhere.write_text("no database", "utf-8")
    ran = await asyncio.to_thread(run, "dead-letters", "--store", str(nowhere))
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)


async def test_it_works_while_the_poller_runs(tmp_path: Path) -> None:
    """A poller that has the store is neither ended nor kept waiting."""
    store = tmp_path / "polls.db"
    async with Emulator(20, time_flows=True) as service:
        lost = service.world.ids[3]
        fault = Fault("status", path=f"/v1/income/applications/{lost}", status=404, times=None)
        service.faults.add(fault)
        command = Command(service, store)
        with command.started("--start", "beginning", "--interval", "0.1") as process:
            await until(store.exists)
            checkpoints = SQLiteCheckpointStore(store)
            async with asyncio.timeout(40):
                while not await checkpoints.dead_letters("default"):  # noqa: ASYNC110 - as in until
                    await asyncio.sleep(0.05)
            ran = await asyncio.to_thread(run, "dead-letters", "--store", str(store))
            assert (ran.returncode, ran.stderr) == (0, "")
            (row,) = [json.loads(line) for line in ran.stdout.splitlines()]
            assert row["application_id"] == lost
            assert "404" in row["reason"]
            listed = sum(request.name == "list_applications" for request in service.requests)
            await until(
                lambda: (
                    sum(request.name == "list_applications" for request in service.requests)
                    > listed + 2
                )
            )
            assert process.poll() is None


@given(st.integers(min_value=1, max_value=40))
def test_the_next_try_is_when_the_poller_tries(attempts: int) -> None:
    """What is told is what the poller goes by."""
    one = letter(1, attempts=attempts)
    due = second_of(one.next_try_at)
    letters = DeadLetters([one])
    assert not letters.due(due - 1, most=9)
    assert letters.due(due, most=9) == [one]


async def test_what_can_be_no_store_and_no_name_is_misuse(store: str) -> None:
    """What the command line alone shows is told with status 2."""
    for arguments, said in (
        (("--store", ":memory:"), "--store: this is no path of a file"),
        (("--store", store, "--name", ""), "--name: name is a text that is not empty"),
    ):
        ran = await asyncio.to_thread(run, "dead-letters", *arguments)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == f"income-client: {said}\n"
