"""A callback as a line of JSON."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from income_client import Callback
from income_client.cli.callbacks.lines import callback_line

NOON = datetime(2026, 6, 30, 12, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_a_line_is_plain_and_says_the_same(payload: Any) -> None:
    """Whatever a payload holds, its line is one of printable ASCII, and reads as it was."""
    line = callback_line(Callback(payload=payload, received_at=NOON), payload=True)
    assert all(0x20 <= octet < 0x7F for octet in line)
    assert json.loads(line)["payload"] == payload


@given(st.text(min_size=1))
def test_a_line_without_its_payload_holds_hints_only(text: str) -> None:
    """The payload is not there unless it is asked for."""
    callback = Callback(event_type=text, payload={"secret": "hidden"}, received_at=NOON)
    line = json.loads(callback_line(callback, payload=False))
    assert line == {
        "received_at": "2026-06-30T12:00:00+00:00",
        "event_type": text,
        "application_id": None,
        "application_reference_id": None,
        "is_repeat": False,
    }
