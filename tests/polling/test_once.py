"""A single poll: it delivers all that is new, and then the iterator ends."""

import pytest

from income_client import ServerError
from income_client.emulator import Fault
from income_client.testing import JumpingClock
from tests.support.polling import ids_of, reached, scene


@pytest.mark.parametrize("way", ["records", "batches"])
async def test_one_poll_delivers_all_that_is_new(way: str) -> None:
    """All of its batches, each application once, and no poll after it."""
    async with scene(300) as place:
        updated = place.touch(*range(250))
        place.service.advance(10)
        poller, ids = place.poll(once=True), []
        if way == "records":
            ids = [record.application_id async for record in poller]
        else:
            async for batch in poller.batches():
                async with batch:
                    ids += ids_of(batch)
        assert sorted(ids) == sorted(updated)
        assert place.requests("get_application") == 250
        assert poller.status.polls == 1


async def test_the_next_single_poll_begins_where_the_last_one_ended() -> None:
    """A job that is started now and then misses nothing, and gets nothing twice."""
    async with scene() as place:
        for numbers in ([1, 2], [], [3]):
            updated = place.touch(*numbers)
            place.service.advance(10)
            records = [record async for record in place.poll(once=True)]
            assert ids_of(records) == updated
        before = await reached(place)
        place.service.advance(60)
        assert [record async for record in place.poll(once=True)] == []
        assert await reached(place) >= before + 60


async def test_a_single_poll_that_fails_raises_its_error() -> None:
    """It is not retried beyond what the client's own policy does."""
    async with scene(clock=JumpingClock()) as place:
        place.service.faults.add(Fault("status", status=503, path="*/applications*", times=None))
        poller = place.poll(once=True)
        with pytest.raises(ServerError):
            await anext(poller)
        assert poller.status.failures == 1
