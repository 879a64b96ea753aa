"""The service and the client that most tests of polling begin with."""

from collections.abc import AsyncIterator

import pytest

from tests.support.polling import Scene, scene


@pytest.fixture
async def place() -> AsyncIterator[Scene]:
    """Run a service of twenty applications on a clock that jumps; nothing of it is left."""
    async with scene() as place:
        yield place
