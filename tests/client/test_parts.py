"""Parts of a span in the eyes of their caller: read, resumed, written down, and refused."""

from collections import Counter
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from attrs import evolve

from income_client import (
    BasicAuth,
    CheckpointError,
    ConfigurationError,
    IncomeClient,
    InvalidRequestError,
    SpanPart,
    UnexpectedResponseError,
    split_span,
)
from income_client.emulator import Emulator, Fault
from tests.support.listing import ListService, Rules, rows_at, serving, text_of
from tests.support.service import ids_of, list_queries, served
from tests.support.walk_data import BASE

NOON = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - the service's times carry no zone
PART = SpanPart(
    number=2,
    of=3,
    updated_after=datetime(2026, 6, 1),  # noqa: DTZ001 - as above
    updated_before=NOON,
    estimated_applications=5,
)
LINE = PART.to_json()


@pytest.fixture
def client() -> IncomeClient:
    """A client that no test lets send anything."""
    return IncomeClient("http://127.0.0.1:9", auth=BasicAuth("user", "password"))


async def test_parts_are_read_by_clients_of_their_own() -> None:
    """Each part goes through a line of JSON to another client, and its records are fetched."""
    async with Emulator(applications=3_000, seed=3, pattern="bursts") as service:
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            parts = await split_span(client, parts=3)
        assert len(list_queries(service)) < 4 * 31
        found = Counter[str]()
        for line in [part.to_json() for part in parts]:
            async with IncomeClient(service.url, auth=service.oauth2) as client:
                rows = client.list_applications(part=SpanPart.from_json(line))
                records = client.fetch_records(rows, documents=False)
                found.update([record.application_id async for record in records])
        assert found == Counter(service.world.ids)
    assert [part.number for part in parts] == [1, 2, 3, 4]
    assert sum(part.estimated_applications for part in parts) == pytest.approx(3_000, rel=0.3)


@pytest.mark.parametrize("stop", [1, 7, 40])
async def test_a_part_that_was_stopped_resumes(stop: int) -> None:
    """What its checkpoint covers does not come again, and nothing is missing."""
    times = [BASE + number // 9 for number in range(9_000)]
    service = ListService(rows=rows_at(times), now=BASE + 10**6, rules=Rules())
    async with serving(service) as client:
        first, part = await split_span(client, text_of(BASE - 1), text_of(BASE + 2_000), 2)
        truth = set(await ids_of(client.list_applications(part=part)))
        walk = client.list_applications(part=part, concurrency=1)
        before = set()
        async for page in walk.pages():
            before |= {row.application_id for row in page.applications}
            stop -= 1
            if not stop:
                break
        # The page that was handed out last was not acknowledged.
        walk = client.list_applications(part=part, resume=walk.checkpoint)
        after = await ids_of(walk)
        with pytest.raises(CheckpointError):
            client.list_applications(part=first, resume=walk.checkpoint)
    assert len(after) == len(set(after))
    assert before | set(after) == truth


async def test_a_cut_that_filled_up_is_reported() -> None:
    """Rows that appear at a cut afterwards could be in no part: it says so, and reads nothing."""
    times = [BASE + number * 60 for number in range(3_000)]
    service = ListService(rows=rows_at(times), now=BASE + 10**6, rules=Rules())
    async with serving(service) as client:
        _, part = await split_span(client, text_of(BASE - 1), text_of(BASE + 200_000), 2)
        assert part.updated_after is not None
        cut = int(part.updated_after.replace(tzinfo=UTC).timestamp())
        service.rows.update({f"late-{number}": cut for number in range(1_000)})
        with pytest.raises(UnexpectedResponseError, match="split the span again") as caught:
            await ids_of(client.list_applications(part=part))
    assert not caught.value.retryable


async def test_where_rows_lie_too_close_there_are_fewer_parts() -> None:
    """A span whose every second fills a page cannot be cut."""
    times = [BASE + number // 600 for number in range(6_000)]
    rules = Rules(lower_closed=True, upper_closed=True)
    service = ListService(rows=rows_at(times), now=BASE + 10**6, rules=rules)
    async with serving(service) as client:
        parts = await split_span(client, text_of(BASE - 1), text_of(BASE + 12), 4)
        found = [await ids_of(client.list_applications(part=part)) for part in parts]
    assert len(parts) < 4
    assert Counter(one for each in found for one in each) == Counter(service.ids)


@pytest.mark.parametrize("after", [None, "2026-06-30T11:59:30"])
async def test_a_span_up_to_the_present_ends_with_a_part_that_is_read_last(
    after: str | None,
) -> None:
    """It begins a minute before the present, or with a span that is younger."""
    async with served(50) as (service, client):
        *others, last = await split_span(client, after, parts=1)
        assert last.read_last
        assert len(others) == (after is None)
        service.advance(7)
        moved = service.world.ids[0]
        service.touch(moved)
        found = await ids_of(client.list_applications(part=last))
    assert moved in found


@pytest.mark.parametrize(
    ("zone", "seconds"), [(UTC, 60), (ZoneInfo("UTC"), 60), (ZoneInfo("America/New_York"), 3_660)]
)
async def test_where_clocks_are_set_back_the_last_part_begins_an_hour_earlier(
    zone: tzinfo, seconds: int
) -> None:
    """What is updated in the hour that comes twice is listed in it as well."""
    async with Emulator(applications=50) as service:
        options: dict[str, Any] = {"auth": service.oauth2, "service_timezone": zone}
        async with IncomeClient(service.url, **options) as client:
            present = await client.service_time()
            *_, last = await split_span(client)
    assert last.updated_after == present.replace(tzinfo=None) - timedelta(seconds=seconds)


async def test_a_part_is_read_with_its_own_bounds_only(client: IncomeClient) -> None:
    """Other bounds, a smaller limit and another thing in its place are refused at once."""
    for wrong in ({"updated_after": NOON}, {"updated_before": NOON}, {"limit": 999}):
        options: dict[str, Any] = wrong
        with pytest.raises(ConfigurationError, match="part"):
            client.list_applications(part=PART, **options)
    text: Any = LINE
    with pytest.raises(ConfigurationError, match="part must be SpanPart"):
        client.list_applications(part=text)


@pytest.mark.parametrize("parts", [0, -1, 1_001, True, 2.5])
async def test_a_number_of_parts_that_makes_no_sense_is_refused(
    parts: Any, client: IncomeClient
) -> None:
    """Nothing is sent."""
    with pytest.raises(ConfigurationError, match="parts must be"):
        await split_span(client, parts=parts)


async def test_a_refused_page_around_a_cut_is_raised() -> None:
    """The service's own refusal is not mistaken for an end of the list."""
    async with served(50) as (service, client):
        _, last = await split_span(client, parts=1)
        service.faults.add(Fault("status", status=400, times=1))
        with pytest.raises(InvalidRequestError):
            await ids_of(client.list_applications(part=last))
        assert await ids_of(client.list_applications(part=last)) == []


def test_a_line_comes_back_whole() -> None:
    """Bounds that are unset are null, and the line ends do not matter."""
    for part in (
        PART,
        evolve(PART, number=1, updated_after=None),
        evolve(PART, number=3, updated_before=None, read_last=True),
    ):
        assert SpanPart.from_json(part.to_json()) == part
        assert SpanPart.from_json(part.to_json().encode() + b"\r\n") == part
    assert str(evolve(PART, number=1, updated_after=None)).startswith("part 1 of 3, the beginning")


@pytest.mark.parametrize(
    "line",
    [
        "", "null", "[]", "{", "{}", "[" * 5_000, b"\xff", LINE * 2, LINE.replace("2", '"2"', 1),
        LINE.replace('"span_part":1', '"span_part":0'),
        LINE.replace('"span_part":1', '"span_part":true'),
        LINE.replace('"number":2', '"number":4'),
        LINE.replace('"number":2', '"number":true'),
        LINE.replace('"number":2', '"number":2.0'),
        LINE.replace('"of":3', '"of":3,"more":1'),
        LINE.replace('"of":3,', ""),
        LINE.replace("2026-06-01T00:00:00", "2026-06-01T00:00:00Z"),
        LINE.replace("2026-06-01T00:00:00", "2026-06-01T00:00:00.5"),
        LINE.replace("2026-06-01T00:00:00", "2026-06-01"),
        LINE.replace("2026-06-01T00:00:00", "2026-07-01T00:00:00"),
        LINE.replace('"2026-06-01T00:00:00"', "null"),
        LINE.replace('"2026-06-30T12:00:00"', "null"),
        LINE.replace('"read_last":false', '"read_last":true'),
        LINE.replace('"read_last":false', '"read_last":0'),
        LINE.replace(":5,", ":-5,"),
    ],
)  # fmt: skip
def test_other_lines_are_refused(line: str | bytes) -> None:
    """What no split has written is never read as something else."""
    with pytest.raises(ConfigurationError):
        SpanPart.from_json(line)


def test_a_line_of_a_newer_version_says_so() -> None:
    """It is not taken for damage."""
    with pytest.raises(ConfigurationError, match="newer version"):
        SpanPart.from_json(LINE.replace('"span_part":1', '"span_part":2,"shard":0'))
