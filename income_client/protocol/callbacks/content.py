"""The body of a callback that is believed, read for hints; requires none of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from income_client.errors import DecodeError
from income_client.records.callbacks import Callback
from income_client.wire.codec import parse

from .exchange import RequestHead
from .refusals import Refusal

_LONGEST_HINT: Final = 256
_MOST_DIGITS: Final = 18
_JSON: Final = b"application/json"
_JSON_SUFFIX: Final = b"+json"
_CHARSETS: Final = frozenset({b"", b"utf-8", b"utf8", b"us-ascii"})


def content_refusal(head: RequestHead, *, max_body_bytes: int) -> Refusal | None:
    """Say why the body of a request is not even read, None if it is.

    A body without a content type is read: the service's are not specified, and what is
    no JSON is refused all the same.

    Args:
        head: what came before it.
        max_body_bytes: the longest that is read.
    """
    encodings = head.values(b"content-encoding")
    if any(encoding.lower() not in (b"", b"identity") for encoding in encodings):
        return Refusal.CONTENT_ENCODING
    types = head.values(b"content-type")
    if len(types) > 1 or (types and not _is_json(types[0])):
        return Refusal.CONTENT_TYPE
    for length in head.values(b"content-length"):
        if not length.isdigit() or len(length) > _MOST_DIGITS or int(length) > max_body_bytes:
            return Refusal.TOO_LARGE
    return None


def read_callback(body: bytes, *, received_at: datetime) -> Callback | Refusal:
    """Read a body (contract section 6); an unknown shape passes without hints.

    Args:
        body: the whole of it; an empty one is a callback that says nothing.
        received_at: when it came.
    """
    try:
        payload = parse(body) if body.strip() else None
    except DecodeError:
        return Refusal.NOT_JSON
    hints = payload if isinstance(payload, Mapping) else {}
    return Callback(
        event_type=_hint(hints, "event_type"),
        application_id=_hint(hints, "application_id"),
        application_reference_id=_hint(hints, "application_reference_id"),
        payload=payload,
        received_at=received_at,
    )


def _is_json(content_type: bytes) -> bool:
    media_type, *parameters = (part.strip() for part in content_type.lower().split(b";"))
    if media_type != _JSON and not (
        media_type.startswith(b"application/") and media_type.endswith(_JSON_SUFFIX)
    ):
        return False
    named = dict(parameter.partition(b"=")[::2] for parameter in parameters)
    return named.get(b"charset", b"").strip(b'"') in _CHARSETS


def _hint(hints: Mapping[str, Any], name: str) -> str | None:
    value = hints.get(name)
    is_plain = isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST_HINT
    return value if is_plain else None
