"""Whom TLS believes: the usual authorities and those of a file; opens no connection."""

import ssl
from pathlib import Path

from income_client.cli.output.printable import printable
from income_client.cli.output.saying import reason_of


def trusting(ca_file: str) -> ssl.SSLContext | str:
    """Return what believes the usual authorities and those of a file, or what is wrong with it.

    Args:
        ca_file: its path; certificates in PEM.
    """
    context = ssl.create_default_context()
    path, shown = Path(ca_file), printable(ca_file)
    try:
        if path.exists() and not path.is_file():
            # A pipe that nobody writes to would be waited for.
            return f"{shown} is no regular file"
        context.load_verify_locations(path)
    except ssl.SSLError:
        return f"{shown} holds no certificate"
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it is no path"
        return f"cannot read {shown}: {reason}"
    return context
