"""Access tokens: processes that make calls, and share a token through a store or do not.

Tokens expire and are revoked, the endpoint fails, hangs or refuses the credentials, the store
loses calls and tokens, clocks differ, calls are cancelled. `token_promises` judges each request.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from attrs import define, evolve, field, frozen

from income_client import Application, OAuth2ClientCredentials, Timeouts
from income_client.http.endpoints import get_application
from income_client.http.replies import read_reply
from income_client.http.session import SessionManager, open_session

from . import token_promises
from .loops import Entry, Machine, MachineClock, World
from .plan import Fault, Profile, draw_faults
from .token_service import (
    ClaimingStore,
    SharedStore,
    TokenService,
    TokenShelf,
    TokenTransport,
    Trouble,
    wall_time_of,
)

_FAULTS: Final = {
    "kill": 1,
    "stop": 2,
    "pause": 1,
    "revoke": 2,
    "endpoint": 3,
    "API": 2,
    "store": 3,
    "store loses": 1,
    "wall clock": 1,
}
_SECONDS: Final = 400.0
"""Seconds of faults."""
_QUIET: Final = 200.0
"""Seconds without any after them."""
_MOST_STEPS: Final = 300
_SHARES: Final = (0.2, 1.0)
_LONGEST_TROUBLE: Final = 60.0


@frozen(kw_only=True)
class TokenPlan:
    """All that is drawn for a run."""

    seed: int
    machines: int
    lifetime: int
    """Seconds of a token's life."""
    keeps_newest: bool
    """Whether a new token ends the one before."""
    store: str
    """Store that processes share: none, plain, or one with claims of the renewal."""
    store_delay: float
    deadline: float
    concurrency: int
    gap: float
    """Mean seconds between bursts of calls."""
    burst: int
    """Calls that begin at the same moment, at most."""
    cancels: float
    """Share of calls that are cancelled."""
    faults: tuple[Fault, ...]

    @classmethod
    def drawn(cls, seed: int, profile: Profile) -> "TokenPlan":
        """Draw a run."""
        chance = random.Random(f"tokens {profile.name} {seed}")
        machines = chance.choice((1, 2, 4))
        is_calm = chance.random() < 0.2
        return cls(
            seed=seed,
            machines=machines,
            lifetime=chance.choice((20, 60, 600, 3_600)),
            keeps_newest=chance.random() < 0.3,
            store=chance.choice(("none", "plain", "claiming", "claiming")),
            store_delay=chance.choice((0.002, 0.05, 0.4)),
            deadline=chance.choice((10.0, 30.0, 120.0)),
            concurrency=chance.choice((1, 4, 16)),
            gap=chance.choice((2.0, 5.0, 20.0)),
            burst=chance.choice((1, 4, 12)),
            cancels=chance.choice((0.0, 0.2)),
            faults=()
            if is_calm
            else draw_faults(chance, _FAULTS, (10.0, 30.0, 90.0), (0.0,), _SECONDS, machines),
        )

    @property
    def summary(self) -> str:
        """The plan in a few lines, without its faults."""
        return f"{evolve(self, faults=())}\nfaults: {len(self.faults)}"


@define(eq=False)
class Call:
    """One call of the API."""

    began_at: float
    """In the world's time."""
    machine_began_at: float
    """By the clock of its process."""
    must_go_out: bool
    """Whether its process has a token that serves, and a free slot."""
    refused: list[str] = field(factory=list)
    """Tokens with which it was answered by 401."""
    is_sent: bool = False
    is_cancelled: bool = False


@define(eq=False)
class Process:
    """One life of a process on a machine."""

    run: "TokenRun"
    place: int
    machine: Machine
    wall_offset: float
    calls: dict[str, Call] = field(factory=dict)
    """Calls that have not ended, by the id of what they read."""
    refused: set[str] = field(factory=set)
    """Tokens that the API has refused to it."""
    store: SharedStore | None = field(init=False)
    newest: str | None = None
    """The last token that it has received from the endpoint."""
    last_sent: str | None = None
    """The token of its last call."""
    newest_at: float = 0.0
    """Time at which the newest token was requested, by the machine's clock."""
    requested_at: float | None = None
    """Time of the token request in flight, in the world's time."""
    locked_at: float = float("-inf")
    """Time at which the endpoint refused the credentials, by the machine's clock."""
    is_stopping: bool = False
    task: "asyncio.Task[None]" = field(init=False)
    _tasks: set["asyncio.Task[None]"] = field(factory=set)
    _number: int = 0

    def __attrs_post_init__(self) -> None:
        self.store = self.run.store_of(self.machine)
        self.task = self.machine.create_task(self._main())

    def receive(self, token: str, sent_at: float) -> None:
        """Note a token from the endpoint."""
        self.newest, self.newest_at = token, sent_at

    def seconds_until(self, margin: float) -> float:
        """Return the seconds until its newest token has so many left; 0 without any."""
        if self.newest is None or self.newest in self.refused:
            return 0.0
        return self.newest_at + self.run.plan.lifetime - margin - self.machine.time()

    async def _main(self) -> None:
        run, plan, clock = self.run, self.run.plan, MachineClock(self.machine)
        session = open_session(
            TokenTransport(run, self),
            auth=OAuth2ClientCredentials("id", "secret"),
            timeouts=Timeouts(deadline=plan.deadline),
            concurrency=plan.concurrency,
            token_store=self.store,
            clock=clock,
            wall_time=lambda: wall_time_of(run.world, self.wall_offset),
            chance=run.world.chance.random,
        )
        try:
            while not self.is_stopping:
                for _ in range(run.world.chance.randrange(plan.burst) + 1):
                    self._begin_call(session)
                await clock.sleep(run.world.chance.expovariate(1 / plan.gap))
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            await session.aclose()

    def _begin_call(self, session: SessionManager) -> None:
        chance, plan = self.run.world.chance, self.run.plan
        self._number += 1
        name = f"{self.machine.name}-{self._number}"
        serves = self.seconds_until(min(10.0, plan.lifetime / 20)) > 0
        is_used = serves and self.last_sent == self.newest
        must_go_out = is_used and len(self.calls) < plan.concurrency
        call = Call(self.run.world.now, self.machine.time(), must_go_out)
        self.calls[name] = call
        task = self.machine.create_task(self._call(session, name))
        self._tasks.add(task)
        task.add_done_callback(partial(self._end_call, name, call))
        if chance.random() < plan.cancels:
            self.machine.call_later(3 * chance.random(), self._cancel, call, task)

    def _cancel(self, call: Call, task: "asyncio.Task[None]") -> None:
        call.is_cancelled = True
        task.cancel()

    async def _call(self, session: SessionManager, name: str) -> None:
        request = get_application(name)
        await session.call(request, partial(read_reply, Application, request))

    def _end_call(self, name: str, call: Call, task: "asyncio.Task[None]") -> None:
        del self.calls[name]
        self._tasks.discard(task)
        error: BaseException | None = None
        if not task.cancelled():
            error = task.exception()
        elif not call.is_cancelled:
            error = asyncio.CancelledError()
        self.run.world.count("call: ended" if error is None else f"call: {type(error).__name__}")
        if error is not None:
            self.run.world.note(self.machine.name, f"{name}: {error!r}")
        token_promises.judge_call(self.run, self, call, error)


class TokenRun:
    """The run of a plan."""

    def __init__(self, plan: TokenPlan) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        self.service = TokenService(self.world, plan.lifetime, plan.keeps_newest)
        self.shelf = TokenShelf(self.world, plan.store_delay)
        self.troubled_until: dict[str, float] = {}
        """End of the last fault of each part."""
        self.processes: list[Process] = []
        self._is_over = False
        self._lives = 0

    @property
    def calls(self) -> int:
        """Number of requests that the service has answered."""
        return self.service.answered

    def is_relevant(self, _entry: Entry) -> bool:
        """Return True: the time line is short."""
        return True

    def store_of(self, machine: Machine) -> SharedStore | None:
        """Return what a process has of the store."""
        kinds = {"none": None, "plain": SharedStore, "claiming": ClaimingStore}
        kind = kinds[self.plan.store]
        return None if kind is None else kind(self.shelf, machine)

    def is_calm(self, seconds: float, *parts: str) -> bool:
        """Return whether no fault of these parts has lasted into the last seconds."""
        since = self.world.now - seconds
        return all(self.troubled_until.get(part, 0.0) <= max(since, 0.0) for part in parts)

    def play(self) -> None:
        """Play the plan until its end, or until a promise is broken."""
        plan, world = self.plan, self.world
        for place in range(plan.machines):
            world.after(
                world.chance.choice((0.0, 1.0)) * world.chance.random(), partial(self._start, place)
            )
        for fault in plan.faults:
            world.at(fault.at, partial(self._play_fault, fault))
        world.run(_SECONDS)
        self._calm_down()
        world.run(_SECONDS + _QUIET)
        self._is_over = True
        for process in self.processes:
            process.is_stopping = True
        world.run(world.now + 200 + 10 * plan.gap + plan.deadline)
        if world.violation is None:
            token_promises.judge_end(self)

    def _start(self, place: int) -> None:
        if self._is_over:
            return
        self._lives += 1
        chance = self.world.chance
        machine = Machine(
            self.world,
            f"m{place}.{self._lives}",
            rate=chance.choice((1.0, 0.99, 1.01)),
            offset=1e4 * chance.random(),
        )
        process = Process(self, place, machine, chance.choice((0.0, 0.0, 1.0, -30.0, 600.0)))
        self.processes.append(process)
        machine.on_death = lambda: self._died(process)
        process.task.add_done_callback(lambda _: self._ended(process))

    def _died(self, process: Process) -> None:
        self.processes.remove(process)
        self._trouble("machines", 0.0)
        self.world.after(1 + 5 * self.world.chance.random(), partial(self._start, process.place))

    def _ended(self, process: Process) -> None:
        def judge_rest() -> None:
            if not process.machine.is_dead:
                token_promises.judge_rest(self, process)
                process.machine.kill("is gone")

        self.world.after(0.001, judge_rest)

    def _trouble(self, part: str, seconds: float) -> None:
        until = self.world.now + seconds
        self.troubled_until[part] = max(self.troubled_until.get(part, 0.0), until)

    def _play_fault(self, fault: Fault) -> None:
        chance, world = random.Random(fault.detail), self.world
        process = next((one for one in self.processes if one.place == fault.target), None)
        world.note("fault", f"{fault.kind} (machine {fault.target})")
        world.count(f"fault: {fault.kind}")
        match fault.kind:
            case "kill" if process is not None:
                process.machine.fuse = chance.randrange(_MOST_STEPS)
            case "stop" if process is not None:
                process.is_stopping = True
            case "pause" if process is not None:
                seconds = 40 * chance.random()
                self._trouble("machines", seconds)
                process.machine.suspend(seconds, stops_clock=chance.random() < 0.3)
            case "wall clock" if process is not None:
                self._trouble("machines", 0.0)
                process.wall_offset += chance.choice((-3_600, -60, 60, 3_600))
            case "revoke":
                self._trouble("revoked", 0.0)
                self.service.revoke_all()
            case "store loses":
                self._trouble("store", 0.0)
                self.shelf.lose()
            case "endpoint" | "API" | "store":
                self._begin_trouble(fault.kind, chance)

    def _begin_trouble(self, part: str, chance: random.Random) -> None:
        kinds = ("lost", "reply_lost", "slow", "failing")
        kind = chance.choice(kinds if part == "store" else (*kinds, "refused"))
        seconds = _LONGEST_TROUBLE * chance.random()
        trouble = Trouble(**{kind: chance.choice(_SHARES)})
        self.world.note("fault", f"{part}: {trouble}")
        self._trouble(part, seconds)
        self._set_trouble(part, trouble)
        self.world.after(seconds, partial(self._set_trouble, part, Trouble()))

    def _set_trouble(self, part: str, trouble: Trouble) -> None:
        setters: dict[str, Callable[[Any], None]] = {
            "endpoint": partial(setattr, self.service, "endpoint"),
            "API": partial(setattr, self.service, "api"),
            "store": partial(setattr, self.shelf, "trouble"),
        }
        setters[part](trouble)

    def _calm_down(self) -> None:
        """End all faults."""
        for part in ("endpoint", "API", "store"):
            self._set_trouble(part, Trouble())
            self.troubled_until[part] = min(self.troubled_until.get(part, 0.0), self.world.now)
        for machine in self.world.machines:
            machine.resume()
            machine.fuse = None
        self.world.note("JUDGE", "quiet from here on")
