"""What could not be read, and when it is tried again; service time is an argument."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from attrs import evolve

from income_client.errors import IncomeClientError
from income_client.records.dead_letters import DeadLetter
from income_client.records.window import EPOCH, Window

_NO_TIME: Final = timedelta(0)
_LONGEST_REASON: Final = 500


class DeadLetters:
    """The dead letters of one poller, and which of them the store does not have yet."""

    def __init__(self, letters: Iterable[DeadLetter] = ()) -> None:
        self._letters = {letter.key: letter for letter in letters}
        self._unsaved: dict[str, DeadLetter] = {}
        self._resolved: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._letters)

    def __contains__(self, key: str) -> bool:
        return key in self._letters

    @property
    def application_ids(self) -> tuple[str, ...]:
        """The applications that they are about."""
        ids = (letter.application_id for letter in self._letters.values())
        return tuple(one for one in ids if one is not None)

    @property
    def seconds(self) -> tuple[Window, ...]:
        """The seconds that hold more rows than can be asked for."""
        return tuple(one.window for one in self._letters.values() if one.application_id is None)

    @property
    def unsaved(self) -> tuple[DeadLetter, ...]:
        """Those that the store must have before a checkpoint passes them."""
        return tuple(self._unsaved.values())

    @property
    def resolved(self) -> tuple[str, ...]:
        """Keys of those that the store may lose once what was read is delivered."""
        return tuple(self._resolved)

    def due(self, now: int, *, most: int) -> list[DeadLetter]:
        """Return those to be tried again, the most overdue first."""
        moment = EPOCH + timedelta(seconds=now)
        overdue = {letter.key: moment - letter.next_try_at for letter in self._letters.values()}
        due = [key for key, waited in overdue.items() if waited >= _NO_TIME]
        first = sorted(due, key=overdue.__getitem__, reverse=True)[:most]
        return [self._letters[key] for key in first]

    def put(
        self,
        application_id: str | None,
        window: Window,
        reason: str,
        *,
        attempts: int,
        now: int,
    ) -> None:
        """Add a dead letter, or count further attempts; without an id it is about a second."""
        moment = EPOCH + timedelta(seconds=now)
        letter = DeadLetter(
            application_id=None if application_id is None else _storable(application_id),
            window=window,
            reason=_storable(reason[:_LONGEST_REASON]),
            attempts=attempts,
            first_tried_at=moment,
            last_tried_at=moment,
        )
        known = self._letters.get(letter.key)
        if known is not None:
            letter = evolve(
                letter,
                attempts=known.attempts + attempts,
                first_tried_at=known.first_tried_at,
            )
        self._letters[letter.key] = self._unsaved[letter.key] = letter
        self._resolved.pop(letter.key, None)

    def resolve(self, key: str) -> None:
        """Remove a dead letter whose application was read after all, if there is one."""
        if self._letters.pop(key, None) is not None:
            self._unsaved.pop(key, None)
            self._resolved[key] = None

    def saved(self, letters: Iterable[DeadLetter], resolved: Iterable[str]) -> None:
        """Note what the store has by now."""
        for letter in letters:
            if self._unsaved.get(letter.key) is letter:
                del self._unsaved[letter.key]
        for key in resolved:
            self._resolved.pop(key, None)


def reason_of(error: IncomeClientError) -> str:
    """Return why a record could not be read; errors hold no content."""
    return f"{type(error).__name__}: {error.message}"


def _storable(text: str) -> str:
    """Return a text without characters that no database takes."""
    is_plain = "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
    return text if is_plain else text.encode("unicode_escape").decode()
