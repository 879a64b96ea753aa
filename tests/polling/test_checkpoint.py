"""A poller's checkpoint: a short text that comes back exactly, or not at all."""

import json
import string
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import CheckpointError
from income_client.polling.checkpoint import Checkpoint, Seen, is_checkpoint, read_checkpoint
from income_client.polling.lateness import Lateness
from income_client.polling.reading import DIGEST_BYTES, KEY_BYTES
from income_client.walk import checkpoint as resume
from income_client.walk.windows import Bounds, Intervals
from income_client.wire.times import FIRST_SECOND, LAST_SECOND
from tests.support.payloads import text_of
from tests.support.strategies import untyped

seconds = st.integers(FIRST_SECOND, LAST_SECOND) | st.integers(-3, 3)
counts = st.integers(0, 2**53)
keys = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)
versions = st.builds(
    Seen,
    st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES),
    seconds,
)


@st.composite
def latenesses(draw: st.DrawFn) -> Lateness:
    lateness, present = Lateness(), draw(seconds)
    for late, age in draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 80_000)))):
        lateness.note(late, present - age)
    return lateness.summary()


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    since, reached = sorted([draw(seconds), draw(seconds)])
    return Checkpoint(
        since=since,
        reached=reached,
        batches=draw(counts),
        takeovers=draw(counts),
        filter_digest=draw(st.none() | st.text(max_size=3)),
        settle=draw(st.none() | counts),
        lateness=draw(latenesses()),
        seen=draw(st.dictionaries(keys, versions, max_size=6)),
    )


SAMPLE = Checkpoint(
    since=-5,
    reached=1_700_000_000,
    batches=12,
    takeovers=3,
    seen={
        b"keyone": Seen(bytes(range(8)), 1_700_000_003),
        b"keytwo": Seen(bytes(range(8, 16)), 1_699_999_990),
    },
)
TEXT = SAMPLE.text


def signed(state: dict[str, Any], **changes: Any) -> str:
    """Return the text of a state with the check of its own content."""
    state = {name: value for name, value in (state | changes).items() if name != "check"}
    return resume.write_checked(state)


STATE: dict[str, Any] = msgspec.json.decode(TEXT)


@given(checkpoints())
def test_a_checkpoint_comes_back_as_it_was(checkpoint: Checkpoint) -> None:
    """Seconds before 1970 and every digest survive, also if a JSON column spaces the text anew."""
    assert read_checkpoint(checkpoint.text) == checkpoint
    assert read_checkpoint(json.dumps(json.loads(checkpoint.text), indent=2)) == checkpoint


def test_no_character_can_be_another_or_missing_or_too_many() -> None:
    """Each place of the text is tried with a seventh of the printable characters.

    Space between values means nothing; whatever else is changed, put in or left out is damage.
    """
    for place, right in enumerate(TEXT):
        before, after = TEXT[:place], TEXT[place + 1 :]
        characters = string.printable[place % 7 :: 7]
        damaged = [before + after, *(before + one + after for one in characters if one != right)]
        for text in damaged:
            with pytest.raises(CheckpointError):
                read_checkpoint(text)
        for more in characters:
            try:
                found = read_checkpoint(before + more + right + after)
            except CheckpointError:
                continue
            assert more in string.whitespace
            assert found == SAMPLE


@given(untyped, st.dictionaries(st.sampled_from([*STATE, "more"]), untyped, max_size=8))
def test_a_checked_text_of_any_content_is_a_sound_checkpoint_or_none(
    value: Any, change: dict[str, Any]
) -> None:
    """Values are checked one by one even if the checksum fits."""
    with pytest.raises(CheckpointError):
        read_checkpoint(text_of(value).decode())
    try:
        found = read_checkpoint(signed(STATE, **change))
    except CheckpointError:
        return
    assert FIRST_SECOND <= found.since <= found.reached <= LAST_SECOND
    assert min(found.batches, found.takeovers) >= 0
    assert read_checkpoint(found.text) == found


# fmt: off
WRONG: dict[str, list[Any]] = {
    "poll":    [0, True, 1.0, "1"],
    "since":   [1_700_000_001, FIRST_SECOND - 1, -5.0, None, True],
    "reached": [LAST_SECOND + 1, "1700000000"],
    "batches": [-1, True, 1.5],
    "claims":  [-1, None],
    "seen":    [
        None, {}, [[None]], [[None, "", ""]], [[True, ""]], [[0.5, ""]], [["0", ""]], [[0, None]],
        [[0, "AAAA"]], [[0, "A" * 21]], [[0, "A" * 20]], [[0, " " + "A" * 56]],
        [[0, "\u00e9" * 56]],
    ],
    "filter":  [1, []],
    "settle":  [-1, True, 1.5, "60"],
    "late":    [
        None, 1, {}, [[]], [0], [["0", 1, 1]], [[True, 1, 1]], [[0, 1]], [[0, -1, 1]], [[0, 1, 0]],
        [[0, 1.5, 1]], [[0, 1, True]], [[0, [1], 1]],
    ],
    "more":    [1],
}
# fmt: on


def test_a_wrong_or_missing_member_is_an_error_even_with_the_right_check() -> None:
    """No value is taken for another, and no invalid value is passed on."""
    assert read_checkpoint(signed(STATE)) == SAMPLE
    for name, values in WRONG.items():
        for value in values:
            with pytest.raises(CheckpointError, match="not written by a poller, or is damaged"):
                read_checkpoint(signed(STATE, **{name: value}))
    for name in STATE:
        rest = {key: value for key, value in STATE.items() if key != name}
        with pytest.raises(CheckpointError):
            read_checkpoint(signed(rest) if name != "check" else json.dumps(rest))


@pytest.mark.parametrize("text", ['{"poll":3}', signed(STATE, poll=3, more=[1])])
def test_a_checkpoint_of_a_newer_version_says_so(text: str) -> None:
    """An operator who went back a version must know what to do."""
    with pytest.raises(CheckpointError, match="newer version") as caught:
        read_checkpoint(text)
    assert not caught.value.retryable


def test_the_checkpoint_of_a_walk_is_no_poller_s() -> None:
    """Nor is a poller's one of a walk."""
    with pytest.raises(CheckpointError, match="not written by a poller"):
        read_checkpoint(resume.write_checkpoint(Bounds(0, 99), Intervals()))
    with pytest.raises(CheckpointError, match="not a walk's"):
        resume.read_checkpoint(TEXT)


DEEP = TEXT.replace('"seen":', f'"seen":{"[" * 300}{"]" * 300},"more":')
"""Nested data that can be read but not written."""


@pytest.mark.parametrize(
    "value", [None, 7, TEXT.encode(), [TEXT], "\ud800", '"\ud800"', "[" * 9999, DEEP]
)
def test_text_that_is_not_json_is_an_error(value: object) -> None:
    with pytest.raises(CheckpointError):
        read_checkpoint(value)


def test_a_checkpoint_is_told_from_a_time() -> None:
    """A damaged checkpoint is not taken for a time that cannot be read."""
    assert is_checkpoint(TEXT)
    assert is_checkpoint("\n " + TEXT[:20])
    assert not is_checkpoint("2026-06-30T12:00:00Z")
    assert not is_checkpoint("")


def test_a_checkpoint_is_short_and_shows_no_version() -> None:
    """Each remembered version takes twenty bytes at most, and no repr shows one."""
    seen = {n.to_bytes(KEY_BYTES): Seen(n.to_bytes(DIGEST_BYTES), n % 7) for n in range(5000)}
    checkpoint = Checkpoint(since=0, reached=9, seen=seen)
    assert len(checkpoint.text) < 5000 * 20
    assert len(repr(checkpoint)) < 200
    assert repr(seen[bytes(KEY_BYTES)]) == "Seen(last_listed=0)"


FIRST_TEXT = (
    '{"poll":1,"since":-5,"reached":1700000000,"low":null,"batches":12,"claims":3,'
    '"seen":[[1700000003,"a2V5b2ZvbmUAAQIDBAUGBwgJCgsMDQ4P"],'
    '[null,"a2V5b2Z0d28QERITFBUWFxgZGhscHR4f"]],"check":2751869629}'
)
"""Checkpoint that the first version of this package wrote."""


def test_a_checkpoint_of_the_first_version_is_read() -> None:
    """Digests of versions are cut to today's length.

    Without the lower second, polling resumes as reached.
    """
    assert read_checkpoint(FIRST_TEXT) == Checkpoint(
        since=-5,
        reached=1_700_000_000,
        batches=12,
        takeovers=3,
        seen={
            b"keyofo": Seen(bytes(range(8)), 1_700_000_003),
            b"keyoft": Seen(bytes(range(16, 24)), 1_700_000_000),
        },
    )


@given(checkpoints(), checkpoints())
def test_the_second_reached_counts_before_the_batches(one: Checkpoint, other: Checkpoint) -> None:
    if one.reached != other.reached:
        assert (one.progress < other.progress) == (one.reached < other.reached)
    else:
        assert (one.progress < other.progress) == (one.batches < other.batches)
