"""The income-client command: where it begins and how it ends; knows no sub-command."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_NEEDED: Final = ("cyclopts", "rich")
_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141


def main() -> None:
    """Run the command line and exit with its status.

    0 for success, 1 for failure, 2 for arguments that cannot be meant, 130
    after Ctrl-C and 141 when nobody reads the output any more.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.exit(
            f"income-client: {' and '.join(missing)} not installed; "
            "the command line comes with pip install 'income-client[cli]'"
        )
    if sys.stdout is None:
        # Whatever is opened next would get its number, and the output with it.
        sys.exit("income-client: standard output is closed")
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    sys.exit(_status())


def _status() -> int:
    try:
        # Loading takes a moment, and Ctrl-C in it is as quiet as later on.
        from .app import run  # noqa: PLC0415

        status = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # What is left in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return status
