"""A request to one of our own endpoints, and the answer, as values; knows no web framework."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec
from attrs import field, frozen

Fields: TypeAlias = Iterable[tuple[bytes, bytes]] | Iterable[tuple[str, str]] | Mapping[str, str]
"""Header fields as a web server may tell them."""

UNIX_PEER: Final = "unix:"
"""The peer of a connection over a socket of this machine's file system."""

REWRITTEN_PEER: Final = "rewritten"
"""The peer where a server, or a middleware, has put what a header says in its place."""


def _octets(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


def _fields(headers: Fields) -> tuple[tuple[bytes, bytes], ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((_octets(name), _octets(value)) for name, value in pairs)


@frozen(kw_only=True)
class RequestHead:
    """What came before the body of a request, as a web server tells it."""

    method: str
    """As it stands in the request line."""
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False, converter=_fields)
    """Header fields in their order, undecoded; given as pairs, or as a mapping, which cannot
    tell of a field that stands twice."""
    peer: str | None = None
    """IP address of the connection's other end, `UNIX_PEER`, `REWRITTEN_PEER`, None if unknown."""
    certificate: bytes | None = field(default=None, repr=False)
    """The peer's certificate in DER, verified by the TLS layer; None if there is none."""

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Return the values of all fields of this name, given in lower case."""
        return tuple(value.strip(b" \t") for key, value in self.headers if key.lower() == name)


@frozen(kw_only=True)
class Answer:
    """A reply to such a request; its body is always JSON."""

    status: int
    """HTTP status."""
    headers: tuple[tuple[str, str], ...] = ()
    """Header fields; lengths are the web server's to add."""
    body: bytes = field(repr=False)
    """JSON."""


_NEVER_STORED: Final = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))


def answer(status: int, content: object = None, **headers: str) -> Answer:
    """Return an answer; underscores in header names stand for hyphens.

    Args:
        status: HTTP status.
        content: what the body says; the status in words unless given.
        **headers: further header fields.
    """
    if content is None:
        content = {"status" if status == HTTPStatus.OK else "error": HTTPStatus(status).phrase}
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Answer(status=status, headers=_NEVER_STORED + named, body=msgspec.json.encode(content))
