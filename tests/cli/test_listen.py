"""``income-client listen``: takes callbacks, prints them as lines of JSON, and hands them on."""

import shlex
import socket
from datetime import UTC, datetime, timedelta
from ssl import SSLContext
from typing import Any, Final

import pytest

from income_client import BasicAuth, Callback, CallbackTokenIssuer
from income_client.cli.rows import AlignedLines
from income_client.emulator import CallbackTarget
from income_client.receivers import CallbackReceiver
from income_client.testing import IncomeService
from tests.support.beside import beside
from tests.support.callback_certificates import SERVICE, Papers
from tests.support.callbacks import served_by_aiohttp
from tests.support.cli import FULL, Cli, Running, spelt, when_shown
from tests.support.listening import (
    BASIC,
    BASIC_VARIABLES,
    OAUTH2,
    OAUTH2_VARIABLES,
    Listen,
    Listening,
)
from tests.support.served import served
from tests.support.server import HUNG_UP, Reply, ScriptedServer, in_turn, reply
from tests.support.streams import Ran, Terminal, closed_pipe

pytestmark = pytest.mark.income_service(applications=5)
HOSTILE: Final = "\x1b]0;x\x07\x7f\x9b31m\u2028\u202e\u2066\r\n\U0001f600"


@pytest.fixture
def listen(cli: Cli, income_service: IncomeService) -> Listen:
    """Listens beside a visit of the service."""
    return Listen(cli, income_service)


# Lines


def test_a_callback_is_a_line(listen: Listen, income_service: IncomeService) -> None:
    """Its time, its event and its application; the same bytes once more are a repeat."""
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
    """It may hold anything and cannot be masked, so --payload alone is refused there."""
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


# Who may call


def test_made_up_credentials_lead_to_it(cli: Cli, income_service: IncomeService) -> None:
    """Without credentials in the environment it shows some to a person, new ones each time."""
    passwords = set()

    def visit(running: Running) -> None:
        command = Listening(running, income_service)
        shown = running.stderr.wait_for("INCOME_CALLBACK_PASSWORD=").splitlines()
        words = [shlex.split(line)[1] for line in shown if line.startswith("export ")]
        variables = dict(one.split("=", 1) for one in words)
        assert list(variables) == ["INCOME_CALLBACK_USERNAME", "INCOME_CALLBACK_PASSWORD"]
        target = command.target(auth=BasicAuth(*variables.values()))
        assert command.fire(target=target).attempts == (200,)
        passwords.add(variables["INCOME_CALLBACK_PASSWORD"])
        running.terminate()

    for _ in range(2):
        assert cli("listen", "--port", "0", terminal=Terminal(), during=visit).status == 0
    assert len(passwords) == 2
    # They stay out of logs.
    logged = when_shown("made up", action="terminate")
    ran = cli("listen", "--port", "0", during=logged)
    assert "export" not in ran.stderr
    assert ran.stderr.count("\n") == 2


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


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("--network 198.51.100.0/24", 403),
        ("--network 198.51.100.0/24 --trusted-proxy 127.0.0.1", 200),
    ],
)
def test_networks_and_proxies(line: str, status: int, listen: Listen) -> None:
    headers = {"X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
    assert listen.attempts(*line.split(), headers=headers) == (status,)


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


# TLS


def tls(papers: Papers, *, client: bool = False) -> tuple[str, ...]:
    """Return the options of a server with TLS, perhaps asking for client certificates."""
    files = {name: str(path) for name, path in papers.files.items()}
    options = ("--certificate", files["certificate"], "--key", files["key"])
    return (*options, "--client-ca", files["client_ca"]) if client else options


def test_credentials_over_tls(listen: Listen, papers: Papers) -> None:
    def visit(command: Listening) -> None:
        assert command.url.startswith("https://127.0.0.1:")
        target = command.target(auth=OAUTH2, token_url=command.token_url, ssl=papers.client())
        assert command.fire(target=target).attempts == (200,)
        assert command.fire().attempts == ("tls",)

    listen(visit, *tls(papers), env=OAUTH2_VARIABLES)


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (("--san", "other.invalid", "--san", SERVICE), 200),
        (("--subject", "CN=somebody else"), 403),
    ],
    ids=spelt,
)
def test_client_certificates(
    names: tuple[str, ...], status: int, listen: Listen, papers: Papers
) -> None:

    def attempts(ssl: SSLContext) -> tuple[int | str, ...]:
        options = (*tls(papers, client=True), *names)
        return listen.attempts(*options, env={}, target=lambda it: it.target(auth=None, ssl=ssl))

    assert attempts(papers.client(papers.service())) == (status,)
    assert not isinstance(attempts(papers.client())[0], int)


# Handed on


EXACT: Final = b'{"event_type":"error","more":[18446744073709551616,99999999999999.99,1.10,1E+400]}'


def test_an_application_gets_what_the_service_sent(listen: Listen) -> None:
    """Every digit of the JSON, with the same credentials; its 200 is the service's 200."""

    def visit(command: Listening) -> None:
        assert command.fire(payload=EXACT).attempts == (200,)
        assert command.lines(1)[0]["event_type"] == "error"
        assert "99999999999999.99,1.10,1E+400" in command.running.stdout.text
        assert command.fire(target=command.target(auth=None)).attempts == (401,)

    with beside(ScriptedServer(in_turn(reply()))) as server:
        listen(visit, "--payload", "--forward-to", f"{server.url}/hook?from=listen")
    (request,) = server.requests
    assert (request.method, request.path, request.query) == ("POST", "/hook", "from=listen")
    assert request.authorization == BASIC.authorization().reveal()
    assert request.headers["content-type"] == "application/json"
    assert request.body == EXACT


@pytest.mark.parametrize(
    "answer",
    [reply(500), reply(202), HUNG_UP],
    ids=["500", "202", "dropped"],
)
def test_what_is_not_handed_on_is_sent_again(answer: Reply, listen: Listen) -> None:
    """Any answer but 200 makes it 503 and no line, so that the service sends again."""

    def visit(command: Listening) -> None:
        assert command.fire(target=command.target(pauses=(0,))).attempts == (503, 200)

    with beside(ScriptedServer(in_turn(answer, reply()))) as server:
        ran = listen(visit, "--forward-to", server.url)
    assert (len(server.requests), len(ran.lines)) == (2, 1)
    said = ran.stderr.splitlines()[1]
    assert "--forward-to" in said
    assert ("dropped" if answer is HUNG_UP else str(answer.status)) in said


def test_what_is_handed_on_carries_a_token_too(listen: Listen) -> None:
    received: list[Callback] = []
    issuer = CallbackTokenIssuer(OAUTH2.client_id, OAUTH2.client_secret)
    receiver = CallbackReceiver(received.append, auth=issuer.auth)
    with beside(served_by_aiohttp(receiver)) as url:
        forward = ("--forward-to", f"{url}/callbacks", "--token-path", "/issue")
        assert listen.attempts(*forward, env=OAUTH2_VARIABLES, target=with_token) == (200,)
    assert len(received) == 1


def test_it_does_not_call_itself(cli: Cli) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def ran(address: str, **options: Any) -> Ran:
        there = ("--forward-to", address.format(port))
        return cli("listen", "--port", port, *there, env=BASIC_VARIABLES, **options)

    for address in ("http://127.0.0.2:{}/callbacks?again", "http://localhost:{}/%63allbacks"):
        refused = ran(address)
        assert refused.status == 2
        assert "--forward-to leads back" in refused.stderr

    for address in ("http://localhost:{}/hook?/callbacks", "http://localhost:1/callbacks"):
        assert ran(address, during=when_shown("http", action="terminate")).status == 0


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
    """The callback, handed on before, is answered with 503, and the command ends."""

    def visit(command: Listening) -> None:
        assert command.fire().attempts == (503,)
        command.running.wait()

    with beside(ScriptedServer(in_turn(reply()))) as server, closed_pipe() as pipe:
        stdout = FULL if kind == "full disk" else pipe
        ran = listen(visit, "--forward-to", server.url, stdout=stdout)
    assert ran.status == (1 if kind == "full disk" else 141)
    assert ("no space left on device" in ran.stderr) is (kind == "full disk")
    assert len(server.requests) == 1


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
