"""Requests to a callback endpoint, and its answers, as values of no web framework."""

import enum
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec
from attrs import field, frozen

from income_client.errors import DecodeError
from income_client.records.callbacks import Callback
from income_client.wire.codec import parse

Fields: TypeAlias = Iterable[tuple[bytes, bytes]] | Iterable[tuple[str, str]] | Mapping[str, str]
"""Header fields as a web server gives them."""

UNIX_PEER: Final = "unix:"
"""The peer of a connection over a socket of this machine's file system."""

REWRITTEN_PEER: Final = "rewritten"
"""Peer of a connection that a server or a middleware may have replaced by a header's value."""

LONGEST_TOKEN: Final = 16_384
"""Characters of the longest bearer token that is read."""

_LONGEST_HINT: Final = 256
_MOST_DIGITS: Final = 18
_JSON: Final = b"application/json"
_JSON_SUFFIX: Final = b"+json"
_CHARSETS: Final = frozenset({b"", b"utf-8", b"utf8", b"us-ascii"})
_NEVER_STORED: Final = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
_MOST_REMEMBERED: Final = 10_000


def _to_bytes(text: bytes | str) -> bytes:
    # Servers decode fields as they like; no field that is believed has characters beyond latin-1.
    return text if isinstance(text, bytes) else text.encode("latin-1", "replace")


def _to_raw_fields(headers: Fields) -> tuple[tuple[bytes, bytes], ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((_to_bytes(name), _to_bytes(value)) for name, value in pairs)


@frozen(kw_only=True)
class RequestHead:
    """A request's line, header fields and connection, before its body is read."""

    method: str
    """Method as in the request line."""
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False, converter=_to_raw_fields)
    """Header fields in their order, undecoded; given as pairs, or as a mapping, which cannot
    hold a field twice."""
    peer: str | None = None
    """IP address of the connection's other end, `UNIX_PEER`, `REWRITTEN_PEER`, None if unknown."""
    certificate: bytes | None = field(default=None, repr=False)
    """The peer's certificate in DER, verified by the TLS layer; None if there is none."""

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Return the values of all fields with a name in lower case."""
        return tuple(value.strip(b" \t") for key, value in self.headers if key.lower() == name)


@frozen(kw_only=True)
class Answer:
    """An answer to a request; its body is always JSON."""

    status: int
    """HTTP status."""
    headers: tuple[tuple[str, str], ...] = ()
    """Header fields; the web server adds the length."""
    body: bytes = field(repr=False)
    """Body of the answer in JSON."""


def make_answer(status: int, content: object = None, **headers: str) -> Answer:
    """Return an answer; ``content`` is the status in words by default.

    Underscores in header names become hyphens.
    """
    if content is None:
        content = {"status" if status == HTTPStatus.OK else "error": HTTPStatus(status).phrase}
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Answer(status=status, headers=_NEVER_STORED + fields, body=msgspec.json.encode(content))


class Refusal(enum.Enum):
    """A reason for a status other than 200.

    The reason is for the operator. The sender gets the status only, and the same one for
    everything that is wrong with credentials.
    """

    METHOD = (405, "the method is not POST")
    SOURCE_UNKNOWN = (403, "the server does not report the address of its peer")
    SOURCE_REWRITTEN = (403, "the server may have put a forwarded address in place of its peer's")
    SOURCE_UNREADABLE = (403, "a proxy has forwarded an invalid address")
    SOURCE_NOT_ALLOWED = (403, "the address is in none of the networks")
    CERTIFICATE_MISSING = (403, "no client certificate, or the server does not pass it on")
    CERTIFICATE_NOT_VERIFIED = (403, "a client certificate that the proxy has not verified")
    CERTIFICATE_UNREADABLE = (403, "a client certificate that cannot be read")
    CERTIFICATE_OUT_OF_TIME = (403, "a client certificate that is not valid at this time")
    CERTIFICATE_NOT_PINNED = (403, "a client certificate that is not among the accepted ones")
    AUTHORIZATION_MISSING = (401, "no Authorization header")
    AUTHORIZATION_DOUBLED = (401, "more than one Authorization header")
    AUTHORIZATION_UNREADABLE = (401, "an Authorization header that cannot be read")
    SCHEME_NOT_ACCEPTED = (401, "an Authorization header of another scheme")
    PASSWORD_WRONG = (401, "a wrong user name or password")
    TOKEN_UNREADABLE = (401, "the bearer token is not a signed token")
    TOKEN_ALGORITHM = (401, "a token of an algorithm, or a type, that is not allowed")
    TOKEN_KEY_UNKNOWN = (401, "a token signed with an unknown key")
    TOKEN_SIGNATURE = (401, "a token whose signature is wrong")
    TOKEN_OUT_OF_TIME = (401, "a token that has expired or is not valid yet")
    TOKEN_ISSUER = (401, "a token of another issuer")
    TOKEN_AUDIENCE = (401, "a token for another audience")
    TOKEN_CLAIMS = (401, "a token without a claim that is required")
    TOKEN_REFUSED = (401, "a token that the verify callable refuses")
    KEYS_UNAVAILABLE = (503, "the keys of tokens cannot be fetched now")
    VERIFIER_FAILED = (503, "the verify callable failed, or did not return a bool")
    FRAMING = (400, "both a Content-Length and a Transfer-Encoding")
    CONTENT_TYPE = (415, "a content type that is not JSON")
    CONTENT_ENCODING = (415, "a body that is compressed")
    TOO_LARGE = (413, "the body is too large")
    TOO_SLOW = (408, "the body took too long")
    CUT_SHORT = (400, "the body ended early")
    NOT_JSON = (400, "the body is not whole JSON in UTF-8, has a key twice, or is beyond limits")
    QUEUE_FULL = (503, "too many callbacks are waiting")
    HANDLER_FAILED = (503, "on_callback failed")
    HANDLER_SLOW = (503, "on_callback took too long")
    RECEIVER_FAILED = (503, "the receiver itself failed")

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return self.value[0]

    @property
    def reason(self) -> str:
        """Reason in words."""
        return self.value[1]

    @property
    def slug(self) -> str:
        """Name of the reason for logs and counters."""
        return self.name.lower()


class RefusedError(Exception):
    """A request is refused; it never leaves the receiver, since its frames hold the request."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.name)
        self.refusal = refusal


def check_framing(head: RequestHead) -> None:
    """Refuse a body with two lengths, which some servers accept (RFC 9112, section 6.3).

    A proxy before them may take the other one, and the rest for another client's request.
    """
    if head.values(b"transfer-encoding") and head.values(b"content-length"):
        raise RefusedError(Refusal.FRAMING)


def check_content(head: RequestHead, *, max_body_bytes: int) -> None:
    """Refuse a request by its headers, before its body is read.

    One without a content type is read: what the service sends is not specified, and what is
    not JSON is refused all the same.
    """
    check_framing(head)
    encodings = head.values(b"content-encoding")
    if any(encoding.lower() not in (b"", b"identity") for encoding in encodings):
        raise RefusedError(Refusal.CONTENT_ENCODING)
    types = head.values(b"content-type")
    if len(types) > 1 or (types and not _is_json(types[0])):
        raise RefusedError(Refusal.CONTENT_TYPE)
    for length in head.values(b"content-length"):
        if not length.isdigit() or len(length) > _MOST_DIGITS or int(length) > max_body_bytes:
            raise RefusedError(Refusal.TOO_LARGE)


def _is_json(content_type: bytes) -> bool:
    media_type, *parameters = (part.strip() for part in content_type.lower().split(b";"))
    if media_type != _JSON and not (
        media_type.startswith(b"application/") and media_type.endswith(_JSON_SUFFIX)
    ):
        return False
    values = dict(parameter.partition(b"=")[::2] for parameter in parameters)
    return values.get(b"charset", b"").strip(b'"') in _CHARSETS


def read_callback(body: bytes, *, received_at: datetime) -> Callback:
    """Read the hints of a body (contract section 6), none of which is required.

    An empty body is a callback that says nothing.
    """
    try:
        payload = parse(body, exactly=True) if body.strip() else None
    except DecodeError:
        raise RefusedError(Refusal.NOT_JSON) from None
    hints = payload if isinstance(payload, Mapping) else {}
    return Callback(
        event_type=_read_hint(hints, "event_type"),
        application_id=_read_hint(hints, "application_id"),
        application_reference_id=_read_hint(hints, "application_reference_id"),
        payload=payload,
        received_at=received_at,
    )


def _read_hint(hints: Mapping[str, Any], name: str) -> str | None:
    value = hints.get(name)
    is_plain = isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST_HINT
    return value if is_plain else None


class Repeats:
    """Digests of the callbacks that were handled in the last ``window`` seconds.

    A callback carries no id that is known of. A second one with the same bytes may be the
    first, sent again, or another event that looks the same.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._handled: OrderedDict[bytes, float] = OrderedDict()

    def holds(self, digest: bytes, *, now: float) -> bool:
        """Return whether an equal callback was handled within the window."""
        handled_at = self._handled.get(digest)
        return handled_at is not None and now - handled_at < self._window

    def add(self, digest: bytes, *, now: float) -> None:
        """Remember a callback as handled now, and forget the oldest ones."""
        self._handled[digest] = now
        self._handled.move_to_end(digest)
        while self._handled and self._is_over(now):
            self._handled.popitem(last=False)

    def _is_over(self, now: float) -> bool:
        oldest = next(iter(self._handled.values()))
        return len(self._handled) > _MOST_REMEMBERED or now - oldest >= self._window
