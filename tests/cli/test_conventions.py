"""What holds of every sub-command's help and arguments, whatever it does."""

import re
from collections.abc import Sequence
from typing import Final

import pytest
from cyclopts.argument import Argument

from income_client.cli.app import command_line, run
from income_client.cli.command_table import ABOUT, COMMANDS
from income_client.cli.exit_status import ExitStatus
from tests.cli.conventions import examples_in, summary_of

_WIDTH: Final = 80
_SUMMARY: Final = 78
_SECRET: Final = re.compile(r"(^|-)(pass(word|phrase)|secret|token|credentials?)$")


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every help text be as wide as a terminal usually is."""
    monkeypatch.setenv("COLUMNS", str(_WIDTH))


def arguments_of(name: str) -> Sequence[Argument]:
    """Return the arguments of a sub-command, as cyclopts sees them."""
    return command_line()[name].assemble_argument_collection(parse_docstring=True)


def test_help_is_in_the_order_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """What one tries first comes first, and not what begins with an A."""
    assert run(["--help"]) == 0
    listed = re.findall(r"^│ ([a-z-]+) ", capsys.readouterr().out, re.MULTILINE)
    assert [name for name in listed if not name.startswith("-")] == list(COMMANDS)


def test_every_exit_status_is_told() -> None:
    """The help of the command has them all, and no other."""
    told = re.findall(r"^  (\d+) +\w", ABOUT, re.MULTILINE)
    assert [int(one) for one in told] == sorted(ExitStatus)


@pytest.mark.parametrize("name", COMMANDS)
def test_it_is_told_in_a_line(name: str) -> None:
    """The first line says what it does, in one sentence that fits a terminal."""
    summary = summary_of(name)
    assert re.fullmatch(r"[A-Z][^.]*\.", summary)
    assert len(summary) <= _SUMMARY
    assert max(map(len, COMMANDS[name].splitlines())) <= _WIDTH, "it would be broken once more"


@pytest.mark.parametrize("name", COMMANDS)
def test_its_help_fits_a_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Help is data: on standard output, plain in a pipe, and no wider than a terminal."""
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert f"Usage: income-client {name}" in shown.out
    assert f"Example: income-client {name}" in shown.out
    assert "\x1b" not in shown.out
    assert max(map(len, shown.out.splitlines())) <= _WIDTH


@pytest.mark.parametrize("name", COMMANDS)
def test_its_examples_can_be_typed(name: str) -> None:
    """Each command line of the example is one that can be meant."""
    examples = list(examples_in(COMMANDS[name]))
    assert any(example[0] == name for example in examples)
    for example in examples:
        assert example[0] in COMMANDS
        command_line().parse_args(example)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    """No option is without a text, and that begins with what it is and ends its sentence."""
    for argument in arguments_of(name):
        if argument.parse and argument.show:
            assert argument.parameter.help, argument.names
            assert argument.parameter.help.rstrip().endswith(".")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_secret_is_an_argument(name: str) -> None:
    """What is typed is in the history of the shell and in the list of processes."""
    for argument in arguments_of(name):
        for option in argument.names:
            is_switch = argument.hint is bool
            assert is_switch or not _SECRET.search(option), option


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_option_is_named(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage is told on standard error, with status 2, and begins nothing."""
    assert run([name, "--no-such-option", "value"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    # Where something is missing as well, that is told first.
    assert "--no-such-option" in shown.err or "requires an argument" in shown.err
    assert max(map(len, shown.err.splitlines())) <= _WIDTH


def test_examples_are_found_in_pipes() -> None:
    """A pipe is two commands, and where its output goes is no part of it."""
    text = "Example: income-client a -q 'x y' | income-client b - >> file\nincome-client c\n"
    assert list(examples_in(text)) == [["a", "-q", "x y"], ["b", "-"], ["c"]]


def test_secrets_are_recognised() -> None:
    """Names of places are none."""
    assert all(map(_SECRET.search, ("--password", "--client-secret", "--access-token")))
    assert not any(map(_SECRET.search, ("--token-path", "--callback-token-url", "--to")))
