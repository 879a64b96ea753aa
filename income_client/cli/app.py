"""The sub-commands, each loaded when it is called; knows what their errors exit with."""

import sys
from collections.abc import Sequence
from typing import Final

from cyclopts import App, CycloptsError, CycloptsPanel, UnusedCliTokensError
from rich.console import Group

from income_client import (
    AuthenticationError,
    IncomeClientError,
    PermissionDeniedError,
    __version__,
)

from .command_table import ABOUT, COMMANDS
from .output.printable import printable
from .output.screen import Screen

_FAILED: Final = 1
_MISUSED: Final = 2
_REFUSED: Final = 4
_REFUSALS: Final = (AuthenticationError, PermissionDeniedError)


def command_line() -> App:
    """Return the command with its sub-commands, none of them loaded."""
    app = App(
        name="income-client",
        help=ABOUT,
        help_format="plaintext",
        version=__version__,
        console=Screen(),
        error_console=Screen(stderr=True),
        error_formatter=_explained,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for name, text in COMMANDS.items():
        module = name.replace("-", "_")
        app.command(f"income_client.cli.{module}:{module}", name=name, help=text)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: what follows the command's name.

    Returns:
        The exit status.
    """
    try:
        return command_line()(list(arguments)) or 0
    except CycloptsError:
        return _MISUSED
    except IncomeClientError as error:
        print(f"income-client: {printable(str(error))}", file=sys.stderr)
        return _REFUSED if isinstance(error, _REFUSALS) else _FAILED


def _explained(error: CycloptsError) -> object:
    if isinstance(error, UnusedCliTokensError):
        panel = CycloptsPanel(f"Unexpected argument: {' '.join(error.unused_tokens or ())}.")
    else:
        panel = CycloptsPanel(error)
    command = " ".join(("income-client", *(error.command_chain or ())))
    return Group(panel, f"{command} --help says more.")
