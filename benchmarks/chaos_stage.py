"""The play itself: a service that changes all the time, and pollers that are killed one by one."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final, Self

from attrs import define, field, frozen

from income_client import SQLiteCheckpointStore, StoredCheckpoint
from income_client.emulator import Emulator
from income_client.protocol.checkpoint import read_checkpoint
from income_client.records.window import EPOCH

from .chaos_chronicle import Chronicle
from .chaos_nursery import Lived, Nursery
from .chaos_verdict import CalmLife
from .chaos_weather import HOT, Death, Weather, forecast
from .chaos_worker import Life
from .fast_clock import FastClock

_NAME: Final = "default"
_HISTORY_HOURS: Final = 2
_LONGEST_LETTER: Final = 2 * 86_400
_QUIET_POLLS: Final = 4
_PATIENCE_SECONDS: Final = 30.0
_LONGEST_WAIT: Final = 0.8


@frozen(kw_only=True)
class Plan:
    """How long and how hard."""

    kills: int
    """Lives that end by SIGKILL."""
    seed: int = 1
    """What all chance hangs on; what happens in between still depends on the machine."""
    applications: int = 250
    """How many there are; a page of the list holds 1,000."""
    rate: float = 20.0
    """Updates in one of the machine's seconds."""
    speed: float = 10.0
    """Seconds of the service and of the poller in one of the machine's."""
    interval: float = 1.0
    """Seconds from poll to poll."""
    settle: int = 6
    """Seconds that the checkpoint stays behind."""
    long_lives: float = 0.0
    """Share of the lives that last some seconds, which a full page takes to be read."""


@define
class StoreWatch:
    """Looks at the store after each death: it must open, and must never go back."""

    _path: Path
    _settle: int
    steps_back: int = 0
    """How often its version or its checkpoint was behind what it had been."""
    steps_ahead: int = 0
    """How often its checkpoint was not `settle` behind service time."""
    letters: set[str] = field(factory=set)
    """Applications that were among the dead letters at any time."""
    longest: int = 0
    """Most letters that a checkpoint's text had."""
    _version: int = 0
    _progress: tuple[int, int] = (0, 0)

    async def look(self, now: int) -> frozenset[str]:
        """Return the applications among the dead letters."""
        store = SQLiteCheckpointStore(self._path)
        stored = await store.load(_NAME)
        self._compare(stored, now)
        letters = await store.dead_letters(_NAME)
        found = frozenset(x.application_id for x in letters if x.application_id is not None)
        self.letters |= found
        return found

    def _compare(self, stored: StoredCheckpoint, now: int) -> None:
        if stored.checkpoint is None:
            self.steps_back += self._version > 0
            return
        checkpoint = read_checkpoint(stored.checkpoint)
        is_back = stored.version < self._version or checkpoint.progress < self._progress
        self.steps_back += is_back
        self.steps_ahead += checkpoint.reached > now - self._settle
        self.longest = max(self.longest, len(stored.checkpoint))
        self._version, self._progress = stored.version, checkpoint.progress


class Stage:
    """Plays a plan; afterwards everything is there to be judged.

    Args:
        plan: what to play.
        folder: for the store and the results.

    Attributes:
        chronicle: the service's side.
        store: what was seen of the store.
        lives: how each life ended, the last two by a stop.
        calm: the lives in which nothing failed at the service.
        faults: how many of the service's replies were spoiled.
    """

    chronicle: Chronicle
    _service: Emulator
    _nursery: Nursery

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self.results = folder / "results"
        self.store = StoreWatch(folder / "store.db", plan.settle)
        self.lives: list[Lived] = []
        self.calm: list[CalmLife] = []
        self.faults = 0
        self._store_path = folder / "store.db"
        self._chance = Random(plan.seed)
        self._updates = Random(plan.seed + 1)

    @classmethod
    @contextlib.asynccontextmanager
    async def set_up(cls, plan: Plan, folder: Path) -> AsyncGenerator[Self, None]:
        """Lend a stage with a service and a source of workers."""
        stage = cls(plan, folder)
        service = Emulator(
            plan.applications,
            seed=plan.seed,
            days=_HISTORY_HOURS / 24,
            pattern="uniform",
            time_flows=True,
            clock=FastClock(plan.speed),
        )
        async with service, Nursery() as stage._nursery:
            stage._service, stage.chronicle = service, Chronicle(service)
            yield stage

    async def play(self) -> None:
        """Play all lives, and two more in which nothing is updated and nothing fails."""
        updating = asyncio.create_task(self._update())
        try:
            for number in range(self._plan.kills):
                await self._live_and_die(number)
        finally:
            updating.cancel()
            await asyncio.wait([updating])
        for number in (self._plan.kills, self._plan.kills + 1):
            await self._live_in_peace(number)
        self.chronicle.close()

    async def _live_and_die(self, number: int) -> None:
        ids = self._service.world.ids
        weather = forecast(
            self._chance,
            self._service.rules,
            ids,
            settle=self._plan.settle,
            long_lives=self._plan.long_lives,
        )
        self._set(weather)
        await self._begin(number, is_calm=weather.is_calm)
        if weather.rush:
            for one in self._updates.sample(ids, min(len(ids), weather.rush)):
                self.chronicle.touch(one)
        await self._wait_for(weather.death)
        await self._end(await self._nursery.kill())

    async def _live_in_peace(self, number: int) -> None:
        self._service.faults.clear()
        await self._begin(number, is_calm=True)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await self._quiet(number)
            if await self.store.look(self._service.now):
                self._service.advance(_LONGEST_LETTER)
                await self._quiet(number)
        await self._end(await self._nursery.stop())

    async def _begin(self, number: int, *, is_calm: bool) -> None:
        letters = await self.store.look(self._service.now)
        if is_calm:
            born = self.chronicle.moment
            self.calm.append(CalmLife(number=number, born=born, letters=letters))
        self._nursery.start(self._life(number))

    async def _end(self, lived: Lived) -> None:
        self.lives.append(lived)
        self.faults += sum(r.fault is not None for r in self._service.requests)
        self.chronicle.turn_page(lived.number)

    async def _quiet(self, number: int) -> None:
        """Wait until some polls have begun since anything was delivered or changed."""
        begun = len(self.chronicle.begun(number))
        while len(self.chronicle.begun(number)) - begun <= _QUIET_POLLS:
            if await self._nursery.word(0.02) is not None:
                begun = len(self.chronicle.begun(number))

    async def _wait_for(self, death: Death) -> None:
        heard = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT):
                while heard < death.times:
                    word = await self._nursery.word(_LONGEST_WAIT)
                    heard += word is not None and word.startswith(death.word)
        await asyncio.sleep(death.seconds)

    async def _update(self) -> None:
        """Update applications without end, some again and again, some twice at once."""
        ids = self._service.world.ids
        hot = ids[:HOT]
        while True:
            await asyncio.sleep(self._updates.expovariate(self._plan.rate))
            one = self._updates.choice(hot if self._updates.random() < 0.3 else ids)
            for _ in range(self._updates.choice((1, 1, 1, 2))):
                self.chronicle.touch(one)

    def _set(self, weather: Weather) -> None:
        self._service.rules = weather.rules
        if weather.is_calm:
            self._service.faults.clear()
        self._service.faults.add(*weather.faults)
        if weather.revokes:
            self._service.revoke_tokens()

    def _life(self, number: int) -> Life:
        auth, plan = self._service.oauth2, self._plan
        first = min(map(self._service.world.updated_at, self._service.world.ids))
        start = EPOCH + timedelta(seconds=first - 1)
        return Life(
            number=number,
            url=self._service.url,
            client_id=auth.client_id,
            client_secret=auth.client_secret.reveal(),
            store=str(self._store_path),
            results=str(self.results),
            start=start.isoformat(),
            speed=plan.speed,
            interval=plan.interval,
            settle=plan.settle,
        )
