# json_store.py
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import asdict

from income_client import CheckpointConflictError, CheckpointStore, DeadLetter, StoredCheckpoint
from income_client.records import Window

NEW: dict[str, Any] = {"checkpoint": None, "version": 0, "letters": {}}


class JsonStore(CheckpointStore):
    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self, name: str) -> StoredCheckpoint:
        held = self._held().get(name, NEW)
        return StoredCheckpoint(checkpoint=held["checkpoint"], version=held["version"])

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
        held = self._held()
        before = held.get(name, NEW)
        if before["version"] != version or replaces not in (None, before["checkpoint"]):
            raise CheckpointConflictError(f"at version {before['version']}, not at {version}")
        letters = {key: one for key, one in before["letters"].items() if key not in resolved}
        letters |= {letter.key: asdict(letter) for letter in dead_letters}
        held[name] = {"checkpoint": checkpoint, "version": version + 1, "letters": letters}
        unfinished = self._path.with_suffix(".new")
        unfinished.write_text(json.dumps(held, default=datetime.isoformat))
        unfinished.replace(self._path)
        return version + 1

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        letters = map(_letter, self._held().get(name, NEW)["letters"].values())
        return tuple(sorted(letters, key=lambda letter: (letter.first_tried_at, letter.key)))

    def _held(self) -> dict[str, Any]:
        return dict(json.loads(self._path.read_text())) if self._path.exists() else {}


def _letter(held: dict[str, Any]) -> DeadLetter:
    times = {key: datetime.fromisoformat(held[key]) for key in ("first_tried_at", "last_tried_at")}
    fields: dict[str, Any] = {**held, **times, "window": Window(**held["window"])}
    return DeadLetter(**fields)
