"""A walk's checkpoint: a short text that comes back exactly, or not at all."""

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import CheckpointError
from income_client.records.window import Window
from income_client.walk.checkpoint import read_checkpoint, write_checkpoint
from income_client.walk.windows import Bounds, Intervals


def checked(text: str) -> str:
    """Return a state with the check of its own content."""
    if not text.endswith("}"):
        return text
    members = msgspec.json.encode(msgspec.json.decode(text), order="deterministic")
    return text[:-1] + f',"check":{zlib.crc32(members)}}}'


STATE = '{"walk":1,"after":0,"before":99,"covered":[[0,10],[20,100]]}'
GOOD = checked(STATE)


@given(
    st.lists(st.builds(Window, st.integers(0, 100), st.integers(0, 100))),
    st.one_of(st.none(), st.integers(100, 200)),
)
def test_a_state_comes_back_as_it_was(windows: list[Window], before: int | None) -> None:
    """Bounds and covered windows survive the text."""
    covered = Intervals(windows)
    text = write_checkpoint(Bounds(0, before), covered)
    assert read_checkpoint(text) == (Bounds(0, before), list(covered))


def test_the_state_of_a_walk_over_one_second_comes_back() -> None:
    """Both bounds may be the same."""
    covered = [Window(7, 8)]
    text = write_checkpoint(Bounds(7, 7), Intervals(covered))
    assert read_checkpoint(text) == (Bounds(7, 7), covered)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        STATE[:-1],
        STATE,
        GOOD.replace("[20,100]", "[30,100]"),
        GOOD.replace('"after":0', '"after":1'),
        STATE.replace("1", "true", 1),
        STATE.replace('"walk":1', '"walk":0'),
        STATE.replace('"walk"', '"poll"'),
        STATE.replace('"after":0', '"after":0.5'),
        STATE.replace('"after":0', '"after":null'),
        STATE.replace('"before":99', '"before":-1'),
        STATE.replace('"before":99', '"before":50'),
        STATE.replace('"before":99', '"before":true'),
        STATE.replace('"before":99', '"before":253402300800'),
        STATE.replace('"after":0', '"after":-62135596801'),
        STATE.replace("[0,10]", "[10,0]"),
        STATE.replace("[0,10]", "[-5,10]"),
        STATE.replace("[0,10]", "[0,20]"),
        STATE.replace("[0,10]", "[0]"),
        STATE.replace("[0,10]", '["0",10]'),
        STATE.replace("[0,10]", "[false,10]"),
        STATE.replace("[[0,10],[20,100]]", "{}"),
        STATE.replace('"covered"', '"extra":1,"covered"'),
    ],
)
def test_a_damaged_text_is_refused(text: str) -> None:
    """Nothing is guessed: a damaged checkpoint is never a fresh start, whatever was damaged."""
    for damaged in (text, checked(text)):
        if damaged != GOOD:
            with pytest.raises(CheckpointError, match="damaged"):
                read_checkpoint(damaged)


@pytest.mark.parametrize("text", [None, b"{}", 1, object()])
def test_what_is_no_text_is_refused(text: object) -> None:
    """Only the text itself is taken."""
    with pytest.raises(CheckpointError):
        read_checkpoint(text)


def test_a_newer_version_is_named_as_such() -> None:
    """After a downgrade the error says why the walk cannot resume."""
    with pytest.raises(CheckpointError, match="newer version"):
        read_checkpoint(checked(STATE.replace('"walk":1', '"walk":2')))


def test_a_walk_begins_where_its_checkpoint_ended() -> None:
    """Bounds may be left out, or repeated."""
    for after, before in [(None, None), (0, None), (0, 99)]:
        assert read_checkpoint(GOOD, after, before) == read_checkpoint(GOOD)


@pytest.mark.parametrize(("after", "before"), [(1, None), (None, 98), (0, 100)])
def test_a_checkpoint_of_another_span_is_refused(after: int | None, before: int | None) -> None:
    """What it covers says nothing about other bounds."""
    with pytest.raises(CheckpointError, match="another span"):
        read_checkpoint(GOOD, after, before)


def test_a_text_nested_deeper_than_can_be_written_is_damaged() -> None:
    """What reads deeper than what writes raises nothing of its own."""
    deep = "[" * 300 + "]" * 300
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(f'{{"walk":1,"after":0,"before":9,"check":0,"covered":{deep}}}')
