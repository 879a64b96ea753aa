"""What every store does, wherever it keeps what it is given."""

import itertools
from collections.abc import Callable
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
from tests.support.canaries import texts_of
from tests.support.store_files import letter


@pytest.fixture(params=["memory", "sqlite"])
def make_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[], CompleteCheckpointStore]:
    """Return what makes an empty store of either kind."""
    numbers = itertools.count()
    if request.param == "memory":
        return MemoryCheckpointStore
    return lambda: SQLiteCheckpointStore(tmp_path / f"{next(numbers)}.db")


@pytest.fixture
def store(make_store: Callable[[], CompleteCheckpointStore]) -> CompleteCheckpointStore:
    return make_store()


async def test_the_rules_of_a_store_are_kept(
    make_store: Callable[[], CompleteCheckpointStore],
) -> None:
    """The package's own stores do what is asked of everybody's."""
    await check_checkpoint_store(make_store)


UNSHOWN = "a text that errors leave out"


async def test_a_conflict_says_which_version_is_stored(store: CompleteCheckpointStore) -> None:
    """And shows neither text."""
    stored = StoredCheckpoint(checkpoint=f"{UNSHOWN} one", version=1)
    await store.save("default", f"{UNSHOWN} one", version=0)
    for version, said in ((2, "at version 1, not at 2"), (2**70, "at version 1, not at")):
        with pytest.raises(CheckpointConflictError, match=said) as caught:
            await store.save("default", f"{UNSHOWN} two", version=version)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert UNSHOWN not in texts_of(caught.value)
    assert await store.load("default") == stored
    assert UNSHOWN not in repr(stored)


async def test_attempts_are_dated_to_the_second(store: CompleteCheckpointStore) -> None:
    """What is finer than service time is not kept."""
    moment = letter(1).first_tried_at
    fine = evolve(letter(1), first_tried_at=moment.replace(microsecond=999_999))
    await store.save("default", "one", version=0, dead_letters=[fine])
    assert await store.dead_letters("default") == (letter(1),)


ZONED = evolve(letter(1), last_tried_at=letter(1).last_tried_at.replace(tzinfo=UTC))
# fmt: off
WRONG: dict[tuple[str, str], list[Any]] = {
    ("save", "name"):         ["", 5, "a\0b"],
    ("save", "checkpoint"):   [None, f"{UNSHOWN}\ud800", f"{UNSHOWN}\0"],
    ("save", "version"):      [-1, True, "0"],
    ("save", "dead_letters"): [
        [ZONED], ["application:app-1"], [evolve(letter(1), attempts=True)],
        [evolve(letter(1), attempts=2**63)], [evolve(letter(1), reason="\udc80")],
    ],
    ("save", "resolved"):     ["application:app-1", [5]],
    ("forget", "name"):       ["", 5],
    ("forget", "keys"):       ["application:app-1", [5], ["a\0"], 5, None],
    ("load", "name"):         ["", None, "\ud800"],
    ("dead_letters", "name"): ["", None, "\ud800"],
}
# fmt: on
USUAL: dict[str, dict[str, Any]] = {
    "save": {"checkpoint": "two", "version": 1},
    "forget": {"keys": []},
}


@pytest.mark.parametrize(("call", "argument"), WRONG)
async def test_wrong_arguments_are_refused(
    store: CompleteCheckpointStore, call: str, argument: str
) -> None:
    """A lone key is no list of keys; nothing is stored, and nothing is removed."""
    await store.save("default", "one", version=0, dead_letters=[letter(1)])
    for value in WRONG[call, argument]:
        arguments = {"name": "default"} | USUAL.get(call, {}) | {argument: value}
        with pytest.raises(ConfigurationError) as caught:
            await getattr(store, call)(**arguments)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert UNSHOWN not in texts_of(caught.value)
    assert await store.load("default") == StoredCheckpoint(checkpoint="one", version=1)
    assert await store.dead_letters("default") == (letter(1),)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
LETTERS = st.builds(letter, st.integers(0, 2), attempts=st.integers(1, 9), window=st.booleans())
SAVES = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["a", "b"]) | TEXTS.filter(bool),
            "checkpoint": TEXTS,
            "version": st.integers(0, 3),
            "dead_letters": st.lists(LETTERS, max_size=2),
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
