"""The client that a sub-command reads with: of variables, a file and a question; reads nothing."""

from pathlib import Path
from typing import Annotated, Any, Final, TypedDict, Unpack, cast

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
from income_client.configuration import ClientOptions as ConstructorOptions
from income_client.configuration import Configuration, from_file

from .secret_prompt import ask, can_ask
from .service_client import Servers, ServiceClient, authority_of

_TYPED: Final = "typed in"
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
class Ready:
    """What a client is made of."""

    configuration: Configuration
    """Where the service is, and where each setting comes from."""
    auth: BasicAuth | OAuth2ClientCredentials
    """The credentials."""

    def client(self, **options: Unpack[ClientOptions]) -> IncomeClient:
        """Return a client of this service, or raise a `MisuseError` for an invalid setting."""
        configuration = self.configuration
        account = configuration.account
        address = account.base_url or ""
        arguments = cast("ConstructorOptions", dict(options))
        try:
            configuration.complete(arguments)
            client = ServiceClient(address, auth=self.auth, auth_url=account.auth_url, **arguments)
        except ConfigurationError as error:
            raise MisuseError(configuration.placed(error.message)) from None
        proxy = arguments.get("proxy")
        client.servers = Servers(
            service=authority_of(address),
            tokens=authority_of(account.auth_url or address),
            proxy=None if proxy is None else authority_of(proxy),
        )
        return client


def connect(connection: Connection | None = None, **options: Unpack[ClientOptions]) -> IncomeClient:
    """Return a client of the service that the environment or the file names.

    Where only the secret is missing, a person at a terminal is asked for it. Raises a
    `MisuseError` if something is missing or invalid.
    """
    return made_ready(connection).client(**options)


def made_ready(connection: Connection | None = None) -> Ready:
    """Return what `connect` makes a client of, or raise its `MisuseError`."""
    connection = connection or Connection()
    try:
        found = _asked(from_file(connection.profile, connection.config))
        return Ready(configuration=found, auth=found.auth())
    except ConfigurationError as error:
        raise MisuseError(error.message) from None


def _asked(found: Configuration) -> Configuration:
    """Ask for the secret if that is all that is missing, and somebody can be asked."""
    account = found.account
    match account.kinds:
        case (kind,) if account.base_url and kind.secret not in account.given and can_ask():
            words = kind.secret.replace("_", " ").capitalize()
            answer = ask(f"{words} of {getattr(account, kind.name)}")
            if answer is None:
                return found
            change: dict[str, Any] = {kind.secret: answer}
            sources = {**found.sources, kind.secret: _TYPED}
            return evolve(found, account=evolve(account, **change), sources=sources)
        case _:
            return found
