"""The command itself: its version, its help, and what it says of arguments it cannot mean."""

import os
import subprocess
import sys
from typing import Any

import pytest

from income_client import __version__
from tests.cli.entry import ROOT, environment, run, start


def test_version() -> None:
    """The version is the package's, alone on its line."""
    ended = run("--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("demo", "--help"),
        ("emulate", "--help"),
        ("listen", "--help"),
        ("trigger", "--help"),
    ],
)
def test_help_has_an_example(arguments: tuple[str, ...]) -> None:
    """Each help text fits a terminal and ends its first part with an example to type."""
    ended = run(*arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    example = ["income-client", *arguments[:-1]] if len(arguments) > 1 else ["income-client"]
    assert f"Example: {' '.join(example)}" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("demo", "--applications", "many"),
        ("demo", "--applications", "0"),
        ("demo", "--unknown", "1"),
        ("emulate", "--port", "70000"),
        ("emulate", "--latency", "-1"),
        ("emulate", "--start", "tomorrow"),
        ("emulate", "surplus"),
    ],
)
def test_misuse_exits_with_2(arguments: tuple[str, ...]) -> None:
    """Arguments that cannot be meant are explained on standard error, with status 2."""
    ended = run(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert arguments[-1].lstrip("-") in ended.stderr or "unknown" in ended.stderr.lower()
    assert "Traceback" not in ended.stderr


def test_a_surplus_argument_is_named() -> None:
    """What was not expected is said in words."""
    assert "Unexpected argument: surplus." in run("demo", "surplus").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("applications", "--output", "\x1b[31m"),
        ("x\x1b[31m",),
        ("demo", "x\x1b[31m"),
        ("demo", "--x\x1b[31m"),
        ("find", "LOAN-1", "--output", "\x07\u202e"),
    ],
    ids=repr,
)
def test_what_was_typed_cannot_act_on_a_terminal(arguments: tuple[str, ...]) -> None:
    """A wrong argument is quoted without the characters that would do harm."""
    ended = run(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "?" in ended.stderr
    assert ended.stderr.replace("\n", "").isprintable()


@pytest.mark.parametrize("option", ["--output", "--output=parquet", "-o"])
def test_the_same_under_another_name_is_named(option: str) -> None:
    """What other sub-commands call --output, export calls --format."""
    ended = run("export", "--to", "x", option, "parquet")
    assert ended.returncode == 2
    assert "Did you mean --format?" in ended.stderr


def test_without_the_extra_it_says_what_to_install() -> None:
    """Where its libraries are missing it names the extra, with status 1."""
    script = (
        "import sys; sys.modules['cyclopts'] = None; from income_client.cli import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        encoding="utf-8",
        env=environment(),
        cwd=ROOT,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "income-client: cyclopts not installed; "
        "the command line comes with pip install 'income-client[cli]'\n"
    )


def test_sub_commands_are_loaded_when_called() -> None:
    """Asking for help loads neither the emulator nor the HTTP server."""
    script = (
        "import sys; from income_client.cli.app import run; run(['--help']); "
        "assert not {'aiohttp.web', 'income_client.emulator'} & set(sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        encoding="utf-8",
        env=environment(),
        cwd=ROOT,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("poll", "--help")])
@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_a_full_disk_is_one_line(arguments: tuple[str, ...], variables: dict[str, Any]) -> None:
    """What cannot be written is said once, with status 1, wherever it waited before."""
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        process = start(*arguments, stdout=full, **variables)
    finally:
        os.close(full)
    _, errors = process.communicate(timeout=50)
    assert process.returncode == 1
    assert errors == "income-client: cannot write to standard output: no space left on device\n"
