"""Credentials and TLS of callbacks for the sub-commands; secrets come from the environment only."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from income_client import BasicAuth, ConfigurationError, OAuth2ClientCredentials, Secret
from income_client.cli.options import MisuseError
from income_client.emulator import CallbackTarget
from income_client.emulator.exchange import check_local_address

Pair = TypeVar("Pair", BasicAuth, OAuth2ClientCredentials)


@frozen(kw_only=True)
class Credentials:
    """What the environment holds under one prefix."""

    basic: BasicAuth | None
    """User name and password."""
    oauth2: OAuth2ClientCredentials | None
    """Client id and secret."""


def read_credentials(prefix: str, variables: Mapping[str, str] = os.environ) -> Credentials:
    """Read ``USERNAME`` and ``PASSWORD``, and ``CLIENT_ID`` and ``CLIENT_SECRET``.

    Args:
        prefix: what the names of the variables begin with.
        variables: the environment.

    Raises:
        MisuseError: one of a pair is missing, or cannot be meant.
    """
    basic = _pair(BasicAuth, f"{prefix}USERNAME", f"{prefix}PASSWORD", variables)
    oauth2 = _pair(
        OAuth2ClientCredentials, f"{prefix}CLIENT_ID", f"{prefix}CLIENT_SECRET", variables
    )
    del variables  # among them secrets, which a raising frame must not hold
    for found in (basic, oauth2):
        if isinstance(found, str):
            raise MisuseError(found)
    return Credentials(
        basic=basic if isinstance(basic, BasicAuth) else None,
        oauth2=oauth2 if isinstance(oauth2, OAuth2ClientCredentials) else None,
    )


def _pair(
    kind: type[Pair], name: str, secret: str, variables: Mapping[str, str]
) -> Pair | str | None:
    """Return a pair, None where neither is set, or what is wrong."""
    values = [variables.get(name), variables.get(secret)]
    if not any(values):
        return None
    for variable, value in zip((name, secret), values, strict=True):
        if not value:
            return f"{variable} is not set"
    try:
        return kind(values[0] or "", Secret(values[1] or ""))
    except ConfigurationError as error:
        return f"{name}, {secret}: {error.message}"


def callback_target(
    url: str | None,
    token_url: str | None,
    *,
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
) -> CallbackTarget | None:
    """Return where an emulator sends callbacks, with the credentials of the environment.

    Args:
        url: where to; None for nowhere.
        token_url: where tokens are bought; with it the client id and secret count, without
            it the user name and password.
        certificate: file with a client certificate.
        key: file with its private key.
        ca: file with the authorities that vouch for the endpoint.

    Raises:
        MisuseError: options do not fit together, an address leads elsewhere, or a variable
            is missing or does not fit.
        ConfigurationError: what is in a file does not fit.
    """
    has_tls = any(path is not None for path in (certificate, key, ca))
    if url is None:
        if has_tls or token_url is not None:
            raise MisuseError("options of callbacks need --callbacks")
        return None
    try:
        check_local_address("--callbacks", url)
        if token_url is not None:
            check_local_address("--callback-token-url", token_url)
    except ConfigurationError as error:
        raise MisuseError(error.message) from None
    if has_tls and "https:" not in (url[:6], (token_url or "")[:6]):
        raise MisuseError("certificates need an address with https in --callbacks")
    credentials = read_credentials("INCOME_CALLBACK_")
    auth: BasicAuth | OAuth2ClientCredentials | None = credentials.basic
    if token_url is not None:
        auth = credentials.oauth2
        if auth is None:
            raise MisuseError(
                "--callback-token-url needs INCOME_CALLBACK_CLIENT_ID and "
                "INCOME_CALLBACK_CLIENT_SECRET"
            )
    elif auth is None and credentials.oauth2 is not None:
        raise MisuseError("INCOME_CALLBACK_CLIENT_ID needs --callback-token-url")
    return CallbackTarget(
        url,
        auth=auth,
        token_url=token_url,
        ssl=_client_context(certificate, key, ca) if has_tls else None,
    )


def _client_context(certificate: Path | None, key: Path | None, ca: Path | None) -> ssl.SSLContext:
    if (certificate is None) is not (key is None):
        raise MisuseError("--callback-certificate and --callback-key go together")
    fault = None
    context = ssl.create_default_context()
    try:
        if ca is not None:
            context.load_verify_locations(ca)
    except OSError:
        fault = f"--callback-ca: {ca} holds no certificate"
    try:
        if certificate is not None and key is not None:
            # Without a password OpenSSL would ask at the terminal.
            context.load_cert_chain(certificate, key, password=lambda: "")
    except OSError:
        fault = f"{certificate} and {key} are no certificate with its unencrypted private key"
    if fault is not None:
        raise ConfigurationError(fault)
    return context
