"""Messages of the store contract about stores that break a rule."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pytest

from income_client import (
    CheckpointStore,
    ConfigurationError,
    DeadLetter,
    MemoryCheckpointStore,
    StoredCheckpoint,
)
from income_client.testing import check_checkpoint_store
from tests.support.polling import OfVersions


class Forgetful(MemoryCheckpointStore):
    """Forgets what was saved."""

    async def load(self, name: str) -> StoredCheckpoint:
        return StoredCheckpoint(checkpoint=None, version=(await super().load(name)).version)


class Careless(MemoryCheckpointStore):
    """Takes whatever version it is given."""

    async def save(self, name: str, checkpoint: str, *, version: int, **change: Any) -> int:
        del version
        stored = await self.load(name)
        return await super().save(name, checkpoint, version=stored.version, **change)


class Backwards(MemoryCheckpointStore):
    """Gives dead letters the wrong way round."""

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        return (await super().dead_letters(name))[::-1]


class Hoarding(MemoryCheckpointStore):
    """Never removes a dead letter."""

    async def save(self, name: str, checkpoint: str, **change: Any) -> int:
        return await super().save(name, checkpoint, **{**change, "resolved": ()})


class Disturbing(MemoryCheckpointStore):
    """Counts a removal as a save."""

    async def forget(self, name: str, keys: Iterable[str]) -> tuple[str, ...]:
        removed = await super().forget(name, keys)
        stored = await self.load(name)
        if removed:
            await self.save(name, stored.checkpoint or "", version=stored.version)
        return removed


class Unrefreshed(MemoryCheckpointStore):
    """Writes back what it has read before it waited."""

    async def forget(self, name: str, keys: Iterable[str]) -> tuple[str, ...]:
        copy = dict(self._letters.get(name, {}))
        await asyncio.sleep(0)
        removed = await super().forget(name, keys)
        if removed:
            self._letters[name] = {key: one for key, one in copy.items() if key not in removed}
        return removed


class Deaf(MemoryCheckpointStore):
    """Counts no ring."""

    async def ring(self, name: str) -> bool:
        """Do nothing."""
        return (await self.load(name)).version > 0


class Common(MemoryCheckpointStore):
    """Counts the rings of all names together."""

    async def ring(self, name: str) -> bool:
        await super().ring("all")
        return (await self.load(name)).version > 0

    async def count_rings(self, name: str) -> int:
        del name
        return await super().count_rings("all")


class Rewriting(MemoryCheckpointStore):
    """Keeps a ring in the checkpoint."""

    async def ring(self, name: str) -> bool:
        if name not in self._stored:
            return False
        stored = await self.load(name)
        await self.save(name, stored.checkpoint or "", version=stored.version)
        return await super().ring(name)


BROKEN: Final[Sequence[tuple[Callable[[], Any], str]]] = (
    (Forgetful, "the text comes back unchanged: expected .*lines.*, found"),
    (Careless, "another version than the stored one changes nothing"),
    (Backwards, "by their first attempts"),
    (Hoarding, "each name has its own"),
    (Disturbing, "nothing else changes"),
    (Unrefreshed, "while dead letters are forgotten"),
    (Deaf, "a ring changes the count.* the same after a ring"),
    (Common, "a ring changes the count of its name"),
    (Rewriting, "and nothing else"),
    (OfVersions, "takes no replaces"),
)


@pytest.mark.parametrize(("make_store", "rule"), BROKEN)
async def test_a_broken_rule_is_named(make_store: Callable[[], Any], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        await check_checkpoint_store(make_store)


class Plain(CheckpointStore):
    """A store that defines no more than it must."""

    def __init__(self) -> None:
        self._kept = MemoryCheckpointStore()

    async def load(self, name: str) -> StoredCheckpoint:
        return await self._kept.load(name)

    async def save(
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
        replaces: str | None = None,
    ) -> int:
        change: dict[str, Any] = {"dead_letters": dead_letters, "resolved": resolved}
        change |= {"version": version, "replaces": replaces}
        return await self._kept.save(name, checkpoint, **change)

    async def dead_letters(self, name: str) -> Sequence[DeadLetter]:
        return await self._kept.dead_letters(name)


async def test_a_store_needs_neither_forget_nor_a_bell() -> None:
    """A method that the store does not define raises an error that says so."""
    await check_checkpoint_store(Plain)
    store = Plain()
    await store.check_rights("default")
    for call in (store.forget("default", []), store.ring("default"), store.count_rings("default")):
        with pytest.raises(ConfigurationError, match="Plain cannot"):
            await call
    with pytest.raises(ConfigurationError, match="Plain cannot save in a transaction"):
        store.transaction(None)
