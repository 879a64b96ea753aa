"""What we call ourselves to a service and to a storage."""

import re
from typing import Final

from income_client._version import __version__
from income_client.errors import ConfigurationError

_USER_AGENT: Final = f"income-client/{__version__}"
_PRINTABLE: Final = re.compile(r"[ -~]{1,256}")


def own_name(user_agent: object) -> str:
    """Return the value of the User-Agent header: the package's own, or one of the caller's.

    Raises:
        ConfigurationError: it is no header field.
    """
    name = _USER_AGENT if user_agent is None else user_agent
    if not isinstance(name, str) or _PRINTABLE.fullmatch(name) is None:
        raise ConfigurationError("user_agent is no short text of printable ASCII")
    return name
