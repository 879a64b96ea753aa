"""Fetching keeps the order and its bounds, whatever the requests take."""

import asyncio
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from income_client import Fetcher
from tests.support.service import client_tasks, streamed


class Requests:
    """Stands for requests that take as many turns of the loop as chance says.

    Attributes:
        begun: ids asked for, in order.
        most: requests that were under way at a time, at the most.
    """

    def __init__(self, chance: Random) -> None:
        self.begun: list[str] = []
        self.most = 0
        self._under_way = 0
        self._chance = chance

    async def ask(self, application_id: str) -> str:
        """Answer with the id itself, some time later."""
        self.begun.append(application_id)
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            for _ in range(self._chance.randrange(20)):
                await asyncio.sleep(0)
        finally:
            self._under_way -= 1
        return application_id

    def fetch(self, applications: Any, *, concurrency: int, parts: int = 1) -> Fetcher[list[str]]:
        """Fetch so many parts of each application."""
        return Fetcher(
            applications,
            calls=(self.ask,) * parts,
            assemble=lambda *answers: list(answers),
            concurrency=concurrency,
            on_error="raise",
        )


@given(
    size=st.integers(0, 40),
    concurrency=st.integers(1, 9),
    parts=st.integers(1, 3),
    seed=st.integers(0, 999),
    is_asynchronous=st.booleans(),
)
def test_order_and_bound_hold_for_any_shape(
    size: int, concurrency: int, parts: int, seed: int, is_asynchronous: bool
) -> None:
    """Results come in input order and never more than ``concurrency`` requests are under way."""

    async def fetch() -> None:
        requests = Requests(Random(seed))
        ids = [str(number) for number in range(size)]
        source: Any = streamed(ids) if is_asynchronous else iter(ids)
        fetcher = requests.fetch(source, concurrency=concurrency, parts=parts)
        found = []
        async for answers in fetcher:
            found.append(answers)
            # Work goes on behind a slow consumer, up to the look-ahead.
            assert len(requests.begun) <= (len(found) + 2 * concurrency) * parts
        assert found == [[one] * parts for one in ids]
        assert requests.most <= concurrency
        assert client_tasks() == set()

    asyncio.run(fetch())
