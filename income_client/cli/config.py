"""The client that a command reads with: from the environment, a file and a prompt."""

import getpass
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, TypedDict, Unpack, cast
from urllib.parse import urlsplit

from attrs import evolve, frozen
from cyclopts import Parameter

from income_client import (
    BasicAuth,
    ConfigurationError,
    DownloadPolicy,
    IncomeClient,
    IncomeClientError,
    OAuth2ClientCredentials,
    OnEvent,
    RetryPolicy,
    Secret,
    Timeouts,
    TokenStore,
    TransportError,
)
from income_client.configuration import ClientOptions as ConstructorOptions
from income_client.configuration import Configuration, from_file

from .options import MisuseError
from .output import printable


def can_ask() -> bool:
    """Say whether somebody sees a question and can answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask(what: str) -> Secret | None:
    """Ask for a secret on the terminal, without showing it.

    Args:
        what: what to ask for, in words.

    Returns:
        The answer; None if there was none, or if it could not be hidden.
    """
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
    """Have Ctrl-C end the question: an event loop would take it, and wait for the answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_TOKEN: Final = "token:"  # noqa: S105 - what errors of token requests begin with


@frozen(kw_only=True)
class Servers:
    """The servers that a client asks, each as ``HOST:PORT``."""

    service: str
    """The service."""
    tokens: str
    """The token endpoint."""
    proxy: str | None
    """What stands between, None for nothing."""

    def place_of(self, error: TransportError) -> str:
        """Return where an error came from, as it is added to its message."""
        asked = self.tokens if error.message.startswith(_TOKEN) else self.service
        return f"at {asked}" + ("" if self.proxy is None else f" through the proxy {self.proxy}")


class ServiceClient(IncomeClient):
    """A client that has errors tell their server once they leave its block.

    Attributes:
        servers: the servers that it asks; None where nobody said so.
    """

    servers: Servers | None = None

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it, and add the server to an error that says nothing of one."""
        if self.servers is not None and isinstance(exc, TransportError):
            exc.add_note(self.servers.place_of(exc))
        await super().__aexit__(exc_type, exc, traceback)


def described(client: IncomeClient, error: IncomeClientError) -> str:
    """Return an error's message, with the server that gave no reply if that is what it is about.

    Args:
        client: whose error it is.
        error: one that does not leave the client's block, which would add the server itself.
    """
    servers = client.servers if isinstance(client, ServiceClient) else None
    if servers is None or not isinstance(error, TransportError):
        return str(error)
    return f"{error} {servers.place_of(error)}"


def authority_of(address: str) -> str:
    """Return ``HOST:PORT`` of an address that a client has accepted, and nothing else of it."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{f'[{host}]' if ':' in host else host}:{port}"


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
