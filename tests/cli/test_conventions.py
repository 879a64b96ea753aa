"""What holds for every command: help, streams, colours, secrets, endings, completion."""

import errno
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import __version__
from income_client.cli.app import command_line
from income_client.emulator import Fault
from income_client.testing import IncomeService, LoopRunner, make_record
from tests.support.application_payloads import ending_with
from tests.support.beside import until
from tests.support.cli import FULL, Cli, Running, complaints, when
from tests.support.commands import FORMS, NAMES, PREPARED, READING, Form, examples_in, prepare
from tests.support.processes import environment, file_for, run, started
from tests.support.served import served
from tests.support.streams import Ran, Terminal, closed_pipe

WIDTH: Final = 80
A_FORM: Final = st.sampled_from(FORMS)
AN_ENCODING: Final = st.sampled_from(["ascii", "latin-1"])
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*(3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")
SECRET: Final = re.compile(r"--([a-z-]+-)?(pass(word|phrase)|secret|token|credentials?)\b(?!-)")
HARMFUL: Final = "\x1b[2J\x07\x9b5A\u202eZoë"
SHOWING: Final = tuple(
    form for form in FORMS if form.name in READING and form.name not in ("find", "token")
)
pytestmark = pytest.mark.income_service(applications=3)


Ready = Callable[..., Ran]


@pytest.fixture
def ready(shell: Cli, income_run: LoopRunner) -> Ready:
    """Runs a form in a folder with nothing but what it reads."""
    prepare(shell.folder, income_run)

    def run(form: Form, **options: Any) -> Ran:
        for path in {*shell.folder.iterdir()} - {shell.folder / name for name in PREPARED}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return shell(*form.line(shell.service), **options)

    return run


# Help


def test_help_lists_every_command(cli: Cli) -> None:
    shown = cli("--help")
    listed = re.findall(r"^│ ([a-z-]+) ", shown.stdout, re.MULTILINE)
    names = [name for name in listed if not name.startswith("-")]
    assert (names[0], sorted(names)) == ("demo", sorted(NAMES))
    assert {*NAMES} == {*command_line()} - {"--help", "-h", "--version", "-V"}
    statuses = re.findall(r"^  (\d+) +\w", shown.stdout, re.MULTILINE)
    assert statuses == ["0", "1", "2", "3", "4", "130", "141", "143"]


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_a_terminal(name: str, cli: Cli) -> None:
    """It is plain text on standard output, has an example, and no option takes a secret."""
    shown = cli(name, "--help")
    assert (shown.status, shown.stderr) == (0, "")
    assert f"Usage: income-client {name}" in shown.stdout
    assert "[ARGS" not in shown.stdout
    assert f"Example: income-client {name}" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert max(map(len, shown.lines)) <= WIDTH
    # What is typed is in the history of the shell and in the list of processes.
    options = re.findall(r"--[a-z-]+", shown.stdout)
    assert not [option for option in options if SECRET.fullmatch(option)]


@pytest.mark.parametrize(
    ("line", "same"),
    [("help", "--help"), ("help find", "find --help"), ("version", "-V"), ("version", "--version")],
)
def test_what_other_programs_call_it(line: str, same: str, cli: Cli) -> None:
    shown = cli(*line.split())
    assert (shown.status, shown.stderr) == (0, "")
    assert shown.stdout == cli(*same.split()).stdout


@pytest.mark.parametrize("name", NAMES)
def test_examples_can_be_typed(name: str, cli: Cli) -> None:
    """Each command line of the example is understood; without settings it ends, or is ended."""
    examples = list(examples_in(cli(name, "--help").stdout))
    assert any(example[0] == name for example in examples)
    if name == "relay":  # which would load a broker's library first
        for example in examples:
            command_line(name).parse_args(example)
        return

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


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_option_is_named(name: str, cli: Cli) -> None:
    ran = cli(name, "--no-such-option", "value")
    assert (ran.status, ran.stdout) == (2, "")
    # Where something is missing as well, that is said first.
    assert "--no-such-option" in ran.stderr or "is missing" in ran.stderr
    assert max(map(len, ran.stderr.splitlines())) <= WIDTH


# Streams


@given(form=A_FORM, encoding=AN_ENCODING, terminal=st.sampled_from([None, Terminal()]))
def test_any_encoding_will_do(
    form: Form, encoding: str, terminal: Terminal | None, ready: Ready
) -> None:
    """In a locale that is not UTF-8, each command draws and prints with what there is."""
    ran = ready(form, env={"PYTHONIOENCODING": encoding}, terminal=terminal)
    assert ran.status in form.statuses
    assert "Traceback" not in ran.words


@given(name=st.sampled_from(NAMES), encoding=AN_ENCODING)
def test_help_is_shown_in_any_encoding(name: str, encoding: str, cli: Cli) -> None:
    shown = cli(name, "--help", env={"PYTHONIOENCODING": encoding})
    assert (shown.status, shown.stderr) == (0, "")
    assert f"Usage: income-client {name}" in shown.stdout


@given(form=A_FORM)
def test_output_is_plain(form: Form, ready: Ready) -> None:
    """A pipe gets no motion, and NO_COLOR no colours."""
    piped = ready(form, env={"NO_COLOR": "1"})
    shown = ready(form, env={"NO_COLOR": "1"}, terminal=Terminal())
    assert {shown.status, piped.status} <= {*form.statuses}
    assert piped.stdout
    assert not re.search(r"[\x1b\x07\r]", piped.stdout + piped.stderr)
    assert not COLOUR.search(shown.screen)


@given(form=A_FORM)
def test_an_output_that_takes_nothing_ends_it(form: Form, ready: Ready) -> None:
    """A pipe that nobody reads any more quietly, with 141; a full disk with one line and 1."""
    with closed_pipe() as pipe:
        ran = ready(form, stdout=pipe)
    assert ran.status == 141, ran.stderr
    assert "ipe" not in ran.stderr
    ran = ready(form, stdout=FULL)
    assert ran.status == 1, ran.stderr
    assert ran.stderr.count("cannot write to standard output: no space left on device") == 1


@pytest.mark.parametrize("name", READING)
def test_ctrl_c_is_quiet(name: str, shell: Cli, income_run: LoopRunner) -> None:
    prepare(shell.folder, income_run)
    line = Form(name).line(shell.service)
    asked = len(shell.service.requests)
    shell.service.faults.add(Fault("stall", times=None))
    ran = shell(*line, during=when(lambda: len(shell.service.requests) > asked))
    assert (ran.status, ran.stdout) == (130, "")
    assert "Interrupt" not in ran.stderr


@pytest.mark.income_service(applications=0)
@pytest.mark.parametrize("form", SHOWING, ids=str)
def test_data_cannot_act_on_a_terminal(form: Form, shell: Cli, ready: Ready) -> None:
    one = shell.service.add(make_record(application_reference_id=HARMFUL)).application_id
    for path, rest in ((f"*/{one}", ""), (f"*/{one}/documents", "/documents")):
        reply = ending_with(served(shell.service, one, rest), HARMFUL)
        body = json.dumps(reply, default=float).encode()
        shell.service.faults.add(Fault("body", body=body, path=path, times=None))
    shown = ready(form, terminal=Terminal())
    assert shown.status in form.statuses, shown.screen
    assert not any(each in shown.screen for each in ("\x1b[2J", "\x07", "\x9b", "\u202e"))


@pytest.mark.parametrize(
    ("form", "number"),
    [
        (Form("application", ("--html", "page.html")), errno.EINVAL),
        (Form("download"), errno.ENOTSUP),
        (Form("export"), errno.EINVAL),
        (Form("export", ("--format", "parquet")), errno.ENOTSUP),
        (Form("poll"), errno.EINVAL),
    ],
    ids=str,
)
def test_folders_that_cannot_be_synced_are_no_failure(
    form: Form, number: int, shell: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        ran = shell(*form.line(shell.service))
    assert ran.status == 0
    assert "cannot" not in ran.stderr
    assert {path.name for path in shell.folder.iterdir()} > {"home"}


# Processes


@pytest.mark.parametrize(
    "command", [None, (sys.executable, "-m", "income_client.cli")], ids=["script", "module"]
)
def test_it_starts(command: tuple[str, ...] | None) -> None:
    ran = run("--version", command=command, env=environment())
    assert (ran.status, ran.stdout, ran.stderr) == (0, f"{__version__}\n", "")


def test_without_the_extra_it_names_what_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    ran = cli("--version")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "pip install 'income-client[cli]'" in ran.stderr


QUICK: Final = (
    "applications", "configure", "dead-letters", "documents", "emulate", "find", "listen", "poll",
    "trigger",
)  # fmt: skip
LAZY: Final = f"""
import sys
from income_client.cli import main

for words in (["--help"], *([name, "--help"] for name in {QUICK})):
    sys.argv = ["income-client", *words]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
    assert not {{"aiohttp", "income_client.emulator.api"}} & {{*sys.modules}}, words
"""


def test_commands_are_loaded_when_they_are_called() -> None:
    """Asking for help loads neither the emulator nor the HTTP client, which takes longest."""
    ran = run("-c", LAZY, command=(sys.executable,), env=environment())
    assert (ran.status, ran.stderr) == (0, "")


def test_a_full_disk_is_one_line_whatever_is_buffered() -> None:
    """The interpreter has nothing to add at its end."""
    with file_for(FULL) as full, started("--help", env=environment(), stdout=full) as process:
        ran = process.wait()
    assert (ran.status, ran.stderr.count("\n")) == (1, 1)
    assert "no space left on device" in ran.stderr


@pytest.mark.income_service(applications=300)
def test_a_reader_may_leave(income_service: IncomeService) -> None:
    line = "income-client applications | head -n 2; test ${PIPESTATUS[0]} -eq 141"
    path = str(Path(sys.executable).parent)
    env = environment(income_service)
    ran = run("-c", line, command=("bash",), env={**env, "PATH": f"{path}:{env['PATH']}"})
    assert (len(ran.lines), ran.stderr) == (2, "")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_signals_end_a_process(
    number: signal.Signals, status: int, income_service: IncomeService, tmp_path: Path
) -> None:
    income_service.faults.add(Fault("stall", times=None))
    command = ("poll", "--store", str(tmp_path / "polls.db"), "--once")
    with started(*command, env=environment(income_service)) as process:
        until(lambda: len(income_service.requests) > 0)
        process.send(number)
        ran = process.wait()
    assert (ran.status, ran.stdout, complaints(ran)) == (status, "", "")


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


@pytest.mark.skipif(not BASH, reason="bash is not installed")
def test_bash_offers_commands_and_options(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "income-client"
    script.write_text(cli("completion", "bash").stdout, "utf-8")

    def offered(*words: str) -> list[str]:
        asked = [BASH, "-c", ASK, "bash", str(script), *words]
        return subprocess.run(
            asked, capture_output=True, encoding="utf-8", check=True, timeout=20
        ).stdout.split()

    assert {"demo", "documents", "download"} <= set(offered("income-client", "d"))
    assert offered("income-client", "dead") == ["dead-letters"]
    assert "--updated-after" in offered("income-client", "applications", "--")
    assert "bash" in offered("income-client", "completion", "")
    assert offered("income-client", "guide", "po") == ["polling"]


def test_each_shell_has_a_script(cli: Cli) -> None:
    for name in ("bash", "zsh", "fish"):
        ran = cli("completion", name)
        assert (ran.status, ran.stderr) == (0, "")
        assert all(one in ran.stdout for one in NAMES)
