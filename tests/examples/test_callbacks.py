# test_callbacks.py
# pip install pytest pytest-asyncio
import pytest

from income_client import BasicAuth, Callback, CallbackBasicAuth
from income_client.emulator import CallbackTarget, Emulator
from income_client.receivers import CallbackReceiver
from income_client.receivers.aiohttp import routes
from income_client.receivers.aiohttp_server import serving
from income_client.testing import JumpingClock

PAIR = ("service", "invented-password")


@pytest.mark.asyncio
async def test_a_callback_is_stored_after_a_failure() -> None:
    failures, stored = [OSError("the database is away")], []

    async def store(callback: Callback) -> None:
        if failures:
            raise failures.pop()
        stored.append(callback.application_id)

    receiver = CallbackReceiver(store, auth=CallbackBasicAuth(*PAIR))
    served = serving(routes(receiver, "/callbacks"), host="127.0.0.1", port=0)
    async with served as url, Emulator(applications=3, clock=JumpingClock()) as service:
        service.callbacks = CallbackTarget(f"{url}/callbacks", auth=BasicAuth(*PAIR))
        delivery = await service.fire_callback(service.world.ids[0], "extractions")
    assert delivery.attempts == (503, 200)
    assert stored == [service.world.ids[0]]
