"""Promise 8: every application's latest version is delivered, whatever crashes in between."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from income_client import (
    ApplicationRecord,
    Batch,
    CheckpointConflictError,
    IncomeClient,
    MemoryCheckpointStore,
    RetryPolicy,
    to_json,
)
from income_client.emulator import Emulator, Fault, ServiceRules
from tests.support.pollers import Gate, GatedStore, Life, StandingClock

APPLICATIONS: Final = 12
BASE: Final = 1_700_000_000
_UNTIL_IT_SLEEPS: Final = 10_000
_PATH: Final = "/v1/income/applications"


def _time(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None)


class DeliveryMachine(RuleBasedStateMachine):
    """A service that is updated and fails, pollers that crash and are replaced, one consumer."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.lives: list[Life] = []
        self.newest: Life | None = None
        self.delivered: dict[str, bytes] = {}
        self.committed: set[bytes] = set()
        self.pending: dict[str, set[bytes]] = {}
        self.letters: set[str | None] = set()
        self.service: Emulator | None = None

    @initialize(
        settle=st.integers(0, 4),
        delay=st.integers(0, 4),
        lookback=st.sampled_from([0, 0, 30]),
        lower_closed=st.booleans(),
        upper_closed=st.booleans(),
        order=st.sampled_from(["ascending", "descending", "random"]),
        future=st.sampled_from(["accept", "clamp", "refuse"]),
        clamp=st.sampled_from([(None, "after"), (None, "after"), (40, "after"), (40, "before")]),
        offset=st.sampled_from([0, 0, 3, -3, 100]),
        documents=st.booleans(),
    )
    def begin(
        self,
        settle: int,
        delay: int,
        lookback: int,
        lower_closed: bool,
        upper_closed: bool,
        order: str,
        future: str,
        clamp: tuple[int | None, str],
        offset: int,
        documents: bool,
    ) -> None:
        """Set the service up: its rules, and applications of the last minutes."""
        max_span, span_clamp = clamp
        rules: dict[str, Any] = {
            "lower_closed": lower_closed,
            "upper_closed": upper_closed,
            "order": order,
            "future": future,
            "max_span": max_span,
            "span_clamp": span_clamp,
            "clock_offset": offset,
            "visibility_delay": min(delay, settle),
        }
        times = [BASE + 7 * number for number in range(APPLICATIONS)]
        self.options: dict[str, Any] = {
            "settle": settle,
            "lookback": lookback,
            "documents": documents,
        }
        self.service = Emulator(
            times, start=_time(BASE + 7 * APPLICATIONS), rules=ServiceRules(**rules)
        )
        self.loop.run_until_complete(self.service.start())
        self.ids = self.service.world.ids
        self.store = MemoryCheckpointStore()
        self.failing: set[str] = set()
        self.is_down = False

    # What happens at the service.

    @rule(number=st.integers(0, APPLICATIONS - 1))
    def update(self, number: int) -> None:
        """Update an application; several updates may share a second."""
        assert self.service is not None
        self.service.touch(self.ids[number])

    @rule(seconds=st.integers(1, 12))
    def pass_time(self, seconds: int) -> None:
        """Let time pass, for the service and for those who sleep."""
        assert self.service is not None
        self.service.advance(seconds)
        for life in self.lives:
            life.clock.advance(seconds)

    @rule(number=st.integers(0, APPLICATIONS - 1))
    def spoil(self, number: int) -> None:
        """Have the service fail for one application, or stop failing."""
        self.failing ^= {self.ids[number]}
        self._arm()

    @rule()
    def go_down(self) -> None:
        """Have the service fail altogether, or come back."""
        self.is_down = not self.is_down
        self._arm()

    def _arm(self) -> None:
        assert self.service is not None
        faults = self.service.faults
        faults.clear()
        if self.is_down:
            faults.add(Fault("status", times=None))
        for number, one in enumerate(sorted(self.failing)):
            kind = {"status": 404} if number % 2 else {"status": 500}
            faults.add(Fault("status", path=f"{_PATH}/{one}", times=None, **kind))

    # What happens to pollers.

    @precondition(lambda self: len(self.lives) < 2)
    @rule()
    def start_poller(self) -> None:
        """Start a poller, beside one that may be there already."""
        assert self.service is not None
        gate, clock = Gate(), StandingClock()
        client = IncomeClient(
            self.service.url,
            auth=self.service.basic,
            retry=RetryPolicy(max_attempts=1),
            clock=clock,
            trace_configs=[gate.hooks()],
        )
        store = GatedStore(gate=gate, saved=self._saved, store=self.store)
        poller = client.poll(store, start=_time(BASE), interval=5.0, concurrency=2, **self.options)
        life = Life(client=client, poller=poller, gate=gate, clock=clock, deliver=self._deliver)
        self.lives.append(life)

    @precondition(lambda self: self.lives)
    @rule(steps=st.integers(1, 12), newest=st.booleans())
    def run_some(self, steps: int, newest: bool) -> None:
        """Let a poller do a few steps, and stop it before the next."""
        self._turn(self.lives[-1 if newest else 0], steps)

    @precondition(lambda self: self.lives)
    @rule()
    def run_on(self) -> None:
        """Let the newest poller run until it sleeps."""
        self._turn(self.lives[-1], _UNTIL_IT_SLEEPS)

    @precondition(lambda self: self.lives)
    @rule(newest=st.booleans())
    def crash(self, newest: bool) -> None:
        """End a poller wherever it is."""
        life = self.lives.pop(-1 if newest else 0)
        self.loop.run_until_complete(life.die())

    # What must hold.

    def _turn(self, life: Life, steps: int) -> None:
        self.loop.run_until_complete(life.turn(steps))
        assert life.task is not None
        if life.task.done():
            error = life.task.exception()
            assert isinstance(error, CheckpointConflictError), repr(error)
            self.lives.remove(life)
            self.loop.run_until_complete(life.die())

    def _deliver(self, life: Life, batch: Batch) -> None:
        versions = {record.application_id: _content(record) for record in batch}
        assert len(versions) == len(batch), "an application is twice in one batch"
        again = life.seen & set(versions.values())
        # What was given up is delivered when it can be read, even if it was delivered before.
        assert not {one for one in again if not self._was_given_up(versions, one)}
        life.seen |= set(versions.values())
        self.delivered |= versions
        self.pending[batch.checkpoint] = set(versions.values())

    def _was_given_up(self, versions: dict[str, bytes], content: bytes) -> bool:
        return any(one in self.letters for one, found in versions.items() if found == content)

    def _saved(self, checkpoint: str) -> None:
        self.committed |= self.pending.pop(checkpoint, set())
        found = self.loop.create_task(self.store.dead_letters("default"))
        found.add_done_callback(
            lambda task: self.letters.update(letter.application_id for letter in task.result())
        )

    def teardown(self) -> None:
        """Let the service come to rest: then every application's last version is delivered."""
        try:
            if self.service is not None:
                self._come_to_rest(self.service)
        finally:
            for life in self.lives:
                self.loop.run_until_complete(life.die())
            if self.service is not None:
                self.loop.run_until_complete(self.service.close())
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def _come_to_rest(self, service: Emulator) -> None:
        self.failing.clear()
        self.is_down = False
        service.faults.clear()
        for _ in range(60):
            if not self.lives:
                self.start_poller()
            for life in [*self.lives]:
                self._turn(life, _UNTIL_IT_SLEEPS)
            self.pass_time(10)
        last = self.loop.run_until_complete(self._last_versions(service))
        letters = self.loop.run_until_complete(self.store.dead_letters("default"))
        for one in {letter.application_id for letter in letters}:
            last.pop(str(one), None)
        assert {one: self.delivered.get(one) for one in last} == last

    async def _last_versions(self, service: Emulator) -> dict[str, bytes]:
        async with IncomeClient(service.url, auth=service.basic) as client:
            return {one: to_json(await client.get_application(one)) for one in self.ids}


def _content(record: ApplicationRecord) -> bytes:
    return to_json(record.application)


TestDelivery = DeliveryMachine.TestCase
