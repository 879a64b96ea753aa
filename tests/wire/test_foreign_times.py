"""Times and zones of other libraries: subclasses of `datetime`, and zones that ignore ``fold``."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import BasicAuth, IncomeClient, MemoryCheckpointStore, Secret
from income_client.emulator import Emulator
from income_client.errors import InvalidArgumentError
from income_client.http.tokens import StoredToken
from income_client.system.texts import parse_iso_time
from income_client.wire.times import Rounding, aware_time, service_second
from tests.support.foreign_times import (
    NEW_YORK,
    IntervalTime,
    NanosecondTime,
    NotADay,
    NotATime,
    ZoneOfOffsets,
    ZoneOfRules,
    ZoneWithoutRules,
)

FOREIGN_ZONES = (ZoneOfOffsets(), ZoneOfRules())
NOON = 1_780_315_200
"""The second of 2026-06-01T12:00:00."""

instants = (
    st.datetimes(datetime(1960, 1, 1), datetime(2060, 1, 1))  # noqa: DTZ001
    | st.datetimes(datetime(2025, 11, 2, 3), datetime(2025, 11, 2, 9))  # noqa: DTZ001
    | st.datetimes(datetime(2026, 3, 8, 5), datetime(2026, 3, 8, 9))  # noqa: DTZ001
).map(lambda moment: moment.replace(tzinfo=UTC))


@given(moment=instants, rounding=st.sampled_from(Rounding), zone=st.sampled_from(FOREIGN_ZONES))
def test_a_zone_without_fold_gives_the_bounds_of_one_with_it(
    moment: datetime, rounding: Rounding, zone: tzinfo
) -> None:
    """A bound that is not widened in the repeated hour would lose rows of the other pass."""
    expected = service_second(moment, NEW_YORK, rounding=rounding)
    assert service_second(moment, zone, rounding=rounding) == expected


@given(moment=instants, is_near=st.booleans(), zone=st.sampled_from(FOREIGN_ZONES))
def test_a_zone_without_fold_gives_the_times_of_one_with_it(
    moment: datetime, is_near: bool, zone: tzinfo
) -> None:
    """Local mean time, which pytz has before `localize`, is never shown."""
    second = service_second(moment, NEW_YORK, rounding=Rounding.DOWN)
    near = moment if is_near else None
    shown, expected = (aware_time(second, each, near) for each in (zone, NEW_YORK))
    assert shown.replace(tzinfo=None) == expected.replace(tzinfo=None)
    if isinstance(zone, ZoneOfOffsets):
        assert shown == expected


@pytest.mark.parametrize("second", [-62_135_596_800, 253_402_300_799])
@pytest.mark.parametrize("zone", [NEW_YORK, ZoneInfo("Asia/Tokyo"), *FOREIGN_ZONES])
def test_a_zone_has_times_at_the_ends_of_the_calendar(zone: tzinfo, second: int) -> None:
    assert aware_time(second, zone, near=None).year in (1, 9999)


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        (IntervalTime(2026, 6, 1, 12, tzinfo=UTC), NOON, NOON),
        (IntervalTime(2026, 6, 1, 12), NOON, NOON),
        (IntervalTime(2026, 6, 1, 8, tzinfo=NEW_YORK), NOON, NOON),
        (NanosecondTime(2026, 6, 1, 12, tzinfo=UTC), NOON, NOON + 1),
        (NanosecondTime(2026, 6, 1, 12), NOON, NOON + 1),
        (NanosecondTime(2026, 6, 1, 12, 0, 0, 1), NOON, NOON + 1),
        (datetime(2026, 6, 1, 8, tzinfo=ZoneOfOffsets(timedelta(hours=-4))), NOON, NOON),
    ],
)
def test_a_subclass_of_datetime_is_read_by_its_fields(value: datetime, down: int, up: int) -> None:
    """Parts of a second widen the span, also those that only the subclass has."""
    assert service_second(value, UTC, rounding=Rounding.DOWN) == down
    assert service_second(value, UTC, rounding=Rounding.UP) == up


NO_TIMES: tuple[Any, ...] = (
    NotATime(2026, 6, 1), NotADay(2026, 6, 1), datetime(2026, 6, 1, tzinfo=ZoneWithoutRules()),
)  # fmt: skip


@pytest.mark.parametrize("value", NO_TIMES)
async def test_an_object_that_is_no_time_is_an_invalid_argument(value: Any) -> None:
    """An exception of its own class would leave the package otherwise."""
    async with Emulator(1) as service, IncomeClient(service.url, auth=service.basic) as client:
        with pytest.raises(InvalidArgumentError):
            client.list_applications(value)
        with pytest.raises(InvalidArgumentError):
            client.poll(MemoryCheckpointStore(), start=value)
        with pytest.raises(InvalidArgumentError):
            await client.get_application_page(updated_before=value)
        with pytest.raises(InvalidArgumentError):
            await client.audit({"app-1": value})
    with pytest.raises(InvalidArgumentError):
        StoredToken(access_token=Secret("invented"), expires_at=value)
    with pytest.raises(InvalidArgumentError):
        Emulator(1, start=value)


def test_a_stored_token_may_expire_at_a_time_of_another_library() -> None:
    stored = StoredToken(
        access_token=Secret("invented"),
        expires_at=IntervalTime(2026, 6, 1, 12, tzinfo=UTC),
    )
    assert type(stored.expires_at) is datetime
    assert stored.expires_at == datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_an_emulator_may_start_at_a_time_of_another_library() -> None:
    assert Emulator(1, start=IntervalTime(2026, 6, 1, 12)).now == NOON


@pytest.mark.parametrize("hour", [0, 12])
def test_local_mean_time_is_refused(hour: int) -> None:
    """``datetime(..., tzinfo=pytz.timezone(...))`` is 56 minutes too late in summer."""
    with pytest.raises(InvalidArgumentError, match="zoneinfo"):
        service_second(
            datetime(2026, 6, 1, hour, tzinfo=ZoneOfOffsets()), UTC, rounding=Rounding.DOWN
        )


def test_a_zone_without_offsets_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="service_timezone"):
        IncomeClient(
            "http://127.0.0.1:1",
            auth=BasicAuth("user", "secret"),
            service_timezone=ZoneWithoutRules(),
        )


@pytest.mark.parametrize(
    "offset",
    ["+04:60", "+04:99", "-00:75", "+0460", "+04:00:60", "+24:00", "+23:59:60.5"],
)
@pytest.mark.parametrize("separator", "T ")
def test_an_offset_with_sixty_minutes_is_no_time(offset: str, separator: str) -> None:
    """Python reads +04:60 as +05:00: a misspelt bound would move by up to an hour."""
    with pytest.raises(ValueError):  # noqa: PT011
        parse_iso_time(f"2024-02-03{separator}01:23:45{offset}")
    with pytest.raises(InvalidArgumentError):
        service_second(f"2024-02-03{separator}01:23:45{offset}", UTC, rounding=Rounding.DOWN)


@pytest.mark.parametrize("offset", ["", "Z", "+04:59", "-23:59", "+0459", "+04", "+04:30:59.6"])
def test_an_offset_below_sixty_minutes_is_read(offset: str) -> None:
    text = f"2024-02-03T01:23:45{offset}"
    assert parse_iso_time(text) == datetime.fromisoformat(text)
