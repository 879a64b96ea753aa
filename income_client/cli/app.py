"""The sub-commands, each loaded when it is called; knows what their errors exit with."""

from collections.abc import Sequence

from cyclopts import App, CycloptsError, CycloptsPanel, UnusedCliTokensError
from rich.console import Group

from income_client import (
    AuthenticationError,
    IncomeClientError,
    PermissionDeniedError,
    __version__,
)

from .arguments.misuse import MisuseError
from .command_table import ABOUT, COMMANDS
from .exit_status import ExitStatus
from .output.saying import say
from .output.screen import Screen


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
    for place, (name, text) in enumerate(COMMANDS.items()):
        module = name.replace("-", "_")
        app.command(f"income_client.cli.{module}:{module}", name=name, help=text, sort_key=place)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: what follows the command's name.

    Returns:
        The exit status.
    """
    try:
        return command_line()(list(arguments)) or ExitStatus.DONE
    except CycloptsError:
        return ExitStatus.MISUSED
    except IncomeClientError as error:
        say(str(error))
        return _status_of(error)


def _status_of(error: IncomeClientError) -> ExitStatus:
    match error:
        case MisuseError():
            return ExitStatus.MISUSED
        case AuthenticationError() | PermissionDeniedError():
            return ExitStatus.REFUSED
        case _:
            return ExitStatus.FAILED


def _explained(error: CycloptsError) -> object:
    if isinstance(error, UnusedCliTokensError):
        panel = CycloptsPanel(f"Unexpected argument: {' '.join(error.unused_tokens or ())}.")
    else:
        panel = CycloptsPanel(error)
    command = " ".join(("income-client", *(error.command_chain or ())))
    return Group(panel, f"{command} --help says more.")
