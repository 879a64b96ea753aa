"""What an operator is told of a poller while it runs; looks from outside, and reads no record."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from math import ceil
from types import TracebackType
from typing import Final, Self

from rich.text import Text

from income_client import CheckpointStore, DeadLetter, IncomeClientError, Poller, PollerStatus

from .drawing_task import DrawingTask
from .status_line import StatusLine

_LOOK_SECONDS: Final = 0.1
"""Less than any pause after a failure, so that none is missed."""
_DRAW_SECONDS: Final = 1.0
_MOST_LETTERS: Final = 10
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


class Watch:
    """Tells of a poller while the block inside runs: failures, dead letters, and how far it is.

    Args:
        poller: iterated inside.
        store: where it keeps its dead letters.
        name: under which name.
        line: where to tell.

    Attributes:
        losses: dead letters that were told of.

    Raises:
        CheckpointError: the store cannot be used.
    """

    def __init__(self, poller: Poller, store: CheckpointStore, name: str, line: StatusLine) -> None:
        self._poller = poller
        self._store = store
        self._name = name
        self._line = line
        self.losses = 0
        self._letters: frozenset[str] = frozenset()
        self._failures = 0
        self._polls = 0

    async def __aenter__(self) -> Self:
        self._letters = frozenset(one.key for one in await self._store.dead_letters(self._name))
        self._looking = DrawingTask(self._look_now_and_then())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        error = await self._looking.end()
        if exc is not None or error is not None:
            self._line.clear()
        if exc is not None:
            return
        if error is not None:
            raise error
        await self._look()
        self._line.draw([*_facts(self._poller.status)])
        self._line.leave()

    async def _look_now_and_then(self) -> None:
        loop = asyncio.get_running_loop()
        draw_at = loop.time()
        while True:
            await self._look()
            if loop.time() >= draw_at or not self._line.is_drawn:
                draw_at = loop.time() + _DRAW_SECONDS
                status = self._poller.status
                self._line.draw([_state(status), *_facts(status)])
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> None:
        status = self._poller.status
        if status.failures > self._failures:
            self._line.say(_failure(status))
        self._failures = status.failures
        if status.reached is not None:
            await self._look_for_letters(status)

    async def _look_for_letters(self, status: PollerStatus) -> None:
        # As many as before may be others after a poll.
        if status.dead_letters == len(self._letters) and status.polls == self._polls:
            return
        try:
            letters = await self._store.dead_letters(self._name)
        except IncomeClientError:  # the poller finds out by itself, and says so
            return
        new = [letter for letter in letters if letter.key not in self._letters]
        self._letters = frozenset(letter.key for letter in letters)
        self._polls = status.polls
        self.losses += len(new)
        for letter in new[:_MOST_LETTERS]:
            self._line.say(_loss(letter))
        if len(new) > _MOST_LETTERS:
            self._line.say(f"and {len(new) - _MOST_LETTERS:,} more could not be read")


def _failure(status: PollerStatus) -> str:
    said = f"poll failed ({type(status.last_error).__name__}: {status.last_error})"
    if status.next_poll_at is not None:
        said += f", next try in {_seconds_until(status.next_poll_at)} s"
    return said


def _loss(letter: DeadLetter) -> str:
    what = letter.application_id or f"the list in {letter.window}"
    tries = f"{letter.attempts} attempt{'s' * (letter.attempts != 1)}"
    return f"{what} could not be read in {tries} ({letter.reason}); it is tried again later"


def _state(status: PollerStatus) -> Text:
    if status.failures and status.next_poll_at is not None:
        return Text(f"next try in {_seconds_until(status.next_poll_at)} s", style="bold red")
    if status.reached is None:
        return Text("starting", style="bold")
    if status.next_poll_at is None:
        return Text("polling", style="bold cyan")
    return Text(f"next poll in {_seconds_until(status.next_poll_at)} s", style="bold")


def _facts(status: PollerStatus) -> Iterator[Text]:
    if status.failures:
        name = type(status.last_error).__name__
        yield Text(f"{_counted(status.failures, 'failure')} ({name})", style="red")
    yield Text(_counted(status.polls, "poll"))
    yield Text(_counted(status.records, "record"))
    if status.dead_letters:
        yield Text(_counted(status.dead_letters, "dead letter"), style="yellow")
    if status.lag is not None:
        yield Text(f"{_span(status.lag)} behind")
    if status.reached is not None:
        yield Text(f"at {status.reached:%Y-%m-%d %H:%M:%S}", style="dim")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _span(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _seconds_until(moment: datetime) -> int:
    return max(0, ceil((moment - datetime.now(UTC)).total_seconds()))
