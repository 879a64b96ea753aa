"""Where files may come from, as a command line says it; opens no connection."""

import re
from typing import Annotated, Any, Final

from cyclopts import Parameter

from income_client import ConfigurationError, DownloadPolicy

_THIS_MACHINE: Final = re.compile(
    r"(localhost|127(\.[0-9]+){3}|\[::1\])(:([0-9]+|\*))?", re.IGNORECASE
)
_HELP: Final = (
    "another host that files may come from, as name, *.domain, address or with :port; may be "
    "repeated. One that names this machine (localhost, 127.0.0.1, [::1]) also allows http and "
    "private networks, for any host allowed."
)


def _readable(_: Any, entries: tuple[str, ...]) -> None:
    try:
        DownloadPolicy(allowed_hosts=entries or ("localhost",))
    except ConfigurationError as error:
        raise ValueError(error.message) from None


HostsOption = Annotated[
    tuple[str, ...],
    Parameter(validator=_readable, negative=(), show_default=False, help=_HELP),
]
"""An option that takes hosts."""


def download_policy(hosts: tuple[str, ...], *, is_private_allowed: bool) -> DownloadPolicy:
    """Return where files may come from besides the usual hosts.

    Args:
        hosts: further ones.
        is_private_allowed: whether these may be in private networks.
    """
    default = DownloadPolicy()
    # An address of this machine never leaves it: nobody else reads what http would show.
    is_local = any(map(_THIS_MACHINE.fullmatch, hosts))
    return DownloadPolicy(
        allowed_hosts=(*default.allowed_hosts, *hosts),
        require_https=not is_local,
        allow_private_networks=is_local or is_private_allowed,
    )
