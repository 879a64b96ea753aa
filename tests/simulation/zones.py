"""The service's time zone: UTC, a fixed offset, or clocks that are changed once during a run.

Bounds and windows have the zone's local times; `Date` and the times in records are UTC. The hour of
a change is repeated, or skipped.
"""

import random
import struct
from collections.abc import Sequence
from datetime import tzinfo
from io import BytesIO
from typing import Final
from zoneinfo import ZoneInfo

from attrs import frozen

from .loops import EPOCH_OF_RUNS

_HOUR: Final = 3_600
_OFFSETS: Final = (-25_200, -18_000, 3_600, 19_800)
"""Seconds of zones west and east of Greenwich."""
_CHANGED: Final = 0.2
_FIXED: Final = 0.2
"""Shares of runs whose zone changes its offset, and of those with a fixed one."""


@frozen
class Zone:
    """A zone with one change of its offset, or none."""

    offset: int = 0
    """Seconds by which local times are ahead of UTC, before a change."""
    shift: int = 0
    """Seconds by which the change sets clocks forward; negative where it sets them back."""
    changes_at: int = 0
    """The first second since 1970, in UTC, after the change."""

    @classmethod
    def drawn(cls, chance: random.Random, begins: Sequence[float], epoch: float) -> "Zone":
        """Draw a zone; its change, if it has one, comes in one of the epochs."""
        share, offset = chance.random(), chance.choice(_OFFSETS)
        if share > _CHANGED + _FIXED:
            return UTC_ZONE
        if share > _CHANGED:
            return cls(offset)
        moment = chance.choice(begins) + chance.random() * epoch
        return cls(offset, chance.choice((_HOUR, -_HOUR)), EPOCH_OF_RUNS + int(moment))

    def local_second(self, second: int) -> int:
        """Return what local clocks show at a second of UTC, as seconds since 1970."""
        return second + self.ahead_at(second)

    def ahead_at(self, second: int) -> int:
        """Return the seconds by which local clocks are ahead of UTC, at a second of UTC."""
        return self.offset + self.shift * (second >= self.changes_at)

    @property
    def info(self) -> tzinfo:
        """The zone as a program gives it to the package, from an entry of the tz database."""
        header = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, 1, 2, 4)
        offsets = struct.pack(">lBBlBB", self.offset, 0, 0, self.offset + self.shift, 0, 0)
        change = struct.pack(">lB", self.changes_at, 1)
        return ZoneInfo.from_file(BytesIO(header + change + offsets + b"SIM\0"), key="Simulated")


UTC_ZONE: Final = Zone()
