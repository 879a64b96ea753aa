"""A walk's checkpoint: a short text that comes back exactly, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import CheckpointError
from income_client.protocol.intervals import Intervals
from income_client.protocol.questions import Bounds
from income_client.protocol.resume import read_checkpoint, walk_state, write_checkpoint
from income_client.records.window import Window

GOOD = '{"walk":1,"after":0,"before":99,"covered":[[0,10],[20,100]]}'


@given(
    st.lists(st.builds(Window, st.integers(0, 100), st.integers(0, 100))),
    st.one_of(st.none(), st.integers(100, 200)),
)
def test_a_state_comes_back_as_it_was(windows: list[Window], before: int | None) -> None:
    """Bounds and covered windows survive the text."""
    covered = Intervals(windows)
    state = read_checkpoint(write_checkpoint(Bounds(0, before), covered))
    assert state.bounds == Bounds(0, before)
    assert Intervals(state.covered) == covered


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        GOOD[:-1],
        GOOD.replace("1", "true", 1),
        GOOD.replace('"walk":1', '"walk":0'),
        GOOD.replace('"walk"', '"poll"'),
        GOOD.replace('"after":0', '"after":0.5'),
        GOOD.replace('"after":0', '"after":null'),
        GOOD.replace('"before":99', '"before":-1'),
        GOOD.replace('"before":99', '"before":50'),
        GOOD.replace('"before":99', '"before":true'),
        GOOD.replace("[0,10]", "[10,0]"),
        GOOD.replace("[0,10]", "[-5,10]"),
        GOOD.replace("[0,10]", "[0,20]"),
        GOOD.replace("[0,10]", "[0]"),
        GOOD.replace("[0,10]", '["0",10]'),
        GOOD.replace("[0,10]", "[false,10]"),
        GOOD.replace("[[0,10],[20,100]]", "{}"),
        GOOD.replace('"covered"', '"extra":1,"covered"'),
    ],
)
def test_a_damaged_text_is_refused(text: str) -> None:
    """Nothing is guessed: a damaged checkpoint is never a fresh start."""
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(text)


@pytest.mark.parametrize("text", [None, b"{}", 1, object()])
def test_what_is_no_text_is_refused(text: object) -> None:
    """Only the text itself is taken."""
    with pytest.raises(CheckpointError):
        read_checkpoint(text)


def test_a_newer_version_is_named_as_such() -> None:
    """Who goes back to an older package learns why it does not go on."""
    with pytest.raises(CheckpointError, match="newer version"):
        read_checkpoint(GOOD.replace('"walk":1', '"walk":2'))


def test_a_walk_begins_where_its_checkpoint_ended() -> None:
    """Bounds may be left out, or repeated."""
    for after, before in [(None, None), (0, None), (0, 99)]:
        assert walk_state(after, before, GOOD) == read_checkpoint(GOOD)


@pytest.mark.parametrize(("after", "before"), [(1, None), (None, 98), (0, 100)])
def test_a_checkpoint_of_another_span_is_refused(after: int | None, before: int | None) -> None:
    """What it covers says nothing about other bounds."""
    with pytest.raises(CheckpointError, match="another span"):
        walk_state(after, before, GOOD)


def test_without_a_checkpoint_a_walk_begins_in_1970() -> None:
    """Unless its upper bound lies before."""
    assert walk_state(None, None, None).bounds == Bounds(0, None)
    assert walk_state(5, 9, None).bounds == Bounds(5, 9)
    assert walk_state(None, -7, None).bounds == Bounds(-7, -7)
