"""The income-client command: its start and its end, without any sub-command."""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .exit_status import ExitStatus, ending_handler
from .streams import wait_for_readers

_NEEDED: Final = ("cyclopts", "rich")


def main() -> None:
    """Run the command line and exit with one of `ExitStatus`."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.exit(
            f"income-client: {' and '.join(missing)} not installed; "
            "the command line comes with pip install 'income-client[cli]'"
        )
    if sys.stdout is None:
        # Whatever is opened next would get its number, and the output with it.
        sys.exit("income-client: standard output is closed")
    wait_for_readers()
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, ending_handler())
    sys.exit(_run_command_line())


def _run_command_line() -> int:
    try:
        # Loading takes a moment, and Ctrl-C in it is as quiet as later on.
        from .app import run

        return _flush_output(run(sys.argv[1:]))
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        from .output import discard_rest

        discard_rest()
        return ExitStatus.PIPE_CLOSED


def _flush_output(status: int) -> int:
    """Flush all output, so that the interpreter cannot fail at its end; return the status."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        from .output import UnwritableError, discard_rest, say

        discard_rest()
        if status == ExitStatus.DONE:
            say(str(UnwritableError(error)))
            return ExitStatus.FAILED
    return status
