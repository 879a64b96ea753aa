"""Times and zones as other libraries make them: what pytz, pendulum and pandas return."""

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final, Self
from zoneinfo import ZoneInfo

NEW_YORK: Final = ZoneInfo("America/New_York")


class ZoneOfOffsets(tzinfo):
    """New York as pytz has it: a zone for each offset, and local mean time before `fromutc`."""

    def __init__(self, offset: timedelta = timedelta(hours=-4, minutes=-56)) -> None:
        self._offset = offset

    def utcoffset(self, _: datetime | None, /) -> timedelta:
        return self._offset

    def dst(self, _: datetime | None, /) -> timedelta:
        return timedelta(0)

    def tzname(self, _: datetime | None, /) -> str:
        return "New York"

    def fromutc(self, moment: datetime, /) -> datetime:
        offset = moment.replace(tzinfo=UTC).astimezone(NEW_YORK).utcoffset()
        assert offset is not None
        return (moment + offset).replace(tzinfo=ZoneOfOffsets(offset))


class ZoneOfRules(tzinfo):
    """New York by rules for local times that ignore `fold`."""

    def utcoffset(self, moment: datetime | None, /) -> timedelta | None:
        assert moment is not None
        return moment.replace(tzinfo=NEW_YORK, fold=0).utcoffset()

    def dst(self, moment: datetime | None, /) -> timedelta | None:
        assert moment is not None
        return moment.replace(tzinfo=NEW_YORK, fold=0).dst()

    def tzname(self, _: datetime | None, /) -> str:
        return "New York"

    def fromutc(self, moment: datetime, /) -> datetime:
        local = moment.replace(tzinfo=UTC).astimezone(NEW_YORK)
        return local.replace(tzinfo=self, fold=0)


class ZoneWithoutRules(tzinfo):
    """A zone whose methods raise, as those of `tzinfo` itself do."""

    def utcoffset(self, _: datetime | None, /) -> timedelta:
        raise NotImplementedError("a tzinfo subclass must implement utcoffset()")

    dst = utcoffset

    def tzname(self, _: datetime | None, /) -> str:
        raise NotImplementedError("a tzinfo subclass must implement tzname()")


class IntervalTime(datetime):
    """A datetime whose arithmetic is not that of `datetime`, as of pendulum."""

    def __sub__(self, _: Any) -> Any:
        raise AttributeError("'datetime.timedelta' object has no attribute '_to_microseconds'")

    def replace(self, *_: Any, **__: Any) -> Self:
        raise AttributeError("arithmetic of its own")

    astimezone = replace


class NanosecondTime(datetime):
    """A datetime with a nanosecond besides, as of pandas."""

    nanosecond: Final = 1


class NotATime(datetime):
    """An instance of `datetime` without numbers, as ``pandas.NaT``."""

    @property
    def year(self) -> Any:
        return float("nan")

    @property
    def tzinfo(self) -> None:
        return None

    def utcoffset(self) -> timedelta | None:
        raise ValueError("NaTType does not support utcoffset")

    def replace(self, *_: Any, **__: Any) -> Self:
        return self


class NotADay(date):
    """An instance of `date` without numbers."""

    @property
    def year(self) -> Any:
        return float("nan")
