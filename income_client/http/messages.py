"""What goes to the service and what comes back, as values; knows no HTTP library."""

import enum
from collections.abc import Callable, Mapping

from attrs import field, frozen


class Origin(enum.Enum):
    """Which of the two configured hosts a request is for."""

    API = "api"
    TOKEN = "token"  # noqa: S105 - the name of a host, not a secret


@frozen(kw_only=True)
class Request:
    """One request, without the credentials that will go with it."""

    name: str
    """The call, for logs and errors: ``get_application``."""
    path: str
    """Absolute and percent-encoded, below the origin."""
    query: str = field(default="", repr=False)
    """Percent-encoded, without the question mark."""
    method: str = "GET"
    """GET, or POST for the token request."""
    origin: Origin = Origin.API
    """The host that it is for, and the only one."""
    form: bytes | None = field(default=None, repr=False)
    """Body of a form post."""
    subject: str | None = None
    """The application id that the request is about, for logs and errors."""


def _nothing() -> None:
    pass


@frozen(kw_only=True)
class Response:
    """One reply, read to its end."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str] = field(repr=False)
    """Header fields, found by their names in lower case."""
    body: bytes = field(repr=False)
    """The content, decompressed."""
    discard: Callable[[], None] = field(default=_nothing, repr=False, eq=False)
    """Closes the connection of a reply that cannot be the answer to its request."""
