"""From a callback to its record: a poller that rests for a minute, woken over HTTP.

Here nothing is sped up: what is measured are milliseconds of the machine's own clock.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from statistics import median
from typing import Final

from attrs import define, field

from income_client import IncomeClient, MemoryCheckpointStore, Poller
from income_client.emulator import Emulator
from income_client.receivers import CallbackReceiver

from .callback_load import callback_bytes, send
from .callback_scale import CallbackScale
from .callback_servers import Web, aiohttp_site, listening
from .callback_ways import Arranged, Way, arranged
from .table import Row, at_most

_INTERVAL: Final = 60.0
_PAUSE: Final = 1.1
"""Seconds; a poller is not woken sooner than one after its last poll began."""
_PATIENCE: Final = 20.0
_GOAL_MS: Final = 300.0


@define
class _Arrivals:
    """Takes the records of a poller, and notes when each came."""

    poller: Poller
    came_at: dict[str, float] = field(factory=dict)
    some: asyncio.Event = field(factory=asyncio.Event)

    async def take(self) -> None:
        """Take what comes until the poller ends."""
        async for record in self.poller:
            self.came_at[record.application_id] = time.perf_counter()
            self.some.set()

    async def of(self, application_id: str) -> float:
        """Return when the record of an application came, once it has."""
        async with asyncio.timeout(_PATIENCE):
            while application_id not in self.came_at:
                self.some.clear()
                await self.some.wait()
        return self.came_at[application_id]


async def wake(scale: CallbackScale) -> list[Row]:
    """Update applications, ring for each, and time its record's coming."""
    seconds: list[float] = []
    async with (
        Emulator(applications=200, time_flows=True) as service,
        IncomeClient(service.url, auth=service.oauth2) as client,
    ):
        poller = client.poll(MemoryCheckpointStore(), interval=_INTERVAL)
        arrivals = _Arrivals(poller)
        ringing = arranged(Way.BASIC)
        async with asyncio.TaskGroup() as tasks, _served(poller, ringing) as url:
            tasks.create_task(arrivals.take())
            while poller.status.polls == 0:  # noqa: ASYNC110 - a poller tells of it to nobody
                await asyncio.sleep(0.01)
            for number, application_id in enumerate(service.world.ids[: scale.updates]):
                await asyncio.sleep(_PAUSE)
                service.touch(application_id)
                request = callback_bytes(number, ringing.headers)
                began = time.perf_counter()
                await send(url, [request], connections=1)
                seconds.append(await arrivals.of(application_id) - began)
            poller.stop()
    milliseconds = sorted(second * 1000 for second in seconds)
    what = f"from a callback to its record, ms: median (range) of {len(seconds)}"
    shown = f"{median(milliseconds):.0f} ({milliseconds[0]:.0f} to {milliseconds[-1]:.0f})"
    return [at_most(what, median(milliseconds), _GOAL_MS, shown=shown)]


@contextlib.asynccontextmanager
async def _served(poller: Poller, ringing: Arranged) -> AsyncIterator[str]:
    receiver = CallbackReceiver(poller.wake, auth=ringing.auth)
    with listening() as listener:
        async with aiohttp_site(listener, Web.AIOHTTP, receiver):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
