"""Messages on standard error, one line each, whether or not something is drawn there."""

import os
import sys

from .printable import printable


def say(message: str) -> None:
    """Print a line on standard error.

    Args:
        message: what to say; characters that would act on a terminal are replaced.
    """
    sys.stderr.write(f"income-client: {printable(message)}\n")
    sys.stderr.flush()


def reason_of(error: OSError, otherwise: str = "it cannot be used") -> str:
    """Return why something of the system failed, in its own words and no name of a file.

    Args:
        error: says why.
        otherwise: what to say where it does not.
    """
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (error.strerror or otherwise).lower()
