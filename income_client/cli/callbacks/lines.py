"""A callback as a line that cannot act on a terminal; knows no stream."""

import json
from typing import Any

from income_client import Callback
from income_client.cli.output import printable


def shown_line(callback: Callback) -> bytes:
    """Return a line for a person: time, event, application and reference, and no payload."""
    facts = [
        f"{callback.received_at:%H:%M:%S}",
        callback.event_type or "-",
        callback.application_id or "-",
        callback.application_reference_id or "-",
        *["repeat"] * callback.is_repeat,
    ]
    return printable("  ".join(facts)).encode("utf-8", "replace")


def callback_line(callback: Callback, *, payload: bool) -> bytes:
    """Return what is known of a callback, as one line without its end.

    Whatever is not plain ASCII is escaped, so that no character of a payload moves a
    cursor or turns the reading direction.

    Args:
        callback: a verified one.
        payload: whether the whole payload goes with it, which may hold personal data.
    """
    facts: dict[str, Any] = {
        "received_at": callback.received_at.isoformat(),
        "event_type": callback.event_type,
        "application_id": callback.application_id,
        "application_reference_id": callback.application_reference_id,
        "is_repeat": callback.is_repeat,
    }
    if payload:
        facts["payload"] = callback.payload
    return json.dumps(facts, ensure_ascii=True, separators=(",", ":")).encode("ascii")
