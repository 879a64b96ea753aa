"""Service and credentials of a command: from options, environment, a file or a prompt.

The rules of precedence are in `income_client.configuration`.
"""

import getpass
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Unpack

from attrs import frozen
from cyclopts import Parameter

from income_client import (
    AuthenticationError,
    ConfigurationError,
    IncomeClientError,
    PermissionDeniedError,
    Secret,
    TokenError,
)
from income_client.system.texts import printable

if TYPE_CHECKING:
    from income_client import IncomeClient
    from income_client.configuration import ClientOptions, Configuration

_CONFIG_HELP: Final = (
    "Configuration file in TOML, used in place of the environment. Default: $INCOME_CONFIG or "
    "~/.config/income-client/config.toml, used where the environment sets no account."
)
_FIRST_STEPS: Final = (
    "(income-client configure asks for it; income-client emulate runs a service to try)"
)
_PROFILE_HELP: Final = (
    "Use [profiles.NAME] of the configuration file, in place of the environment. "
    "Default: $INCOME_PROFILE."
)


@Parameter(name="*")
@frozen(kw_only=True)
class Connection:
    """Options of each command that reads the service."""

    config: Annotated[
        Path | None, Parameter(show_default=False, metavar="FILE", help=_CONFIG_HELP)
    ] = None
    profile: Annotated[
        str | None, Parameter(show_default=False, metavar="NAME", help=_PROFILE_HELP)
    ] = None


def connect(
    connection: Connection | None = None, **options: Unpack["ClientOptions"]
) -> "IncomeClient":
    """Return a client of the configured service.

    If only the secret is missing, a person at a terminal is asked for it. What is missing or
    invalid raises a `ConfigurationError`.
    """
    return make_client(read_settings(connection), **options)


def read_settings(connection: Connection | None = None) -> "Configuration":
    """Return the configuration for `connect`, or raise its `ConfigurationError`."""
    from income_client.configuration import from_file

    connection = connection or Connection()
    configuration = _ask_for_missing_secret(from_file(connection.profile, connection.config))
    try:
        configuration.auth()
    except ConfigurationError as error:
        if configuration.account.base_url is None:
            error.add_note(_FIRST_STEPS)
        raise
    return configuration


def make_client(
    configuration: "Configuration", **options: Unpack["ClientOptions"]
) -> "IncomeClient":
    """Return a client of the service; an invalid setting raises a `ConfigurationError`."""
    from .service_client import ServiceClient

    client = configuration.make_client(ServiceClient, options)
    account = configuration.account
    client.service = authority_of(account.base_url or "")
    client.token_endpoint = authority_of(account.auth_url or account.base_url or "")
    client.through = authority_of("" if account.proxy is None else account.proxy.reveal())
    return client


def _ask_for_missing_secret(configuration: "Configuration") -> "Configuration":
    """Ask for the secret if only that is missing, and a person can answer."""
    account = configuration.account
    match account.kinds:
        case (kind,) if (
            account.base_url and kind.keys & {*account.keys} == {kind.name} and can_ask()
        ):
            words = kind.secret.replace("_", " ").capitalize()
            answer = ask(f"{words} of {getattr(account, kind.name)}")
            return configuration if answer is None else configuration.with_secret(answer)
        case _:
            return configuration


def described(client: "IncomeClient", error: IncomeClientError) -> str:
    """Return the message of an error from a client, with the server's name."""
    from .service_client import ServiceClient

    return client.described(error) if isinstance(client, ServiceClient) else str(error)


def is_of_the_account(error: IncomeClientError) -> bool:
    """Return whether the service refused the account, so that other calls fail as well."""
    is_token_refused = isinstance(error, TokenError) and error.status == HTTPStatus.FORBIDDEN
    return isinstance(error, AuthenticationError) or is_token_refused


def is_refusal(error: IncomeClientError) -> bool:
    """Return whether the service refused the account or the request (exit status 4)."""
    return is_of_the_account(error) or isinstance(error, PermissionDeniedError)


def authority_of(address: str) -> str:
    """Return ``HOST:PORT`` of a valid URL, without its other parts."""
    from yarl import URL

    url = URL(address)
    return f"{url.host_subcomponent}:{url.port}" if address else ""


def can_ask() -> bool:
    """Return whether a person can see a question and answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask(what: str) -> Secret | None:
    """Ask for a secret without echo; None without an answer, or if the echo stays on."""
    try:
        with _interruptible(), warnings.catch_warnings():
            # Where it cannot be hidden, it is not asked for.
            warnings.simplefilter("error", getpass.GetPassWarning)
            answer = getpass.getpass(f"{printable(what)} (not shown): ")
    except (EOFError, OSError, UnicodeError, getpass.GetPassWarning):
        return None
    return Secret(answer) if answer else None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a question: the event loop would catch it and keep waiting."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
