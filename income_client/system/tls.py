"""TLS contexts for connections to others, and the file of keys that SSLKEYLOGFILE names.

Python opens that file with each default context, and aiohttp makes one while it is imported.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from income_client.errors import ConfigurationError

from .texts import printable, reason_of

if TYPE_CHECKING:
    import ssl

_KEY_LOG: Final = "SSLKEYLOGFILE"


def default_context() -> "ssl.SSLContext":
    """Return Python's default context for a client; raise `ConfigurationError` where it cannot."""
    import ssl  # noqa: PLC0415 - takes a while, which the check need not

    check_key_log()
    return ssl.create_default_context()


def check_key_log() -> None:
    """Raise a `ConfigurationError` if TLS keys are to be logged in a file that cannot be written.

    The error of Python, or of aiohttp's import, does not name the variable.
    """
    path = os.environ.get(_KEY_LOG)
    if not path:
        return
    try:
        with Path(path).open("ab"):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"{_KEY_LOG}: cannot write {printable(path)}: {reason_of(error)}; unset the variable"
        ) from None
