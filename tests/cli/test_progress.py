"""When progress is drawn: for a person at a terminal, and never beside a pipe."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.support.cli import Cli, Terminal

FEW: Final = 20

COMMANDS: Final[dict[str, Callable[[IncomeService, Path], tuple[str, ...]]]] = {
    "applications": lambda *_: ("--updated-after", "beginning", "-q"),
    "documents": lambda service, _: (*service.ids, "-q"),
    "download": lambda service, folder: (
        "--to", str(folder / "files"), "--allow-host", "127.0.0.1", *service.ids[:2],
    ),
    "export": lambda _, folder: ("--to", str(folder / "all.jsonl")),
    "poll": lambda _, folder: (
        "--store", str(folder / "polls.db"), "--start", "beginning", "--once",
    ),
    "demo": lambda *_: ("--applications", str(FEW)),
}  # fmt: skip
MOVES: Final = ("\r", "\x1b")
"""What progress begins a drawing with; lines that stay have none of it but their ends."""


def is_drawn(screen: str) -> bool:
    """Return whether anything was drawn over itself."""
    return any(move in screen.replace("\r\n", "\n") for move in MOVES)


@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        *((command, "pipe") for command in COMMANDS),
        *(("download", stdout) for stdout in ("socket", "file", "null")),
    ],
)
def test_progress_is_drawn_beside_no_pipe(
    command: str, stdout: str, cli: Cli, tmp_path: Path
) -> None:
    """The reader of a pipe may write to the same terminal; a file does not."""
    ours, theirs = socket.socketpair()
    with IncomeService(FEW) as service, ours, theirs:
        arguments = (command, *COMMANDS[command](service, tmp_path))
        places: dict[str, int | Path] = {
            "socket": theirs.fileno(), "file": tmp_path / "out", "null": Path(os.devnull),
        }  # fmt: skip
        ran = cli.at(service)(
            *arguments,
            terminal=Terminal(),
            piped=stdout == "pipe",
            stdout=places.get(stdout),
        )
    assert ran.status == 0
    assert is_drawn(ran.screen) is (stdout in ("file", "null"))
    assert not is_drawn(ran.stdout)


@pytest.mark.parametrize("command", ["applications", "documents", "poll", "export"])
def test_progress_is_drawn_where_all_is_on_one_terminal(
    command: str, cli: Cli, tmp_path: Path
) -> None:
    """Both streams lead to a person, who sees how far it is."""
    with IncomeService(FEW) as service:
        arguments = (command, *COMMANDS[command](service, tmp_path))
        ran = cli.at(service)(*arguments, terminal=Terminal())
    assert ran.status == 0
    assert is_drawn(ran.screen)
