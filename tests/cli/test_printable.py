"""Text that is shown on a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.output.printable import printable


@given(text=st.text())
def test_nothing_acts_on_a_terminal(text: str) -> None:
    """What comes out is printable, of the same length, and as it was where it could be."""
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) == len(text)
    assert all(new in (old, "?") for old, new in zip(text, shown, strict=True))
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("doc\x1b[2J\x07\x9b\u202e\r\n", "doc?[2J?????"),
        ("Zoë, 東京: [red]", "Zoë, 東京: [red]"),
    ],
)
def test_only_what_acts_is_replaced(text: str, shown: str) -> None:
    """Control characters and turns of direction go; letters of any script stay."""
    assert printable(text) == shown
