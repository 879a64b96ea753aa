"""``income-client trigger`` has a running emulator send callbacks."""

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.request import urlopen

import pytest

from income_client import Secret
from income_client.emulator import CallbackTarget, Emulator
from income_client.testing import IncomeService
from tests.support.cli import Cli
from tests.support.emulated import served
from tests.support.processes import Ran, Terminal, beside
from tests.support.server import HUNG_UP, Reply, ScriptedServer, in_turn, json_reply, reply

pytestmark = pytest.mark.income_service(applications=5)
NOBODY: Final = "http://127.0.0.1:9"
TOKEN: Final = Secret("invented-control-token")


@pytest.fixture
def endpoint(income_service: IncomeService) -> Iterator[ScriptedServer]:
    """Endpoint for the service's callbacks; it answers with 200."""
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
    assert shell.service.token_requests == 0


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
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "--callbacks" in ran.stderr
    shell.service.callbacks = CallbackTarget(NOBODY)
    ran = shell("trigger", "nobody")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "no application" in ran.stderr


def test_an_emulator_with_a_control_token_asks_for_it(cli: Cli) -> None:
    """The token is in no message."""
    with (
        beside(ScriptedServer(in_turn(reply()))) as endpoint,
        beside(Emulator(5, control_token=TOKEN)) as emulator,
    ):
        emulator.callbacks = CallbackTarget(endpoint.url)
        env = {"INCOME_BASE_URL": emulator.url}
        for wrong in ({}, {"INCOME_EMULATOR_TOKEN": "a-hidden-token"}):
            ran = cli("trigger", env={**env, **wrong})
            assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
            assert "control token" in ran.stderr
            assert "hidden" not in ran.stderr
        ran = cli("trigger", env={**env, "INCOME_EMULATOR_TOKEN": TOKEN.reveal()})
    assert (ran.status, ran.stderr) == (0, "")


@pytest.mark.parametrize("answer", [reply(404), reply(200, b"<html>"), HUNG_UP])
def test_what_is_not_an_emulator_is_reported(answer: Reply, shell: Cli) -> None:
    with beside(ScriptedServer(in_turn(answer))) as server:
        ran = shell("trigger", env={"INCOME_BASE_URL": server.url})
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "emulator" in ran.stderr


def test_no_answer_is_a_formula(shell: Cli) -> None:
    """Texts within a list are marked in CSV like others, whatever took the emulator's port."""
    with urlopen(f"{shell.service.url}/emulator/state") as answer:
        state = json.load(answer)
    outcome = {"application_id": "a", "event_type": None, "attempts": ["=1+1"], "is_json": True}
    with beside(ScriptedServer(in_turn(json_reply(state), json_reply(outcome)))) as server:
        ran = shell("trigger", "-o", "csv", env={"INCOME_BASE_URL": server.url})
    assert ran.lines[1] == '"a","","no","\'=1+1"'
