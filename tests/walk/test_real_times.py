"""A walk over times at which something really happened is complete, and asks little."""

import gzip
from bisect import bisect_left, bisect_right
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest

from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import EPOCH
from income_client.walk.planner import WalkPlanner
from income_client.walk.windows import Answer, Bounds

DATA = Path(__file__).parents[2] / "benchmarks" / "data"
LIMIT = 1000
DAY = 86_400


@pytest.mark.parametrize(
    ("dated", "listed", "walkers", "most"),
    [
        ("a day before", "in no order", 1, 68),
        ("a day before", "in no order", 8, 78),
        ("a day before", "oldest first", 8, 116),
        ("a day before", "newest first", 1, 124),
        ("at any time", "in no order", 1, 92),
    ],
)
def test_a_walk_over_real_times_asks_little(
    dated: str, listed: str, walkers: int, most: int
) -> None:
    """Some 40 full pages would hold all commits of aiohttp."""
    steps = gzip.decompress((DATA / "aiohttp.txt.gz").read_bytes()).split()
    seconds = list(accumulate(map(int, steps)))
    chance = Random(7)
    back = [DAY if dated == "a day before" else chance.randrange(2000 * DAY) for _ in seconds]
    planner = WalkPlanner(Bounds(seconds[0] - 1, seconds[-1] + 1), limit=LIMIT, walkers=walkers)
    found: set[str] = set()
    in_flight = []
    while not planner.is_finished:
        while (question := planner.next()) is not None:
            in_flight.append(question)
        question = in_flight.pop(0)
        before = question.bounds.before or seconds[-1] + DAY
        first = bisect_left(seconds, question.bounds.after)
        numbers: list[int] = list(range(first, bisect_right(seconds, before)))
        match listed:
            case "oldest first":
                numbers = numbers[:LIMIT]
            case "newest first":
                numbers = numbers[-LIMIT:]
            case _ if len(numbers) > LIMIT:
                numbers = chance.sample(numbers, LIMIT)
        page = ApplicationPage(
            updated_after=EPOCH + timedelta(seconds=question.bounds.after),
            updated_before=EPOCH + timedelta(seconds=before),
            applications=tuple(
                ApplicationSummary(
                    application_id=str(number),
                    application_reference_id=str(number),
                    application_date=EPOCH + timedelta(seconds=seconds[number] - back[number]),
                )
                for number in numbers
            ),
        )
        planner.receive(question, Answer.of(page, LIMIT, seconds[-1] + 30 * DAY))
        while planner.ready:
            delivery = planner.ready.popleft()
            found.update(row.application_id for row in delivery.page.applications)
    assert len(found) == len(seconds)
    assert planner.requests <= most
