# lending/checkpoints.py
# pip install django
from collections.abc import Iterable, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from cattrs.preconf.json import make_converter
from django.db import connection, transaction
from django.db.models import F

from income_client import CheckpointConflictError, CheckpointStore, DeadLetter, StoredCheckpoint

from .models import Poll

JSON = make_converter()


def in_thread(query: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return query(*args, **kwargs)
        finally:
            connection.close()

    return sync_to_async(run, thread_sensitive=False)


class DjangoCheckpointStore(CheckpointStore):
    has_bell = True

    @in_thread
    def load(self, name: str) -> StoredCheckpoint:
        poll = Poll.objects.filter(name=name).first() or Poll()
        return StoredCheckpoint(checkpoint=poll.checkpoint or None, version=poll.version)

    @in_thread
    @transaction.atomic
    def save(
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
        replaces: str | None = None,
    ) -> int:
        poll, _ = Poll.objects.select_for_update().get_or_create(name=name)
        if poll.version != version or replaces not in (None, poll.checkpoint):
            raise CheckpointConflictError(f"at version {poll.version}, not at {version}")
        poll.checkpoint, poll.version = checkpoint, version + 1
        for key in resolved:
            poll.dead_letters.pop(key, None)
        poll.dead_letters |= {letter.key: JSON.unstructure(letter) for letter in dead_letters}
        poll.save()
        return version + 1

    @in_thread
    def dead_letters(self, name: str) -> Sequence[DeadLetter]:
        poll = Poll.objects.filter(name=name).first() or Poll()
        letters = JSON.structure(list(poll.dead_letters.values()), list[DeadLetter])
        return sorted(letters, key=lambda letter: (letter.first_tried_at, letter.key))

    @in_thread
    @transaction.atomic
    def forget(self, name: str, keys: Iterable[str]) -> tuple[str, ...]:
        forgotten: list[str] = []
        for poll in Poll.objects.select_for_update().filter(name=name):
            forgotten += [key for key in keys if poll.dead_letters.pop(key, None)]
            poll.save()
        return tuple(forgotten)

    @in_thread
    def ring(self, name: str) -> bool:
        return Poll.objects.filter(name=name).update(rings=F("rings") + 1) > 0

    @in_thread
    def count_rings(self, name: str) -> int:
        return Poll.objects.filter(name=name).values_list("rings", flat=True).first() or 0
