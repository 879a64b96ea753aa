"""The table of sub-commands, each loaded when it is called; knows what their errors exit with."""

import sys
from collections.abc import Sequence
from typing import Final

from cyclopts import App, CycloptsError, CycloptsPanel, UnusedCliTokensError

from income_client import IncomeClientError, __version__

from .screen import Screen

_ABOUT: Final = """Read an income-verification service; try it on an emulated one.

Example: income-client demo
"""
_COMMANDS: Final = {
    "demo": """Read a whole emulated service of invented data, and say what was found.

Progress goes to standard error, the summary to standard output. The exit
status is 1 if the summary does not agree with what the service holds.

Example: income-client demo --applications 20000
""",
    "emulate": """Run the emulated service on loopback until Ctrl-C or SIGTERM.

Prints the environment variables that lead a client to it, as lines for a
shell. All data is invented, the credentials too; its updates lie in the 90
days before --start. Service time passes, and so its present is yours unless
you choose another.

With --callbacks it sends callbacks, of --updates and of trigger, as the service
does: up to five times more where they are not taken. Their credentials come
from the environment: INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or
INCOME_CALLBACK_CLIENT_ID and INCOME_CALLBACK_CLIENT_SECRET for tokens.

Example: income-client emulate --port 8080 --applications 20000
""",
    "listen": """Take callbacks at an address of your own, and print each as a line of JSON.

A line tells when the callback came, its event and its application, and whether
the same bytes came shortly before. It is written before the callback is
answered with 200, and with --forward-to only once it has been handed on. What
cannot be handed on or written is answered with 503, and the service sends it
again. What else is not taken is told on standard error, by reason.

The credentials that callbacks must carry come from the environment:
INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or, for tokens that are
sold at --token-path, INCOME_CALLBACK_CLIENT_ID and
INCOME_CALLBACK_CLIENT_SECRET; or both. Where none are set and only this
machine can ring, some are made up and told. The exit status is 0 after
SIGTERM, 130 after Ctrl-C, and 141 when nobody reads the output any more.

Example: income-client listen --forward-to http://127.0.0.1:8000/hook
""",
    "trigger": """Have a running emulator fire callbacks, and say what became of each.

A line tells the application, the event and what each attempt came to: the
status of the answer, or why there was none. The emulator is one that was
started with --callbacks; its address and credentials come from the
environment, as emulate prints them. The exit status is 0 if all callbacks were
answered with 200, else 1.

Example: income-client trigger --event extractions --count 3
""",
    "download": """Put the files of applications' documents into a folder.

The path of each file goes to standard output once it is whole. The folder's
manifest.jsonl then gets a line of JSON about it, with its size and SHA-256;
neither has an address or a name of anybody. Run it again, and it goes on where
it was: a file that is listed and still as it was is not asked for, and what
came of the others is not asked for twice. Bars go to standard error if that is
a terminal, and a summary at the end.

What fails is said, and keeps nothing else from coming. Ctrl-C and SIGTERM stop
it, with the parts that came kept for the next run; a second one ends it at
once. Parts are hidden files beside the places of the whole ones. The exit
status is 0 if all is there, 1 if something failed, 130 after Ctrl-C, 143 after
SIGTERM, and 141 when nobody reads the output any more. Address and credentials
come from the environment, as for poll.

Example: income-client download app-000001 app-000002 --to files --type paystub
""",
    "poll": """Write every update of every application to standard output, as lines of JSON.

A line is the service's own JSON. It is written before the file notes that it
was, so that nothing is lost in a crash; at worst the last lines come again.
Run it again with the same file, and it goes on where it was. What could not be
read is kept in the file, and tried again later.

Ctrl-C and SIGTERM stop it once the lines at hand are written and noted; a
second one ends it at once. The exit status is 0 after SIGTERM, or 143 if that
cut --once short; 130 after Ctrl-C, 141 when nobody reads the output any more,
and 1 after a failure. Address and credentials come from the
environment: INCOME_BASE_URL, and INCOME_CLIENT_ID and INCOME_CLIENT_SECRET, or
INCOME_USERNAME and INCOME_PASSWORD.

Example: income-client poll --store polls.db --start 2026-01-01 >> all.jsonl
""",
}
_FAILED: Final = 1
_MISUSED: Final = 2


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: what follows the command's name.

    Returns:
        The exit status.
    """
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
    for name, text in _COMMANDS.items():
        app.command(f"income_client.cli.{name}:{name}", name=name, help=text)
    try:
        return app(list(arguments)) or 0
    except CycloptsError:
        return _MISUSED
    except IncomeClientError as error:
        print(f"income-client: {error}", file=sys.stderr)
        return _FAILED


def _explained(error: CycloptsError) -> object:
    if isinstance(error, UnusedCliTokensError):
        return CycloptsPanel(f"Unexpected argument: {' '.join(error.unused_tokens or ())}.")
    return CycloptsPanel(error)
