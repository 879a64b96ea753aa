"""Times as the service tells them, in whole seconds and without zone; reads no clock."""

from datetime import UTC, datetime, timedelta
from typing import Final

BEGINNING: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
"""The beginning of time."""

_SECOND: Final = timedelta(seconds=1)


def service_time(when: datetime, *, up: bool = False) -> datetime:
    """Return a time as the service has it: in UTC, without zone, in whole seconds.

    Args:
        when: aware, or in the service's time already.
        up: whether parts of a second become a whole one, or none.
    """
    naive = when if when.utcoffset() is None else when.astimezone(UTC)
    whole = naive.replace(tzinfo=None, microsecond=0)
    return whole + _SECOND if up and naive.microsecond else whole
