"""Which addresses are this machine's and can be read in one way only; opens none of them."""

import re
from typing import Final

from income_client.errors import ConfigurationError

_HERE: Final = re.compile(
    r"(?P<scheme>https?)://(localhost|127(\.(0|[1-9][0-9]{0,2})){3}|\[::1\])"
    r"(:(?P<port>[1-9][0-9]{0,4}))?(/[!-~]*)?"
)
_NEVER_IN_AN_ADDRESS: Final = frozenset('#\\<>"{}|^`')
_HIGHEST_PORT: Final = 65535


def check_local_address(name: str, url: object) -> ConfigurationError | None:
    """Return what is wrong with an address that is to lead to this machine, None if nothing.

    It is returned, since the frame that raises it must not hold the address, whose query may
    hold a secret.

    Args:
        name: what the address is called.
        url: it.
    """
    parts = _HERE.fullmatch(url) if isinstance(url, str) else None
    if parts is None or _NEVER_IN_AN_ADDRESS & set(parts.string):
        return ConfigurationError(
            f"{name} is an http or https address of this machine, "
            "such as http://127.0.0.1:9000/callbacks"
        )
    if int(parts["port"] or 1) > _HIGHEST_PORT:
        return ConfigurationError(f"{name} has no such port")
    return None
