"""A running emulator and a plain HTTP client."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from income_client.emulator import Emulator


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """A service of fifty applications."""
    async with Emulator(50) as emulator:
        yield emulator


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A plain HTTP client."""
    async with aiohttp.ClientSession() as opened:
        yield opened
