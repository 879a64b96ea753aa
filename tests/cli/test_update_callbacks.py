"""Callbacks beside updates: what becomes of one that cannot be fired."""

import asyncio

import pytest

from income_client.cli.callbacks.updates import UpdateCallbacks
from income_client.emulator import CallbackTarget, Emulator
from income_client.errors import ConfigurationError


async def fire_and_wait(service: Emulator, application_id: str) -> None:
    """Tell of one update, and then do what never ends."""
    async with UpdateCallbacks(service) as told:
        told.fire(application_id)
        await asyncio.Event().wait()


async def test_what_cannot_be_fired_ends_what_happens_beside_it() -> None:
    """An exception is nobody's secret: it ends the block, and comes out of it."""
    tasks = asyncio.all_tasks()
    target = CallbackTarget("http://127.0.0.1:9/")
    async with Emulator(1, callbacks=target) as service:
        with pytest.raises(ExceptionGroup) as caught:
            await fire_and_wait(service, "nobody")
    assert [type(one) for one in caught.value.exceptions] == [ConfigurationError]
    assert asyncio.all_tasks() <= tasks
