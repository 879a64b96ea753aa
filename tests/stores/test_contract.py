"""What every store does, wherever it keeps what it is given."""

import itertools
from collections.abc import Callable, Sequence
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
from income_client.checkpoints.store import CompleteCheckpointStore
from income_client.errors import CheckpointConflictError, ConfigurationError
from income_client.testing import check_checkpoint_store
from tests.support.leaks import held_by
from tests.support.store_files import letter

NOTHING = StoredCheckpoint(checkpoint=None, version=0)
UNSHOWN = "a text that errors leave out"


MakeStore = Callable[[], CheckpointStore]


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Return what makes an empty store of either kind."""
    numbers = itertools.count()
    if request.param == "memory":
        return MemoryCheckpointStore
    return lambda: SQLiteCheckpointStore(tmp_path / f"{next(numbers)}.db")


@pytest.fixture
def store(make_store: MakeStore) -> CheckpointStore:
    """Return a store of either kind."""
    return make_store()


async def test_the_rules_of_a_store_are_kept(make_store: MakeStore) -> None:
    """The package's own stores do what is asked of everybody's."""
    await check_checkpoint_store(make_store)


async def test_a_conflict_says_which_version_is_stored(store: CheckpointStore) -> None:
    """Both versions are named."""
    await store.save("default", "one", version=0)
    with pytest.raises(CheckpointConflictError, match="at version 1, not at 2"):
        await store.save("default", "two", version=2)
    with pytest.raises(CheckpointConflictError):
        await store.save("default", "two", version=2**70)


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
    {"checkpoint": f"{UNSHOWN}\ud800"},
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


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("", []),
        (5, []),
        *(("default", keys) for keys in ("application:app-1", [5], ["a\0"], 5, None)),
    ],
)
async def test_wrong_keys_are_not_forgotten(
    make_store: Callable[[], CompleteCheckpointStore], name: Any, keys: Any
) -> None:
    """A lone key is no list of keys; nothing is removed."""
    store = make_store()
    await store.save("default", "one", version=0, dead_letters=[letter(1)])
    with pytest.raises(ConfigurationError, match=r"name|keys"):
        await store.forget(name, keys)
    assert await store.dead_letters("default") == (letter(1),)


@pytest.mark.parametrize("name", ["", None, "\ud800"])
async def test_a_name_is_asked_for_when_reading(store: CheckpointStore, name: Any) -> None:
    """Reading looks at the name as saving does."""
    with pytest.raises(ConfigurationError):
        await store.load(name)
    with pytest.raises(ConfigurationError):
        await store.dead_letters(name)


@pytest.mark.parametrize(
    ("text", "version"),
    [(f"{UNSHOWN} text", 7), (f"{UNSHOWN}\ud800", 0), (f"{UNSHOWN}\0", 0)],
)
async def test_errors_do_not_show_the_checkpoint(
    store: CheckpointStore,
    text: str,
    version: int,
) -> None:
    """Neither message nor chain holds the text."""
    saving = store.save("default", text, version=version)
    del text
    with pytest.raises((CheckpointConflictError, ConfigurationError)) as caught:
        await saving
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert UNSHOWN not in held_by(caught.value.again())


def test_a_stored_checkpoint_does_not_show_its_text() -> None:
    """The text is no part of the repr."""
    assert UNSHOWN not in repr(StoredCheckpoint(checkpoint=UNSHOWN, version=1))


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
