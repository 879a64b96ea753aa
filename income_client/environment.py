"""A client's address and credentials from environment variables; the only reader of them."""

import os
from collections.abc import Mapping

from attrs import frozen

from .errors import ConfigurationError
from .settings import BasicAuth, OAuth2ClientCredentials, Secret


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
        ConfigurationError: one is missing, or both kinds of credentials are set.
    """
    return Environment(
        base_url=_required(variables, "INCOME_BASE_URL"),
        auth=_auth(variables),
        auth_url=variables.get("INCOME_AUTH_URL") or None,
    )


def _auth(variables: Mapping[str, str]) -> BasicAuth | OAuth2ClientCredentials:
    has_oauth2 = any(map(variables.get, ("INCOME_CLIENT_ID", "INCOME_CLIENT_SECRET")))
    has_basic = any(map(variables.get, ("INCOME_USERNAME", "INCOME_PASSWORD")))
    if has_oauth2 == has_basic:
        raise ConfigurationError(
            "set either INCOME_CLIENT_ID and INCOME_CLIENT_SECRET, "
            "or INCOME_USERNAME and INCOME_PASSWORD"
        )
    if has_oauth2:
        client_id = _required(variables, "INCOME_CLIENT_ID")
        return OAuth2ClientCredentials(
            client_id, Secret(_required(variables, "INCOME_CLIENT_SECRET"))
        )
    username = _required(variables, "INCOME_USERNAME")
    return BasicAuth(username, Secret(_required(variables, "INCOME_PASSWORD")))


def _required(variables: Mapping[str, str], name: str) -> str:
    text = variables.get(name)
    if not text:
        raise ConfigurationError(f"{name} is not set")
    return text
