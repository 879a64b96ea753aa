"""The commands, each imported when it is called, and the exit statuses of their errors."""

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from cyclopts import (
    App,
    CycloptsError,
    CycloptsPanel,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.help import DefaultFormatter, HelpPanel
from rich.console import Console, ConsoleOptions, Group
from rich.text import Text

from income_client import (
    AuthenticationError,
    ConfigurationError,
    IncomeClientError,
    PermissionDeniedError,
    ServerError,
    TokenError,
    TransportError,
    UnexpectedResponseError,
    __version__,
)
from income_client.system.texts import printable
from income_client.system.tls import check_key_log

from .connection import is_refusal
from .exit_status import ExitStatus
from .options import BEHIND_OPTIONS
from .output import Screen, error_screen, say
from .progress import show_log

_FOR_DOCTOR: Final = (
    AuthenticationError, PermissionDeniedError, ServerError, TokenError, TransportError,
    UnexpectedResponseError,
)  # fmt: skip
_ABOUT: Final = """Read an income-verification service; try it on an emulated one.

Exit statuses, the same for every command:

  0    success
  1    something failed, is missing or was not found
  2    invalid arguments or configuration
  3    another process took over the name of a poller
  4    the service refused the credentials
  130  interrupted by Ctrl-C
  141  the reader of the output has gone
  143  terminated by SIGTERM before all was done

Example: income-client demo
"""
_VERBOSE: Final = "--verbose"
_EVERYWHERE: Final = f"Every command also takes {_VERBOSE}, which prints each request and retry."
_SUMMARIES: Final = {
    "demo": "Read an emulated service and check the result",
    "configure": "Save address and credentials",
    "doctor": "Check configuration, connection and service",
    "applications": "List the applications updated in a period, or find one",
    "application": "Show the income and the documents of an application",
    "documents": "List the documents of applications",
    "download": "Download the files of documents",
    "export": "Export the applications updated in a period to a file",
    "audit": "Find out whether you hold all that is listed",
    "poll": "Print each update, and remember what was printed",
    "relay": "Publish an event for each update to a broker",
    "status": "Show how the pollers of a store are",
    "dead-letters": "List, retry or forget what a poller could not read",
    "get": "Print the JSON of any path of the service",
    "listen": "Receive callbacks and print them",
    "trigger": "Have a running emulator send callbacks",
    "emulate": "Run an emulated service",
    "guide": "Show a page of the guide, or list its pages",
    "schema": "Print the SQL of the tables in a database",
    "completion": "Print a completion script for a shell",
}
"""Summaries of the commands, in the order of the help."""
_MEANT: Final[Mapping[str, tuple[str, ...]]] = {
    "--csv": ("--output csv",),
    "--json": ("--output json", "--format jsonl"),
    "--output": ("--format",),
    "--since": ("--updated-after", "--start"),
    "--until": ("--updated-before",),
    "-n": ("--limit", "--count", "--applications"),
    "-o": ("--format",),
    "-v": (_VERBOSE,),
}
"""Options of other commands or programs, and their names here."""
_REMOVED: Final[Mapping[str, str]] = {
    "find": "write income-client applications --reference REFERENCE.",
    "token": "income-client guide command-line has a line of curl for it.",
}
"""Commands of earlier versions, and their replacements."""
_WORDS: Final[Mapping[str, str]] = {"help": "--help", "version": "--version"}
"""Common names of commands in other programs, and the command here."""


class _HelpFormatter(DefaultFormatter):
    """Lays out help: paragraphs fill the width, and the usage line describes the arguments."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        for entry in panel.entries:
            _join_lines(entry.description)
        super().__call__(console, options, panel)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        # Optional arguments are ids of applications, except for the guide.
        text = str(usage)
        argument = "[PAGE" if " guide " in text else "[APPLICATION_ID"
        super().render_usage(console, options, text.replace("[ARGS", argument))

    def render_description(
        self, console: Console, options: ConsoleOptions, description: object
    ) -> None:
        _join_lines(description)
        super().render_description(console, options, description)


def _join_lines(description: object) -> None:
    """Join the lines of each paragraph, except in lists and examples."""
    text = getattr(description, "primary_renderable", None)
    if isinstance(text, Text):
        text.plain = "\n\n".join(
            block if block.startswith((" ", "Example")) else " ".join(block.split())
            for block in text.plain.split("\n\n")
        )


def command_line(command_name: str = "") -> App:
    """Return the command line; only the command ``command_name`` is imported, on its call."""
    app = App(
        name="income-client",
        help=_ABOUT,
        help_format="plaintext",
        help_formatter=_HelpFormatter(),
        help_epilogue=_EVERYWHERE,
        version=__version__,
        version_flags=("--version", "-V"),
        console=Screen(),
        error_console=error_screen(),
        error_formatter=_format_error,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for place, (name, summary) in enumerate(_SUMMARIES.items()):
        module = name.replace("-", "_")
        text = None if name == command_name else summary
        app.command(f"income_client.cli.{module}:{module}", name=name, help=text, sort_key=place)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run a command line, given without the command's name, and return the exit status."""
    error_screen.cache_clear()  # the streams and the environment are those of now
    words = [word for word in arguments if word != _VERBOSE]
    show_log(is_verbose=len(words) < len(arguments))
    if words and words[0] in _WORDS:
        words = [*words[1:2], _WORDS[words[0]]]
    app = command_line(*words[:1])
    try:
        check_key_log()
        BEHIND_OPTIONS.set(_behind_options(app, words))
        return app(words) or ExitStatus.DONE
    except CycloptsError:
        return ExitStatus.MISUSED
    except IncomeClientError as error:
        say(" ".join((str(error), *getattr(error, "__notes__", ()))))
        if isinstance(error, _FOR_DOCTOR) and sys.stderr.isatty():
            say("run income-client doctor to find out more")
        return _status_of(error)


def _behind_options(app: App, words: Sequence[str]) -> frozenset[str]:
    """Return the words behind ``--``, without options of the command that were put there."""
    if "--" not in words[1:] or words[0] not in _SUMMARIES:
        return frozenset()
    options = {name for one in app[words[0]].assemble_argument_collection() for name in one.names}
    behind = words[words.index("--") + 1 :]
    return frozenset(word for word in behind if word.partition("=")[0] not in options)


def _status_of(error: IncomeClientError) -> ExitStatus:
    if isinstance(error, ConfigurationError):
        return ExitStatus.MISUSED
    return ExitStatus.REFUSED if is_refusal(error) else ExitStatus.FAILED


def _format_error(error: CycloptsError) -> object:
    # What was typed could act on a terminal, and may have been typed by somebody else.
    text = "\n".join(map(printable, _error_text(error).split("\n")))
    command = " ".join(("income-client", *map(printable, error.command_chain or ())))
    return Group(CycloptsPanel(text), Text(f"{command} --help says more."))


def _error_text(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        return f"Unexpected argument: {' '.join(error.unused_tokens or ())}."
    if isinstance(error, UnknownOptionError):
        if error.app is not None and not error.argument_collection:
            # Among ids, cyclopts does not read the options of the command.
            error.argument_collection = error.app.assemble_argument_collection()
        option = (error.token.keyword or error.token.value or "").partition("=")[0]
        arguments = error.argument_collection or ()
        names = {_VERBOSE, *(name for argument in arguments for name in argument.names)}
        if option in names:
            return f"{option} is behind --, where all is an argument: options come before it."
        if hint := _option_hint(option, names):
            return hint
    if isinstance(error, UnknownCommandError):
        (word, *_) = error.unused_tokens or ("",)
        return _command_hint(word) or str(error)
    text = str(error)
    if isinstance(error, MissingArgumentError) and not error.keyword and error.argument:
        # cyclopts says of an option that was left out that it has no value.
        text = text.replace("requires an argument", "is missing")
    return text


def _command_hint(word: str) -> str | None:
    """Return a hint about a word in place of a command; None without one."""
    if word in _REMOVED:
        return f"The command {word} was removed: {_REMOVED[word]}"
    if word.startswith("-"):
        option = word.partition("=")[0]
        unknown = f"Unknown option: {option}. Options come behind the command."
        return _option_hint(word, {_VERBOSE}) or unknown
    return None


def _option_hint(option: str, names: Collection[str]) -> str | None:
    """Return a hint about an option of another command or program; None without one."""
    letter = option[:2]  # with a value behind it, as in -n3
    meant = _MEANT.get(option if option.startswith("--") else letter)
    if meant is None:
        return None
    suggestion = next((meaning for meaning in meant if meaning.split()[0] in names), None)
    return f"Unknown option: {option}." + (f" Did you mean {suggestion}?" if suggestion else "")
