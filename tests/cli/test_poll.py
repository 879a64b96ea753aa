"""``income-client poll``: which lines it writes, and where it goes on the next time."""

import asyncio
import signal
from pathlib import Path

import pytest

from income_client.cli.app import run as run_here
from income_client.emulator import Emulator, Fault
from tests.cli.entry import run
from tests.cli.polling import (
    FROM_THE_BEGINNING,
    Command,
    ids_of,
    parsed,
    reads,
    served,
    without_addresses,
)
from tests.cli.running import ended, until


async def test_lines_are_the_services_own_json(tmp_path: Path) -> None:
    """A line holds every field that the service sent, and every application has one."""
    async with Emulator(250) as service:
        polled = await Command(service, tmp_path / "polls").run(*FROM_THE_BEGINNING)
        assert (polled.returncode, polled.stderr) == (0, "")
        lines = parsed(polled.stdout)
        assert {line["application_id"] for line in lines} == set(service.world.ids)
        assert len(lines) == 250
        assert lines == [served(service, line["application_id"]) for line in lines]


async def test_lines_can_hold_the_documents(tmp_path: Path) -> None:
    """With documents, a line is both of the service's replies; with pages, these are in it too."""
    async with Emulator(12) as service:
        switches = {"--documents": "", "--pages": "pages=true"}
        runs = (
            Command(service, tmp_path / switch).run(*FROM_THE_BEGINNING, switch)
            for switch in switches
        )
        for polled, query in zip(await asyncio.gather(*runs), switches.values(), strict=True):
            lines = parsed(polled.stdout)
            assert len(lines) == 12
            for line in lines:
                one = line["application"]["application_id"]
                documents = served(service, one, "/documents", query)
                assert line.keys() == {"application", "documents"}
                assert line["application"] == served(service, one)
                assert without_addresses(line["documents"]) == without_addresses(documents)
                assert ('"pages"' in polled.stdout) is bool(query)


async def test_it_begins_now_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """The first run begins with the present; each further one writes what was updated since."""
    async with Emulator(60) as service:
        command = Command(service, tmp_path / "polls")
        assert (await command.run("--once")).stdout == ""
        for touched in (service.world.ids[:3], service.world.ids[2:4]):
            service.advance(60)
            for one in touched:
                service.touch(one)
            service.advance(60)
            # Once the name is known, it is not asked where to begin.
            polled = await command.run(*FROM_THE_BEGINNING)
            assert (polled.returncode, polled.stderr) == (0, "")
            assert sorted(ids_of(polled.stdout)) == sorted(touched)


async def test_it_can_begin_at_a_time(tmp_path: Path) -> None:
    """A day and a time with a zone mean what they say; names in one file begin each for itself."""
    starts = ("2026-06-15", "2026-06-15T02:00:00+02:00")
    async with Emulator(200, days=30) as service:
        wanted = {
            one
            for one in service.world.ids
            if served(service, one)["last_updated_at"] >= "2026-06-15T00:00:00Z"
        }
        assert 0 < len(wanted) < 200
        command = Command(service, tmp_path / "polls")
        runs = (command.run("--once", "--start", start, "--name", start) for start in starts)
        for polled in await asyncio.gather(*runs):
            assert set(ids_of(polled.stdout)) == wanted


async def test_it_can_begin_some_time_ago(tmp_path: Path) -> None:
    """A span counts back from the service's present, whatever the time is here."""
    async with Emulator(200, days=30) as service:
        since = service.world.now - 3 * 86_400
        wanted = {one for one in service.world.ids if service.world.updated_at(one) >= since}
        assert 0 < len(wanted) < 200
        polled = await Command(service, tmp_path / "polls").run("--once", "--start", "3d")
        assert (polled.returncode, polled.stderr) == (0, "")
        assert set(ids_of(polled.stdout)) == wanted


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--store", "nowhere/at/all"), 1, "--store: there is no folder nowhere/at\n"),
        (("--store", "tests"), 1, "--store: checkpoint store "),
        (("--store", ":memory:"), 2, "--store: this is no path of a file\n"),
        (("--store", "x.db", "--name", ""), 2, "--name: name is a text that is not empty\n"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(
    arguments: tuple[str, ...], status: int, said: str
) -> None:
    """What is wrong is said with the option, with 2 where it would be wrong on any machine."""
    refused = run("poll", *arguments)
    assert (refused.returncode, refused.stdout) == (status, "")
    assert refused.stderr.startswith(f"income-client: {said}")
    assert refused.stderr.count("\n") == 1


async def test_it_polls_again_and_again(tmp_path: Path) -> None:
    """Without --once, what is updated later on is written as it is found, until SIGTERM."""
    async with Emulator(10) as service:
        command = Command(service, tmp_path / "polls")
        with command.started("--interval", "0.2") as process:
            await until(lambda: len(service.requests) > 3)
            service.advance(1)
            service.touch(service.world.ids[4])
            service.advance(1)
            assert process.stdout is not None
            line = await asyncio.to_thread(process.stdout.readline)
            process.send_signal(signal.SIGTERM)
            assert await ended(process) == ("", "")
        assert ids_of(line) == [service.world.ids[4]]
        assert process.returncode == 0


async def test_a_single_poll_that_fails_is_the_end(tmp_path: Path) -> None:
    """With --once, a failed poll is said in one line, with status 1; the next one begins there."""
    async with Emulator(30) as service:
        service.faults.add(Fault("status", status=503, times=3, path="*/applications"))
        command = Command(service, tmp_path / "polls")
        polled = await command.run(*FROM_THE_BEGINNING)
        assert (polled.returncode, polled.stdout) == (1, "")
        assert polled.stderr.startswith("income-client: list_applications: 503 ")
        assert polled.stderr.count("\n") == 1
        assert len(ids_of((await command.run(*FROM_THE_BEGINNING)).stdout)) == 30


async def test_failed_polls_are_said_and_tried_again(tmp_path: Path) -> None:
    """Where standard error is no terminal, each failed poll is a line, and nothing else is."""
    async with Emulator(30) as service:
        service.faults.add(Fault("status", status=500, times=3, path="*/applications"))
        command = Command(service, tmp_path / "polls")
        with command.started("--start", "beginning", "--interval", "0.2") as process:
            await until(lambda: reads(service) == 30)
            process.send_signal(signal.SIGTERM)
            lines, errors = await ended(process)
        assert process.returncode == 0
        assert set(ids_of(lines or "")) <= set(service.world.ids)
        assert errors.startswith("income-client: poll failed (ServerError: ")
        assert errors.endswith("), next try in 1 s\n")
        assert errors.count("\n") == 1


async def test_what_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    """A record that cannot be read is a line with its id once, and only counted from then on."""
    async with Emulator(15) as service:
        one = service.world.ids[7]
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{one}"))
        command = Command(service, tmp_path / "polls")
        polled = await command.run(*FROM_THE_BEGINNING)
        assert (polled.returncode, len(ids_of(polled.stdout))) == (0, 14)
        assert polled.stderr.startswith(f"income-client: {one} could not be read in 2 attempts (")
        assert polled.stderr.endswith("); it is tried again later\n")
        assert polled.stderr.count("\n") == 1
        again = await command.run("--once")
        assert (again.returncode, again.stdout) == (0, "")
        assert again.stderr.startswith("income-client: 1 could not be read so far")
        service.faults.clear()
        service.advance(86_400)
        assert ids_of((await command.run("--once")).stdout) == [one]


async def test_many_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    """Where much cannot be read, ten are named and the others counted."""
    async with Emulator(40) as service:
        for one in service.world.ids[:23]:
            service.faults.add(Fault("status", status=404, times=None, path=f"*/{one}"))
        polled = await Command(service, tmp_path / "polls").run(*FROM_THE_BEGINNING)
        assert (polled.returncode, len(ids_of(polled.stdout))) == (0, 17)
        said = polled.stderr.splitlines()
        assert len(said) == 11
        assert said[-1] == "income-client: and 13 more could not be read"


async def test_wrong_credentials_end_it(tmp_path: Path) -> None:
    """Credentials that are refused are one line with status 4, and the line does not show them."""
    async with Emulator(5) as service:
        command = Command(service, tmp_path / "polls")
        polled = await command.run(INCOME_CLIENT_SECRET="invented-and-wrong")
        assert (polled.returncode, polled.stdout) == (4, "")
        assert polled.stderr.startswith("income-client: ")
        assert polled.stderr.count("\n") == 1
        assert "invented-and-wrong" not in polled.stderr


async def test_a_damaged_store_ends_it(tmp_path: Path) -> None:
    """A file that is no store is one line with status 1; it stays as it is, nothing is asked."""
    store = tmp_path / "polls"
    store.write_bytes(b"something else" * 100)
    async with Emulator(5) as service:
        polled = await Command(service, store).run(*FROM_THE_BEGINNING)
        assert (polled.returncode, polled.stdout) == (1, "")
        assert polled.stderr.startswith("income-client: --store: checkpoint store ")
        assert polled.stderr.count("\n") == 1
        assert service.requests == []
    assert store.read_bytes() == b"something else" * 100


async def test_the_newer_of_two_goes_on(tmp_path: Path) -> None:
    """A second process under the same name takes over; the first says so and exits with 1."""
    async with Emulator(5) as service:
        command = Command(service, tmp_path / "polls")
        with command.started("--interval", "0.2") as older:
            await until(lambda: len(service.requests) > 3)
            with command.started("--interval", "0.2") as newer:
                lines, errors = await ended(older)
                newer.send_signal(signal.SIGTERM)
                assert await ended(newer) == ("", "")
        assert (older.returncode, newer.returncode) == (1, 0)
        assert lines == ""
        assert errors == (
            "income-client: another process has begun to poll as 'default' "
            f"in {tmp_path / 'polls'}; this one ends\n"
        )


def test_a_missing_variable_is_named(tmp_path: Path) -> None:
    """Without an address it says which variable to set, and makes no file."""
    polled = run("poll", "--store", str(tmp_path / "polls"))
    assert (polled.returncode, polled.stdout) == (2, "")
    assert polled.stderr.startswith("income-client: set INCOME_BASE_URL, or base_url in ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [(), ("--store", "s", "--interval", "0"), ("--store", "s", "--start", "tomorrow")],
)
def test_misuse_exits_with_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Arguments that cannot be meant are explained, with status 2."""
    assert run_here(["poll", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert (arguments[-2] if arguments else "--store") in captured.err


def test_its_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """The help text fits a terminal, and has a line to type."""
    assert run_here(["poll", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example: income-client poll --store polls.db" in shown
    assert max(map(len, shown.splitlines())) <= 80
