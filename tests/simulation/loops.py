"""Virtual time, and machines: each runs one event loop, and one scheduler steps all of them.

Everything that happens is an event of the world (a request arrives, a fault begins) or one step of
a machine (one callback of its loop). Whatever is due first is next; among what is due at the same
moment, the seed chooses.
"""

import asyncio
import heapq
import itertools
import random
from asyncio import events
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn

from attrs import define, field, frozen

from income_client import IncomeClientError

FOREVER: Final = float("inf")
EPOCH_OF_RUNS: Final = 1_782_820_000
"""The second since 1970 at the world's moment 0."""
_MOST_STEPS_AT_ONCE: Final = 200_000
"""Steps without a passing of time, after which something waits without waiting."""
_ROUNDING: Final = 1e-6


@frozen
class Violation:
    """A promise that was broken."""

    promise: str
    what: str
    application_id: str | None = None

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"


@frozen
class Entry:
    """A line of the time line."""

    at: float
    who: str
    what: str
    application_id: str | None

    def __str__(self) -> str:
        return f"{self.at:11.3f}  {self.who:<8} {self.what}"


@define(eq=False)
class World:
    """The scheduler, the one source of chance, and the time line of a run."""

    seed: int
    now: float = 0.0
    chance: random.Random = field(init=False)
    machines: list["Machine"] = field(factory=list)
    graves: list["Machine"] = field(factory=list)
    """Dead machines. Collected before the run ends, their ``finally`` blocks would run."""
    line: list[Entry] = field(factory=list)
    suspensions: list[tuple[float, float]] = field(factory=list)
    """Suspensions of machines with their clocks: beginning and end of each."""
    steps: int = 0
    violation: Violation | None = None
    """The first promise that was broken, which ends the run."""
    situations: Counter[str] = field(factory=Counter)
    """Number of times that each situation has occurred."""
    _stalled: int = 0
    _events: list[tuple[float, float, int, Callable[[], object]]] = field(factory=list)
    _numbers: Any = field(factory=itertools.count)

    def __attrs_post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def at(self, moment: float, do: Callable[[], object]) -> None:
        """Have something happen at a moment; ties are broken by the seed."""
        event = (max(moment, self.now), self.chance.random(), next(self._numbers), do)
        heapq.heappush(self._events, event)

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Have something happen later."""
        self.at(self.now + seconds, do)

    def note(self, who: str, what: str, application_id: str | None = None) -> None:
        """Add a line to the time line."""
        self.line.append(Entry(self.now, who, what, application_id))

    def count(self, situation: str, times: int = 1) -> None:
        """Count a situation that has come about."""
        if times:
            self.situations[situation] += times

    def fail(self, promise: str, what: str, application_id: str | None = None) -> None:
        """Note a broken promise; the run ends before its next step.

        Nothing is raised: asyncio keeps what a callback raises.
        """
        if self.violation is None:
            self.violation = Violation(promise, what, application_id)
            self.note("JUDGE", str(self.violation), application_id)

    def run(self, until: float) -> None:
        """Let everything happen that is due until a moment, or a promise is broken."""
        self._note_due()
        while self.violation is None:
            due, at = self._next_due()
            if at > until:
                self.now = max(self.now, until)
                return
            self._stalled = 0 if at > self.now else self._stalled + 1
            if self._stalled > _MOST_STEPS_AT_ONCE:
                self.fail("simulator", "time does not pass: something waits without waiting")
            self.now = max(self.now, at)
            self.steps += 1
            if due is None:
                heapq.heappop(self._events)[-1]()
                self._note_due()
            else:
                due.step()
                due.note_due()

    def _note_due(self) -> None:
        """Have all machines note when they are due: an event may concern any of them."""
        for machine in self.machines:
            machine.note_due()

    def _next_due(self) -> tuple["Machine | None", float]:
        """Return the machine whose step is next, None for an event of the world, and when."""
        due, at, ties = None, self._events[0][0] if self._events else FOREVER, 1
        for machine in self.machines:
            moment = max(machine.due_at, self.now)
            if moment < at:
                due, at, ties = machine, moment, 1
            elif moment == at < FOREVER:
                ties += 1
                if self.chance.random() * ties < 1:
                    due = machine
        return due, at

    def ask(
        self,
        machine: "Machine",
        work: Callable[[], Any],
        *,
        there: float,
        back: float,
        is_lost: bool = False,
        is_reply_lost: bool = False,
    ) -> "asyncio.Future[Any]":
        """Have something done elsewhere for a machine, which may die meanwhile.

        ``there`` and ``back`` are the seconds of the two ways.
        """
        future = machine.create_future()

        def arrive() -> None:
            outcome, failure = None, None
            try:
                outcome = work()
            except IncomeClientError as error:  # it travels back; others are the simulator's
                failure = error
            if not is_reply_lost:
                self.after(back, lambda: machine.take(future, outcome, failure))

        if not is_lost:
            self.after(there, arrive)
        return future


class _Numbered:
    """Hashed by number and not by address, so that sets of tasks are walked in one order."""

    number: int

    def __hash__(self) -> int:
        return self.number


class _Future(_Numbered, asyncio.Future):  # type: ignore[type-arg]
    pass


class _Task(_Numbered, asyncio.Task):  # type: ignore[type-arg]
    pass


class _NoSelector:
    """Nothing here has a socket."""

    def close(self) -> None:
        pass


class Machine(asyncio.BaseEventLoop):
    """A process on a machine of its own: an event loop in virtual time.

    ``rate`` and ``offset`` turn the world's seconds into those of its monotonic clock.
    """

    def __init__(self, world: World, name: str, *, rate: float, offset: float) -> None:
        self.is_dead: bool = True  # while asyncio prepares the loop, which does not run yet
        super().__init__()
        self.world, self.name = world, name
        self.rate, self.offset = rate, offset
        self._selector = _NoSelector()
        self._latest = -FOREVER
        self.due_at: float = FOREVER
        """Time of the machine's next step, in the world's time; a past time means at once."""
        self._clock_resolution = 0.0
        self.paused_until: float = 0.0
        """End of the machine's last pause, in the world's time."""
        self._stopped_from = self._stopped_until = -FOREVER
        self.fuse: int | None = None
        """Steps until it is killed: between any two awaits of its tasks."""
        self.is_dead = False
        self.errors: list[str] = []
        """Errors of tasks and callbacks that asyncio has reported."""
        self.on_death: Callable[[], None] = lambda: None
        self._counter = itertools.count(1)
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self.set_exception_handler(self._note_error)
        world.machines.append(self)

    def time(self) -> float:
        """Return its monotonic clock."""
        # Not before the last timer that has run: dividing and multiplying may come out an ulp
        # early, and code that then asks for the rest of its pause would ask for ever.
        return max(self.world.now * self.rate + self.offset, self._latest)

    def is_running(self) -> bool:
        """Return whether the machine steps its tasks."""
        return not self.is_dead

    def note_due(self) -> None:
        """Note when the machine is due, after something that may have changed it."""
        timers = self._scheduled  # type: ignore[attr-defined]
        if self._ready:  # type: ignore[attr-defined]
            self.due_at = self.paused_until
            return
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        at = (timers[0]._when - self.offset) / self.rate if timers else FOREVER
        self.due_at = max(at, self.paused_until)

    def step(self) -> None:
        """Run one callback, after moving the timers that are due to what is ready."""
        ready, timers = self._ready, self._scheduled  # type: ignore[attr-defined]
        end = self.time() + _ROUNDING
        while timers and timers[0]._when <= end:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            self._latest = max(self._latest, timer._when)
            ready.append(timer)
        handle = ready.popleft()
        if handle._cancelled:
            return
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.world.count("machine: killed")
                self.kill("is killed between two steps")
                return
        events._set_running_loop(self)
        try:
            handle._run()
        finally:
            events._set_running_loop(None)

    def take(self, future: "asyncio.Future[Any]", outcome: Any, failure: Exception | None) -> None:
        """Receive what comes from elsewhere."""
        if self.is_dead or future.done():
            return
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(outcome)

    def kill(self, how: str) -> None:
        """End it as SIGKILL or a power cut does: nothing more of it runs."""
        if not self.is_dead:
            self.is_dead = True
            self.world.note(self.name, how)
            self.world.machines.remove(self)
            self.world.graves.append(self)
            self.on_death()

    def suspend(self, seconds: float, *, stops_clock: bool) -> None:
        """Stop stepping it for a while; with its monotonic clock, as where a VM is suspended."""
        self.world.note(
            self.name, f"is paused for {seconds:.1f} s{' with its clock' * stops_clock}"
        )
        self.world.count("machine: paused with its clock" if stops_clock else "machine: paused")
        end = self.world.now + seconds
        more = max(0.0, end - max(self.world.now, self.paused_until))
        self.paused_until = max(self.paused_until, end)
        if stops_clock and more:
            if self._stopped_until < end - more:
                self._stopped_from = end - more
            self._stopped_until = end
            self.offset -= more * self.rate
            self.world.suspensions.append((end - more, end))

    def resume(self) -> None:
        """End a pause before its time; a clock that was stopped continues."""
        now = self.world.now
        if self.paused_until > now:
            lost = self._stopped_until - max(now, self._stopped_from)
            self.offset += max(0.0, lost) * self.rate
            self.paused_until = now
            self._stopped_until = min(self._stopped_until, now)

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future whose hash is its number."""
        future = _Future(loop=self)
        future.number = next(self._counter)
        return future

    @property
    def open_tasks(self) -> "list[asyncio.Task[Any]]":
        """Tasks of the machine that are not done."""
        return sorted(asyncio.all_tasks(self), key=hash)

    def bury(self) -> None:
        """Have what is left of it collected silently, after the run."""
        self.set_exception_handler(lambda *_: None)
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self._closed = True

    def _make_task(self, loop: Any, work: Coroutine[Any, Any, Any], **options: Any) -> _Task:
        _Task.number = next(self._counter)  # asked for while it is made
        task = _Task(work, loop=loop, **options)
        task.number = _Task.number
        return task

    def _note_error(self, _loop: Any, context: dict[str, Any]) -> None:
        error = f"{context.get('message')}: {context.get('exception')!r}"
        self.errors.append(error)
        if "handle" in context:  # asyncio keeps what a callback raises, also one that judges
            self.world.fail("simulator", error)

    def _write_to_self(self) -> None:
        """Wake no selector: nobody waits in one."""

    def _process_events(self, _events: Any) -> NoReturn:
        raise AssertionError("a machine is stepped, and not run")


@frozen
class MachineClock:
    """The clock of a machine, as the package takes clocks."""

    machine: Machine

    def monotonic(self) -> float:
        """Return the seconds of the machine's monotonic clock."""
        return self.machine.time()

    async def sleep(self, seconds: float) -> None:
        """Wait by the machine's clock."""
        await asyncio.sleep(seconds)
