"""The journal as server-sent events, to several readers at a time, each at its own pace.

A reader has no queue of its own, only a place in the journal, so that a slow one costs nothing.
One that is so slow that the journal no longer keeps what comes next for it is disconnected.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

import msgspec
from attrs import asdict, frozen

from .journal import Journal, JournalEntry

MOST_STREAMS: Final = 64
"""Readers at a time; more than pages and tests at one emulator need."""
_AT_ONCE: Final = 100
"""Entries that are written at once, so that a long replay is held back by a slow reader."""
_KEEP_ALIVE: Final = 15.0
"""Seconds of silence after which a comment is sent: proxies close after 30 to 60."""
_RETRY: Final = b"retry: 1000\n\n"
_RESET: Final = b"event: reset\ndata: {}\n\n"
_COMMENT: Final = b": no request\n\n"


@frozen
class EventStream:
    """A reply that has no end: the journal from some place on."""

    pieces: AsyncGenerator[bytes, None]
    """What is sent, as it comes."""
    headers: Mapping[str, str]
    """Header fields."""
    status: int = 200
    """HTTP status."""


class EventStreams:
    """The readers of a journal.

    Args:
        journal: what they read.

    Attributes:
        is_closing: whether all of them are to end.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._open = 0
        self.is_closing: bool = False

    @property
    def is_full(self) -> bool:
        """Whether no other reader is let in."""
        return self._open >= MOST_STREAMS

    def close(self) -> None:
        """End all of them."""
        self.is_closing = True
        self._journal.notify()

    async def pieces(
        self, after: int | None, abort: Callable[[], None]
    ) -> AsyncGenerator[bytes, None]:
        """Yield what a reader gets, without end.

        Args:
            after: number behind which it begins; with what comes next unless given.
            abort: disconnects it.
        """
        journal = self._journal
        place = journal.last if after is None else min(after, journal.last)
        place = max(place, journal.first - 1)
        clears = journal.clears
        changed = asyncio.Event()

        def notice() -> None:
            changed.set()
            if journal.clears == clears and place + 1 < journal.first:
                abort()

        self._open += 1
        journal.listeners.add(notice)
        try:
            yield _RETRY
            while not self.is_closing:
                changed.clear()
                if journal.clears != clears:
                    clears, place = journal.clears, journal.first - 1
                    yield _RESET
                entries = journal.after(place, _AT_ONCE)
                if entries:
                    place = entries[-1].id
                    yield b"".join(map(_event_of, entries))
                elif not changed.is_set():
                    try:
                        async with asyncio.timeout(_KEEP_ALIVE):
                            await changed.wait()
                    except TimeoutError:
                        yield _COMMENT
        finally:
            self._open -= 1
            journal.listeners.discard(notice)


def _event_of(entry: JournalEntry) -> bytes:
    return b"id: %d\nevent: request\ndata: %s\n\n" % (entry.id, msgspec.json.encode(asdict(entry)))
