"""The dead letters of a poller: applications and rows that could not be read, until they can be."""

from collections.abc import Iterable
from datetime import timedelta
from operator import attrgetter
from typing import Final

from attrs import evolve

from income_client.checkpoints.store import is_storable
from income_client.errors import IncomeClientError
from income_client.records.dead_letters import DeadLetter, is_second
from income_client.records.window import EPOCH, Window
from income_client.walk.windows import Intervals

_HOUR: Final = 3_600
_NO_TIME: Final = timedelta(0)
_LONGEST_REASON: Final = 500


class DeadLetters:
    """The dead letters of one poller, stored or not."""

    def __init__(self, letters: Iterable[DeadLetter] = ()) -> None:
        self._letters = {letter.key: letter for letter in letters}
        self._stored = set(self._letters)
        """Keys of the dead letters that are in the store."""
        self._unsaved: dict[str, DeadLetter] = {}
        self._listed: dict[str, DeadLetter] = {}
        """Unsaved dead letters of listed rows, with the attempts of the current poll only."""
        self._resolved: dict[str, DeadLetter] = {}

    def __len__(self) -> int:
        return len(self._letters)

    def __contains__(self, key: str) -> bool:
        return key in self._letters

    @property
    def application_ids(self) -> tuple[str, ...]:
        """Ids of the applications that are dead letters."""
        ids = (letter.application_id for letter in self._letters.values())
        return tuple(application_id for application_id in ids if application_id is not None)

    @property
    def seconds(self) -> tuple[Window, ...]:
        """Windows of the dead letters that stand for a saturated second."""
        return tuple(window for window in self._windows if is_second(window))

    @property
    def unsaved(self) -> tuple[DeadLetter, ...]:
        """Dead letters to store before a checkpoint may pass them."""
        return tuple(self._unsaved.values())

    @property
    def new(self) -> frozenset[str]:
        """Keys of unsaved dead letters that were never in the store."""
        return frozenset(self._unsaved.keys() - self._stored)

    @property
    def resolved(self) -> tuple[str, ...]:
        """Keys of dead letters to remove from the store with the commit of their records."""
        return tuple(self._resolved)

    @property
    def _windows(self) -> list[Window]:
        letters = tuple(self._letters.values())  # in one step: another thread may read the status
        return [letter.window for letter in letters if letter.application_id is None]

    def windows_around(self, window: Window) -> list[Window]:
        """Return the windows to record as dead letters when a page contains a row without an id.

        Each poll lists the last seconds again, in another window, and shows the same row again.
        If dead letters cover the page's window already, the latest of them represents the row.
        A gap extends the dead letter before it, up to an hour, or begins a new one.
        """
        # A dead letter of a single second means that the second is saturated.
        window = Window(window.after, max(window.before, window.after + 2))
        earlier = [other for other in self._windows if not is_second(other)]
        earlier.sort(key=attrgetter("after"))
        gaps = Intervals(earlier).gaps(window)
        if not gaps:
            return [other for other in earlier if other.after < window.before][-1:]
        windows = []
        for gap in gaps:
            adjacent = (
                other for other in earlier if other.before == gap.after <= other.after + _HOUR
            )
            after = max((other.after for other in adjacent), default=gap.after)
            if gap.before > after + _HOUR:
                after = gap.after
            windows.append(Window(after, max(gap.before, after + 2)))
        return windows

    def due(self, now: int, *, most: int) -> list[DeadLetter]:
        """Return the dead letters to try again, at most ``most``, the most overdue first."""
        moment = EPOCH + timedelta(seconds=now)
        overdue = {letter.key: moment - letter.next_try_at for letter in self._letters.values()}
        due = [key for key, waited in overdue.items() if waited >= _NO_TIME]
        first = sorted(due, key=overdue.__getitem__, reverse=True)[:most]
        return [self._letters[key] for key in first]

    def record_failure(
        self,
        application_id: str | None,
        window: Window,
        reason: str,
        *,
        attempts: int,
        now: int,
        is_retry: bool = False,
    ) -> None:
        """Add a dead letter of an application or a window, or count further attempts.

        ``is_retry`` says that the attempt was made for the dead letter, and not for a listed row.
        """
        moment = EPOCH + timedelta(seconds=now)
        letter = DeadLetter(
            application_id=None if application_id is None else _escape_unstorable(application_id),
            window=window,
            reason=_escape_unstorable(reason[:_LONGEST_REASON]),
            attempts=attempts,
            first_tried_at=moment,
            last_tried_at=moment,
        )
        if not is_retry:
            self._listed[letter.key] = letter
        earlier = self._letters.get(letter.key)
        if earlier is not None:
            letter = evolve(
                letter,
                attempts=earlier.attempts + attempts,
                first_tried_at=earlier.first_tried_at,
            )
        self._letters[letter.key] = self._unsaved[letter.key] = letter
        self._resolved.pop(letter.key, None)

    def resolve(self, key: str) -> None:
        """Remove the dead letter of an application that was read, if there is one."""
        letter = self._letters.pop(key, None)
        if letter is not None:
            self._unsaved.pop(key, None)
            self._listed.pop(key, None)
            self._resolved[key] = letter

    def follow(self, stored: Iterable[DeadLetter]) -> None:
        """Adopt what others did in the store: they forget dead letters, or make them due.

        A dead letter that was listed again since stays. One that was tried since is not due.
        """
        by_key = {letter.key: letter for letter in stored}
        for key in self._letters.keys() & by_key.keys() - self._unsaved.keys():
            if not by_key[key].attempts:
                self._letters[key] = by_key[key]
        for key in self._stored - by_key.keys():
            self._stored.remove(key)
            if key in self._listed:
                self._letters[key] = self._unsaved[key] = self._listed[key]
            else:
                self._letters.pop(key, None)
                self._unsaved.pop(key, None)

    def saved(self, letters: Iterable[DeadLetter], resolved: Iterable[str]) -> list[DeadLetter]:
        """Note that the store has saved ``letters`` and removed the ``resolved`` keys.

        Return the dead letters that it had and has no more.
        """
        for letter in letters:
            self._stored.add(letter.key)
            if self._unsaved.get(letter.key) is letter:
                del self._unsaved[letter.key]
                self._listed.pop(letter.key, None)
        removed = []
        for key in resolved:
            resolved_letter = self._resolved.pop(key, None)
            if resolved_letter is not None and key in self._stored:
                removed.append(resolved_letter)
            self._stored.discard(key)
        return removed


def dead_letter_reason(error: IncomeClientError) -> str:
    """Return why a record could not be read; errors hold no content."""
    return f"{type(error).__name__}: {error.message}"


def _escape_unstorable(text: str) -> str:
    """Return a text without characters that no database takes."""
    return text if is_storable(text) else text.encode("unicode_escape").decode()
