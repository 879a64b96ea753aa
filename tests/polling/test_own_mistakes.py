"""Mistakes in the program come out of a poller; they are not failures of the service."""

import pytest

from income_client.testing import JumpingClock
from tests.support.polling import first, scene


class BrokenClock(JumpingClock):
    """A clock with a mistake in it, which shows at its first long pause."""

    async def sleep(self, seconds: float) -> None:
        """Sleep, or fail as wrong code does."""
        if seconds > 20:
            raise AttributeError("no such attribute")
        await super().sleep(seconds)


async def test_wrong_code_is_not_retried() -> None:
    """Its error comes out as it is, and the poller may be used again."""
    async with scene(clock=BrokenClock()) as place:
        poller = place.poll()
        for _ in range(2):
            with pytest.raises(AttributeError, match="no such attribute"):
                await first(poller, 1)
        assert poller.status.failures == 0
        updated = place.touch(1)
        poller.wake()
        assert [one.application_id for one in await first(poller, 1)] == updated
