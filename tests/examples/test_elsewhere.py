# test_elsewhere.py
# pip install pytest pytest-asyncio
import pytest

from income_client import IncomeClient
from income_client.emulator import RemoteEmulator


@pytest.mark.asyncio
async def test_a_walk_survives_a_fault(income_emulator: RemoteEmulator) -> None:
    await income_emulator.add_faults("list_applications: 503")
    async with IncomeClient(income_emulator.url, auth=income_emulator.oauth2) as client:
        ids = {row.application_id async for row in client.list_applications()}
    assert len(ids) == (await income_emulator.state()).applications
    first, *_ = [each for each in await income_emulator.requests() if each.page]
    assert first.fault == "status"
