"""The contract of checkpoint stores, as a check for authors of stores."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from inspect import isawaitable, signature
from typing import Any, Final

from attrs import evolve

from income_client import CheckpointConflictError, CheckpointStore, DeadLetter
from income_client.records import Window

MakeStore = Callable[[], CheckpointStore | Awaitable[CheckpointStore]]

_FIRST_DAY: Final = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - the service's times carry no zone
_SAVERS: Final = 8


async def check_checkpoint_store(make_store: MakeStore) -> None:
    """Check that a store keeps the rules of `CheckpointStore`; for your own tests.

    The rules of ``forget``, ``retry`` and ``names`` are checked where the store defines them, those
    of ``ring`` and ``count_rings`` where it ``has_bell``.

    >>> import asyncio
    >>> from income_client import MemoryCheckpointStore
    >>> asyncio.run(check_checkpoint_store(MemoryCheckpointStore))

    Args:
        make_store: called for each rule; returns a new, empty store, or awaits one.

    Raises:
        AssertionError: the store breaks a rule; the message says which one, and how.
    """
    for rule, check in _RULES:
        product = make_store()
        store = await product if isawaitable(product) else product
        try:
            await check(store)
        except AssertionError as error:
            raise AssertionError(f"{rule}: {error}") from None
        except CheckpointConflictError as error:
            raise AssertionError(f"{rule}: save() raised {error!r}") from error


def _make_letter(number: int, *, attempts: int = 1, window: bool = False) -> DeadLetter:
    """Return a dead letter; smaller numbers were tried earlier."""
    return DeadLetter(
        application_id=None if window else f"app-{number}",
        window=Window(1_000 + number, 1_001 + number),
        reason="the service has no such application",
        attempts=attempts,
        first_tried_at=_FIRST_DAY + timedelta(seconds=number),
        last_tried_at=_FIRST_DAY + timedelta(seconds=number + attempts),
    )


def _check_equal(actual: object, expected: object) -> None:
    if actual != expected:
        raise AssertionError(f"expected {expected!r}, found {actual!r}")


async def _check_checkpoint(store: CheckpointStore, text: str | None, version: int) -> None:
    stored = await store.load("default")
    _check_equal((stored.checkpoint, stored.version), (text, version))


async def _has_letters(store: CheckpointStore, *letters: DeadLetter, name: str = "default") -> None:
    _check_equal(tuple(await store.dead_letters(name)), letters)


async def _check_conflict(store: CheckpointStore, **change: Any) -> None:
    try:
        await store.save("default", "refused", **change)
    except CheckpointConflictError:
        return
    raise AssertionError("save() raised no CheckpointConflictError")


async def _is_empty_at_first(store: CheckpointStore) -> None:
    await _check_checkpoint(store, None, 0)
    await _has_letters(store)


async def _loads_what_was_saved(store: CheckpointStore) -> None:
    _check_equal(await store.save("default", "one", version=0), 1)
    _check_equal(await store.save("default", "tw\u00f6\nlines", version=1), 2)
    await _check_checkpoint(store, "tw\u00f6\nlines", 2)


async def _refuses_other_versions(store: CheckpointStore) -> None:
    await _check_conflict(store, version=1)
    await _check_checkpoint(store, None, 0)
    await store.save("default", "one", version=0, dead_letters=[_make_letter(1)])
    await store.save("default", "two", version=1)
    change = {"dead_letters": [_make_letter(2)], "resolved": [_make_letter(1).key]}
    for version in (0, 1, 3, 2**40):
        await _check_conflict(store, version=version, **change)
    await _check_checkpoint(store, "two", 2)
    await _has_letters(store, _make_letter(1))


async def _refuses_other_texts(store: CheckpointStore) -> None:
    parameters = signature(store.save).parameters.values()
    if not any(
        parameter.name == "replaces" or parameter.kind is parameter.VAR_KEYWORD
        for parameter in parameters
    ):
        raise AssertionError("save() takes no replaces")
    await store.save("default", "one", version=0)
    change = {"dead_letters": [_make_letter(1)], "replaces": "another one"}
    await _check_conflict(store, version=1, **change)
    await _check_checkpoint(store, "one", 1)
    await _has_letters(store)
    _check_equal(await store.save("default", "tw\u00f6", version=1, replaces="one"), 2)
    _check_equal(await store.save("default", "three", version=2, replaces="tw\u00f6"), 3)
    await _check_checkpoint(store, "three", 3)


async def _lets_the_first_saver_win(store: CheckpointStore) -> None:
    saves = (store.save("default", f"saver {n}", version=0) for n in range(_SAVERS))
    results = await asyncio.gather(*saves, return_exceptions=True)
    refused = [result for result in results if isinstance(result, CheckpointConflictError)]
    _check_equal(
        ([result for result in results if result not in refused], len(refused)), ([1], _SAVERS - 1)
    )
    await _check_conflict(store, version=0)
    _check_equal(await store.save("default", "next", version=1), 2)


async def _keeps_names_apart(store: CheckpointStore) -> None:
    await store.save("default", "first", version=0, dead_letters=[_make_letter(1)])
    await store.save("default", "second", version=1)
    await store.save("other", "of other", version=0, dead_letters=[_make_letter(1, attempts=9)])
    await store.save("default", "third", version=2, resolved=[_make_letter(1).key])
    await _check_checkpoint(store, "third", 3)
    other = await store.load("other")
    _check_equal((other.checkpoint, other.version), ("of other", 1))
    await _has_letters(store)
    await _has_letters(store, _make_letter(1, attempts=9), name="other")


async def _orders_dead_letters(store: CheckpointStore) -> None:
    letters = [_make_letter(3), _make_letter(1, window=True), _make_letter(1), _make_letter(2)]
    await store.save("default", "one", version=0, dead_letters=letters[:2])
    await store.save("default", "two", version=1, dead_letters=letters[2:])
    await _has_letters(store, letters[2], letters[1], letters[3], letters[0])


async def _replaces_dead_letters(store: CheckpointStore) -> None:
    await store.save("default", "one", version=0, dead_letters=[_make_letter(1), _make_letter(2)])
    again: Sequence[DeadLetter] = [_make_letter(1, attempts=2), _make_letter(1, attempts=3)]
    await store.save("default", "two", version=1, dead_letters=again)
    await _has_letters(store, again[1], _make_letter(2))


async def _removes_before_it_adds(store: CheckpointStore) -> None:
    await store.save("default", "one", version=0, dead_letters=[_make_letter(1), _make_letter(2)])
    again = _make_letter(1, attempts=2)
    keys = [again.key, _make_letter(2).key, "application:unknown"]
    await store.save("default", "two", version=1, dead_letters=[again], resolved=keys)
    await _has_letters(store, again)


async def _forgets_dead_letters(store: CheckpointStore) -> None:
    if not _can_forget(store):
        return
    letters = [_make_letter(1), _make_letter(2), _make_letter(3, window=True)]
    _check_equal(tuple(await store.forget("default", [letters[0].key])), ())
    await _check_checkpoint(store, None, 0)
    await store.save("default", "one", version=0, dead_letters=letters)
    await store.save("other", "of other", version=0, dead_letters=letters)
    keys = [letters[2].key, "application:unknown", letters[0].key, letters[2].key]
    _check_equal(tuple(await store.forget("default", keys)), (letters[2].key, letters[0].key))
    await _check_checkpoint(store, "one", 1)
    await _has_letters(store, letters[1])
    await _has_letters(store, *letters, name="other")
    _check_equal(await store.save("default", "two", version=1, dead_letters=[letters[0]]), 2)
    await _has_letters(store, *letters[:2])


async def _forgets_beside_saves(store: CheckpointStore) -> None:
    if not _can_forget(store):
        return
    old = [_make_letter(number) for number in range(_SAVERS)]
    new = [_make_letter(number) for number in range(_SAVERS, 2 * _SAVERS)]
    await store.save("default", "none", version=0, dead_letters=old)

    async def save_all() -> None:
        for version, letter in enumerate(new, start=1):
            await store.save("default", letter.key, version=version, dead_letters=[letter])

    await asyncio.gather(save_all(), *(store.forget("default", [letter.key]) for letter in old))
    await _check_checkpoint(store, new[-1].key, 1 + _SAVERS)
    await _has_letters(store, *new)


def _can_forget(store: CheckpointStore) -> bool:
    return type(store).forget is not CheckpointStore.forget


async def _makes_dead_letters_due(store: CheckpointStore) -> None:
    if type(store).retry is CheckpointStore.retry:
        return
    letters = [_make_letter(1, attempts=5), _make_letter(2), _make_letter(3, window=True)]
    _check_equal(tuple(await store.retry("default", [letters[0].key])), ())
    await _check_checkpoint(store, None, 0)
    await store.save("default", "one", version=0, dead_letters=letters)
    await store.save("other", "of other", version=0, dead_letters=letters)
    keys = [letters[2].key, "application:unknown", letters[0].key, letters[2].key]
    _check_equal(tuple(await store.retry("default", keys)), (letters[2].key, letters[0].key))
    await _check_checkpoint(store, "one", 1)
    due = [evolve(letter, attempts=0) for letter in letters]
    await _has_letters(store, due[0], letters[1], due[2])
    await _has_letters(store, *letters, name="other")
    _check_equal(await store.save("default", "two", version=1, dead_letters=letters[:1]), 2)
    await _has_letters(store, *letters[:2], due[2])


async def _lists_names(store: CheckpointStore) -> None:
    if type(store).names is CheckpointStore.names:
        return
    _check_equal(tuple(await store.names()), ())
    for name in ("b", "a b", "\u00e4.=3D>*"):
        await store.save(name, "one", version=0, dead_letters=[_make_letter(1)])
    if store.has_bell:
        await store.ring("never saved")
    _check_equal(tuple(await store.names()), ("a b", "b", "\u00e4.=3D>*"))


async def _counts_rings(store: CheckpointStore) -> None:
    if not store.has_bell:
        return
    _check_equal([await store.ring("default")], [False])
    await store.save("default", "one", version=0)
    counts = [await store.count_rings("default"), await store.count_rings("default")]
    _check_equal(counts[1], counts[0])
    for _ in range(3):
        _check_equal([await store.ring("default")], [True])
        counts.append(await store.count_rings("default"))
    if len(set(counts)) != len(counts) - 1:
        raise AssertionError("count_rings() has returned the same after a ring")
    await store.ring("other")
    _check_equal(await store.count_rings("default"), counts[-1])
    never_rung = await store.count_rings("third")
    _check_equal(await store.count_rings("third"), never_rung)
    await _check_checkpoint(store, "one", 1)
    _check_equal(await store.save("default", "two", version=1), 2)


_RULES: Final = (
    ("an unknown name has no checkpoint, version 0 and no dead letters", _is_empty_at_first),
    ("a save returns the next version, and the text comes back unchanged", _loads_what_was_saved),
    ("a save for another version than the stored one changes nothing", _refuses_other_versions),
    ("a save that is to replace another text changes nothing", _refuses_other_texts),
    ("of several saves for one version one succeeds", _lets_the_first_saver_win),
    ("each name has its own checkpoint, version and dead letters", _keeps_names_apart),
    ("dead letters come back by their first attempts, then keys", _orders_dead_letters),
    ("of several dead letters with one key the last one is kept", _replaces_dead_letters),
    ("resolved keys are removed before letters are added", _removes_before_it_adds),
    ("forgotten keys are removed at once, and nothing else changes", _forgets_dead_letters),
    ("a save succeeds while dead letters are forgotten, and both are kept", _forgets_beside_saves),
    ("dead letters are due once their attempts are 0, without a save", _makes_dead_letters_due),
    ("the names are those with a checkpoint, in order", _lists_names),
    ("a ring changes the count of its name, and nothing else", _counts_rings),
)
