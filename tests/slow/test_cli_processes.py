"""Tests of whole processes: kills, second signals, closed streams, and ways to start."""

import fcntl
import json
import os
import shlex
import signal
import socket
import termios
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from income_client import IncomeClient
from income_client.testing import IncomeService
from tests.cli.commands import BASIC, BASIC_VARIABLES, Download, Export, Listening
from tests.support.cli import Cli, cli, complaints, shell
from tests.support.emulated import documents_of, ids_in
from tests.support.processes import (
    COMMAND,
    Process,
    Terminal,
    environment,
    file_for,
    run,
    started,
    until,
)

__all__ = ["cli", "shell"]

HERE = ("--allow-host", "127.0.0.1")
MOST_IN_A_BATCH = 100


def is_json(line: str) -> bool:
    """Return whether a line is JSON."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@pytest.mark.income_service(applications=30)
def test_a_killed_download_leaves_no_file_out(
    income_service: IncomeService, tmp_path: Path
) -> None:
    """After SIGKILL at any moment each path is printed by one of both runs, and all is whole."""
    folder, lines = tmp_path / "files", tmp_path / "lines"
    command = ("download", "--to", str(folder), *HERE, *income_service.ids)
    with file_for(lines) as file:
        with started(*command, env=environment(income_service), stdout=file) as process:
            until(lambda: lines.stat().st_size > 2_000)
            process.send(signal.SIGKILL)
            assert process.wait().status == -signal.SIGKILL
        with started(*command, env=environment(income_service), stdout=file) as process:
            assert process.wait().status == 0
    for document_id in documents_of(income_service):
        (path,) = folder.rglob(f"{document_id}-0.*")
        assert path.read_bytes() == income_service.content_of(document_id)
        assert str(path) in lines.read_text("utf-8").splitlines()


@pytest.mark.income_service(applications=300)
def test_a_killed_poll_repeats_one_batch_at_most(
    income_service: IncomeService, tmp_path: Path
) -> None:
    """After SIGKILL, nothing is missing from the file, and a batch at most is in it twice."""
    lines = tmp_path / "lines"
    command = ("poll", "--store", str(tmp_path / "polls"), "--start", "beginning")
    with file_for(lines) as file:
        with started(*command, env=environment(income_service), stdout=file) as process:
            until(lambda: lines.stat().st_size > 200_000)
            process.send(signal.SIGKILL)
            process.wait()
        with started(*command, "--once", env=environment(income_service), stdout=file) as process:
            assert (process.wait().status, complaints(process.wait())) == (0, "")
    text = lines.read_text("utf-8").splitlines()
    whole = [line for line in text if is_json(line)]
    assert len(text) - len(whole) <= 1
    counts = Counter(ids_in("\n".join(whole)))
    assert counts.keys() == set(income_service.ids)
    assert counts.total() <= 300 + MOST_IN_A_BATCH


@pytest.mark.income_service(applications=20)
def test_a_standby_reports_when_it_waits_and_when_it_takes_over(
    income_service: IncomeService, tmp_path: Path
) -> None:
    """Also where no terminal shows its state; a poller that is alone reports neither."""
    lines, messages = tmp_path / "lines", tmp_path / "messages"
    command = ("poll", "--store", str(tmp_path / "polls"), "--start", "beginning")
    options = (*command, "--standby", "--lease", "1")
    here = environment(income_service)
    with (
        file_for(lines) as out,
        file_for(messages) as err,
        started(*options, env=here, stdout=out) as leader,
    ):
        until(lambda: lines.stat().st_size > 0)
        with started(*options, env=here, stderr=err) as standby:
            until(lambda: "standing by" in messages.read_text("utf-8"))
            leader.send(signal.SIGKILL)
            assert complaints(leader.wait()) == ""
            until(lambda: "took over" in messages.read_text("utf-8"))
            standby.send(signal.SIGTERM)
            assert standby.wait().status == 0


@pytest.mark.income_service(applications=150)
def test_a_second_signal_ends_a_poll_that_cannot_write(
    income_service: IncomeService, tmp_path: Path
) -> None:
    """Nobody reads the lines, so the first signal cannot stop the poll; the second one ends it."""
    command = ("poll", "--store", str(tmp_path / "polls"), "--start", "beginning")
    reading, writing = os.pipe()
    try:
        with started(*command, env=environment(income_service), stdout=writing) as process:
            # A hundred records are more than a pipe holds: once begun, their writing never ends.
            until(lambda: unread(reading) > 0)
            for _ in range(100):
                process.send(signal.SIGTERM)
                if process.has_ended(0.05):
                    break
            assert process.wait().status == -signal.SIGTERM
    finally:
        os.close(reading)
        os.close(writing)
    again = run(*command, "--once", env=environment(income_service))
    assert len(ids_in(again.stdout)) == 150


def unread(pipe: int) -> int:
    """Return how many bytes are in a pipe."""
    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


@pytest.mark.income_service(applications=3)
@pytest.mark.parametrize(
    ("closed", "status", "written"), [(">&-", 1, 0), ("2>&-", 0, 3)], ids=["stdout", "stderr"]
)
def test_closed_streams_are_no_files(
    closed: str, status: int, written: int, income_service: IncomeService, tmp_path: Path
) -> None:
    """Without standard output nothing is begun; without standard error nothing is said."""
    store = tmp_path / "polls"
    line = shlex.join([*COMMAND, "poll", "--store", str(store), "--start", "beginning", "--once"])
    ran = run("-c", f"{line} {closed}", command=("sh",), env=environment(income_service))
    assert (ran.status, len(ran.lines)) == (status, written)
    assert ("standard output is closed" in ran.stderr) is bool(status)
    assert store.exists() is not bool(status)


@pytest.mark.income_service(applications=12)
def test_ids_are_piped_from_one_command_to_another(income_service: IncomeService) -> None:
    """The two processes are connected as in a shell."""
    command = shlex.join(COMMAND)
    line = f"{command} applications | {command} documents - -q"
    ran = run("-c", line, command=("sh",), env=environment(income_service))
    assert (ran.status, ran.stderr) == (0, "")
    assert sorted(ran.lines) == sorted(documents_of(income_service))


def test_a_second_signal_ends_a_listener_at_once(income_service: IncomeService) -> None:
    """The first waits for callbacks under way, the second for nothing."""
    with started("listen", "--port", "0", env=environment(None, **BASIC_VARIABLES)) as process:
        url = urlsplit(Listening(process, income_service).url)
        with socket.create_connection(("127.0.0.1", url.port or 0)) as half_sent:
            fields = (
                f"Host: {url.netloc}",
                f"Authorization: {BASIC.authorization().reveal()}",
                "Content-Type: application/json",
                "Content-Length: 100",
                "Expect: 100-continue",
            )
            lines = (f"POST {url.path} HTTP/1.1", *fields, "", "{")
            half_sent.sendall("\r\n".join(lines).encode())
            assert half_sent.recv(100).startswith(b"HTTP/1.1 100 ")
            process.send(signal.SIGTERM)
            until(lambda: not is_open(url.port or 0))
            assert not process.has_ended(0)
            process.send(signal.SIGINT)
            ran = process.wait()
    assert (ran.status, ran.stdout) == (-signal.SIGINT, "")


def is_open(port: int) -> bool:
    """Return whether a port accepts connections."""
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def test_listen_emulate_and_trigger_work_together(income_service: IncomeService) -> None:
    """Three processes, with the user name and the password of the environment."""
    env = environment(None, **BASIC_VARIABLES)
    with started("listen", "--port", "0", env=env) as first:
        listening = Listening(first, income_service)
        arguments = ("--applications", "20", "--callbacks", listening.url)
        with started("emulate", *arguments, env=env) as emulator:
            lines = emulator.stdout.wait_for("# Its files: ").splitlines()
            exported = [shlex.split(line)[1] for line in lines if line.startswith("export ")]
            variables = dict(one.split("=", 1) for one in exported)
            fired = run("trigger", "--count", "2", env=environment(None, **variables))
        assert (fired.status, fired.stderr) == (0, "")
        for line, received in zip(fired.lines, listening.lines(2), strict=True):
            sent = json.loads(line)
            assert (sent["event_type"], sent["attempts"]) == ("income_calculations", [200])
            assert received["application_id"] == sent["application_id"]


# Questions at a terminal that belongs to the command


def test_a_person_is_asked(income_service: IncomeService, tmp_path: Path) -> None:
    """The command asks for address, name and secret, and saves them."""
    basic = income_service.basic
    answers = {
        "Address of the service: ": income_service.url,
        "Client id (none for a user name): ": "",
        "User name: ": basic.username,
        "(not shown): ": basic.password.reveal(),
    }
    env = environment(HOME=str(tmp_path))
    with started("configure", env=env, terminal=Terminal(), owns_terminal=True) as process:
        for question, answer in answers.items():
            process.stderr.wait_for(question)
            process.write(f"{answer}\n")
        ran = process.wait()
    assert ran.status == 0
    assert basic.password.reveal() not in ran.screen
    saved = tmp_path / ".config" / "income-client" / "config.toml"
    assert "127.0.0.1" in repr(IncomeClient.from_config(path=saved))


@pytest.fixture
def config(income_service: IncomeService, tmp_path: Path) -> str:
    """A file that lacks nothing but the secret."""
    path = tmp_path / "config"
    client_id = income_service.oauth2.client_id
    path.write_text(f'base_url = "{income_service.url}"\nclient_id = "{client_id}"\n', "utf-8")
    path.chmod(0o600)
    return str(path)


@contextmanager
def asking(config: str) -> Iterator[Process]:
    """Make the command ask for the secret."""
    arguments = ("applications", "-q", "--config", config)
    with started(
        *arguments, env=environment(), terminal=Terminal(), piped=True, owns_terminal=True
    ) as process:
        process.stderr.wait_for("(not shown): ")
        yield process


def test_a_person_is_asked_and_nothing_is_shown(config: str, income_service: IncomeService) -> None:
    """The answer is hidden while it is typed, and used."""
    secret = income_service.oauth2.client_secret.reveal()
    with asking(config) as process:
        process.write(f"{secret}\n")
        ran = process.wait()
    assert (ran.status, sorted(ran.lines)) == (0, sorted(income_service.ids))
    assert f"Client secret of {income_service.oauth2.client_id}" in ran.screen
    assert secret not in ran.screen


@pytest.mark.parametrize(
    ("keys", "status"), [("\x03", 130), ("\x04", 2), ("\n", 2)], ids=["Ctrl-C", "Ctrl-D", "Enter"]
)
def test_a_question_without_an_answer_ends_it(
    keys: str, status: int, config: str, income_service: IncomeService
) -> None:
    """Ctrl-C ends the question at once; without an answer the secret is missing."""
    with asking(config) as process:
        process.write(keys)
        ran = process.wait()
    assert (ran.status, ran.stdout) == (status, "")
    assert ("set client_secret in" in ran.screen) is (status == 2)
    assert "Traceback" not in ran.screen
    assert len(income_service.requests) == 0


# More applications in one second than a page can hold: a thousand reads each


@pytest.mark.income_service(applications=[20 * 86_400] * 1001, file_bytes=10)
def test_a_download_reports_it(shell: Cli) -> None:
    """The other applications are downloaded, and the status is 1."""
    ran = Download(shell)("--updated-after", "beginning", "--type", "none")
    assert ran.status == 1
    assert "1970-01-21T00:00:00" in ran.stderr


@pytest.mark.income_service(applications=[1_780_302_600] * 1030)
def test_an_export_does_not_pass_over_it(shell: Cli) -> None:
    """Rows that cannot be listed are missing too: no file, unless that is allowed."""
    export = Export(shell)
    ran = export("--no-documents")
    assert ran.status == 1
    assert "2026-06-01T08:30:00" in ran.stderr
    assert export("--no-documents", "--allow-missing").status == 0
    assert len(set(export.ids)) == len(export.ids) >= 1000
    assert export.manifest["saturated_seconds"] == ["2026-06-01T08:30:00"]
