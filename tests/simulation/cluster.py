"""One run of a plan: processes, the service, the store, faults, and quiet periods."""

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from attrs import evolve

from income_client import CheckpointError, DeadLetter
from income_client.checkpoints import StoredCheckpoint

from . import callbacks, faults, promises, standbys
from .applications import Version
from .consumers import Process
from .deliveries import Books, Life
from .letters import judge_due_letters, note_forgotten
from .loops import EPOCH_OF_RUNS, Entry, Machine, World
from .plan import Fault, Plan, Settings
from .released import leave_behind
from .service import SimulatedService, Trouble
from .stores import Outage, Row, State, StoreServer
from .streams import StreamServer, end_trouble, judge_stored

_LONGEST_STOP: Final = 30.0


class Cluster:
    """The run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        self.service = SimulatedService(self.world, plan.rules, plan.documents, plan.zone)
        note_removal = partial(note_forgotten, self)
        self.store = StoreServer(self.world, plan.kind, self._on_save, note_removal)
        self.books = Books(self.world, self.service)
        self.stream = StreamServer(self.world)
        self.backup: State | None = None
        self.poisonous: str | None = None
        """The application on which the consumer's blocks fail."""
        self.quiet_since: float | None = None
        """Time at which the last fault ended; None while there are faults."""
        self.disturbances: int = 0
        """Faults and deaths so far: what a deadline is not kept over."""
        self.calm_since: float = 0.0
        """Time from which the store has answered every call."""
        self._places: list[Process | None] = [None] * plan.machines
        self.begins_anew: bool = False
        """Whether an operator has the name begin anew, since its checkpoint is lost."""
        self.is_over: bool = False
        """Whether everybody is stopped."""
        self._lives = 0

    @property
    def processes(self) -> list[Process]:
        """The processes that run."""
        return [process for process in self._places if process is not None]

    @property
    def is_quiet(self) -> bool:
        """Whether no faults happen."""
        return self.quiet_since is not None

    @property
    def is_calm(self) -> bool:
        """Whether the store answers every call."""
        return self.store.outage == Outage()

    @property
    def is_serving(self) -> bool:
        """Whether the service answers every request."""
        return self.service.trouble == Trouble()

    def was_disturbed_since(self, moment: float) -> bool:
        """Return whether the service or the store may have failed since a moment."""
        return not self.is_calm or max(self.calm_since, self.service.failed_at) >= moment

    def process_of(self, machine: Machine) -> Process | None:
        """Return the process that runs on a machine."""
        return next((one for one in self.processes if one.machine is machine), None)

    def process_at(self, place: int) -> Process | None:
        """Return the process that runs at a place."""
        return self._places[place]

    @property
    def leader(self) -> Process | None:
        """The process that has made the last save, if it runs on and holds its lease."""
        last = self.books.last
        if last is None or last.new.lease == 0:
            return None
        process = self.process_of(last.machine)
        is_leader = process is not None and not (process.is_standby or process.is_stopping)
        return process if is_leader else None

    def play(self) -> None:
        """Play the plan until its end, or until a promise is broken."""
        plan, world = self.plan, self.world
        for at, number in plan.updates:
            if at < 0:
                self.books.updated(self.service.touch(f"app-{number}", ago=-at * plan.past))
            else:
                world.at(at, lambda number=number: self.touch(f"app-{number}"))  # type: ignore[misc]
        if plan.release is not None:
            leave_behind(self, plan.release)
        for fault in plan.faults:
            world.at(fault.at, lambda fault=fault: self._play_fault(fault))  # type: ignore[misc]
        if plan.zone.shift:
            how = "forward" if plan.zone.shift > 0 else "back"
            world.at(plan.zone.changes_at - EPOCH_OF_RUNS, lambda: self._note_change(how))
        for callback in plan.callbacks:
            world.at(callback.at, lambda callback=callback: callbacks.play(self, callback))  # type: ignore[misc]
        for place in range(plan.machines):
            world.after(5 * world.chance.random(), lambda place=place: self.start(place))  # type: ignore[misc]
        standbys.watch(self)
        for number in range(plan.profile.epochs):
            self.quiet_since = None
            begin = number * (plan.epoch + plan.quiet)
            world.at(begin + 0.3 * plan.epoch, self._back_up)
            world.run(begin + plan.epoch)
            self._calm_down()
            world.run(begin + plan.epoch + plan.quiet / 2)
            polls = {one: one.poller.status.polls for one in self.processes if one.is_leader}
            received = world.situations["consumer: record received"]
            world.run(begin + plan.epoch + plan.quiet)
            promises.judge_polls(self, polls, received)
            self._judge_quiet(is_last=False)
        self._catch_up()
        self._end()

    def _note_change(self, how: str) -> None:
        self.world.note("service", f"sets the clocks of its zone {how}")
        self.world.count(f"zone: clocks set {how}")

    @property
    def calls(self) -> int:
        """Number of list calls that the service has answered."""
        return len(self.service.lists)

    def is_relevant(self, entry: Entry) -> bool:
        """Return whether a line touches the application that was lost, the holder or the store."""
        lost = None if self.world.violation is None else self.world.violation.application_id
        holder = None if self.books.last is None else self.books.last.machine.name
        if entry.application_id is not None:
            return entry.application_id == lost
        return lost is None or entry.who in ("store", "fault", "JUDGE", holder)

    def touch(self, application_id: str) -> Version | None:
        """Have the service update an application, unless it is deleted; return its version."""
        application = self.service.applications.get(application_id)
        if application is not None and application.is_deleted:
            return None
        version = self.service.touch(application_id)
        self.books.updated(version)
        return version

    def start(self, place: int) -> None:
        """Start a process, unless one runs there."""
        if self.is_over or self._places[place] is not None:
            return
        chance, settings = self.world.chance, self.plan.settings
        self._lives += 1
        name, rate = f"m{place}.{self._lives}", chance.choice((1.0, 0.99, 1.01))
        machine = Machine(self.world, name, rate=rate, offset=1e4 * chance.random())
        if self.plan.changes_settings:
            settings = self._changed(settings)
        own = self.books.own
        self.books.lives[machine] = Life(settings, own)
        self.world.note(name, f"begins with {settings}")
        process = Process(self, place, machine, settings, own.checkpoint)
        self._places[place] = process
        machine.on_death = lambda: self._died(process)
        process.task.add_done_callback(lambda _: self._ended(process))

    def _changed(self, settings: Settings) -> Settings:
        chance = self.world.chance
        return evolve(
            settings,
            settle=settings.settle * chance.choice((1, 2)),
            lease=settings.lease * chance.choice((1, 1, 2)),
            interval=settings.interval * chance.choice((1, 0.5)),
        )

    # Ends

    def _died(self, process: Process) -> None:
        """Start the next life after a while, as a supervisor or cron does."""
        self._places[process.place] = None
        delay = 1 + self.world.chance.choice((0, 3, 100)) * self.world.chance.random()
        if self.plan.once:
            delay = process.settings.interval
        self.world.after(delay, lambda: self.start(process.place))
        if not process.task.done():
            self.disturbances += 1

    def _ended(self, process: Process) -> None:
        """Judge how a program has ended, and what it leaves."""
        machine, task = process.machine, process.task
        error = None if task.cancelled() else task.exception()
        self.world.note(machine.name, f"ends: {'cancelled' if task.cancelled() else error!r}")
        promises.judge_end(self, process, error)
        if isinstance(error, CheckpointError) and process.must_exist:
            self._repair_store()
        if error is None and not task.cancelled():
            standbys.judge_release(self, machine)

        def judge_rest() -> None:
            if not machine.is_dead:
                promises.judge_rest(self, machine)
                machine.kill("is gone")

        self.world.after(0.001, judge_rest)  # what it has cancelled may take a step more

    def _repair_store(self) -> None:
        """Do what an operator does about an emptied store: restore its backup, or begin anew."""
        if self.store.state.stored.checkpoint is not None:
            return
        if self.backup is not None and self.backup.stored.checkpoint is not None:
            letters = dict(self.store.state.letters)
            self.store.restore(self.backup)
            self.note_lost_saves(letters)
        else:
            self.begins_anew = True

    # Saves

    def _on_save(
        self,
        server: StoreServer,
        machine: Machine,
        before: StoredCheckpoint,
        rows: Sequence[Row],
    ) -> None:
        promises.judge_effects(self, rows)
        self.books.wrote(rows)
        save = self.books.save_of(server, machine, before)
        promises.judge_save(self, save)
        if self.plan.consumer == "relay":
            judge_stored(self, save)
        self.books.saved(server, save)
        self.begins_anew = False

    def note_lost_saves(self, letters: dict[str, DeadLetter], *, keeps_rows: bool = False) -> None:
        """Note that the store has lost saves; its dead letters were these."""
        is_own = self.plan.consumer == "own checkpoint"
        self.books.store_lost_saves(self.store, letters, own=is_own)
        if self.plan.consumer.startswith("transaction") and not keeps_rows:
            self.books.lost_rows(self.store.state.rows)

    # Faults

    def _play_fault(self, fault: Fault) -> None:
        chance, process = random.Random(fault.detail), self._places[fault.target]
        self.disturbances += 1
        self.world.note("fault", f"{fault.kind} (machine {fault.target})")
        self.world.count(f"fault: {fault.kind}")
        if fault.kind in faults.ON_ALL:
            faults.ON_ALL[fault.kind](self, chance)
        elif process is not None:
            faults.ON_PROCESSES[fault.kind](self, process, chance)

    def _back_up(self) -> None:
        self.backup = self.store.state.copy()

    def end_trouble(self) -> None:
        """Have the service answer well again."""
        self.disturbances += 1
        self.service.trouble = Trouble()

    def begin_outage(self, outage: Outage) -> None:
        """Have the store fail."""
        self.disturbances += 1
        self.store.outage = outage

    def end_outage(self) -> None:
        """Have the store answer again."""
        self.disturbances += 1
        self.store.outage, self.calm_since = Outage(), self.world.now

    # Quiet periods

    def _calm_down(self) -> None:
        """End all faults; whoever is down comes back."""
        self.quiet_since = self.world.now
        self.end_trouble()
        self.end_outage()
        end_trouble(self)
        self.poisonous = None
        for application in self.service.applications.values():
            if application.defect == "missing":
                self.touch(application.id)
            application.defect = None
        self.service.release_clock()
        for machine in self.world.machines:
            machine.resume()
            machine.fuse = None
        for place in range(self.plan.machines):
            self.world.after(1.0, lambda place=place: self.start(place))  # type: ignore[misc]
        self.world.note("JUDGE", "quiet from here on")

    def _judge_quiet(self, *, is_last: bool) -> None:
        if self.world.violation is None:
            promises.judge_quiet(self, is_last=is_last)
            judge_due_letters(self)
            if self.plan.consumer != "records":
                promises.judge_sequences(self)

    def _catch_up(self) -> None:
        """Wait until a clock that was set back has shown every time again, and judge the end."""
        seconds = [one.latest.second for one in self.service.applications.values()]
        latest = max(seconds, default=0)
        settings = self.plan.settings
        needed = 2 * (settings.settle + settings.interval) + promises.LONGEST_RETRY
        behind = latest + needed - self.service.second
        if behind > 0:
            self.world.run(self.world.now + behind + self.plan.quiet)
        self._judge_quiet(is_last=True)

    def _end(self) -> None:
        """Stop everybody."""
        self.is_over = True
        if self.world.violation is None:
            promises.judge_memory(self)
        for process in self.processes:
            process.stop()
        self.world.run(self.world.now + _LONGEST_STOP)
        if self.world.violation is None:
            promises.judge_stopped(self)
