"""What is remembered of a request: what came and what was decided, never its credentials."""

from collections.abc import Iterable
from typing import Final

from .exchange import HttpReply, HttpRequest, RecordedRequest
from .faults import Fault

_HIDDEN: Final = frozenset({"authorization", "proxy-authorization", "cookie"})


def joined_fields(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return header fields by their name in lower case, repeated ones joined by a comma."""
    headers: dict[str, str] = {}
    for name, text in fields:
        low = name.lower()
        headers[low] = f"{headers[low]}, {text}" if low in headers else text
    return headers


def recorded(
    name: str, request: HttpRequest, reply: HttpReply, fault: Fault | None, *, time: int
) -> RecordedRequest:
    """Return what is remembered of a request.

    Args:
        name: what it asked for.
        request: what came.
        reply: what was decided on.
        fault: what is played instead or on the way.
        time: service second at which it came.
    """
    return RecordedRequest(
        name=name,
        method=request.method,
        path=request.path,
        query=request.query,
        headers={name: text for name, text in request.headers.items() if name not in _HIDDEN},
        authorized="authorization" in request.headers,
        status=0 if fault and fault.withholds else reply.status,
        fault=None if fault is None else fault.kind.value,
        time=time,
    )
