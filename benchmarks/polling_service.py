"""A service in another process whose applications are updated evenly; knows no poller.

Each is updated in its turn, so that no version is gone before a poll can see it.
"""

import asyncio
import enum
from multiprocessing.connection import Connection
from typing import Any, Final, assert_never

from attrs import define, frozen

from income_client.emulator import Emulator

from .fast_clock import FastClock
from .processes import ServiceProcess, Started

BEGINNING: Final = "2026-06-30T12:00:01"
"""A second of the service before its first update, and after all that it began with."""

_DELAY: Final = 2.0


class _Ask(enum.Enum):
    COUNTS = "counts"
    REST = "rest"


@frozen(kw_only=True)
class Asked:
    """What the service was asked, and how often it changed, since it was started."""

    lists: int
    """List calls, the one aside that only tells the time."""
    applications: int
    """Applications read."""
    documents: int
    """Times that the documents of an application were read."""
    versions: int
    """Updates made."""

    def since(self, before: "Asked") -> "Asked":
        """Return what was added to an earlier count."""
        return Asked(
            lists=self.lists - before.lists,
            applications=self.applications - before.applications,
            documents=self.documents - before.documents,
            versions=self.versions - before.versions,
        )


class LivingService(ServiceProcess):
    """A service that is updated all the time, until the block is left.

    Args:
        rate: updates in one of its seconds.
        speed: its seconds in one of the machine's.
        **knobs: arguments of `Emulator`.
    """

    def __init__(self, *, rate: float, speed: float, **knobs: Any) -> None:
        super().__init__(_serve, rate, speed, knobs)

    def asked(self) -> Asked:
        """Return what it was asked so far."""
        asked: Asked = self.ask(_Ask.COUNTS)
        return asked

    def rest(self) -> None:
        """Update nothing any more."""
        self.ask(_Ask.REST)


@define
class _Updates:
    service: Emulator
    clock: FastClock
    rate: float
    made: int = 0
    rests: bool = False

    async def make(self) -> None:
        ids = self.service.world.ids
        await self.clock.sleep(_DELAY)
        began = self.clock.monotonic()
        while not self.rests:
            self.service.touch(ids[self.made % len(ids)])
            self.made += 1
            due = began + self.made / self.rate
            await self.clock.sleep(max(0.0, due - self.clock.monotonic()))


def _serve(
    connection: "Connection[Any, Any]", rate: float, speed: float, knobs: dict[str, Any]
) -> None:
    asyncio.run(_served(connection, rate, FastClock(speed), knobs))


async def _served(
    connection: "Connection[Any, Any]", rate: float, clock: FastClock, knobs: dict[str, Any]
) -> None:
    async with Emulator(clock=clock, time_flows=True, **knobs) as service:
        secret = service.oauth2.client_secret.reveal()
        updates = _Updates(service, clock, rate)
        connection.send(Started(service.url, (service.oauth2.client_id, secret)))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(updates.make())
            await _answer(connection, updates)
            updates.rests = True


async def _answer(connection: "Connection[Any, Any]", updates: _Updates) -> None:
    while True:
        try:
            question: _Ask = await asyncio.to_thread(connection.recv)
        except EOFError:
            return
        match question:
            case _Ask.COUNTS:
                connection.send(_counted(updates))
            case _Ask.REST:
                updates.rests = True
                connection.send(None)
            case _:
                assert_never(question)


def _counted(updates: _Updates) -> Asked:
    requests = updates.service.requests
    names = [request.name for request in requests if request.query != "limit=1"]
    return Asked(
        lists=names.count("list_applications"),
        applications=names.count("get_application"),
        documents=names.count("get_documents"),
        versions=updates.made,
    )
