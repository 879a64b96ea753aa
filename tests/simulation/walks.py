"""Walks that are killed and resumed: each life goes on from the checkpoint that was written last.

A program walks a span, writes the rows to its database, and the checkpoint beside them. Whatever
ends it, the next life resumes the walk. `walk_promises` judges what all its lives were given.
"""

import random
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Final, TypeVar

from attrs import define, field

from income_client import BasicAuth, IncomeClientError, SaturatedWindowError
from income_client.http.endpoints import Request, Response
from income_client.http.session import open_session
from income_client.http.transport import SocketLimits
from income_client.walk import ApplicationPaginator
from income_client.walk.checkpoint import read_checkpoint

from . import faults, walk_promises
from .loops import EPOCH_OF_RUNS, Entry, Machine, MachineClock, World
from .plan import Fault
from .service import SimulatedService, SimulatedTransport, Trouble
from .walk_plan import SECONDS, WalkPlan

T = TypeVar("T")

_LONGEST: Final = 7_200.0
"""Seconds after updates and faults in which all walks must end."""
_MOST_STEPS: Final = 200
_WAY: Final = 0.05
"""Seconds of one way to the program's database, at most."""


class WalkTransport(SimulatedTransport):
    """The transport of one life: it tells which list calls were answered."""

    def __init__(self, life: "Life") -> None:
        super().__init__(life.run.service, life.machine)
        self._life = life

    async def send(
        self,
        request: Request,
        headers: Mapping[str, str],
        limits: SocketLimits,
        read: Callable[[Response], T],
    ) -> T:
        """Send a request once, and return what is read from its reply."""
        sent_at, life = self._life.run.world.now, self._life
        life.sent += not life.tries_page()  # PAGE_TRIED excludes others
        result = await super().send(request, headers, limits, read)
        walk = life.walk
        walk.sent_before_at, walk.last_sent_at = walk.last_sent_at, sent_at
        return result


@define(eq=False)
class Walk:
    """One walk, in all its lives: what its program has written down."""

    after: int | None
    before: int | None
    began_at: float
    checkpoint: str | None = None
    given: set[str] = field(factory=set)
    """Ids of the rows that were written."""
    saturated: list[int] = field(factory=list)
    """Seconds that hold more rows than can be asked for."""
    last_sent_at: float = 0.0
    """Time at which the last answered list call was sent."""
    sent_before_at: float = 0.0
    """Time at which the answered list call before that one was sent."""


class Life:
    """One life of the program."""

    def __init__(self, run: "WalkRun", machine: Machine, walk: Walk) -> None:
        self.run, self.machine, self.walk = run, machine, walk
        self.sent: int = 0
        """Requests that it has sent."""
        self.given: set[str] = set()
        """Ids of the rows that this life's walk has yielded."""
        self.began_at: float = run.world.now
        self.refusals_before: int = len(run.service.refused)
        self.intervals: int = 0
        """Intervals of the checkpoint that it resumes from."""
        if walk.checkpoint is not None:
            self.intervals = len(read_checkpoint(walk.checkpoint)[1])
        self.tries_page: Callable[[], bool] = lambda: False
        """A function that says whether requests find out whether a page hides rows."""
        self.task = machine.create_task(self._main())

    async def _main(self) -> None:
        plan, walk, clock = self.run.plan, self.walk, MachineClock(self.machine)
        session = open_session(
            WalkTransport(self),
            auth=BasicAuth("user", "password"),
            clock=clock,
            chance=self.run.world.chance.random,
        )
        self.tries_page = session.page_cap.lock.locked
        is_named = walk.checkpoint is None or plan.names_bounds
        paginator = ApplicationPaginator(
            session,
            walk.after if is_named else None,
            walk.before if is_named else None,
            walk.checkpoint,
            limit=plan.page,
            concurrency=plan.concurrency,
            on_saturated=plan.on_saturated,  # type: ignore[arg-type]
            clock=clock,
            zone=UTC,
        )
        self.run.world.count("walk: resumed" if walk.checkpoint else "walk: begun")
        try:
            await self._walk_to_end(paginator)
        finally:
            await paginator.aclose()
            await session.aclose()

    async def _walk_to_end(self, paginator: ApplicationPaginator) -> None:
        while True:
            try:
                await (self._take_rows if self.run.plan.by_rows else self._take_pages)(paginator)
            except SaturatedWindowError as error:
                self.walk.given.update(row.application_id for row in error.applications)
                self.walk.saturated = [window.after for window in error.windows]
                return
            except IncomeClientError:
                if not self.run.plan.iterates_again:
                    raise
                self.run.world.count("walk: iterated again after an error")
                await MachineClock(self.machine).sleep(5.0)
            else:
                self.walk.saturated = [window.after for window in paginator.saturated]
                return

    async def _take_pages(self, paginator: ApplicationPaginator) -> None:
        async for page in paginator.pages():
            await self._write(paginator, [row.application_id for row in page.applications])

    async def _take_rows(self, paginator: ApplicationPaginator) -> None:
        async for row in paginator:
            is_saved = self.run.world.chance.random() < 0.3
            await self._write(paginator, [row.application_id], is_saved=is_saved)

    async def _write(
        self, paginator: ApplicationPaginator, rows: list[str], *, is_saved: bool = True
    ) -> None:
        """Write rows, and the checkpoint, which covers the rows before them only."""
        world, sent = self.run.world, self.sent
        walk_promises.judge_rows(self, rows)
        self.given.update(rows)
        checkpoint = paginator.checkpoint if is_saved else self.walk.checkpoint
        walk_promises.judge_size(self, checkpoint, len(paginator.saturated))

        def commit() -> None:
            self.walk.given.update(rows)
            self.walk.checkpoint = checkpoint

        await MachineClock(self.machine).sleep(self.run.plan.rests * world.chance.random())
        there, back = _WAY * world.chance.random(), _WAY * world.chance.random()
        await world.ask(self.machine, commit, there=there, back=back)
        walk_promises.judge_requests(self, self.sent - sent)


class WalkRun:
    """The run of a plan."""

    def __init__(self, plan: WalkPlan) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        self.service = SimulatedService(self.world, plan.rules)
        self.has_trouble: bool = False
        """Whether the service has answered badly so far."""
        self._spans = list(plan.spans)
        self._life: Life | None = None
        self._walk: Walk | None = None
        self._numbers = 0

    @property
    def calls(self) -> int:
        """Number of list calls that the service has answered."""
        return len(self.service.lists)

    def is_relevant(self, entry: Entry) -> bool:
        """Return whether a line touches the application that was lost, or no application."""
        violation = self.world.violation
        lost = None if violation is None else violation.application_id
        return entry.application_id in (None, lost)

    def play(self) -> None:
        """Play the plan until all walks have ended, or until a promise is broken."""
        plan, world = self.plan, self.world
        for at, number in plan.updates:
            if at < 0:
                self.service.touch(f"app-{number}", ago=-at * plan.past)
            else:
                world.at(at, lambda number=number: self.touch(f"app-{number}"))  # type: ignore[misc]
        for fault in plan.faults:
            world.at(fault.at, lambda fault=fault: self._play_fault(fault))  # type: ignore[misc]
        world.at(SECONDS, self._calm_down)
        world.after(SECONDS * 0.2 * world.chance.random(), self._begin_walk)
        world.run(SECONDS + _LONGEST)
        if world.violation is None:
            walk_promises.judge_end(self, is_over=self._walk is None and not self._spans)

    def touch(self, application_id: str) -> None:
        """Have the service update an application, unless it is deleted."""
        application = self.service.applications.get(application_id)
        if application is None or not application.is_deleted:
            self.service.touch(application_id)

    def end_trouble(self) -> None:
        """Have the service answer well again."""
        self.service.trouble = Trouble()

    def _begin_walk(self) -> None:
        after, before = self._spans.pop(0)
        self._walk = Walk(after, before, self.world.now)
        self.world.note("walk", f"begins: after {_shown(after)}, before {_shown(before)}")
        self._begin_life()

    def _begin_life(self) -> None:
        if self._walk is None:
            return
        self._numbers += 1
        chance = self.world.chance
        rate = chance.choice((1.0, 0.99, 1.01))
        machine = Machine(
            self.world, f"life-{self._numbers}", rate=rate, offset=1e4 * chance.random()
        )
        life = self._life = Life(self, machine, self._walk)
        self.world.note(machine.name, f"begins with {self._walk.checkpoint}")
        machine.on_death = lambda: self._died(life)
        life.task.add_done_callback(lambda _: self._ended(life))

    def _died(self, life: Life) -> None:
        if self._life is life:
            self._life = None
            self.world.after(1 + 9 * self.world.chance.random(), self._begin_life)

    def _ended(self, life: Life) -> None:
        """Judge a program that has ended, and the walk if that has ended too."""
        task, world = life.task, self.world
        error = None if task.cancelled() else task.exception()
        world.note(life.machine.name, f"ends: {'cancelled' if task.cancelled() else error!r}")
        if not task.cancelled() and error is None:
            walk_promises.judge_walk(self, life.walk)
            self._walk = self._life = None
            if self._spans:
                world.after(10 * world.chance.random(), self._begin_walk)
        else:
            walk_promises.judge_error(self, life, error)

        def judge_rest() -> None:
            if not life.machine.is_dead:
                walk_promises.judge_rest(life)
                life.machine.kill("is gone")

        world.after(0.001, judge_rest)  # what it has cancelled may take a step more

    def _play_fault(self, fault: Fault) -> None:
        chance, life = random.Random(fault.detail), self._life
        self.world.note("fault", fault.kind)
        self.world.count(f"fault: {fault.kind}")
        match fault.kind:
            case "kill" if life is not None:
                life.machine.fuse = chance.randrange(_MOST_STEPS)
            case "cancel" if life is not None:
                life.machine.call_soon(life.task.cancel)
            case "pause" if life is not None:
                life.machine.suspend(20 * chance.random(), stops_clock=chance.random() < 0.3)
            case "trouble":
                self.has_trouble = True
                faults.make_trouble(self, chance)
            case "clock back":
                is_far = chance.random() < 0.3 and not self.service.set_back
                seconds = 3_600 if is_far else chance.randrange(1, 60)
                self.service.set_clock_back(seconds)
                self.world.note("service", f"sets its clock back by {seconds} s")
            case "clock stands":
                faults.stop_clock(self, chance)
            case "delete":
                faults.delete(self, chance)

    def _calm_down(self) -> None:
        """End all faults."""
        self.end_trouble()
        self.service.release_clock()
        for machine in self.world.machines:
            machine.resume()
            machine.fuse = None
        self.world.note("JUDGE", "quiet from here on")


def _shown(bound: int | None) -> str:
    return "none" if bound is None else str(bound - EPOCH_OF_RUNS)
