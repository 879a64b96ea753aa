"""Recordings of the service for vcrpy, without secrets and without borrowers' data."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = frozenset(
    {
        *("application_id", "application_reference_id", "application_date", "last_updated_at"),
        *("updated_after", "updated_before", "updated_at", "data_action"),
        *("document_id", "document_ids", "file_id", "file_ids"),
        *("expires_in", "token_type"),
    }
)
"""Fields whose values stay: without them no call fits another."""
_KEPT_HEADERS: Final = frozenset({"content-type", "date", "retry-after", "www-authenticate"})
_SIGN: Final = re.compile(r"\w")


def cassette_filters() -> dict[str, Any]:
    """Return options of ``vcr.VCR`` for cassettes without secrets and borrowers' data.

    What is recorded can be replayed: the shape of each reply, its status, the ids of applications,
    documents and files, the partner's references of applications, and the times of updates. In all
    other texts a letter becomes x and a digit 1, which dates survive; all other numbers become 1.
    The Authorization header and the access token do not get into a cassette, and neither do files.

    >>> sorted(cassette_filters())
    ['before_record_request', 'before_record_response', 'filter_headers']

    Returns:
        Keyword arguments: ``vcr.VCR(**cassette_filters())``.
    """
    return {
        "filter_headers": ["Authorization"],
        "before_record_request": _of_the_service,
        "before_record_response": _without_data,
    }


def _of_the_service(request: Any) -> Any:
    """Return a request of the service, None for one of a file: its address is a secret."""
    is_call = "/v1/income/" in request.path or request.path.endswith("/token")
    return request if is_call else None


def _without_data(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be recorded of a reply; the caller still gets all of it."""
    try:
        payload = json.loads(reply["body"].get("string", b""))
        body = json.dumps(_invent_value("", payload)).encode()
    except ValueError:
        body = b""  # not of the service's own
    kept = {name: text for name, text in reply["headers"].items() if name.lower() in _KEPT_HEADERS}
    return {"status": reply["status"], "headers": kept, "body": {"string": body}}


def _invent_value(name: str, value: Any) -> Any:
    """Return a value of the same shape in place of that of a field."""
    match value:
        case dict():
            return {key: _invent_value(key, inner) for key, inner in value.items()}
        case list():
            return [_invent_value(name, inner) for inner in value]
        case bool() | None:
            return value
        case _ if name in _KEPT:
            return value
        case str():
            return _SIGN.sub(lambda sign: "1" if sign[0].isdigit() else "x", value)
        case _:
            return 1
