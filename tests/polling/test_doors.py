"""The ways out of a poller: its errors leave without the frames that read records."""

from collections.abc import Awaitable, Callable

import pytest

from income_client import CheckpointError, IncomeClientError
from tests.support.leaks import package_frames
from tests.support.polling import FailingStore, first, scene, take


@pytest.mark.parametrize("way", ["records", "batches", "commit", "block"])
async def test_an_error_leaves_without_the_frames_of_the_poller(way: str) -> None:
    """They hold what was being read, and crash reporters send the locals of frames."""
    async with scene() as place:
        place.store = store = FailingStore()
        place.touch(1)
        poller = place.poll()
        batch = await take(poller)
        store.error, store.failures = CheckpointError("the store is damaged"), 2
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "records": lambda: first(place.poll(), 1),
            "batches": lambda: take(place.poll()),
            "commit": batch.commit,
            "block": lambda: batch.__aexit__(None, None, None),
        }
        with pytest.raises(IncomeClientError) as caught:
            await ways[way]()
    assert package_frames(caught.value) == []
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
