"""Records that cannot be read: which become dead letters, and when it is the service that fails."""

import asyncio
import math
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from income_client import Batch, Poller, RetryPolicy
from income_client.emulator import Fault
from tests.support.polling import Scene, first, ids_of, reached, rest, scene
from tests.support.service import NOW, until

GONE: dict[str, Any] = {"kind": "status", "status": 404}
BROKEN: dict[str, Any] = {"kind": "body", "body": b'{"application_id": 7}'}
FAILING: dict[str, Any] = {"kind": "status", "status": 500}
LATE: dict[str, Any] = {"kind": "stall"}


def spoil(place: Scene, *ids: str, times: int | None = None, **fault: Any) -> None:
    """Have the service fail for applications."""
    for one in ids:
        path = f"/v1/income/applications/{one}"
        place.service.faults.add(Fault(path=path, times=times, **fault))


def asked_for(place: Scene, one: str) -> int:
    """Return how often an application was asked for."""
    return sum(request.path.endswith(one) for request in place.service.requests)


def is_held_up_by(place: Scene, one: str, times: int) -> bool:
    """Return whether the only call under way is for an application asked for so often."""
    return asked_for(place, one) == times and len(place.client._session.deadlines.running) == 1


def expire(place: Scene) -> None:
    """Have the time of the only call under way be up, however long the others took."""
    (deadline,) = place.client._session.deadlines.running
    deadline.expire(math.inf)


@pytest.mark.parametrize(
    ("fault", "attempts"),
    [(GONE, 2), (BROKEN, 2), (FAILING, 3), (LATE, 1)],
    ids=["gone", "broken", "failing", "late"],
)
@pytest.mark.parametrize("is_alone", [False, True], ids=["among-others", "alone"])
async def test_after_so_many_attempts_a_record_is_given_up(
    fault: dict[str, Any], attempts: int, is_alone: bool
) -> None:
    """What hangs is tried once, since it holds up the others; what may be the service, thrice.

    Also where nothing else is updated: the others are in the list all the same.
    """
    async with scene() as place:
        bad, *others = place.touch(1) if is_alone else place.touch(1, 2, 3)
        spoil(place, bad, **fault)
        place.service.advance(10)
        polling = asyncio.create_task(rest(place.poll()))
        if fault is LATE:
            for times in range(1, 3 if is_alone else 2):
                await until(partial(is_held_up_by, place, bad, times))
                expire(place)
        assert sorted(ids_of(await polling)) == sorted(others)
        (letter,) = await place.store.dead_letters("default")
        assert (letter.application_id, letter.attempts) == (bad, attempts)
        assert await reached(place) > NOW


async def test_the_only_application_of_a_service_is_not_given_up() -> None:
    """Nothing else can show whether the service works."""
    async with scene(1) as place:
        (updated,) = place.touch(0)
        spoil(place, updated, times=40, **FAILING)
        place.service.advance(10)
        poller = place.poll()
        assert ids_of(await first(poller, 1)) == [updated]
        assert await place.letters() == []


async def test_one_that_was_read_shows_that_the_service_works() -> None:
    """It is asked for once more, not delivered, and the list is not needed; until it is gone."""
    async with scene() as place:
        poller = place.poll()
        (witness,) = place.touch(1)
        assert ids_of(await first(poller, 1)) == [witness]
        await rest_of(place, poller)
        for bad, is_listed in ((2, False), (3, True)):
            (failing,) = place.touch(bad)
            spoil(place, failing, **FAILING)
            if is_listed:
                spoil(place, witness, **GONE)
            asked = asked_for(place, witness)
            await rest_of(place, poller)
            assert failing in await place.letters()
            assert asked_for(place, witness) > asked


async def test_a_service_that_refuses_to_list_others_does_not_end_the_poller() -> None:
    """Without another to compare with, the one that failed is asked for again."""
    async with scene() as place:
        listed = Fault("status", status=400, path="/v1/income/applications", skip=1, times=1)
        (updated,) = place.touch(1)
        spoil(place, updated, times=4, **FAILING)
        place.service.faults.add(listed)
        place.service.advance(10)
        assert ids_of(await rest(place.poll())) == [updated]
        assert [request.status for request in place.service.requests].count(400) == 1


async def rest_of(place: Scene, poller: Poller) -> None:
    """Have a poller poll until it is done with all that was updated."""
    place.service.advance(10)
    waiting = asyncio.create_task(anext(poller, None))
    done = poller.status.polls
    await until(lambda: poller.status.polls > done)
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_what_failed_waits_until_the_others_are_read() -> None:
    """The first hundred are delivered without a pause for the one among them that fails."""
    async with scene(120) as place:
        place.client = place.client.with_options(retry=RetryPolicy(max_attempts=1))
        place.touch(*range(110))
        poller = place.poll()
        place.service.advance(10)
        spoil(place, place.ids[7], times=1, **FAILING)
        sizes = [len(batch) async for batch in stopping(poller)]
        assert sizes == [99, 11]


async def stopping(poller: Poller) -> AsyncIterator[Batch]:
    """Iterate over the batches of one poll, and commit them."""
    poller.stop(after_poll=True)
    async for batch in poller.batches():
        async with batch:
            yield batch
