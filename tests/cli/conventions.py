"""Every sub-command with something to read, for rules that hold of all of them."""

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from income_client import SQLiteCheckpointStore
from income_client.cli.command_table import COMMANDS
from income_client.emulator import Emulator
from tests.cli.polling import served
from tests.support.store_files import letter

PERSONAL: Final = "--show-personal-data"


@frozen(kw_only=True)
class Case:
    """A sub-command on an emulated service, run to its end."""

    arguments: Callable[[Emulator, Path], tuple[str, ...]]
    """What follows its name."""
    forms: tuple[tuple[str, ...], ...] = ()
    """What may follow them, for output of another form."""
    statuses: frozenset[int] = frozenset({0})
    """What it may exit with."""
    waits: bool = True
    """Whether it waits for the service, and so can be interrupted in it."""
    prepare: Callable[[Path], Any] | None = field(default=None)
    """What must be there before, awaited with a folder of its own."""


@frozen
class Form:
    """A sub-command with what makes its output another one."""

    name: str
    """Which one."""
    more: tuple[str, ...] = ()
    """What follows all else."""

    def __str__(self) -> str:
        return " ".join((self.name, *self.more))


def _first(service: Emulator) -> str:
    return service.world.ids[0]


def _reference(service: Emulator) -> str:
    reference: str = served(service, _first(service))["application_reference_id"]
    return reference


async def _store(folder: Path) -> None:
    store = SQLiteCheckpointStore(folder / "polls.db")
    await store.save("default", "nothing", version=0, dead_letters=(letter(1),))


_ROWS: Final = (("--output", "json"), ("-q",))
_ONE_THING: Final = (("--output", "json"),)
CASES: Final = {
    "application": Case(
        arguments=lambda service, _: (_first(service), PERSONAL),
        forms=_ONE_THING,
    ),
    "applications": Case(arguments=lambda *_: ("--updated-after", "beginning"), forms=_ROWS),
    "completion": Case(arguments=lambda *_: ("bash",), waits=False),
    "dead-letters": Case(
        arguments=lambda _, folder: ("--store", str(folder / "polls.db")),
        forms=_ROWS,
        waits=False,
        prepare=_store,
    ),
    "demo": Case(arguments=lambda *_: ("--applications", "40"), waits=False),
    "doctor": Case(arguments=lambda *_: (), forms=_ONE_THING, statuses=frozenset({0, 1})),
    "documents": Case(arguments=lambda service, _: (_first(service),), forms=_ROWS),
    "download": Case(
        arguments=lambda service, folder: (
            "--to", str(folder / "files"), "--allow-host", "127.0.0.1", _first(service),
        )
    ),
    "export": Case(
        arguments=lambda _, folder: (
            "--to", str(folder / "all.jsonl"), "--updated-after", "2026-01-01",
        )
    ),
    "find": Case(
        arguments=lambda service, _: (_reference(service),),
        forms=_ROWS,
    ),
    "poll": Case(
        arguments=lambda _, folder: (
            "--store", str(folder / "polls.db"), "--start", "beginning", "--once",
        )
    ),
    "token": Case(arguments=lambda *_: (), forms=(*_ONE_THING, ("--reveal",))),
}  # fmt: skip
"""All but those that serve until they are told to end, or that ask an emulator for callbacks."""
FORMS: Final = tuple(Form(name, more) for name, case in CASES.items() for more in ((), *case.forms))


def summary_of(name: str) -> str:
    """Return the first line of a help text."""
    return COMMANDS[name].partition("\n")[0]


def examples_in(text: str) -> Iterator[list[str]]:
    """Yield what is typed after ``income-client`` in the examples of a help text."""
    _, _, typed = text.partition("Example: ")
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


def spoilt(service: Emulator, application_id: str, rest: str, harmful: str) -> bytes:
    """Return a reply of the service in which every word that is free text does harm."""
    return json.dumps(
        _spoilt(served(service, application_id, rest), harmful), default=float
    ).encode()


_FREE: Final = frozenset(
    {"first_name", "last_name", "employer_name", "source_type", "street_address", "city",
     "email", "file_reference_id", "application_reference_id", "pay_period_frequency"}
)  # fmt: skip


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
