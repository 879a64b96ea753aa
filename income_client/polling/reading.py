"""Which of the listed applications are read next, and what becomes of one that cannot be read.

One that cannot be read waits until the others of its page are read, and is tried
again; after that it is given up. A failure that may be the service's and not the
record's counts only while the service gives others: where it gives none, nothing
is given up, and the failure stands for the whole.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from attrs import evolve, frozen

from income_client.errors import (
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    IncomeClientError,
    NotFoundError,
)
from income_client.records.window import Window

from .versions import RecordVersion

BATCH_SIZE: Final = 100
_CERTAIN: Final = (NotFoundError, DecodeError, ConfigurationError)
_ATTEMPTS_IF_CERTAIN: Final = 2
_ATTEMPTS_IF_LATE: Final = 1
_ATTEMPTS: Final = 3

Results: TypeAlias = Mapping[str, RecordVersion | IncomeClientError]
"""By application id: what reading it gave."""


@frozen(kw_only=True)
class Read:
    """Applications that are to be read now."""

    application_ids: tuple[str, ...]
    """Which ones."""
    pause: float = 0.0
    """Seconds to let pass before, where they were tried a moment ago."""


@frozen
class Row:
    """An application that was listed."""

    application_id: str
    """Which one."""
    window: Window
    """Where the list showed it."""
    is_letter: bool = False
    """Whether it was given up before, and is not tried twice."""
    attempts: int = 0
    """How often it was tried."""
    is_doubtful: bool = False
    """Whether it failed in a way that may be the service's."""


@frozen
class GivenUp:
    """An application that could not be read."""

    row: Row
    """Which one, with all attempts counted."""
    error: IncomeClientError
    """The last failure."""


@frozen
class Taken:
    """What reading has settled."""

    read: tuple[tuple[Row, RecordVersion], ...]
    """Those that were read."""
    given_up: tuple[GivenUp, ...]
    """Those that were not."""


class Reading:
    """The applications of a poll that are still to be read.

    Args:
        witness: an application that was read not long ago, by which to tell
            whether the service gives anything at all.
    """

    def __init__(self, witness: str | None = None) -> None:
        self.witness = witness
        self._rows: deque[Row] = deque()
        self._asked: tuple[Row, ...] = ()
        self._control: str | None = None
        self._doubts = False

    def set_aside(self) -> tuple[Row, ...]:
        """Give up nothing, but let go of all that waits."""
        rows = tuple(self._rows)
        self._rows.clear()
        self._asked, self._doubts = (), False
        return rows

    def __len__(self) -> int:
        return len(self._rows)

    def extend(self, rows: Iterable[Row]) -> None:
        """Put applications behind those that wait already."""
        self._rows.extend(rows)

    def next(self) -> Read:
        """Return what to read now; what was asked for and not answered is asked for again."""
        self._asked = tuple(self._rows)[:BATCH_SIZE]
        ids = [row.application_id for row in self._asked]
        doubts = self._doubts or all(row.is_doubtful for row in self._asked)
        self._control = self._other_than(ids) if doubts else None
        pause = min(row.attempts for row in self._asked) + self._doubts
        asked = ids if self._control is None else [*ids, self._control]
        return Read(application_ids=tuple(asked), pause=float(pause))

    def receive(self, results: Results) -> Taken | IncomeClientError:
        """Take what reading gave.

        Args:
            results: for each id that was asked for.

        Returns:
            What it settles, or the failure of a service that gives nothing.
        """
        read = [key for key, result in results.items() if isinstance(result, RecordVersion)]
        doubtful = self._doubtful(results)
        if read:
            self.witness = read[-1]
        elif doubtful is not None:
            ids = [row.application_id for row in self._asked]
            if self._control is not None or self._doubts or self._other_than(ids) is None:
                return doubtful
            self._doubts = True
            return Taken((), ())
        self._doubts = False
        return self._taken(results)

    def _doubtful(self, results: Results) -> IncomeClientError | None:
        """Return a failure that may be the service's own, if there is one."""
        for row in self._asked:
            result = results[row.application_id]
            if isinstance(result, RecordVersion) or row.is_letter or _is_certain(result):
                continue
            return result
        return None

    def _taken(self, results: Results) -> Taken:
        read, given_up = [], []
        for row in self._asked:
            self._rows.popleft()
            result = results[row.application_id]
            if isinstance(result, RecordVersion):
                read.append((row, result))
                continue
            tried = evolve(row, attempts=row.attempts + 1, is_doubtful=not _is_certain(result))
            if row.is_letter or tried.attempts >= _enough(result):
                given_up.append(GivenUp(tried, result))
            else:
                self._rows.append(tried)
        self._asked = ()
        return Taken(tuple(read), tuple(given_up))

    def _other_than(self, ids: Iterable[str]) -> str | None:
        """Return an application to see whether the service gives at least that one."""
        taken = set(ids)
        others = (row.application_id for row in reversed(self._rows))
        return next((i for i in (self.witness, *others) if i is not None and i not in taken), None)


def _enough(error: IncomeClientError) -> int:
    """Return after how many attempts an application is given up."""
    if isinstance(error, DeadlineExceededError):
        # Its time is lost to all others, and a dead letter is tried again as well.
        return _ATTEMPTS_IF_LATE
    return _ATTEMPTS_IF_CERTAIN if _is_certain(error) else _ATTEMPTS


def _is_certain(error: IncomeClientError) -> bool:
    """Tell whether a failure is about the record and not about the service."""
    return isinstance(error, _CERTAIN) and not error.retryable
