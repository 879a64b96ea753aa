"""Every sub-command with something to read, for rules that hold for all of them."""

import json
import shlex
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from income_client import DeadLetter, SQLiteCheckpointStore, Window
from income_client.testing import IncomeService, LoopRunner

from .served import served

NOON: Final = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - the service's times carry no zone
LETTER: Final = DeadLetter(
    application_id="app-1",
    window=Window(1_000, 1_001),
    reason="gone",
    attempts=1,
    first_tried_at=NOON,
    last_tried_at=NOON,
)


@frozen(kw_only=True)
class Case:
    """A sub-command on a service, run to its end."""

    arguments: Callable[[IncomeService], tuple[str, ...]]
    """What follows its name."""
    forms: tuple[tuple[str, ...], ...] = ()
    """What may follow them, for output of another form."""
    statuses: frozenset[int] = frozenset({0})
    """What it may exit with."""
    reads: bool = True
    """Whether it reads the service."""


@frozen
class Form:
    """A sub-command with what gives its output another form."""

    name: str
    """Which one."""
    more: tuple[str, ...] = ()
    """What follows all else."""

    def __str__(self) -> str:
        return " ".join((self.name, *self.more))

    def line(self, service: IncomeService) -> tuple[str, ...]:
        """Return the command line."""
        return (self.name, *CASES[self.name].arguments(service), *self.more)


def _reference(service: IncomeService) -> str:
    reference: str = served(service, service.ids[0])["application_reference_id"]
    return reference


_ROWS: Final = (("-o", "json"), ("-o", "csv"), ("-o", "table"), ("-q",))
_ONE_THING: Final = (("-o", "json"),)
CASES: Final = {
    "application": Case(
        arguments=lambda service: (service.ids[0], "--show-personal-data"), forms=_ONE_THING
    ),
    "applications": Case(arguments=lambda _: ("--updated-after", "beginning"), forms=_ROWS),
    "completion": Case(arguments=lambda _: ("bash",), reads=False),
    "dead-letters": Case(arguments=lambda _: ("--store", "dead.db"), forms=_ROWS, reads=False),
    "demo": Case(arguments=lambda _: ("--applications", "40"), reads=False),
    "doctor": Case(arguments=lambda _: (), forms=_ONE_THING, statuses=frozenset({0, 1})),
    "documents": Case(arguments=lambda service: service.ids[:1], forms=_ROWS),
    "download": Case(
        arguments=lambda service: ("--to", "files", "--allow-host", "127.0.0.1", service.ids[0])
    ),
    "export": Case(arguments=lambda _: ("--to", "all", "--updated-after", "2026-01-01")),
    "find": Case(arguments=lambda service: (_reference(service),), forms=_ROWS),
    "poll": Case(arguments=lambda _: ("--store", "polls.db", "--start", "beginning", "--once")),
    "split": Case(arguments=lambda _: ("--parts", "2"), forms=(("-o", "csv"), ("-o", "table"))),
    "token": Case(arguments=lambda _: (), forms=(*_ONE_THING, ("--reveal",))),
}
"""All but those that serve until they are told to end, or that ask an emulator for callbacks."""
SERVING: Final = ("emulate", "listen", "trigger")
NAMES: Final = (*CASES, *SERVING, "configure")
FORMS: Final = tuple(Form(name, more) for name, case in CASES.items() for more in ((), *case.forms))
READING: Final = tuple(name for name in CASES if CASES[name].reads)


def prepare(folder: Path, run: LoopRunner) -> None:
    """Put the files there that commands read."""
    store = SQLiteCheckpointStore(folder / "dead.db")
    run(store.save("default", "nothing", version=0, dead_letters=(LETTER,)))


def examples_in(text: str) -> Iterator[list[str]]:
    """Yield what is typed after ``income-client`` in the examples of a help text."""
    _, _, typed = text.partition("Example: ")
    typed, _, _ = typed.partition("╭")
    for line in typed.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        yield from _commands(list(words))


def _commands(words: list[str]) -> Iterator[list[str]]:
    """Yield the commands of a line: between pipes, up to a redirection."""
    command: list[str] = []
    is_file = False
    for word in [*words, "|"]:
        if word in ("|", "||", "&&", ";"):
            if command[:1] == ["income-client"]:
                yield command[1:]
            command, is_file = [], False
        elif word in (">", ">>", "<"):
            is_file = True
        elif not is_file:
            command.append(word)


_FREE: Final = frozenset(
    {"first_name", "last_name", "employer_name", "source_type", "street_address", "city",
     "email", "file_reference_id", "application_reference_id", "pay_period_frequency"}
)  # fmt: skip


def spoilt(value: Any, harmful: str) -> bytes:
    """Return a reply of the service in which every word that is free text does harm."""
    return json.dumps(_spoilt(value, harmful), default=float).encode()


def _spoilt(value: Any, harmful: str) -> Any:
    match value:
        case dict():
            return {
                key: harmful + each if key in _FREE and isinstance(each, str)
                else _spoilt(each, harmful)
                for key, each in value.items()
            }  # fmt: skip
        case list():
            return [_spoilt(each, harmful) for each in value]
        case _:
            return value
