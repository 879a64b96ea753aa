"""What is written of callbacks, and orders from other processes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator.callbacks import CallbackAnswer, CallbackDelivery, seconds_of
from income_client.emulator.control import (
    CallbackOrder,
    read_order,
    usual_content,
    written_order,
)
from income_client.errors import ConfigurationError

NAMES = st.none() | st.text(st.characters(exclude_categories=["Cs"]))


@given(application_id=NAMES, event_type=NAMES, update=st.booleans())
def test_an_order_is_read_as_it_was_written(
    application_id: str | None, event_type: str | None, update: bool
) -> None:
    """Whatever an order says survives its way to another process."""
    order = CallbackOrder(application_id=application_id, event_type=event_type, update=update)
    assert read_order(written_order(order)) == order


@given(st.binary())
def test_reading_an_order_never_fails(body: bytes) -> None:
    """What is no order is none, whatever it is."""
    assert read_order(body) is None or msgspec.json.decode(body) is not None


@pytest.mark.parametrize("name", ["application_id", "event_type"])
@pytest.mark.parametrize("value", [7, b"app", "\udcff"])
def test_an_order_holds_text(name: str, value: Any) -> None:
    """What is no text, or has no encoding, is refused at once."""
    with pytest.raises(ConfigurationError, match=name):
        CallbackOrder(**{name: value})


def test_an_order_may_say_nothing() -> None:
    """What an order leaves out is as usual."""
    order = CallbackOrder(application_id=None, event_type="income_calculations", update=False)
    assert read_order(b"{}") == order


def test_a_payload_leaves_out_what_is_none() -> None:
    """Fields that are not known are not there at all."""
    assert usual_content("error", None, None) == b'{"event_type":"error"}'
    assert usual_content(None, None, None) == b"{}"


@given(
    application_id=NAMES,
    event_type=NAMES,
    attempts=st.lists(st.integers(100, 599) | st.sampled_from(["refused", "timeout"])),
    is_json=st.booleans(),
)
def test_a_delivery_is_read_as_it_was_told(
    application_id: str | None, event_type: str | None, attempts: list[int | str], is_json: bool
) -> None:
    """What became of a callback survives its way from another process."""
    delivery = CallbackDelivery(
        application_id=application_id,
        event_type=event_type,
        attempts=tuple(attempts),
        is_json=is_json,
    )
    assert CallbackDelivery.of_facts(delivery.facts()) == delivery
    assert delivery.delivered is (attempts[-1:] == [200])


@pytest.mark.parametrize(
    "facts",
    [{}, {"attempts": 200}, {"attempts": [None]}, {"attempts": [], "event_type": 1}],
)
def test_what_tells_of_no_delivery_is_none(facts: dict[str, Any]) -> None:
    """Something else than a delivery is not taken for one."""
    assert CallbackDelivery.of_facts(facts) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        (" 30 ", 30),
        (None, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("Sat, 21 Nov 2026 12:00:00 GMT", None),
        ("1" * 10, None),
        ("\u0663", None),
    ],
)
def test_retry_after_is_read_in_seconds(text: str | None, seconds: float | None) -> None:
    """Whole seconds are read, everything else is as if it were not there."""
    assert seconds_of(text) == seconds


def test_an_answer_shows_no_content() -> None:
    """What an endpoint answers is not in the text of the value."""
    assert "hidden" not in repr(CallbackAnswer(status=200, body=b"hidden"))
