"""``income-client listen``: takes callbacks, and prints them as lines of JSON."""

import socket
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from income_client import BasicAuth
from income_client.cli.rows import AlignedLines
from income_client.emulator import CallbackTarget
from income_client.testing import IncomeService
from tests.cli.commands import (
    BASIC,
    BASIC_VARIABLES,
    OAUTH2,
    OAUTH2_VARIABLES,
    Listen,
    Listening,
)
from tests.support.cli import FULL, Cli
from tests.support.emulated import served
from tests.support.processes import Terminal, closed_pipe

pytestmark = pytest.mark.income_service(applications=5)
HOSTILE: Final = "\x1b]0;x\x07\x7f\x9b31m\u2028\u202e\u2066\r\n\U0001f600"


@pytest.fixture
def listen(cli: Cli, income_service: IncomeService) -> Listen:
    """Listens beside a visit of the service."""
    return Listen(cli, income_service)


# Lines


def test_a_callback_is_a_line(listen: Listen, income_service: IncomeService) -> None:
    """The line has time, event and application; identical bytes a second time are a repeat."""
    one = income_service.ids[0]

    def visit(command: Listening) -> None:
        for is_repeat in (False, True):
            assert command.fire(one).attempts == (200,)
            line = command.lines(1 + is_repeat)[-1]
            received_at = datetime.fromisoformat(line.pop("received_at"))
            assert abs(datetime.now(UTC) - received_at) < timedelta(minutes=5)
            reference = served(income_service, one)["application_reference_id"]
            assert line == {
                "event_type": "income_calculations",
                "application_id": one,
                "application_reference_id": reference,
                "is_repeat": is_repeat,
            }

    ran = listen(visit)
    assert (ran.status, ran.stderr.count("\n")) == (0, 1)


def test_a_person_gets_aligned_lines(listen: Listen, income_service: IncomeService) -> None:
    one = income_service.ids[0]
    reference = served(income_service, one)["application_reference_id"]
    terminal = Terminal(columns=80)

    def visit(command: Listening) -> None:
        for _ in range(2):
            command.fire(one)
            command.fire(income_service.ids[1], event_type="error")
        command.running.stdout.wait_for(income_service.ids[1], times=2)

    rows = terminal.standing(listen(visit, terminal=terminal).screen)[-4:]
    cells = [row.split() for row in rows]
    assert cells[0][1:] == [one, "income_calculations", reference]
    assert cells[2][1:] == [one, "income_calculations", reference, "repeat"]
    assert {
        row.index(event)
        for row, event in zip(rows, ["income_calculations", "error"] * 2, strict=True)
    } == {rows[0].index("income_calculations")}


def test_a_cell_is_left_out_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    lines = AlignedLines()
    assert lines.line("one", "reference", "x", optional=1) == b"one  reference  x"
    assert lines.line("a longer one", "reference", "x", optional=1) == b"a longer one  x"


def test_a_terminal_shows_a_payload_on_request(listen: Listen, cli: Cli) -> None:
    """A payload may hold anything and cannot be masked, so --payload alone is refused there."""
    shown = "--show-personal-data"
    ran = cli("listen", "--payload", terminal=Terminal())
    assert (ran.status, shown in ran.screen) == (2, True)

    def visit(command: Listening) -> None:
        command.fire(event_type="extractions")
        command.running.stdout.wait_for('"payload":{"event_type":"extractions"')

    listen(visit, "--payload", shown, terminal=Terminal(columns=400))


def test_a_line_is_plain_ascii_and_says_the_same(listen: Listen) -> None:
    sent = {"event_type": HOSTILE, "more": {HOSTILE: [HOSTILE, 1.5, None, -(2**63)]}}

    def visit(command: Listening) -> None:
        command.fire(payload=sent)
        assert command.lines(1)[0]["payload"] == sent
        raw = command.running.stdout.text
        assert raw.isascii()
        assert raw.removesuffix("\n").isprintable()

    listen(visit, "--payload")


EXACT: Final = b'{"event_type":"error","more":[18446744073709551616,99999999999999.99,1.10,1E+400]}'


def test_a_payload_keeps_every_digit(listen: Listen) -> None:
    def visit(command: Listening) -> None:
        assert command.fire(payload=EXACT).attempts == (200,)
        assert command.lines(1)[0]["event_type"] == "error"
        assert "99999999999999.99,1.10,1E+400" in command.running.stdout.text

    listen(visit, "--payload")


# Who may call


def with_token(command: Listening) -> CallbackTarget:
    """Return where callbacks with a token go."""
    token_url = command.url.replace("/callbacks", "/issue")
    return command.target(auth=OAUTH2, token_url=token_url)


def test_credentials_of_either_kind_pass_where_they_are_set(listen: Listen) -> None:
    """And nothing without a token or a name."""
    both = {**BASIC_VARIABLES, **OAUTH2_VARIABLES}
    assert listen.attempts(env=both) == (200,)
    assert listen.attempts(env=OAUTH2_VARIABLES) == (401,)
    assert listen.attempts("--token-path", "/issue", env=both, target=with_token) == (200,)
    assert listen.attempts(env=both, target=lambda it: it.target(auth=None)) == (401,)


def test_refusals_are_reported_by_reason(listen: Listen) -> None:
    """The caller learns a status, the operator each reason once, and all of them at the end."""
    wrong = BasicAuth(BASIC.username, "another-password")

    def visit(command: Listening) -> None:
        command.fire()
        for _ in range(2):
            assert command.fire(target=command.target(auth=wrong)).attempts == (401,)
        assert command.fire(headers={"Content-Type": "text/plain"}).attempts == (415,)

    ran = listen(visit)
    assert len(ran.lines) == 1
    _, first, second, last = ran.stderr.splitlines()
    assert "401" in first
    assert "415" in second
    assert all("127.0.0.1" in line for line in (first, second))
    assert all(words in last for words in ("1 taken", "content_type 1", "password_wrong 2"))
    assert "another-password" not in ran.stderr


def test_its_path_can_be_chosen(listen: Listen) -> None:
    def visit(command: Listening) -> None:
        assert command.url.endswith("/hooks/income")
        assert command.fire().delivered
        elsewhere = CallbackTarget(f"{command.url}/x", auth=BASIC)
        for _ in range(2):
            assert command.fire(target=elsewhere).attempts == (404,)

    ran = listen(visit, "--path", "/hooks/income")
    assert ran.stderr.count("/hooks/income/x") == 1


def test_whatever_comes_it_continues_to_listen(listen: Listen) -> None:
    def visit(command: Listening) -> None:
        for payload in (b"\xff", b"[" * 5000, b'{"a":1,"a":2}', b"x" * 2**21):
            assert not command.fire(payload=payload).delivered
        shapes: list[Any] = [b"", b"null", [1], "text", {"event_type": 7}]
        for count, shape in enumerate(shapes, 1):
            assert command.fire(payload=shape).delivered
            line = command.lines(count)[-1]
            assert (line["event_type"], line["application_id"]) == (None, None)

    listen(visit)


# How it ends, and why it does not begin


@pytest.mark.parametrize(("signal", "status"), [("interrupt", 130), ("terminate", 0)])
def test_signals_end_it_cleanly(signal: str, status: int, listen: Listen) -> None:
    def visit(command: Listening) -> None:
        assert command.fire().delivered
        getattr(command.running, signal)()
        command.running.wait()

    ran = listen(visit)
    assert (ran.status, len(ran.lines), ran.stderr.count("\n")) == (status, 1, 1)


@pytest.mark.parametrize("kind", ["closed pipe", "full disk"])
def test_a_line_that_cannot_be_written_is_not_taken(kind: str, listen: Listen) -> None:
    """The callback is answered with 503, and the command ends."""

    def visit(command: Listening) -> None:
        assert command.fire().attempts == (503,)
        command.running.wait()

    with closed_pipe() as pipe:
        ran = listen(visit, stdout=FULL if kind == "full disk" else pipe)
    assert ran.status == (1 if kind == "full disk" else 141)
    assert ("no space left on device" in ran.stderr) is (kind == "full disk")


def test_a_taken_port_is_one_line(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ran = cli("listen", "--port", port, env=BASIC_VARIABLES)
        assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
        assert "address already in use" in ran.stderr
        others = cli("listen", "--host", "0.0.0.0", "--port", port, env=BASIC_VARIABLES)
    assert others.status == 1
    assert "TLS" in others.stderr.splitlines()[0]
