"""Whatever happens to service and poller, nothing is lost: promises 8 and 9 as a state machine."""

import asyncio
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from income_client import Batch, CheckpointConflictError, MemoryCheckpointStore, Poller
from income_client.emulator import ServiceRules, World
from income_client.protocol.checkpoint import read_checkpoint
from tests.support.poller_model import (
    BASE,
    Life,
    ModelSource,
    reached_by,
)
from tests.support.pollers import Gate, GatedStore, StandingClock

LIMIT = 5
APPLICATIONS = 14
_ALL_STEPS = 400


class PollerMachine(RuleBasedStateMachine):
    """A service that is updated, pollers that crash and are replaced, and one consumer."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.lives: list[Life] = []
        self.delivered: dict[str, int] = {}
        self.committed: dict[str, int] = {}
        self.pending: dict[str, dict[str, int]] = {}
        self.reached = 0
        self.buried: set[str | None] = set()
        self.claims = 0
        self.holder: StandingClock | None = None
        self.faults: list[AssertionError] = []

    @initialize(
        settle=st.integers(0, 4),
        delay=st.integers(0, 4),
        lookback=st.sampled_from([0, 0, 30]),
        lower_closed=st.booleans(),
        upper_closed=st.booleans(),
        order=st.sampled_from(["ascending", "descending", "random"]),
        future=st.sampled_from(["accept", "clamp", "refuse"]),
        clamp=st.sampled_from([(None, "after"), (None, "after"), (40, "after"), (40, "before")]),
        offset=st.sampled_from([0, 0, 3, -100, 100, 86_400, -86_400]),
        tells_time=st.sampled_from([True, True, True, False]),
        is_new=st.booleans(),
        lie=st.sampled_from([0, 0, 0, 10**7, -(10**7)]),
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
        tells_time: bool,
        is_new: bool,
        lie: int,
    ) -> None:
        """Set the service up: its rules, and applications of the last minutes."""
        max_span, span_clamp = clamp
        rules = ServiceRules(
            lower_closed=lower_closed,
            upper_closed=upper_closed,
            order=order,
            future=future,
            max_span=max_span,
            span_clamp=span_clamp,
            # Forty seconds at a time, a walk over a day takes too long for a test.
            clock_offset=offset if max_span is None else max(offset, -100),
            visibility_delay=min(delay, settle),
        )
        self.settle, self.lookback, self.offset = settle, lookback, rules.clock_offset
        times = [BASE + 7 * number for number in range(APPLICATIONS)]
        self.world = World(times, now=BASE + 7 * APPLICATIONS, rules=rules)
        self.start = None if is_new else BASE
        self.is_begun = not is_new
        self.tells_time = tells_time or max_span is not None
        self.tells_present = span_clamp == "after" or rules.clock_offset >= 0
        self.history = {
            one: [(0, second)] for one, second in zip(self.world.ids, times, strict=True)
        }
        self.lie = lie
        self.store = MemoryCheckpointStore()
        self.gone: set[str] = set()
        self.failing: set[str] = set()
        self.is_down = [False]

    # What happens at the service.

    @rule(number=st.integers(0, APPLICATIONS - 1))
    def update(self, number: int) -> None:
        """Update an application, unless its second would hold more than a page."""
        busy = sum(h[-1][1] == self.world.now for h in self.history.values())
        one = self.world.ids[number]
        if busy < LIMIT - 1 or self.history[one][-1][1] == self.world.now:
            second = self.world.touch(one)
            self.history[one].append((self.world.history(number).version, second))

    @rule(seconds=st.integers(1, 12))
    def pass_time(self, seconds: int) -> None:
        """Let time pass, for the service and for those who sleep."""
        self.world.advance_to(self.world.now + seconds)
        for life in self.lives:
            life.clock.advance(seconds)

    @rule(number=st.integers(0, APPLICATIONS - 1))
    def delete(self, number: int) -> None:
        """Delete an application for good, or bring it back."""
        self.gone ^= {self.world.ids[number]}

    @rule(number=st.integers(0, APPLICATIONS - 1))
    def spoil(self, number: int) -> None:
        """Have the service fail for one application, or stop failing."""
        self.failing ^= {self.world.ids[number]}

    @rule()
    def go_down(self) -> None:
        """Have the service fail altogether, or come back."""
        self.is_down[0] = not self.is_down[0]

    # What happens to pollers.

    @precondition(lambda self: len(self.lives) < 2)
    @rule()
    def start_poller(self) -> None:
        """Start a poller, beside one that may be there already."""
        gate, clock = Gate(), StandingClock()
        source = ModelSource(
            world=self.world,
            gate=gate,
            limit=LIMIT,
            tells_time=self.tells_time,
            lie=self.lie,
            gone=self.gone,
            failing=self.failing,
            is_down=self.is_down,
        )
        poller = Poller(
            source,
            GatedStore(store=self.store, gate=gate, saved=partial(self.check_text, clock)),
            name="default",
            start=self.start,
            interval=5.0,
            settle=self.settle,
            lookback=self.lookback,
            clock=clock,
            chance=lambda: 0.5,
        )
        life = Life(poller=poller, gate=gate, clock=clock, deliver=self.deliver)
        self.lives.append(life)

    @precondition(lambda self: self.lives)
    @rule(steps=st.integers(1, 12), newest=st.booleans())
    def run_some(self, steps: int, newest: bool) -> None:
        """Let a poller do a few steps, and stop it before the next."""
        self.turn(self.lives[-1 if newest else 0], steps)

    @precondition(lambda self: self.lives)
    @rule()
    def run_on(self) -> None:
        """Let the newest poller run until it sleeps."""
        self.turn(self.lives[-1], _ALL_STEPS)

    @precondition(lambda self: self.lives)
    @rule(newest=st.booleans())
    def crash(self, newest: bool) -> None:
        """End a poller wherever it is."""
        life = self.lives.pop(-1 if newest else 0)
        self.loop.run_until_complete(life.die())

    # What must hold.

    def turn(self, life: Life, steps: int) -> None:
        """Let a poller go on, and look at how it ended if it did."""
        self.loop.run_until_complete(life.turn(steps))
        if self.faults:
            raise self.faults[0]
        if life.task is not None and life.task.done():
            error = life.task.exception()
            assert isinstance(error, CheckpointConflictError), repr(error)
            assert life.clock is not self.holder, "the latest claimant was refused"
            self.lives.remove(life)

    def deliver(self, life: Life, batch: Batch) -> None:
        """Take a batch: no version twice in one life, nor one that was committed before it."""
        known = dict(self.committed) if life.known is None else life.known
        versions = {r.application_id: int(r.application.application_reference_id) for r in batch}
        assert len(versions) == len(batch)
        for one, version in versions.items():
            # A superseded poller may bring one batch more before it learns that it is; and
            # without a present that can be told, a version may be forgotten too early. What was
            # given up comes again when it can be read, whether it was delivered before or not.
            is_exact = life.clock is self.holder and self.tells_present
            is_exact = is_exact and one not in self.buried
            is_again = known.get(one) == version and is_exact
            assert not is_again, f"{one} in version {version} came again"
        life.known = known | versions
        for one, version in versions.items():
            self.delivered[one] = max(version, self.delivered.get(one, -1))
        self.pending[batch.checkpoint] = versions

    def check_text(self, clock: StandingClock, text: str) -> None:
        """Keep what is wrong with a text: the store is foreign code, whose errors are wrapped."""
        claims = read_checkpoint(text).claims
        if claims > self.claims:
            self.claims, self.holder = claims, clock
        try:
            assert clock is self.holder, "a superseded poller has overwritten something"
            self.judge(text)
        except AssertionError as error:
            self.faults.append(error)

    def judge(self, text: str) -> None:
        """A checkpoint moves forward, stays behind service time, and covers what was delivered."""
        reached = reached_by(text)
        assert reached >= self.reached
        self.reached = reached
        now = self.world.now
        told = min(now, now + self.offset) if self.tells_time else now
        if not self.is_begun:
            assert reached <= told
            self.is_begun, self.start_second = True, reached
        elif reached > self.since:
            assert reached <= told - self.settle
        self.committed |= self.pending.pop(text, {})
        letters = self.letters()
        self.buried |= letters
        for one, history in self.history.items():
            last, second = history[-1]
            if self.since <= second < reached and one not in letters:
                assert self.delivered.get(one, -1) == last, f"{one}, {last} is passed over"

    @property
    def since(self) -> int:
        """Return the second from which on everything must be delivered."""
        return BASE if self.start is not None else getattr(self, "start_second", 2**62)

    def letters(self) -> set[str | None]:
        """Return the applications that are dead letters."""
        stored = self.store._letters.get("default", {})
        return {letter.application_id for letter in stored.values()}

    def teardown(self) -> None:
        """Let the service come to rest: then every application's last version is delivered."""
        try:
            if hasattr(self, "world"):
                self.come_to_rest()
        finally:
            for life in self.lives:
                self.loop.run_until_complete(life.die())
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def come_to_rest(self) -> None:
        """Run the newest poller long enough, with all that was deleted still gone."""
        self.failing.clear()
        self.is_down[0] = False
        for _ in range(60 if abs(self.offset) == 100 else 24):
            if not self.lives:  # the latest claimant had crashed, and those before it were refused
                self.start_poller()
            for life in [*self.lives]:
                self.turn(life, _ALL_STEPS)
            self.pass_time(5)
        (last,) = self.lives
        assert last.clock is self.holder, "a superseded poller was not refused"
        letters = self.letters()
        for one, history in self.history.items():
            last_version, second = history[-1]
            if second >= self.since and one not in letters:
                assert self.delivered.get(one, -1) == last_version, f"{one} is lost"


TestPoller = PollerMachine.TestCase
