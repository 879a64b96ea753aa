"""Times and zones of pytz, pendulum, dateutil and pandas, as bounds and as `service_timezone`."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from income_client import BasicAuth, IncomeClient, InvalidArgumentError
from income_client.emulator import Emulator
from income_client.wire.times import Rounding, aware_time, service_second

pytz: Any = pytest.importorskip("pytz", reason="zones of other libraries need the extra 'full'")
pendulum: Any = pytest.importorskip("pendulum", reason="as above")
pd: Any = pytest.importorskip("pandas", reason="as above")
tz: Any = pytest.importorskip("dateutil.tz", reason="as above")

ZONES: Final = ("America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
MAKERS: Final = {"pytz": pytz.timezone, "dateutil": tz.gettz, "pendulum": pendulum.timezone}
FIRST: Final = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize("name", ZONES)
def test_a_zone_of_a_library_gives_what_zoneinfo_gives(name: str, library: str) -> None:
    """At each half hour of a year, of which one or two are of the repeated hour."""
    zone: tzinfo = MAKERS[library](name)
    reference = ZoneInfo(name)
    for half_hours in range(2 * 24 * 365):
        instant = FIRST + half_hours * timedelta(minutes=30)
        lower, upper = (
            service_second(instant, reference, rounding=rounding) for rounding in Rounding
        )
        assert service_second(instant, zone, rounding=Rounding.DOWN) == lower
        assert service_second(instant, zone, rounding=Rounding.UP) == upper
        # Python calls times of the repeated hour unequal if their zones are two objects.
        shown, expected = (
            aware_time(upper, each, instant).astimezone(UTC) for each in (zone, reference)
        )
        assert shown == expected


@pytest.mark.parametrize(
    "bound",
    [
        pendulum.datetime(2026, 6, 1),
        pendulum.naive(2026, 6, 1),
        pendulum.date(2026, 6, 1),
        pd.Timestamp("2026-06-01T00:00:00Z"),
        pd.Timestamp("2026-06-01"),
        pytz.timezone("America/New_York").localize(datetime(2026, 5, 31, 20)),  # noqa: DTZ001
    ],
    ids=repr,
)
async def test_a_time_of_a_library_is_a_bound(bound: Any) -> None:
    async with Emulator(5) as service, IncomeClient(service.url, auth=service.basic) as client:
        listed = [row async for row in client.list_applications(bound)]
        assert listed == [row async for row in client.list_applications("2026-06-01")]


@pytest.mark.parametrize(
    "bound", [pd.NaT, datetime(2026, 6, 1, tzinfo=pytz.timezone("America/New_York"))], ids=repr
)
async def test_a_value_of_a_library_that_is_no_time_is_refused(bound: Any) -> None:
    async with IncomeClient("http://127.0.0.1:1", auth=BasicAuth("user", "secret")) as client:
        with pytest.raises(InvalidArgumentError):
            client.list_applications(bound)
