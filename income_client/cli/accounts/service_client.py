"""A client whose errors say which server they are about; sends nothing itself."""

from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from income_client import IncomeClient, IncomeClientError, TransportError

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
