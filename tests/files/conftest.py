"""What most tests of files begin with."""

from collections.abc import AsyncIterator

import pytest

from tests.support.downloads import Scene, scene


@pytest.fixture
async def play() -> AsyncIterator[Scene]:
    """A service, a client on it, and a clock that jumps."""
    async with scene() as played:
        yield played
