"""When progress is drawn: for a person at a terminal, and never beside a pipe."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.cli.in_process import looked_at

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


@pytest.mark.parametrize("stdout", ["pipe", "socket", "file", "null"])
@pytest.mark.parametrize("command", COMMANDS)
def test_progress_is_drawn_beside_no_pipe(
    command: str, stdout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of a pipe may write to the same terminal; a file does not."""
    with IncomeService(FEW) as service:
        for name, text in service.environment.items():
            monkeypatch.setenv(name, text)
        arguments = (command, *COMMANDS[command](service, tmp_path))
        looked = looked_at(monkeypatch, arguments, stdout, tmp_path)
    assert looked.status == 0
    assert is_drawn(looked.screen) is (stdout in ("file", "null"))
    assert not is_drawn(looked.piped)


@pytest.mark.parametrize("command", ["applications", "documents", "poll", "export"])
def test_progress_is_drawn_where_all_is_on_one_terminal(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both streams lead to a person, who sees how far it is."""
    with IncomeService(FEW) as service:
        for name, text in service.environment.items():
            monkeypatch.setenv(name, text)
        arguments = (command, *COMMANDS[command](service, tmp_path))
        looked = looked_at(monkeypatch, arguments, "terminal", tmp_path)
    assert looked.status == 0
    assert is_drawn(looked.screen)
