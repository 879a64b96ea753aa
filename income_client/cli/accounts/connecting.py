"""The client that a sub-command reads with: of variables, a file and a question; reads nothing."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict, Unpack

from attrs import evolve, frozen
from cyclopts import Parameter

from income_client import (
    BasicAuth,
    ConfigurationError,
    DownloadPolicy,
    IncomeClient,
    OAuth2ClientCredentials,
    OnEvent,
    RetryPolicy,
    Timeouts,
    TokenStore,
)

from .account import KEYS, Account, credentials, missing_secret, variable
from .config_file import default_path, name_of, read_config
from .secret_prompt import ask, can_ask

_CONFIG: Final = "INCOME_CONFIG"
_TYPED: Final = "typed in"
_CONFIG_HELP: Final = (
    "TOML file, mode 0600, with base_url, and client_id and client_secret or username "
    "and password; default: $INCOME_CONFIG, or ~/.config/income-client/config.toml."
)
_PROFILE_HELP: Final = "Take base_url and so on from [profiles.NAME] of that file."


@Parameter(name="*")
@frozen(kw_only=True)
class Connection:
    """Options of each sub-command that reads the service."""

    config: Annotated[Path | None, Parameter(show_default=False, help=_CONFIG_HELP)] = None
    """File that keeps address and credentials; None for where it is by default."""
    profile: Annotated[
        str | None, Parameter(show_default=False, metavar="NAME", help=_PROFILE_HELP)
    ] = None
    """Which table of it goes over its other keys, if any."""


class ClientOptions(TypedDict, total=False):
    """What a sub-command may choose of its client, as `IncomeClient` takes it."""

    on_event: OnEvent | None
    timeouts: Timeouts | None
    retry: RetryPolicy | None
    concurrency: int
    downloads: DownloadPolicy | None
    token_store: TokenStore | None


@frozen(kw_only=True)
class Sourced:
    """What variables and file say together."""

    account: Account
    """All of it; something may be missing."""
    sources: Mapping[str, str]
    """For each key that is set the variable or the file that says it."""
    file: str
    """What to call the file in which more could be said."""
    is_elsewhere: bool
    """Whether the file is about another address than the one that is set, and left aside."""


@frozen(kw_only=True)
class Ready:
    """What a client is made of, and who said it."""

    account: Account
    """Where the service is, and all else that was said."""
    auth: BasicAuth | OAuth2ClientCredentials
    """Who asks."""
    sources: Mapping[str, str]
    """For each key that is set the variable or the file that says it, or that it was typed."""

    def client(self, **options: Unpack[ClientOptions]) -> IncomeClient:
        """Return a client of this service.

        Args:
            **options: as `IncomeClient` takes them.

        Raises:
            ConfigurationError: something cannot be meant.
        """
        return IncomeClient(
            self.account.base_url or "",
            auth=self.auth,
            auth_url=self.account.auth_url,
            **options,
        )


def connect(connection: Connection | None = None, **options: Unpack[ClientOptions]) -> IncomeClient:
    """Return a client of the service that the environment or the file names.

    Variables win over the file. The file is not looked at where they say all and
    nobody named it. Where nothing but the secret is missing, a person at a
    terminal is asked for it.

    Args:
        connection: what the command line says of it.
        **options: as `IncomeClient` takes them.

    Raises:
        ConfigurationError: something is missing, or cannot be meant.
    """
    found = ready(connection)
    if isinstance(found, str):
        raise ConfigurationError(found)
    return found.client(**options)


def ready(connection: Connection | None = None) -> Ready | str:
    """Return what `connect` makes a client of, or what is missing or cannot be meant.

    Args:
        connection: what the command line says of it.
    """
    found = said(connection)
    if isinstance(found, str):
        return found
    account = _asked(found.account)
    auth = credentials(account, found.file)
    if isinstance(auth, str):
        return f"{auth} (which is about another address now)" if found.is_elsewhere else auth
    typed = {key: _TYPED for key in KEYS if getattr(account, key) is not None}
    return Ready(account=account, auth=auth, sources={**typed, **found.sources})


def said(connection: Connection | None = None) -> Sourced | str:
    """Return what variables and file say, or why the file is not used; ask nobody.

    Args:
        connection: what the command line says of it.
    """
    connection = connection or Connection()
    variables = Account.of_variables(os.environ)
    path = _file(connection, variables)
    file = Account() if path is None else read_config(path, connection.profile)
    if isinstance(file, str):
        return file
    is_elsewhere = variables.is_elsewhere(file)
    if is_elsewhere and connection.profile is not None:
        return (
            f"{variable('base_url')} is set to another address than "
            f"that of profile {connection.profile}: unset it, or leave --profile out"
        )
    path = path or default_path(dict(os.environ))
    name = "a file that --config names" if path is None else name_of(path)
    account = variables.over(file)
    sources = {
        key: name if getattr(variables, key) is None else variable(key)
        for key in KEYS
        if getattr(account, key) is not None
    }
    return Sourced(account=account, sources=sources, file=name, is_elsewhere=is_elsewhere)


def _file(connection: Connection, variables: Account) -> Path | None:
    """Return the file that is to be read; None where there is none, or nothing to read in it."""
    named = os.environ.get(_CONFIG)
    path = connection.config or (Path(named) if named else None)
    if path is not None:
        return path
    path = default_path(dict(os.environ))
    if connection.profile is not None:
        return path
    return path if path is not None and not variables.is_whole and path.exists() else None


def _asked(account: Account) -> Account:
    """Ask for the secret if that is what is missing, and somebody can be asked."""
    pair = missing_secret(account)
    if pair is None or not can_ask():
        return account
    answer = ask(f"{pair.words.capitalize()} of {getattr(account, pair.name)}")
    change: dict[str, Any] = {pair.secret: answer}
    return evolve(account, **change)
