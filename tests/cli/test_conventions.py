"""Rules for all commands: help, streams, colours, secrets, exit statuses, completion."""

import errno
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import __version__
from income_client.cli.app import command_line
from income_client.emulator import Fault
from income_client.engines.postgres import SCHEMA
from income_client.testing import make_record
from tests.cli.application_payloads import ending_with
from tests.cli.commands import NAMES, Form
from tests.support.cli import FULL, Cli, Running, when
from tests.support.emulated import served
from tests.support.processes import (
    Ran,
    Terminal,
    closed_pipe,
    environment,
    file_for,
    is_drawn_over,
    run,
    started,
)

WIDTH: Final = 80
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*(3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")
SECRET: Final = re.compile(r"--([a-z-]+-)?(pass(word|phrase)|secret|token|credentials?)\b(?!-)")
HARMFUL: Final = "\x1b[2J\x07\x9b5A\u202eZoë"
pytestmark = pytest.mark.income_service(applications=3)


# Help


def test_help_lists_every_command(cli: Cli) -> None:
    shown = cli("--help")
    listed = re.findall(r"^│ ([a-z-]+) ", shown.stdout, re.MULTILINE)
    names = [name for name in listed if not name.startswith("-")]
    assert (names[0], sorted(names)) == ("demo", sorted(NAMES))
    assert {*NAMES} == {*command_line()} - {"--help", "-h", "--version", "-V"}
    statuses = re.findall(r"^  (\d+) +\w", shown.stdout, re.MULTILINE)
    assert statuses == ["0", "1", "2", "3", "4", "130", "141", "143"]


def examples_in(text: str) -> list[list[str]]:
    """Return what is typed after ``income-client`` in the examples of a help text."""
    _, _, typed = text.replace("\\\n", " ").partition("Example: ")
    lines = re.findall(r"income-client ([^|<>\n]*)", typed.partition("╭")[0])
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_a_terminal(name: str, cli: Cli) -> None:
    """Help goes to standard output without colours; examples parse; no option takes a secret."""
    shown = cli(name, "--help")
    assert (shown.status, shown.stderr) == (0, "")
    assert f"Usage: income-client {name}" in shown.stdout
    assert "[ARGS" not in shown.stdout
    assert "\x1b" not in shown.stdout
    assert max(map(len, shown.lines)) <= WIDTH
    # What is typed is in the history of the shell and in the list of processes.
    options = re.findall(r"--[a-z-]+", shown.stdout)
    assert not [option for option in options if SECRET.fullmatch(option)]
    examples = examples_in(shown.stdout)
    assert examples[0][0] == name
    for example in examples:
        command_line(example[0]).parse_args(example)


@pytest.mark.parametrize(
    ("line", "same"),
    [("help get", "get --help"), ("version", "-V"), ("version", "--version")],
)
def test_what_other_programs_call_it(line: str, same: str, cli: Cli) -> None:
    shown = cli(*line.split())
    assert (shown.status, shown.stderr) == (0, "")
    assert shown.stdout == cli(*same.split()).stdout
    assert (shown.stdout == f"{__version__}\n") is (line == "version")


def test_help_has_examples_and_fits_any_encoding(any_name: str, cli: Cli) -> None:
    """Without settings, each example ends by itself or is ended; a wrong option is named."""
    shown = cli(any_name, "--help", env={"PYTHONIOENCODING": "ascii"})
    assert (shown.status, shown.stderr) == (0, "")

    def stop(running: Running) -> None:
        begun = {"emulate": "http", "listen": "http", "demo": "Walking", "configure": "Address"}
        if example[0] in begun:
            running.stderr.wait_for(begun[example[0]])
            running.interrupt()

    # That of the relay would load a broker's library first.
    for example in [] if any_name == "relay" else examples_in(shown.stdout):
        free = ("--port", "0") if example[0] == "listen" else ()
        ended = cli(*example, *free, terminal=Terminal(), during=stop)
        assert "Traceback" not in ended.screen
        assert "--help says more" not in ended.screen
    ran = cli(any_name, "--no-such-option", "value")
    assert (ran.status, ran.stdout) == (2, "")
    # Where something is missing as well, that is said first.
    assert "--no-such-option" in ran.stderr or "is missing" in ran.stderr
    assert max(map(len, ran.stderr.splitlines())) <= WIDTH


# Streams


@pytest.mark.income_service(applications=0)
def test_output_is_plain_and_harmless(any_form: Form, prepared: Cli) -> None:
    """A pipe gets no motion, NO_COLOR no colours, a terminal nothing that acts on it.

    It is drawn in any encoding; progress only where it can be erased. A pipe that nobody reads
    any more ends a command quietly, with 141; a full disk with one line and 1.
    """
    harmful = make_record(application_id="app-1", application_reference_id=HARMFUL)
    for record in (harmful, make_record(), make_record()):
        prepared.service.add(record)
    for path, rest in (("*/app-1", ""), ("*/app-1/documents", "/documents")):
        reply = ending_with(served(prepared.service, "app-1", rest), HARMFUL)
        body = json.dumps(reply, default=float).encode()
        prepared.service.faults.add(Fault("body", body=body, path=path, times=None))
    kept = {*prepared.folder.iterdir(), prepared.folder / "home"}

    def ran(**options: Any) -> Ran:
        for path in {*prepared.folder.iterdir()} - kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return prepared(*any_form.line(prepared.service), **options)

    piped = ran(env={"NO_COLOR": "1", "PYTHONIOENCODING": "latin-1"})
    shown = ran(env={"NO_COLOR": "1"}, terminal=Terminal())
    bare = ran(env={"PYTHONIOENCODING": "ascii"}, terminal=Terminal())
    assert {shown.status, piped.status, bare.status} <= {*any_form.statuses}
    assert piped.stdout
    assert not re.search(r"[\x1b\x07\r]", piped.stdout + piped.stderr)
    assert not COLOUR.search(shown.screen)
    assert not any(each in shown.screen for each in ("\x1b[2J", "\x07", "\x9b", "\u202e"))
    assert "Traceback" not in piped.words + shown.words + bare.words
    # The reader of a pipe may write to the same terminal, and a dumb one cannot erase.
    beside_pipe = ran(terminal=Terminal(), piped=True)
    dumb = ran(terminal=Terminal(), stdout=Path(os.devnull), env={"TERM": "dumb"})
    assert not is_drawn_over(beside_pipe.stdout + beside_pipe.screen + dumb.screen)
    with closed_pipe() as pipe:
        left = ran(stdout=pipe)
    assert (left.status, "ipe" in left.stderr) == (141, False)
    full = ran(stdout=FULL)
    assert full.status == 1
    assert full.stderr.count("cannot write to standard output: no space left on device") == 1


def test_ctrl_c_is_quiet(any_reader: str, prepared: Cli) -> None:
    line = Form(any_reader).line(prepared.service)
    asked = len(prepared.service.requests)
    prepared.service.faults.add(Fault("stall", times=None))
    ran = prepared(*line, during=when(lambda: len(prepared.service.requests) > asked))
    assert (ran.status, ran.stdout) == (130, "")
    assert "Interrupt" not in ran.stderr


@pytest.mark.parametrize("name", ["audit", "download", "export", "poll"])
def test_a_rate_bounds_the_requests_of_long_commands(name: str, prepared: Cli) -> None:
    """The turn of the second request is behind its deadline."""
    before = len(prepared.service.requests)
    ran = prepared(*Form(name).line(prepared.service), "--max-rate", "0.001")
    assert ran.status == 1
    assert "its turn at max_rate comes after its deadline" in ran.stderr
    asked = [request.name for request in prepared.service.requests[before:]]
    assert len([name for name in asked if name not in {"token", "file"}]) == 1


@pytest.mark.parametrize(
    ("form", "number"),
    [
        (Form("download"), errno.EINVAL),
        (Form("export", ("--format", "parquet")), errno.ENOTSUP),
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


def test_without_the_extra_it_names_what_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    ran = cli("--version")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "pip install 'income-client[cli]'" in ran.stderr


QUICK: Final = (
    "applications", "configure", "dead-letters", "documents", "emulate", "listen", "poll",
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
sys.modules["asyncpg"] = None
sys.argv = ["income-client", "schema", "postgres"]
main()
"""


def test_commands_are_loaded_when_they_are_called() -> None:
    """Asking for help loads neither the emulator nor the HTTP client, which takes longest.

    Those who migrate a database need not have its driver.
    """
    ran = run("-c", LAZY, command=(sys.executable,), env=environment())
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.endswith(SCHEMA)


def test_a_full_disk_is_one_line_whatever_is_buffered() -> None:
    """The interpreter has nothing to add at its end; the module is run as the script is."""
    line = ("-m", "income_client.cli", "--help")
    with (
        file_for(FULL) as full,
        started(*line, command=(sys.executable,), env=environment(), stdout=full) as process,
    ):
        ran = process.wait()
    assert (ran.status, ran.stderr.count("\n")) == (1, 1)
    assert "no space left on device" in ran.stderr


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
    ran = cli("completion", "bash")
    assert (ran.status, ran.stderr) == (0, "")
    script.write_text(ran.stdout, "utf-8")

    def offered(*words: str) -> list[str]:
        asked = [BASH, "-c", ASK, "bash", str(script), *words]
        return subprocess.run(
            asked, capture_output=True, encoding="utf-8", check=True, timeout=20
        ).stdout.split()

    assert sorted(offered("income-client", "")) == sorted(NAMES)
    assert {"demo", "documents", "download"} <= set(offered("income-client", "d"))
    assert offered("income-client", "dead") == ["dead-letters"]
    assert "--updated-after" in offered("income-client", "applications", "--")
    assert "bash" in offered("income-client", "completion", "")
    assert offered("income-client", "guide", "po") == ["polling"]


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_other_shells_have_a_script(name: str, cli: Cli) -> None:
    ran = cli("completion", name)
    assert (ran.status, ran.stderr) == (0, "")
    assert all(one in ran.stdout for one in NAMES)
