"""The client of the commands, whose connection errors name the server."""

from types import TracebackType

from income_client import IncomeClient, IncomeClientError, TransportError


class ServiceClient(IncomeClient):
    """A client that adds the server's name to connection errors that leave its block."""

    # Each as HOST:PORT; no proxy is empty.
    service: str = ""
    token_endpoint: str = ""
    through: str = ""

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, TransportError):
            exc.add_note(self._place_of(exc))
        await super().__aexit__(exc_type, exc, traceback)

    def described(self, error: IncomeClientError) -> str:
        """Return the message of an error within the block, with the server's name."""
        if isinstance(error, TransportError):
            return f"{error} {self._place_of(error)}"
        return str(error)

    def _place_of(self, error: TransportError) -> str:
        origin = self.token_endpoint if error.call == "token" else self.service
        return f"at {origin}" + (f" through the proxy {self.through}" if self.through else "")
