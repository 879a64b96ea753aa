"""The client that a sub-command reads with: of variables, a file and a question; reads nothing."""

import os
import ssl
from collections.abc import Mapping, Sequence
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
from .config_file import Config, default_path, name_of, read_config
from .secret_prompt import ask, can_ask
from .service_client import Servers, ServiceClient, authority_of

_CONFIG: Final = "INCOME_CONFIG"
_TYPED: Final = "typed in"
_ENVIRONMENT: Final = "the environment"
_CONFIG_HELP: Final = (
    "TOML file with base_url, and client_id and client_secret or username and password, perhaps "
    "proxy and ca_file; mode 0600 if it holds a secret. Given here, it overrides the environment. "
    "Default: $INCOME_CONFIG, or ~/.config/income-client/config.toml; the environment overrides "
    "these."
)
_PROFILE_HELP: Final = (
    "Use [profiles.NAME] of that file, which overrides the environment. What it leaves out comes "
    "from the environment and the file's top level; with another address only proxy and ca_file."
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
    ignored: str | None
    """What holds credentials for another address, which are not used: file or environment."""


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

    A file given by --config overrides the environment, and so does a profile given by
    --profile. Any other file is overridden by it, and is not read where the environment is
    complete and does not name it. Where only the secret is missing, a person at a terminal is
    asked for it.

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
    """Return a fault of credentials with the reason why those of another place do not count."""
    profile = None if connection is None else connection.profile
    if found.ignored is None or found.account.is_whole:
        return _placed(fault, found.sources)
    if profile is not None:
        own = f"profile {profile} has another address, so it needs credentials of its own"
        return f"{own}: {fault}" if found.account.kinds else own
    return f"{fault} (the credentials of {found.ignored} are for another address)"


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
    nothing = Config(profile=Account(), top=Account())
    config = nothing if path is None else read_config(path, connection.profile)
    if isinstance(config, str):
        return config
    if connection.config is None and _is_split(config, variables):
        return (
            f"{variable('base_url')} is set to another address than the one that profile "
            f"{connection.profile} is for: unset it, or set base_url in the profile"
        )
    shown = path or default_path(dict(os.environ))
    name = "a file that --config names" if shown is None else name_of(shown)
    environment, file = (_ENVIRONMENT, variables), (name, config.top)
    lower = (environment, file) if connection.config is None else (file, environment)
    return _together(((name, config.profile), *lower), name)


def _is_split(config: Config, variables: Account) -> bool:
    """Say whether a profile's credentials are for the file's address, and another one is set."""
    profile = config.profile
    has_own = bool(profile.kinds) or profile.auth_url is not None
    return has_own and profile.base_url is None and variables.is_elsewhere(config.top)


def _together(places: Sequence[tuple[str, Account]], file: str) -> Sourced:
    """Return what several places say, the first of them above all others."""
    account, sources, ignored = Account(), dict[str, str](), None
    for place, said in places:
        if account.is_elsewhere(said) and said.kinds:
            ignored = place
        both = account.over(said)
        sources |= {
            key: variable(key) if place == _ENVIRONMENT else place
            for key in KEYS
            if getattr(account, key) is None and getattr(both, key) is not None
        }
        account = both
    return Sourced(account=account, sources=sources, file=file, ignored=ignored)


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
