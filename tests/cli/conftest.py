"""Fixtures of the tests of the command line, and the commands that they look at."""

from typing import Final

import pytest

from income_client import SQLiteCheckpointStore
from income_client.testing import LoopRunner
from tests.cli.commands import FORMS, LETTER, NAMES, POLLED, READING, Form
from tests.support.cli import Cli, cli, shell, without_pauses

__all__ = ["cli", "prepared", "shell", "without_pauses"]

_FEW: Final = {
    # Each writes in another way.
    "any_form": (
        Form("application"), Form("applications", ("-o", "table")), Form("download"),
        Form("export"), Form("get"), Form("poll"),
    ),
    "any_name": ("applications", "documents", "listen", "poll"),
    "any_reader": ("applications", "doctor", "download", "export", "poll"),
}  # fmt: skip
_EVERY: Final = {"any_form": FORMS, "any_name": NAMES, "any_reader": READING}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Look at a few commands where something holds for every one; at all of them with --full."""
    chosen = _EVERY if metafunc.config.getoption("full") else _FEW
    for argument, values in chosen.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, values, ids=str)


@pytest.fixture
def prepared(shell: Cli, income_run: LoopRunner) -> Cli:
    """The command in a folder with the files that `Form` names."""
    (shell.folder / "held.csv").write_text("app-of-tomorrow,2100-01-01")
    store = SQLiteCheckpointStore(shell.folder / "dead.db")
    income_run(store.save("default", "nothing", version=0, dead_letters=(LETTER,)))
    polled = SQLiteCheckpointStore(shell.folder / "polled.db")
    income_run(polled.save("default", POLLED.text, version=0, dead_letters=(LETTER,)))
    return shell
