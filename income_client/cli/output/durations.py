"""Spans of time in words, for each place as exact as it is known there; reads no clock."""

from math import ceil
from typing import Final

from attrs import frozen

from .counts import plural


@frozen
class _Unit:
    """A unit of time."""

    seconds: int
    """How long it is."""
    word: str
    """What it is called."""
    sign: str
    """What it is called in short."""


_DAY: Final = _Unit(86_400, "day", "d")
_HOUR: Final = _Unit(3600, "hour", "h")
_MINUTE: Final = _Unit(60, "minute", "min")
_SECOND: Final = _Unit(1, "second", "s")
_LONG: Final = (_DAY, _HOUR, _MINUTE)
_STEP: Final = 5
"""Seconds to which an estimate of less than a minute is rounded."""


def in_words(seconds: float) -> str:
    """Return a span of time as people say it, such as ``1.5 hours`` or ``0.3 s``."""
    for unit in _LONG:
        if seconds >= unit.seconds:
            number = f"{seconds / unit.seconds:.1f}".removesuffix(".0")
            return f"{number} {plural(unit.word, is_one=number == '1')}"
    return f"{seconds:.1f} s"


def in_short(seconds: float) -> str:
    """Return a span of time in one unit, of which there are two at least: ``90 s``, ``3 h``."""
    for unit in _LONG:
        if seconds >= 2 * unit.seconds:
            return f"{seconds / unit.seconds:,.0f} {unit.sign}"
    return f"{max(0.0, seconds):.0f} s"


def counted_down(seconds: float) -> str:
    """Return whole seconds that are left in the two units that matter: ``59 min 3 s``."""
    left = max(0, int(seconds))
    for unit, below in ((_DAY, _HOUR), (_HOUR, _MINUTE), (_MINUTE, _SECOND)):
        if left >= unit.seconds:
            count, rest = divmod(left, unit.seconds)
            return f"{count:,} {unit.sign} {rest // below.seconds} {below.sign}"
    return f"{left} s"


def estimated(seconds: float) -> str:
    """Return a span of time that is still to come, in as few words as it is known to."""
    if seconds < _MINUTE.seconds:
        return f"about {max(1, ceil(seconds / _STEP)) * _STEP} s"
    if seconds < _HOUR.seconds:
        return f"about {seconds / _MINUTE.seconds:.0f} min"
    return f"about {seconds / _HOUR.seconds:.1f} h"
