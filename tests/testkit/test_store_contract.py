"""What the test kit says of stores that break a rule."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pytest

from income_client import CheckpointStore, DeadLetter, MemoryCheckpointStore, StoredCheckpoint
from income_client.testing import check_checkpoint_store


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
    """Hears only that it begins to listen."""

    async def ring(self, name: str) -> None:
        """Do nothing."""


class Mute(MemoryCheckpointStore):
    """Does not say when it begins to hear."""

    async def listen(self, name: str, heard: Callable[[], None]) -> None:
        del name, heard
        await asyncio.Event().wait()


class Impatient(MemoryCheckpointStore):
    """Listens for one ring only."""

    async def listen(self, name: str, heard: Callable[[], None]) -> None:
        del name
        heard()


class Rewriting(MemoryCheckpointStore):
    """Keeps a ring in the checkpoint."""

    async def ring(self, name: str) -> None:
        stored = await self.load(name)
        await self.save(name, stored.checkpoint or "", version=stored.version)
        await super().ring(name)


BROKEN: Final[Sequence[tuple[Callable[[], CheckpointStore], str]]] = (
    (Forgetful, "the text comes back unchanged: expected .*lines.*, found"),
    (Careless, "another version than the stored one changes nothing"),
    (Backwards, "by their first attempts"),
    (Hoarding, "each name has its own"),
    (Disturbing, "nothing else changes"),
    (Unrefreshed, "while dead letters are forgotten"),
    (Deaf, "hears a ring.* not called heard.. after a ring"),
    (Mute, "hears a ring.* not called heard.. when it begins"),
    (Impatient, "hears a ring.* has returned"),
    (Rewriting, "the version stays"),
)


@pytest.mark.parametrize(("make_store", "rule"), BROKEN)
async def test_a_broken_rule_is_named(
    make_store: Callable[[], CheckpointStore], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("income_client.testing.store_contract._RING_SECONDS", 0.0)
    with pytest.raises(AssertionError, match=rule):
        await check_checkpoint_store(make_store)


class Plain:
    """A store with the three methods that a poller needs, and no other."""

    def __init__(self) -> None:
        kept = MemoryCheckpointStore()
        self.load, self.save, self.dead_letters = kept.load, kept.save, kept.dead_letters


async def test_a_store_needs_neither_forget_nor_a_bell() -> None:
    await check_checkpoint_store(Plain)
