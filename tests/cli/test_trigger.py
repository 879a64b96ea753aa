"""``income-client trigger`` has a running emulator send callbacks."""

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from income_client.cli.running import announcement
from income_client.emulator import CallbackTarget, Fault
from income_client.testing import IncomeService
from tests.support.beside import beside
from tests.support.cli import Cli, with_basic
from tests.support.processes import environment, started
from tests.support.served import served
from tests.support.server import HUNG_UP, Reply, ScriptedServer, in_turn, json_reply, reply
from tests.support.streams import Ran, Terminal

pytestmark = pytest.mark.income_service(applications=5)
NOBODY: Final = "http://127.0.0.1:9"


@pytest.fixture
def endpoint(income_service: IncomeService) -> Iterator[ScriptedServer]:
    """Where the service's callbacks go; it answers with 200."""
    with beside(ScriptedServer(in_turn(reply()))) as server:
        income_service.callbacks = CallbackTarget(server.url)
        yield server


def rows(ran: Ran) -> list[dict[str, Any]]:
    """Return the lines of JSON."""
    return [json.loads(line) for line in ran.lines]


def test_a_callback_is_sent_about_an_update(shell: Cli, endpoint: ScriptedServer) -> None:
    one = shell.service.ids[2]
    shell.service.advance(60)
    ran = shell("trigger", one)
    assert (ran.status, ran.stderr) == (0, "")
    facts = {"event_type": "income_calculations", "delivered": True, "attempts": [200]}
    assert rows(ran) == [{"application_id": one, **facts}]
    assert json.loads(endpoint.requests[0].body)["application_id"] == one
    assert served(shell.service, one)["last_updated_at"] == "2026-06-30T12:01:00Z"
    # Either kind of credentials that an emulator prints is accepted.
    ran = shell("trigger", env=with_basic(shell.service))
    assert (ran.status, ran.stderr) == (0, "")
    assert shell.service.token_requests == 1


@pytest.mark.usefixtures("endpoint")
def test_a_person_gets_a_table(shell: Cli) -> None:
    terminal = Terminal(columns=60)
    shown = shell("trigger", shell.service.ids[2], terminal=terminal)
    heading, row = terminal.standing(shown.screen)
    assert heading.split() == ["Application", "Event", "Delivered", "Answers"]
    assert row.split() == [shell.service.ids[2], "income_calculations", "yes", "200"]
    (found,) = json.loads(shell("trigger", "-o", "json").stdout)
    assert found["delivered"] is True


@pytest.mark.usefixtures("endpoint")
def test_as_many_are_sent_as_are_asked_for(shell: Cli) -> None:
    shell.service.advance(60)
    ran = shell("trigger", "--count", "5", "--event", "extractions", "--no-update")
    assert ran.status == 0
    assert {row["application_id"] for row in rows(ran)} == set(shell.service.ids)
    assert {row["event_type"] for row in rows(ran)} == {"extractions"}
    updates = {served(shell.service, one)["last_updated_at"] for one in shell.service.ids}
    assert max(updates) < "2026-06-30T12:01:00Z"


def test_a_callback_that_is_not_delivered_is_1(shell: Cli) -> None:
    """Every attempt is shown; one callback that was not taken makes the status 1."""
    with beside(ScriptedServer(in_turn(reply(503), reply(), reply(400), reply()))) as server:
        shell.service.callbacks = CallbackTarget(server.url, pauses=[0])
        ran = shell("trigger", "--count", "3", "--event", "error")
    assert (ran.status, ran.stderr) == (1, "")
    assert [row["attempts"] for row in rows(ran)] == [[503, 200], [400], [200]]
    assert [row["delivered"] for row in rows(ran)] == [True, False, True]


def test_what_an_emulator_cannot_do_is_reported(shell: Cli) -> None:
    ran = shell("trigger")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "income-client listen" in ran.stderr
    assert "--callbacks" in ran.stderr
    shell.service.callbacks = CallbackTarget(NOBODY)
    ran = shell("trigger", "nobody")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "no application" in ran.stderr


def test_refused_credentials_are_not_shown(shell: Cli) -> None:
    basic = with_basic(shell.service, INCOME_PASSWORD="hidden")
    for env in ({"INCOME_CLIENT_SECRET": "hidden"}, basic):
        ran = shell("trigger", env=env)
        assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (4, "", 1)
        assert "INCOME_BASE_URL" in ran.stderr
        assert "hidden" not in ran.stderr


@pytest.mark.parametrize("answer", [reply(404), reply(200, b"<html>"), HUNG_UP])
def test_what_is_not_an_emulator_is_reported(answer: Reply, shell: Cli) -> None:
    with beside(ScriptedServer(in_turn(answer))) as server:
        there = {"INCOME_BASE_URL": server.url}
        by_name = shell("trigger", env=with_basic(shell.service, **there))
        by_token = shell("trigger", env=there)
    assert by_name == by_token
    assert (by_name.status, by_name.stdout, by_name.stderr.count("\n")) == (1, "", 1)
    assert "INCOME_BASE_URL" in by_name.stderr


@pytest.mark.parametrize("status", [429, 503])
def test_an_emulator_that_fails_is_not_taken_for_something_else(status: int, shell: Cli) -> None:
    shell.service.faults.add(Fault("status", status=status, times=None))
    ran = shell("trigger")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "fails at the moment" in ran.stderr
    assert "try again" in ran.stderr


def test_no_answer_is_a_formula(shell: Cli) -> None:
    """Texts within a list are marked in CSV like others, whatever took the emulator's port."""
    outcome = {"application_id": "a", "event_type": None, "attempts": ["=1+1"], "is_json": True}
    with beside(ScriptedServer(in_turn(json_reply(outcome)))) as server:
        there = with_basic(shell.service, INCOME_BASE_URL=server.url)
        ran = shell("trigger", "-o", "csv", env=there)
    assert ran.lines[1] == '"a","","no","\'=1+1"'


# Three terminals with nothing set


@pytest.fixture
def user(cli: Cli) -> dict[str, str]:
    """The variables of a user who has set nothing, in the home of `cli`."""
    return environment(HOME=str(cli.folder / "home"), XDG_RUNTIME_DIR="")


def place_of(cli: Cli, name: str) -> Path:
    """Return where a running command says where it is."""
    return cli.folder / "home/.local/state/income-client" / f"{name}.json"


def test_emulate_listen_and_trigger_work_in_that_order(cli: Cli, user: dict[str, str]) -> None:
    """Nothing need be set or copied: credentials are made up."""
    with started("emulate", "--applications", "9", env=user) as emulator:
        emulator.stdout.wait_for("# Its files")
        with started("listen", "--port", "0", env=user) as listener:
            emulator.stderr.wait_for("where income-client listen runs")
            for name in ("emulate", "listen"):
                assert place_of(cli, name).stat().st_mode & 0o777 == 0o600
            ran = cli("trigger")
            assert (ran.status, ran.stderr) == (0, "")
            (line,) = listener.stdout.wait_for_lines(1)
            assert json.loads(line)["application_id"] == rows(ran)[0]["application_id"]
            listener.send(signal.SIGTERM)
            assert listener.wait().status == 0
        emulator.stderr.wait_for("listen has ended")
        assert "income-client listen" in cli("trigger").stderr
        emulator.send(signal.SIGTERM)
        assert emulator.wait().status == 0
    assert not place_of(cli, "emulate").exists()
    assert not place_of(cli, "listen").exists()


@contextmanager
def announcing(cli: Cli, name: str, content: bytes, mode: int = 0o600) -> Iterator[int]:
    """Hold a file as a running command does; yields its descriptor."""
    place = place_of(cli, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.write_bytes(content)
    place.chmod(mode)
    with place.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


HERE: Final = json.dumps({"url": NOBODY, "USERNAME": "a", "PASSWORD": "b"}).encode()


def test_an_announcement_of_somebody_else_is_not_believed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone who can write the file could choose where credentials and callbacks go."""
    with announcing(cli, "emulate", HERE):
        assert "nobody answers" in cli("trigger").stderr
    # What a killed one has left behind is held by nobody.
    assert "no emulator is running" in cli("trigger").stderr
    monkeypatch.setenv("HOME", str(cli.folder / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with announcing(cli, "emulate", HERE) as descriptor:
        assert announcement("emulate") == json.loads(HERE)
        if os.geteuid() == 0:
            os.fchown(descriptor, 65534, 65534)
            assert announcement("emulate") is None
    with announcing(cli, "emulate", HERE, mode=0o622):
        assert announcement("emulate") is None
    for damaged in (b"", b"[]", b"\xff", b"[" * 100_000, b'{"url": 1}', b"{}"):
        with announcing(cli, "emulate", damaged), announcing(cli, "listen", damaged):
            assert announcement("emulate") is announcement("listen") is None
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(cli.folder / "home/.local/state"))
    monkeypatch.setenv("HOME", str(cli.folder / "elsewhere"))
    with announcing(cli, "emulate", HERE):
        assert announcement("emulate") == json.loads(HERE)
