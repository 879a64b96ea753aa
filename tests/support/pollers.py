"""Pollers that a test stops at any step, and consumers of what they deliver."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import aiohttp
import pytest
from attrs import define, field

from income_client import (
    Batch,
    CheckpointStore,
    DeadLetter,
    IncomeClient,
    MemoryCheckpointStore,
    Poller,
    StoredCheckpoint,
)
from income_client.polling.reading import PollSource


@define
class Gate:
    """Lets so many steps pass, then holds everybody who comes."""

    left: int = 0
    held: list["asyncio.Future[None]"] = field(factory=list)

    async def step(self, *_: object) -> None:
        """Pass, or wait to be let through; a hook of aiohttp as well."""
        while self.left <= 0:
            waiter = asyncio.get_running_loop().create_future()
            self.held.append(waiter)
            await waiter
        self.left -= 1

    def open(self, steps: int) -> None:
        self.left = steps
        for waiter in self.held:
            if not waiter.done():
                waiter.set_result(None)
        self.held.clear()

    def hooks(self) -> aiohttp.TraceConfig:
        """Return hooks that make each request of a client a step, and its reply another."""
        traces = aiohttp.TraceConfig()
        traces.on_request_start.append(self.step)
        traces.on_request_end.append(self.step)
        return traces


@define
class StandingClock:
    """A clock that stands still; who sleeps on it waits until it is moved."""

    now: float = 0.0
    sleepers: list[tuple[float, "asyncio.Future[None]"]] = field(factory=list)
    renewers: set["asyncio.Future[None]"] = field(factory=set)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.now + seconds, waiter))
        task = asyncio.current_task()
        if task is not None and task.get_name() == "income_client lease renewal":
            self.renewers.add(waiter)
        await waiter

    @property
    def is_slept_on(self) -> bool:
        """Whether somebody waits for it to move, the renewal of a lease aside."""
        return any(not one.done() and one not in self.renewers for _, one in self.sleepers)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for until, waiter in self.sleepers:
            if until <= self.now and not waiter.done():
                waiter.set_result(None)
                self.renewers.discard(waiter)
        self.sleepers = [(until, w) for until, w in self.sleepers if not w.done()]


@define(kw_only=True)
class GatedStore:
    """A store each of whose calls is two steps, and that reports what was saved."""

    gate: Gate
    saved: Callable[[str], Awaitable[None]]
    store: CheckpointStore = field(factory=MemoryCheckpointStore)

    async def load(self, name: str) -> StoredCheckpoint:
        await self.gate.step()
        stored = await self.store.load(name)
        await self.gate.step()
        return stored

    async def save(self, name: str, checkpoint: str, **changes: Any) -> int:
        await self.gate.step()
        new = await self.store.save(name, checkpoint, **changes)
        await self.saved(checkpoint)
        await self.gate.step()
        return new

    async def dead_letters(self, name: str) -> Sequence[DeadLetter]:
        await self.gate.step()
        return await self.store.dead_letters(name)


@define(kw_only=True)
class Life:
    """One poller from its start to its end, with a client of its own, and its consumer."""

    client: IncomeClient
    poller: Poller
    gate: Gate
    clock: StandingClock
    deliver: Callable[["Life", Batch], None]
    task: "asyncio.Task[None] | None" = None
    seen: set[bytes] | None = None
    """Versions that it must not deliver again; None before its first batch."""

    async def turn(self, steps: int) -> None:
        """Let so many steps pass, and then whatever needs none."""
        self.gate.open(steps)
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._consume())
        async with asyncio.timeout(20):
            # Whether a socket has something to say is known once the loop has looked.
            while not (  # noqa: ASYNC110 - sockets have no event
                self.task.done() or self.gate.held or self.clock.is_slept_on
            ):
                await asyncio.sleep(0)

    async def die(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
        await self.client.aclose()

    async def _consume(self) -> None:
        async for batch in self.poller.batches():
            async with batch:
                self.deliver(self, batch)
                await self.gate.step()


@contextlib.contextmanager
def poll_sizes(*, page: int = 1000, batch: int = 100) -> Iterator[None]:
    """Have the pollers that are made meanwhile ask for smaller pages, and make smaller batches."""
    with pytest.MonkeyPatch.context() as patch:
        source = partial(PollSource, limit=page, batch_size=batch)
        patch.setattr("income_client.polling.reading.PollSource", source)
        yield
