"""Options of one kind, found among those of all commands, so that a new one is held to its rule."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from cyclopts import Argument

from income_client.cli.app import command_line
from income_client.cli.options import Moment
from tests.support.cli import Cli, spelt
from tests.support.commands import NAMES

APP: Final = command_line()


def kinds(argument: Argument) -> set[Any]:
    """Return the types of values that an argument or an option takes."""
    return {argument.hint, *get_args(argument.hint)}


def options_of(kind: type) -> list[tuple[str, str]]:
    """Return each command with each of its options that take such a value."""
    return [
        (name, argument.name)
        for name in NAMES
        for argument in APP[name].assemble_argument_collection()
        if kind in kinds(argument)
    ]


def required(command: str, but: str) -> Iterator[str]:
    """Yield what a command needs beside an option."""
    for argument in APP[command].assemble_argument_collection():
        if argument.required and argument.name != but:
            if argument.name.startswith("-"):
                yield argument.name
            yield "1" if int in kinds(argument) else "x"


COUNTS: Final = options_of(int)
SPANS: Final = options_of(Moment)


def test_the_options_are_found() -> None:
    """Among them those of commands that are loaded late, and of groups of options."""
    known = {("applications", "--limit"), ("download", "--concurrency"), ("emulate", "--max-span")}
    assert known < {*COUNTS}
    assert {("applications", "--updated-before"), ("emulate", "--oldest")} < {*SPANS}


@pytest.mark.parametrize("text", ["1.5", "1e3", "many"])
@pytest.mark.parametrize("place", COUNTS, ids=spelt)
def test_a_count_is_a_whole_number(place: tuple[str, str], text: str, cli: Cli) -> None:
    command, option = place
    ran = cli(command, *required(command, option), option, text)
    assert (ran.status, ran.stdout) == (2, "")
    assert f"Invalid value for {option}: " in ran.stderr
    assert ("whole number" in ran.stderr) or option == "--file-size"
    assert [path.name for path in Path(cli.folder).iterdir()] == ["home"]


@pytest.mark.parametrize("text", ["1m", "3M"])
@pytest.mark.parametrize("place", SPANS, ids=spelt)
def test_minutes_are_not_taken_for_months(place: tuple[str, str], text: str, cli: Cli) -> None:
    command, option = place
    ran = cli(command, *required(command, option), option, text)
    assert (ran.status, ran.stdout) == (2, "")
    said = " ".join(ran.stderr.replace("│", " ").split())
    assert f"Invalid value for {option}: write {text[0]}min for minutes" in said
    assert "for months, count days, such as 30d" in said


@pytest.mark.parametrize("place", SPANS, ids=spelt)
def test_a_time_that_is_in_no_year_of_utc_is_refused(place: tuple[str, str], cli: Cli) -> None:
    """Its zone takes it before the year 1, where no time of the service is."""
    command, option = place
    ran = cli(command, *required(command, option), option, "0001-01-01T00:00:00+05:00")
    assert (ran.status, ran.stdout) == (2, "")
    assert f"Invalid value for {option}: this must be a time" in ran.stderr
