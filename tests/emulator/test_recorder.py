"""How much the emulator remembers."""

import aiohttp
import pytest

from income_client.emulator import Emulator
from income_client.emulator import emulator as server
from tests.support.emulated_calls import get_status


async def test_old_requests_are_forgotten(
    session: aiohttp.ClientSession, service: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder keeps the last requests, never more than twice as many as it promises."""
    monkeypatch.setattr(server, "_MAX_REQUESTS", 5)
    for number in range(23):
        await get_status(session, service, f"/{number}")
        assert len(service.requests) <= 10
    assert [each.path for each in service.requests[-5:]] == [f"/{n}" for n in range(18, 23)]
