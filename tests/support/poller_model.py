"""A poller without a socket: the emulator's world answers, and a gate stops it at each step.

Every call to the service or to the store passes the gate before and after it is
made, so that a test can end the poller between any two of them.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, timedelta, tzinfo
from typing import Final

from attrs import define, field, frozen

from income_client import (
    Application,
    Batch,
    DataSources,
    IncomeClientError,
    InvalidRequestError,
    NotFoundError,
    Poller,
    ServerError,
)
from income_client.emulator import ListReply, Refused, World, list_reply
from income_client.listing import ListReply as Listed
from income_client.poll_source import PollSource
from income_client.protocol.checkpoint import read_checkpoint
from income_client.protocol.questions import Bounds
from income_client.protocol.versions import DIGEST_BYTES, RecordVersion
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.documents import ApplicationRecord
from income_client.records.window import EPOCH
from income_client.session import SessionManager
from tests.support.pollers import Gate, StandingClock

_STILL: Final = 6
"""Turns of the loop after which somebody who is held is taken to be held."""
BASE: Final = 1_700_000_000
"""The second at which the worlds of these tests begin."""


@frozen(kw_only=True)
class ModelSource(PollSource):
    """Asks the world in place of a session, and fails as it is told."""

    session: SessionManager = None  # type: ignore[assignment]
    zone: tzinfo = UTC
    documents: bool = False
    pages: bool = False
    concurrency: int = 1
    world: World
    gate: Gate
    limit: int
    tells_time: bool = True
    lie: int = 0
    """Seconds by which records are wrong about their own update."""
    gone: set[str] = field(factory=set)
    failing: set[str] = field(factory=set)
    is_down: list[bool] = field(factory=lambda: [False])

    async def ask(self, bounds: Bounds | None, *, limit: int | None = None) -> Listed:
        """Answer a list call."""
        await self.gate.step()
        world = self.world
        after, before = (None, None) if bounds is None else (bounds.after, bounds.before)
        reply = list_reply(
            world, world.rules, after=after, before=before, limit=limit or self.limit
        )
        listed = self._listed(reply)
        await self.gate.step()
        if self.is_down[0]:
            raise ServerError("list_applications: 503", status=503)
        if listed is None:
            raise InvalidRequestError("list_applications: 400", status=400)
        return listed

    async def read(self, ids: tuple[str, ...]) -> dict[str, RecordVersion | IncomeClientError]:
        """Read applications as they are now."""
        await self.gate.step()
        results = {one: self._read(one) for one in ids}
        await self.gate.step()
        return results

    def _listed(self, reply: ListReply | Refused) -> Listed | None:
        if isinstance(reply, Refused):
            return None
        rows = tuple(
            ApplicationSummary(
                application_id=one,
                application_reference_id=one,
                application_date=EPOCH,
            )
            for one in reply.ids
        )
        page = ApplicationPage(
            updated_after=EPOCH + timedelta(seconds=reply.after),
            updated_before=EPOCH + timedelta(seconds=reply.before),
            applications=rows,
        )
        now = self.world.now + self.world.rules.clock_offset
        return Listed(page, now if self.tells_time else None)

    def _read(self, one: str) -> RecordVersion | IncomeClientError:
        if one in self.gone:
            return NotFoundError(f"get_application({one}): 404", status=404)
        if self.is_down[0] or one in self.failing:
            return ServerError(f"get_application({one}): 500", status=500)
        number = self.world.number_of(one)
        assert number is not None
        second = self.world.updated_second(number) + self.lie
        return version_of(one, self.world.history(number).version, second)


def version_of(application_id: str, version: int, second: int) -> RecordVersion:
    """Return an application as it reads in one of its versions."""
    application = Application(
        application_id=application_id,
        last_updated_at=(EPOCH + timedelta(seconds=second)).replace(tzinfo=UTC),
        application_reference_id=f"{version}",
        application_date=EPOCH,
        applicants={},
        income_calculations={},
        data_sources=DataSources(image_files=(), structured_data=()),
    )
    record = ApplicationRecord(application=application, documents=None)
    content = f"{application_id} {version}".encode()
    return RecordVersion(record, hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest())


@define(kw_only=True)
class Life:
    """One poller from its start to its end, and its consumer."""

    poller: Poller
    gate: Gate
    clock: StandingClock
    deliver: Callable[["Life", Batch], None]
    known: dict[str, int] | None = None
    """The version of each application that it must not deliver again."""
    task: "asyncio.Task[None] | None" = None

    def run(self) -> "asyncio.Task[None]":
        """Let the consumer run, if it does not do so already."""
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._consume())
        return self.task

    async def turn(self, steps: int) -> None:
        """Let so many steps pass, and then whatever needs none."""
        self.gate.open(steps)
        task, still = self.run(), 0
        while still < _STILL and not task.done():
            await asyncio.sleep(0)
            is_held = self.gate.held or self.clock.is_slept_on
            still = still + 1 if is_held else 0

    async def die(self) -> None:
        """End it where it is."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])

    async def _consume(self) -> None:
        batches: AsyncGenerator[Batch, None] = self.poller.batches()
        async for batch in batches:
            async with batch:
                self.deliver(self, batch)
                await self.gate.step()


def reached_by(text: str) -> int:
    """Return the second that a checkpoint's text has come to."""
    return read_checkpoint(text).reached
