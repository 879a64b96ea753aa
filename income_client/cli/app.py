"""The sub-commands, each loaded when it is called; knows what their errors exit with."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from cyclopts import App, CycloptsError, CycloptsPanel, UnknownOptionError, UnusedCliTokensError
from rich.console import Group
from rich.text import Text

from income_client import (
    AuthenticationError,
    IncomeClientError,
    PermissionDeniedError,
    ServerError,
    TokenError,
    TransportError,
    UnexpectedResponseError,
    __version__,
)

from .exit_status import ExitStatus
from .options import MisuseError
from .output import Screen, printable, say

_DOCTOR: Final = "run income-client doctor to find out more"
_ABOUT: Final = """Read an income-verification service; try it on an emulated one.

Exit statuses, the same for every command:

  0    success
  1    something failed, is missing or was not found
  2    invalid arguments or configuration
  4    the service refused the credentials
  130  interrupted by Ctrl-C
  141  the reader of the output has gone
  143  terminated by SIGTERM before all was done

Example: income-client demo
"""
_SUMMARIES: Final = {
    "demo": "Read an emulated service and check the result",
    "doctor": "Check configuration, connection and service",
    "applications": "List the applications updated in a period",
    "find": "Find an application by its reference",
    "application": "Show the income and the documents of an application",
    "documents": "List the documents of applications",
    "download": "Download the files of documents",
    "export": "Export the applications updated in a period to a file",
    "poll": "Print each update, and remember what was printed",
    "dead-letters": "List what a poller could not read",
    "token": "Request an access token and describe it",
    "listen": "Receive callbacks and print them",
    "trigger": "Have a running emulator send callbacks",
    "emulate": "Run an emulated service",
    "completion": "Print a completion script for a shell",
}
"""Commands in the order of the help. That of a command itself is its function's docstring."""
_MEANT: Final[Mapping[tuple[str, ...], str]] = {
    ("export", "--output"): "--format",
    ("export", "-o"): "--format",
}
"""Options of other sub-commands by what the same is called in this one."""


def command_line(wanted: str = "") -> App:
    """Return the command line; only the wanted command is loaded, once it is called."""
    app = App(
        name="income-client",
        help=_ABOUT,
        help_format="plaintext",
        version=__version__,
        console=Screen(),
        error_console=Screen(stderr=True),
        error_formatter=_explained,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for place, (name, summary) in enumerate(_SUMMARIES.items()):
        module = name.replace("-", "_")
        text = None if name == wanted else summary
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
        return command_line(*arguments[:1])(list(arguments)) or ExitStatus.DONE
    except CycloptsError:
        return ExitStatus.MISUSED
    except IncomeClientError as error:
        say(" ".join((str(error), *getattr(error, "__notes__", ()))))
        if _is_for_doctor(error) and sys.stderr.isatty():
            say(_DOCTOR)
        return _status_of(error)


def _status_of(error: IncomeClientError) -> ExitStatus:
    match error:
        case MisuseError():
            return ExitStatus.MISUSED
        case AuthenticationError() | PermissionDeniedError():
            return ExitStatus.REFUSED
        case _:
            return ExitStatus.FAILED


def _is_for_doctor(error: IncomeClientError) -> bool:
    """Say whether a check-up could tell why the service cannot be used."""
    match error:
        case TransportError() | TokenError() | ServerError() | UnexpectedResponseError():
            return True
        case _:
            return _status_of(error) is ExitStatus.REFUSED


def _explained(error: CycloptsError) -> object:
    # What was typed may act on a terminal: it need not have been typed here.
    said = "\n".join(map(printable, _said(error).split("\n")))
    command = " ".join(("income-client", *map(printable, error.command_chain or ())))
    return Group(CycloptsPanel(said), Text(f"{command} --help says more."))


def _said(error: CycloptsError) -> str:
    match error:
        case UnusedCliTokensError():
            return f"Unexpected argument: {' '.join(error.unused_tokens or ())}."
        case UnknownOptionError():
            option = (error.token.keyword or error.token.value or "").partition("=")[0]
            meant = _MEANT.get((*(error.command_chain or ()), option))
            return (
                str(error) if meant is None else f"Unknown option: {option}. Did you mean {meant}?"
            )
        case _:
            return str(error)
