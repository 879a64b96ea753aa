"""The client that a sub-command reads with: of variables, a file and a question; reads nothing."""

import os
import ssl
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
from income_client.cli.arguments.misuse import MisuseError

from .account import KEYS, Account, credentials, missing_secret, variable
from .authorities import trusting
from .config_file import default_path, name_of, read_config
from .secret_prompt import ask, can_ask
from .service_client import Servers, ServiceClient, authority_of

_CONFIG: Final = "INCOME_CONFIG"
_TYPED: Final = "typed in"
_CONFIG_HELP: Final = (
    "TOML file, mode 0600, with base_url, and client_id and client_secret or username "
    "and password, perhaps proxy and ca_file; default: $INCOME_CONFIG, or "
    "~/.config/income-client/config.toml."
)
_PROFILE_HELP: Final = (
    "Take base_url and so on from [profiles.NAME] of that file, and what that leaves out from "
    "its top; with another address only proxy and ca_file."
)


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
    path: Path | None
    """The file, if it was read."""


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
            MisuseError: something cannot be meant.
        """
        made = self._made(options)
        if isinstance(made, str):
            raise MisuseError(made)
        return made

    def tls(self) -> ssl.SSLContext | str | None:
        """Return what believes the authorities of a file, None for the usual ones alone.

        Where the file is no such file, what is wrong with it.
        """
        if self.account.ca_file is None:
            return None
        found = trusting(self.account.ca_file)
        return f"{_place('ca_file', self.sources)}: {found}" if isinstance(found, str) else found

    def _made(self, options: ClientOptions) -> ServiceClient | str:
        account, context = self.account, self.tls()
        if isinstance(context, str):
            return context
        downloads = options.get("downloads")
        if downloads is not None and context is not None:
            options = {**options, "downloads": evolve(downloads, ssl=context)}
        address = account.base_url or ""
        proxy = None if account.proxy is None else account.proxy.reveal()
        try:
            client = ServiceClient(
                address,
                auth=self.auth,
                auth_url=account.auth_url,
                proxy=proxy,
                ssl=context,
                **options,
            )
        except ConfigurationError as error:
            return _placed(error.message, self.sources)
        client.servers = Servers(
            service=authority_of(address),
            tokens=authority_of(account.auth_url or address),
            proxy=None if proxy is None else authority_of(proxy),
        )
        return client


def connect(connection: Connection | None = None, **options: Unpack[ClientOptions]) -> IncomeClient:
    """Return a client of the service that the environment or the file names.

    Variables win over the file. The file is not looked at where they say all and
    nobody named it. Where nothing but the secret is missing, a person at a
    terminal is asked for it.

    Args:
        connection: what the command line says of it.
        **options: as `IncomeClient` takes them.

    Raises:
        MisuseError: something is missing, or cannot be meant.
    """
    return made_ready(connection).client(**options)


def made_ready(connection: Connection | None = None) -> Ready:
    """Return what `connect` makes a client of.

    Args:
        connection: what the command line says of it.

    Raises:
        MisuseError: something is missing, or cannot be meant.
    """
    found = ready(connection)
    if isinstance(found, str):
        raise MisuseError(found)
    return found


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
        return _explained(auth, connection, found)
    typed = {key: _TYPED for key in KEYS if getattr(account, key) is not None}
    return Ready(account=account, auth=auth, sources={**typed, **found.sources})


def _explained(fault: str, connection: Connection | None, found: Sourced) -> str:
    """Return a fault of credentials with the reason why those of the file do not count."""
    if found.is_elsewhere:
        return f"{fault} (which is about another address now)"
    profile = None if connection is None else connection.profile
    if profile is not None and found.path is not None:
        top = read_config(found.path, None)
        if isinstance(top, Account) and top.kinds and found.account.is_elsewhere(top):
            own = f"profile {profile} has another address, so it needs credentials of its own"
            return f"{own}: {fault}" if found.account.kinds else own
    return _placed(fault, found.sources)


def _placed(fault: str, sources: Mapping[str, str]) -> str:
    """Return a fault with the place that says what cannot be meant, if it begins with a key."""
    key, _, rest = fault.partition(" ")
    return f"{_place(key, sources)} {rest}" if key in sources else fault


def _place(key: str, sources: Mapping[str, str]) -> str:
    source = sources[key]
    return source if source == variable(key) else f"{key} in {source}"


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
    shown = path or default_path(dict(os.environ))
    name = "a file that --config names" if shown is None else name_of(shown)
    account = variables.over(file)
    sources = {
        key: name if getattr(variables, key) is None else variable(key)
        for key in KEYS
        if getattr(account, key) is not None
    }
    return Sourced(
        account=account, sources=sources, file=name, is_elsewhere=is_elsewhere, path=path
    )


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
