"""One exchange with the emulated service as values; knows no socket and no HTTP library."""

from collections.abc import Mapping

from attrs import field, frozen


@frozen(kw_only=True)
class HttpRequest:
    """One request as it came over the wire."""

    method: str
    """HTTP method, in capitals."""
    path: str
    """Raw path, percent-encoding untouched."""
    query: str = field(default="", repr=False)
    """Raw query without the question mark."""
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    """Header fields; names in lower case, repeated ones joined by a comma."""
    body: bytes = field(default=b"", repr=False)
    """The content."""


@frozen(kw_only=True)
class HttpReply:
    """One reply, before anything is written."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str] = field(factory=dict)
    """Header fields, the length aside."""
    body: bytes = field(default=b"", repr=False)
    """The content."""


@frozen(kw_only=True)
class RecordedRequest:
    """What the emulator remembers of a request; never the credentials that came with it."""

    name: str
    """The call: list_applications, get_application, get_documents, token, file, index, control,
    unknown."""
    method: str
    """HTTP method."""
    path: str
    """Raw path."""
    query: str = field(repr=False)
    """Raw query."""
    headers: Mapping[str, str] = field(repr=False)
    """Header fields without Authorization, Proxy-Authorization and Cookie."""
    authorized: bool
    """Whether an Authorization header came with it, good or bad."""
    status: int
    """Status of the reply that was decided on; 0 where there is none."""
    fault: str | None
    """Kind of the fault that was played, None for a true reply."""
    time: int
    """Service second at which it came."""
