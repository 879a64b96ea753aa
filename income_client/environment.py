"""A client's settings from environment variables, and the options that complete them."""

import os
import ssl as tls
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Final, TypedDict

from attrs import evolve, frozen

from .clock import Clock
from .errors import ConfigurationError
from .events import OnEvent
from .http.tokens import TokenStore
from .http.transport import BorrowedSession, TraceConfig
from .settings import (
    BasicAuth,
    DownloadPolicy,
    OAuth2ClientCredentials,
    RetryPolicy,
    Secret,
    Timeouts,
)

_OAUTH2: Final = ("INCOME_CLIENT_ID", "INCOME_CLIENT_SECRET")
_BASIC: Final = ("INCOME_USERNAME", "INCOME_PASSWORD")


class ClientOptions(TypedDict, total=False):
    """Keyword arguments of `IncomeClient` other than its addresses and credentials."""

    session: BorrowedSession | None
    timeouts: Timeouts | None
    retry: RetryPolicy | None
    concurrency: int
    max_rate: float | None
    token_store: TokenStore | None
    service_timezone: tzinfo
    downloads: DownloadPolicy | None
    max_response_bytes: int
    user_agent: str | None
    proxy: str | None
    ssl: tls.SSLContext | None
    trace_configs: Sequence[TraceConfig]
    keep_error_bodies: bool
    on_event: OnEvent | None
    telemetry: bool
    clock: Clock | None


@frozen(kw_only=True)
class Environment:
    """What the environment says about the service."""

    base_url: str
    """INCOME_BASE_URL."""
    auth: BasicAuth | OAuth2ClientCredentials
    """INCOME_CLIENT_ID and INCOME_CLIENT_SECRET, or INCOME_USERNAME and INCOME_PASSWORD."""
    auth_url: str | None
    """INCOME_AUTH_URL, if it is set."""
    proxy: Secret | None
    """INCOME_PROXY, likewise; it may hold the proxy's own password."""
    ca_file: str | None
    """INCOME_CA_FILE, likewise."""

    def complete(self, options: ClientOptions) -> None:
        """Add INCOME_PROXY and INCOME_CA_FILE to options, which take precedence."""
        if "ssl" not in options and self.ca_file is not None:
            context = _trusting(self.ca_file)
            if isinstance(context, str):
                raise ConfigurationError(f"INCOME_CA_FILE: {context}")
            options["ssl"] = context
            downloads: object = options.get("downloads") or DownloadPolicy()
            if isinstance(downloads, DownloadPolicy) and downloads.ssl is None:
                options["downloads"] = evolve(downloads, ssl=context)
        if "proxy" not in options and self.proxy is not None:
            options["proxy"] = self.proxy.reveal()


def read_environment(variables: Mapping[str, str] = os.environ) -> Environment:
    """Read the variables, or raise a `ConfigurationError` that names the one at fault."""
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
    proxy = variables.get("INCOME_PROXY")
    return Environment(
        base_url=base_url,
        auth=auth,
        auth_url=variables.get("INCOME_AUTH_URL") or None,
        proxy=Secret(proxy) if proxy else None,
        ca_file=variables.get("INCOME_CA_FILE") or None,
    )


def _trusting(ca_file: str) -> tls.SSLContext | str:
    """Return what trusts the authorities of a PEM file too, or what is wrong with the file."""
    context = tls.create_default_context()
    path = Path(ca_file)
    try:
        if path.exists() and not path.is_file():
            return "it must be a regular file"  # a pipe without a writer would block
        context.load_verify_locations(path)
    except tls.SSLError:
        return "the file holds no certificate"
    except OSError as error:
        return f"the file cannot be read: {error.strerror}"
    except ValueError:
        return "it must be the path of a file"
    return context
