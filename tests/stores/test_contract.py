"""What every store does, wherever it keeps what it is given."""

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client.checkpoints import (
    CheckpointStore,
    MemoryCheckpointStore,
    SQLiteCheckpointStore,
    StoredCheckpoint,
)
from income_client.errors import CheckpointConflictError, ConfigurationError
from tests.support.leaks import held_by
from tests.support.store_files import letter

NOTHING = StoredCheckpoint(checkpoint=None, version=0)
CANARY = "c4n4ry"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    """Return a store of either kind."""
    if request.param == "memory":
        return MemoryCheckpointStore()
    return SQLiteCheckpointStore(tmp_path / "store.db")


async def test_nothing_is_stored_at_first(store: CheckpointStore) -> None:
    """An unknown name has no checkpoint, version 0 and no dead letters."""
    assert await store.load("default") == NOTHING
    assert await store.dead_letters("default") == ()


async def test_what_was_saved_is_loaded(store: CheckpointStore) -> None:
    """A save gives the next version, and the text comes back as it was."""
    assert await store.save("default", "one", version=0) == 1
    assert await store.save("default", "twö\nlines", version=1) == 2
    assert await store.load("default") == StoredCheckpoint(checkpoint="twö\nlines", version=2)


@pytest.mark.parametrize("version", [0, 1, 3, 2**70])
async def test_a_save_for_another_version_changes_nothing(
    store: CheckpointStore,
    version: int,
) -> None:
    """An older or a newer version is a conflict, and neither text nor letters are touched."""
    await store.save("default", "one", version=0, dead_letters=[letter(1)])
    await store.save("default", "two", version=1)
    with pytest.raises(CheckpointConflictError, match="at version 2, not at"):
        await store.save(
            "default",
            "three",
            version=version,
            dead_letters=[letter(2)],
            resolved=[letter(1).key],
        )
    assert await store.load("default") == StoredCheckpoint(checkpoint="two", version=2)
    assert await store.dead_letters("default") == (letter(1),)


async def test_a_version_of_nothing_is_a_conflict(store: CheckpointStore) -> None:
    """Where nothing is stored, a save for a later version is refused."""
    with pytest.raises(CheckpointConflictError):
        await store.save("default", "one", version=1)
    assert await store.load("default") == NOTHING


async def test_the_newer_claimant_goes_on(store: CheckpointStore) -> None:
    """Whoever saves first after a load goes on, and the other can save nothing any more."""
    version = (await store.load("default")).version
    mine = await store.save("default", "newer", version=version)
    for _ in range(2):
        with pytest.raises(CheckpointConflictError):
            await store.save("default", "older", version=version)
    assert await store.save("default", "newest", version=mine) == mine + 1


async def test_names_are_independent(store: CheckpointStore) -> None:
    """Each name has its own text, version and dead letters."""
    await store.save("a", "of a", version=0, dead_letters=[letter(1)])
    await store.save("a", "of a again", version=1)
    await store.save("b", "of b", version=0, dead_letters=[letter(1, attempts=9)])
    await store.save("a", "of a at last", version=2, resolved=[letter(1).key])
    assert await store.load("b") == StoredCheckpoint(checkpoint="of b", version=1)
    assert await store.dead_letters("a") == ()
    assert await store.dead_letters("b") == (letter(1, attempts=9),)


async def test_dead_letters_come_in_the_order_of_their_first_attempts(
    store: CheckpointStore,
) -> None:
    """They come back whole, by their first attempts and then by their keys."""
    letters = [letter(3), letter(1, window=True), letter(1), letter(2)]
    await store.save("default", "one", version=0, dead_letters=letters[:2])
    await store.save("default", "two", version=1, dead_letters=letters[2:])
    assert await store.dead_letters("default") == (letters[2], letters[1], letters[3], letters[0])


async def test_a_dead_letter_replaces_the_one_with_its_key(store: CheckpointStore) -> None:
    """The last one given for a key is kept."""
    await store.save("default", "one", version=0, dead_letters=[letter(1), letter(2)])
    again = [letter(1, attempts=2), letter(1, attempts=3)]
    await store.save("default", "two", version=1, dead_letters=again)
    assert await store.dead_letters("default") == (again[1], letter(2))


async def test_what_is_resolved_and_fails_again_is_kept(store: CheckpointStore) -> None:
    """Letters are taken out before others are put in; unknown keys are none of its business."""
    await store.save("default", "one", version=0, dead_letters=[letter(1), letter(2)])
    again = letter(1, attempts=2)
    keys = [again.key, letter(2).key, "application:unknown"]
    await store.save("default", "two", version=1, dead_letters=[again], resolved=keys)
    assert await store.dead_letters("default") == (again,)


async def test_attempts_are_dated_to_the_second(store: CheckpointStore) -> None:
    """What is finer than service time is not kept."""
    moment = letter(1).first_tried_at
    fine = evolve(letter(1), first_tried_at=moment.replace(microsecond=999_999))
    await store.save("default", "one", version=0, dead_letters=[fine])
    assert await store.dead_letters("default") == (letter(1),)


ZONED = evolve(letter(1), last_tried_at=letter(1).last_tried_at.replace(tzinfo=UTC))
WRONG: Sequence[dict[str, Any]] = [
    {"name": ""},
    {"name": 5},
    {"name": "a\0b"},
    {"checkpoint": None},
    {"checkpoint": f"{CANARY}\ud800"},
    {"version": -1},
    {"version": True},
    {"version": "0"},
    {"dead_letters": [ZONED]},
    {"dead_letters": [evolve(letter(1), attempts=True)]},
    {"dead_letters": [evolve(letter(1), attempts=2**63)]},
    {"dead_letters": [evolve(letter(1), reason="\udc80")]},
    {"dead_letters": ["application:app-1"]},
    {"resolved": "application:app-1"},
    {"resolved": [5]},
]


@pytest.mark.parametrize("wrong", WRONG)
async def test_wrong_arguments_are_refused(store: CheckpointStore, wrong: dict[str, Any]) -> None:
    """An argument that cannot be meant is a configuration error, and nothing is stored."""
    arguments = {"name": "default", "checkpoint": "one", "version": 0, **wrong}
    with pytest.raises(ConfigurationError):
        await store.save(**arguments)
    assert await store.load("default") == NOTHING


@pytest.mark.parametrize("name", ["", None, "\ud800"])
async def test_a_name_is_asked_for_when_reading(store: CheckpointStore, name: Any) -> None:
    """Reading looks at the name as saving does."""
    with pytest.raises(ConfigurationError):
        await store.load(name)
    with pytest.raises(ConfigurationError):
        await store.dead_letters(name)


@pytest.mark.parametrize(
    ("text", "version"),
    [(f"{CANARY} text", 7), (f"{CANARY}\ud800", 0), (f"{CANARY}\0", 0)],
)
async def test_errors_do_not_show_the_checkpoint(
    store: CheckpointStore,
    text: str,
    version: int,
) -> None:
    """Neither message nor chain nor any local of a frame holds the text."""
    saving = store.save("default", text, version=version)
    del text
    with pytest.raises((CheckpointConflictError, ConfigurationError)) as caught:
        await saving
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    frames = caught.traceback[1:]
    assert CANARY not in "".join(repr(frame.locals) for frame in frames)
    assert CANARY not in repr(caught.value) + held_by(caught.value.again())


def test_a_stored_checkpoint_does_not_show_its_text() -> None:
    """The text is no part of the repr."""
    assert CANARY not in repr(StoredCheckpoint(checkpoint=CANARY, version=1))


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
SAVES = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["a", "b"]) | TEXTS.filter(bool),
            "checkpoint": TEXTS,
            "version": st.integers(0, 3),
            "dead_letters": st.lists(
                st.builds(
                    letter,
                    st.integers(0, 2),
                    attempts=st.integers(1, 9),
                    window=st.booleans(),
                ),
                max_size=2,
            ),
            "resolved": st.lists(st.sampled_from([letter(n).key for n in range(3)]), max_size=2),
        },
    ),
    max_size=8,
)


async def _results(store: CheckpointStore, saves: list[dict[str, Any]]) -> list[object]:
    results: list[object] = []
    for save in saves:
        try:
            results.append(await store.save(**save))
        except CheckpointConflictError as error:
            results.append(str(error))
        letters = tuple(await store.dead_letters(save["name"]))
        results.append((await store.load(save["name"]), letters))
    return results


@given(SAVES)
async def test_both_stores_do_the_same(saves: list[dict[str, Any]]) -> None:
    """Whatever is saved, both stores answer and hold the same."""
    with TemporaryDirectory() as folder:
        kept = await _results(SQLiteCheckpointStore(Path(folder, "store.db")), saves)
    assert kept == await _results(MemoryCheckpointStore(), saves)
