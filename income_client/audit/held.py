"""Read the ids and update times that a caller holds."""

import asyncio
from array import array
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, tzinfo
from math import ceil, floor
from typing import Any, Final

from income_client.errors import ConfigurationError
from income_client.settings import invalid, wrong
from income_client.wire.times import FIRST_SECOND, LAST_SECOND, Rounding, When, service_second

Held = Mapping[str, When] | Iterable[tuple[str, When]] | AsyncIterable[tuple[str, When]]
"""Ids with the update times held: a mapping, or pairs, asynchronous or not."""

_AT_ONCE: Final = 1_000
"""Entries of ``held`` that are read before other tasks get a turn."""


class HeldTimes:
    """Ids with the seconds of the times held, by slots that count from 0."""

    def __init__(self) -> None:
        self.earliest: array[int] = array("q")
        """Seconds of the times held, rounded down, by slot."""
        self.latest: array[int] = array("q")
        """Seconds of the times held, rounded up, and behind an hour that clocks repeat."""
        self._ids: list[str] = []
        self._slots: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, application_id: str, earliest: int, latest: int) -> None:
        """Add the time of an id; of several times for one id the latest counts."""
        slot = self._slots.setdefault(application_id, len(self))
        if slot == len(self):
            self._ids.append(application_id)
            self.earliest.append(earliest)
            self.latest.append(latest)
        else:
            self.earliest[slot] = max(self.earliest[slot], earliest)
            self.latest[slot] = max(self.latest[slot], latest)

    def find(self, application_id: str) -> int | None:
        """Return the slot of an id, None if it is not held."""
        return self._slots.get(application_id)

    def id_of(self, slot: int) -> str:
        """Return the id in a slot."""
        return self._ids[slot]


def check_held(held: object) -> None:
    """Raise `ConfigurationError` if ``held``, ids with times, is a text or cannot be iterated."""
    if isinstance(held, str | bytes) or not isinstance(held, Iterable | AsyncIterable):
        raise invalid("held", "a mapping of ids to times, or an iterable of such pairs", held)


async def read_held(held: Held, zone: tzinfo) -> HeldTimes:
    """Read the ids and times of ``held``.

    Raises:
        ConfigurationError: an entry is not a pair of an id and a time.
    """
    times = HeldTimes()
    number = 0
    async with aclosing(_entries(held)) as entries:
        async for entry in entries:
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            number += 1
            match entry:
                case str(application_id), when if application_id:
                    try:
                        times.add(application_id, *_seconds_of(when, zone))
                    except ConfigurationError:
                        message = (
                            f"needs a datetime or ISO 8601 text as the time of entry {number:,}"
                        )
                        raise wrong("held", message) from None
                case _:
                    message = "must be pairs such as ('app-1', record.last_updated_at), but entry"
                    raise wrong("held", f"{message} {number:,} is of type {type(entry).__name__}")
    return times


def _seconds_of(when: When, zone: tzinfo) -> tuple[int, int]:
    """Return the seconds of a time, rounded down and up."""
    if zone is UTC and type(when) is datetime and _has_standard_zone(when):
        # The usual case, ten times as fast: there may be a million.
        since = when.timestamp()
        if FIRST_SECOND <= since <= LAST_SECOND:
            return floor(since), ceil(since)
    return (
        service_second(when, zone, rounding=Rounding.DOWN),
        service_second(when, zone, rounding=Rounding.UP),
    )


def _has_standard_zone(when: datetime) -> bool:
    """Return whether a time's zone is of the standard library; other zones are checked."""
    return type(when.tzinfo).__module__ in ("datetime", "zoneinfo")


async def _entries(held: Any) -> AsyncGenerator[Any, None]:
    match held:
        case Mapping():
            # The mapping may change while others have a turn.
            for application_id in list(held):
                if (when := held.get(application_id)) is not None:
                    yield application_id, when
        case AsyncIterable():
            iterator = aiter(held)
            try:
                async for entry in iterator:
                    yield entry
            finally:
                close = getattr(iterator, "aclose", None)
                if close is not None:
                    await close()
        case _:
            for entry in held:
                yield entry
