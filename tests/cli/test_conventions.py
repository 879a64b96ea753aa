"""What holds for every command: help, arguments, streams, colours, secrets, endings, completion."""

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client.cli.app import command_line
from income_client.emulator import Fault
from income_client.testing import IncomeService, LoopRunner, make_record
from tests.support.beside import beside, until
from tests.support.cli import FULL, Cli, Running, Terminal, closed_pipe, spelt
from tests.support.commands import (
    CASES,
    FORMS,
    NAMES,
    READING,
    Form,
    examples_in,
    prepare,
    spoilt,
)
from tests.support.fronts import changing
from tests.support.served import served

WIDTH: Final = 80
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*(3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")
SECRET: Final = re.compile(r"--([a-z-]+-)?(pass(word|phrase)|secret|token|credentials?)\b(?!-)")
HARMFUL: Final = "\x1b[2J\x07\x9b5A\u202eZoë"
WITHOUT_SECRETS: Final = tuple(form for form in FORMS if "--reveal" not in form.more)
SHOWING: Final = tuple(
    form for form in FORMS if CASES[form.name].reads and form.name not in ("find", "token")
)
few: Final = pytest.mark.income_service(applications=3)


@pytest.fixture
def ready(service_cli: Cli, income_run: LoopRunner) -> Cli:
    """The command with a service and with all files that any command reads."""
    prepare(service_cli.folder, income_run)
    return service_cli


# Help


def test_help_lists_every_command(cli: Cli) -> None:
    """What one tries first comes first, and each exit status has a line."""
    shown = cli("--help")
    listed = re.findall(r"^│ ([a-z-]+) ", shown.stdout, re.MULTILINE)
    names = [name for name in listed if not name.startswith("-")]
    assert (names[0], sorted(names)) == ("demo", sorted(NAMES))
    statuses = re.findall(r"^  (\d+) +\w", shown.stdout, re.MULTILINE)
    assert statuses == ["0", "1", "2", "3", "4", "130", "141", "143"]


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_a_terminal(name: str, cli: Cli) -> None:
    """It is data: on standard output, plain in a pipe, as wide as a terminal, with an example."""
    shown = cli(name, "--help")
    assert (shown.status, shown.stderr) == (0, "")
    assert f"Usage: income-client {name}" in shown.stdout
    assert "[ARGS" not in shown.stdout
    assert f"Example: income-client {name}" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert max(map(len, shown.lines)) <= WIDTH
    summary = cli("--help").words
    assert name in summary


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_is_an_option(name: str, cli: Cli) -> None:
    """What is typed is in the history of the shell and in the list of processes."""
    options = re.findall(r"--[a-z-]+", cli(name, "--help").stdout)
    assert not [option for option in options if SECRET.fullmatch(option)]


@pytest.mark.parametrize("name", NAMES)
def test_examples_can_be_typed(name: str, cli: Cli) -> None:
    """Each command line of the example is understood; without settings it ends, or is ended."""
    examples = list(examples_in(cli(name, "--help").stdout))
    assert any(example[0] == name for example in examples)

    def stop(running: Running) -> None:
        begun = {"emulate": "http", "listen": "http", "demo": "Walking", "configure": "Address"}
        if example[0] in begun:
            running.stderr.wait_for(begun[example[0]])
            running.interrupt()

    for example in examples:
        free = ("--port", "0") if example[0] == "listen" else ()
        shown = cli(*example, *free, terminal=Terminal(), during=stop)
        assert "Traceback" not in shown.screen
        assert "--help says more" not in shown.screen


# Arguments


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_option_is_named(name: str, cli: Cli) -> None:
    """Wrong usage is explained on standard error, with status 2, and starts nothing."""
    ran = cli(name, "--no-such-option", "value")
    assert (ran.status, ran.stdout) == (2, "")
    # Where something is missing as well, that is said first.
    assert "--no-such-option" in ran.stderr or "is missing" in ran.stderr
    assert max(map(len, ran.stderr.splitlines())) <= WIDTH


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nonsense",), "nonsense"),
        (("demo", "--applications", "many"), "many"),
        (("demo", "--applications", "0"), "--applications"),
        (("demo", "surplus"), "Unexpected argument: surplus."),
        (("emulate", "--port", "70000"), "70000"),
        (("emulate", "--latency", "-1"), "-1"),
        (("emulate", "--start", "tomorrow"), "--start"),
        (("export",), "parameter --to is missing"),
        (("export", "--to"), "parameter --to requires an argument"),
        (("application",), "parameter APPLICATION_ID is missing"),
        (("applications", "--updated-afer", "7d"), "Did you mean --updated-after?"),
        (("documents", "app-1", "--typ", "w2"), "Did you mean --type?"),
        (("download", "app-1", "--to", "x", "--concurency", "4"), "Did you mean --concurrency?"),
        (("export", "--to", "x", "--output", "parquet"), "--format"),
        (("export", "--to", "x", "--output=parquet"), "--format"),
        (("export", "--to", "x", "-o", "parquet"), "--format"),
        (("completion", "csh"), "zsh"),
    ],
    ids=lambda value: spelt(value) or "",
)
def test_misuse_is_explained(arguments: tuple[str, ...], named: str, cli: Cli) -> None:
    """The message names the argument, or what was meant, with status 2."""
    ran = cli(*arguments)
    assert (ran.status, ran.stdout) == (2, "")
    assert named in ran.words


@pytest.mark.parametrize(
    "arguments",
    [
        ("applications", "--output", "\x1b[31m"),
        ("x\x1b[31m",),
        ("demo", "x\x1b[31m"),
        ("demo", "--x\x1b[31m"),
        ("find", "LOAN-1", "--output", "\x07\u202e"),
    ],
    ids=spelt,
)
def test_what_was_typed_cannot_act_on_a_terminal(arguments: tuple[str, ...], cli: Cli) -> None:
    """A wrong argument is quoted without the characters that would do harm."""
    ran = cli(*arguments)
    assert (ran.status, ran.stdout) == (2, "")
    assert "?" in ran.stderr
    assert ran.stderr.replace("\n", "").isprintable()


def test_without_the_extra_it_names_what_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its libraries are missing, the status is 1."""
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    ran = cli("--version")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "pip install 'income-client[cli]'" in ran.stderr


# Streams


def test_every_command_is_tried() -> None:
    """A new sub-command is tried here, or serves until it is told to end, or asks."""
    assert {*NAMES} == {*command_line()} - {"--help", "-h", "--version"}


@few
@pytest.mark.parametrize("name", CASES)
def test_a_pipe_gets_plain_text(name: str, ready: Cli, income_service: IncomeService) -> None:
    """What is no terminal gets no colours and no motion, on neither stream."""
    ran = ready(*Form(name).line(income_service))
    assert ran.status in CASES[name].statuses, ran.stderr
    assert ran.stdout
    assert not re.search(r"[\x1b\x07\r]", ran.stdout + ran.stderr)


@few
@pytest.mark.parametrize("name", CASES)
def test_no_color_is_respected(name: str, ready: Cli, income_service: IncomeService) -> None:
    """NO_COLOR takes the colours from a terminal."""
    line = Form(name).line(income_service)
    shown = ready(*line, terminal=Terminal(), env={"NO_COLOR": "1"})
    assert shown.status in CASES[name].statuses, shown.screen
    assert not COLOUR.search(shown.screen)


@few
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_closed_pipe_is_quiet(form: Form, ready: Cli, income_service: IncomeService) -> None:
    """When nobody reads the output any more it ends with 141, and says nothing of it."""
    with closed_pipe() as pipe:
        ran = ready(*form.line(income_service), stdout=pipe)
    assert ran.status == 141, ran.stderr
    assert "ipe" not in ran.stderr


@few
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_full_disk_is_one_line(form: Form, ready: Cli, income_service: IncomeService) -> None:
    """Where standard output takes nothing, that is said once, with status 1."""
    ran = ready(*form.line(income_service), stdout=FULL)
    assert ran.status == 1, ran.stderr
    assert ran.stderr.count("cannot write to standard output: no space left on device") == 1


@few
@pytest.mark.parametrize("name", READING)
def test_ctrl_c_is_quiet(name: str, ready: Cli, income_service: IncomeService) -> None:
    """Interrupted while the service keeps it waiting, it ends with 130 and prints nothing."""
    line = Form(name).line(income_service)
    asked = len(income_service.requests)
    income_service.faults.add(Fault("stall", times=None))

    def stop(running: Running) -> None:
        until(lambda: len(income_service.requests) > asked)
        running.interrupt()

    ran = ready(*line, during=stop)
    assert (ran.status, ran.stdout) == (130, "")
    assert "Interrupt" not in ran.stderr


# Secrets and data


@pytest.mark.income_service(applications=0)
@pytest.mark.parametrize("form", SHOWING, ids=str)
def test_data_cannot_act_on_a_terminal(
    form: Form, ready: Cli, income_service: IncomeService
) -> None:
    """A name that would clear a screen, ring a bell or turn the text is shown without that."""
    record = income_service.add(make_record(application_reference_id=HARMFUL))
    one = record.application_id
    line = form.line(income_service)
    for path, rest in ((f"*/{one}", ""), (f"*/{one}/documents", "/documents")):
        body = spoilt(served(income_service, one, rest), HARMFUL)
        income_service.faults.add(Fault("body", body=body, path=path, times=None))
    shown = ready(*line, terminal=Terminal())
    assert shown.status in CASES[form.name].statuses, shown.screen
    assert not any(each in shown.screen for each in ("\x1b[2J", "\x07", "\x9b", "\u202e"))


@few
@pytest.mark.parametrize("form", WITHOUT_SECRETS, ids=str)
def test_no_secret_is_shown(form: Form, ready: Cli, income_service: IncomeService) -> None:
    """Neither stream has a client secret, a token or a signature in it."""
    issued: list[str] = []

    def note(piece: bytes) -> bytes:
        issued.extend(re.findall(r'"access_token":"([^"]+)"', piece.decode("latin-1")))
        return piece

    line = form.line(income_service)
    with beside(changing(income_service.url, replies=note)) as port:
        env = {"INCOME_BASE_URL": f"http://127.0.0.1:{port}"}
        shown, piped = ready(*line, terminal=Terminal(), env=env), ready(*line, env=env)
    assert bool(issued) is CASES[form.name].reads
    everything = shown.screen + piped.stdout + piped.stderr
    secrets = (income_service.oauth2.client_secret.reveal(), *issued)
    assert not any(secret in everything for secret in secrets)
    assert "signature=" not in everything.lower()


# Completion

BASH: Final = shutil.which("bash") or ""
ASK: Final = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_income_client
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(cli: Cli) -> Path:
    """The script for bash."""
    ran = cli("completion", "bash")
    assert (ran.status, ran.stderr) == (0, "")
    path = cli.folder / "income-client"
    path.write_text(ran.stdout, "utf-8")
    return path


@pytest.mark.skipif(not BASH, reason="bash is not installed")
def test_bash_offers_commands_and_options(script: Path) -> None:
    """What begins with the letters typed is offered, and the options of a sub-command."""

    def offered(*words: str) -> list[str]:
        asked = [BASH, "-c", ASK, "bash", str(script), *words]
        return subprocess.run(
            asked, capture_output=True, encoding="utf-8", check=True, timeout=20
        ).stdout.split()

    assert {"demo", "documents", "download"} <= set(offered("income-client", "d"))
    assert offered("income-client", "dead") == ["dead-letters"]
    assert "--updated-after" in offered("income-client", "applications", "--")
    assert "bash" in offered("income-client", "completion", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts(shell: str, cli: Cli) -> None:
    """Each names the sub-commands."""
    ran = cli("completion", shell)
    assert (ran.status, ran.stderr) == (0, "")
    for name in ("applications", "dead-letters", "find", "documents"):
        assert name in ran.stdout


COMMANDS: Final[dict[str, Callable[[IncomeService, Path], tuple[str, ...]]]] = {
    "application": lambda service, to: (service.ids[0], "--html", str(to)),
    "download": lambda service, to: (
        service.ids[0], "--to", str(to), "--allow-host", "127.0.0.1",
    ),
    "export": lambda _, to: ("--to", str(to)),
    "export-parquet": lambda _, to: ("--to", str(to), "--format", "parquet"),
    "poll": lambda _, to: ("--store", str(to), "--start", "beginning", "--once"),
}  # fmt: skip


@pytest.fixture(params=[errno.EINVAL, errno.ENOTSUP], ids=["EINVAL", "ENOTSUP"])
def _no_folder_is_synced(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Have the system refuse it for folders, and do it for files."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(request.param, os.strerror(request.param))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    yield
    monkeypatch.undo()


@pytest.mark.usefixtures("_no_folder_is_synced")
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_written_is_a_success(command: str, tmp_path: Path, cli: Cli) -> None:
    """The file is there, so nothing says that it could not be written."""
    with IncomeService(3) as service:
        arguments = COMMANDS[command](service, tmp_path / "there")
        ended = cli.at(service)(command.partition("-")[0], *arguments)
    assert ended.status == 0
    assert "cannot" not in ended.stderr
    assert (tmp_path / "there").exists()
