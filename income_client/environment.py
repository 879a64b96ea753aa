"""A client's address and credentials from environment variables; the only reader of them."""

import os
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from .errors import ConfigurationError
from .settings import BasicAuth, OAuth2ClientCredentials, Secret

_OAUTH2: Final = ("INCOME_CLIENT_ID", "INCOME_CLIENT_SECRET")
_BASIC: Final = ("INCOME_USERNAME", "INCOME_PASSWORD")


@frozen(kw_only=True)
class Environment:
    """What the environment says about the service."""

    base_url: str
    """INCOME_BASE_URL."""
    auth: BasicAuth | OAuth2ClientCredentials
    """INCOME_CLIENT_ID and INCOME_CLIENT_SECRET, or INCOME_USERNAME and INCOME_PASSWORD."""
    auth_url: str | None
    """INCOME_AUTH_URL, if it is set."""


def read_environment(variables: Mapping[str, str] = os.environ) -> Environment:
    """Read the variables.

    Raises:
        ConfigurationError: one is missing, cannot be meant, or both kinds of
            credentials are set.
    """
    found = _found(variables)
    del variables  # among them secrets, which a raising frame must not hold
    if isinstance(found, str):
        raise ConfigurationError(found)
    return found


def _found(variables: Mapping[str, str]) -> Environment | str:
    """Return what the variables say, or what is wrong with them."""
    base_url = variables.get("INCOME_BASE_URL")
    if not base_url:
        return "INCOME_BASE_URL is not set"
    has_oauth2 = any(map(variables.get, _OAUTH2))
    if has_oauth2 == any(map(variables.get, _BASIC)):
        return f"set either {_OAUTH2[0]} and {_OAUTH2[1]}, or {_BASIC[0]} and {_BASIC[1]}"
    names = _OAUTH2 if has_oauth2 else _BASIC
    missing = [name for name in names if not variables.get(name)]
    if missing:
        return f"{missing[0]} is not set"
    name, secret = (variables[name] for name in names)
    try:
        auth = (OAuth2ClientCredentials if has_oauth2 else BasicAuth)(name, Secret(secret))
    except ConfigurationError as error:
        return error.message
    auth_url = variables.get("INCOME_AUTH_URL") or None
    return Environment(base_url=base_url, auth=auth, auth_url=auth_url)
