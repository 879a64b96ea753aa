"""Credentials of callbacks from the environment, for `emulate` and `listen`."""

import os

from income_client import BasicAuth, ConfigurationError, OAuth2ClientCredentials

_PREFIX = "INCOME_CALLBACK_"


def callback_basic() -> BasicAuth | None:
    """Return the user name and password of callbacks; None if neither is set."""
    pair = _read_pair(f"{_PREFIX}USERNAME", f"{_PREFIX}PASSWORD")
    return None if pair is None else BasicAuth(*pair)


def callback_client() -> OAuth2ClientCredentials | None:
    """Return the client id and secret of callbacks; None if neither is set."""
    pair = _read_pair(f"{_PREFIX}CLIENT_ID", f"{_PREFIX}CLIENT_SECRET")
    return None if pair is None else OAuth2ClientCredentials(*pair)


def _read_pair(name: str, secret: str) -> tuple[str, str] | None:
    pair = os.environ.get(name, ""), os.environ.get(secret, "")
    if not any(pair):
        return None
    for variable, text in zip((name, secret), pair, strict=True):
        if not text:
            raise ConfigurationError(f"{variable} is not set")
    return pair
