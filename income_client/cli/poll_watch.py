"""What an operator is told of a poller while it runs; hears its events, and reads no record."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from math import ceil
from typing import Final

from rich.text import Text

from income_client import (
    CheckpointCommitted,
    CheckpointStore,
    DeadLetter,
    DeadLettered,
    Event,
    Poller,
    PollerStatus,
    PollFailed,
    PollFinished,
    RecordDelivered,
)

from .output import counted, in_short
from .progress import DrawingTask, StatusLine

_DRAW_SECONDS: Final = 1.0
"""How long the line stands while nothing happens: it counts seconds."""
_LEAST_SECONDS: Final = 0.1
"""How long it stands however much happens."""
_MOST_LETTERS: Final = 10


class Watch:
    """Tells of a poller: failures, dead letters, and how far it is.

    Args:
        store: where it keeps its dead letters.
        name: under which name.
        line: where to tell.

    Attributes:
        losses: dead letters that were told of.
    """

    def __init__(self, store: CheckpointStore, name: str, line: StatusLine) -> None:
        self.losses: int = 0
        self._store = store
        self._name = name
        self._line = line
        self._poller: Poller | None = None
        self._known: set[str] = set()
        self._new: list[DeadLetter] = []
        self._has_news = asyncio.Event()

    def take(self, event: Event) -> None:
        """Hear of something; the ``on_event`` of the poller's client."""
        match event:
            case PollFailed(is_last=False) if self._poller is not None:
                self._line.say(_failure(self._poller.status))
            case DeadLettered(letter=letter) if letter.key not in self._known:
                self._known.add(letter.key)
                self._new.append(letter)
                # They come many at a time, and are told of together.
                asyncio.get_running_loop().call_soon(self._tell_losses)
            case PollFinished() | CheckpointCommitted() | RecordDelivered():
                pass
            case _:
                return
        self._has_news.set()

    @asynccontextmanager
    async def over(self, poller: Poller) -> AsyncIterator[None]:
        """Tell of a poller while the block inside iterates over it.

        Raises:
            CheckpointError: the store cannot be used.
        """
        self._known = {one.key for one in await self._store.dead_letters(self._name)}
        self._poller = poller
        drawing = DrawingTask(self._draw_on(poller))
        try:
            yield
        except BaseException:
            await drawing.end()
            self._line.clear()
            raise
        error = await drawing.end()
        if error is not None:
            self._line.clear()
            raise error
        self._tell_losses()
        self._line.draw([*_facts(poller.status)])
        self._line.leave()

    async def _draw_on(self, poller: Poller) -> None:
        while True:
            status = poller.status
            self._line.draw([_state(status), *_facts(status)])
            self._has_news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAW_SECONDS - _LEAST_SECONDS):
                    await self._has_news.wait()
            await asyncio.sleep(_LEAST_SECONDS)

    def _tell_losses(self) -> None:
        new, self._new = self._new, []
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
    tries = counted(letter.attempts, "attempt")
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
        yield Text(f"{counted(status.failures, 'failure')} ({name})", style="red")
    yield Text(counted(status.polls, "poll"))
    yield Text(counted(status.records, "record"))
    if status.dead_letters:
        yield Text(counted(status.dead_letters, "dead letter"), style="yellow")
    if status.lag is not None:
        yield Text(f"{in_short(status.lag)} behind")
    if status.reached is not None:
        yield Text(f"at {status.reached:%Y-%m-%d %H:%M:%S}", style="dim")


def _seconds_until(moment: datetime) -> int:
    return max(0, ceil((moment - datetime.now(UTC)).total_seconds()))
