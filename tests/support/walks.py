"""Walks without a socket: the planner asks, the emulator's list rule answers."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any, Final

from attrs import define, field
from hypothesis import strategies as st

from income_client.emulator import ListReply, Refused, ServiceRules, World, list_reply
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import EPOCH, Window
from income_client.walk.planner import Question, WalkPlanner
from income_client.walk.windows import Answer, Bounds, Delivery

BASE: Final = 1_700_000_000
"""The second at which the worlds of these tests begin."""

Hook = Callable[[World], None]


def nothing(world: World) -> None:
    """Let the service be."""


@define(kw_only=True)
class Walk:
    """One walk over a world, a step at a time."""

    world: World
    planner: WalkPlanner
    limit: int
    chance: Random
    """Decides which of the questions in flight is answered next."""
    before_answer: Hook = nothing
    """What happens at the service before it answers."""
    time_flows: bool = True
    """Whether a pause moves service time."""
    tells_time: bool = True
    """Whether replies say when they were served."""
    most_requests: int = 20_000
    delivered: list[Delivery] = field(factory=list)
    in_flight: list[tuple[Question, ListReply | Refused]] = field(factory=list)

    @property
    def ids(self) -> list[str]:
        """The ids delivered, in order."""
        return [row.application_id for one in self.delivered for row in one.page.applications]

    def run(self) -> "Walk":
        """Walk to the end."""
        while self.step():
            pass
        return self

    def step(self) -> bool:
        """Ask all that can be asked, take one answer; tell whether there was one."""
        self._ask()
        if not self.in_flight:
            assert self.planner.is_finished
            return False
        question, reply = self.in_flight.pop(self.chance.randrange(len(self.in_flight)))
        if isinstance(reply, Refused):
            assert self.planner.refuse(question), f"{question} was refused: {reply.reason}"
        else:
            served_at = self.world.now if self.tells_time else None
            answer = Answer.of(page_of(self.world, reply), self.limit, served_at)
            self.planner.receive(question, answer)
        assert self.planner.requests <= self.most_requests, "the walk does not end"
        while self.planner.ready:
            delivery = self.planner.ready.popleft()
            self.delivered.append(delivery)
            self.planner.acknowledge(delivery)
        return True

    def _ask(self) -> None:
        while (question := self.planner.next()) is not None:
            if question.delay and self.time_flows:
                self.world.advance_to(self.world.now + round(question.delay))
            self.before_answer(self.world)
            bounds = question.bounds
            reply = list_reply(
                self.world,
                self.world.rules,
                after=bounds.after,
                before=bounds.before,
                limit=self.limit,
            )
            self.in_flight.append((question, reply))


def page_of(world: World, reply: ListReply) -> ApplicationPage:
    """Return a reply of the emulator's list rule as the page that a client reads."""
    return ApplicationPage(
        updated_after=EPOCH + timedelta(seconds=reply.after),
        updated_before=EPOCH + timedelta(seconds=reply.before),
        applications=tuple(row_of(world, one) for one in reply.ids),
    )


def row_of(world: World, application_id: str) -> ApplicationSummary:
    """Return an application as a row of the list."""
    number = world.number_of(application_id)
    assert number is not None
    return ApplicationSummary(
        application_id=application_id,
        application_reference_id=application_id,
        application_date=EPOCH + timedelta(seconds=world.applied_at(number)),
    )


def walk(
    world: World,
    after: int,
    before: int | None,
    *,
    limit: int,
    walkers: int = 1,
    chance: Random | None = None,
    before_answer: Hook = nothing,
    time_flows: bool = True,
    tells_time: bool = True,
    **planner: Any,
) -> Walk:
    """Prepare a walk."""
    return Walk(
        world=world,
        planner=WalkPlanner(Bounds(after, before), limit=limit, walkers=walkers, **planner),
        limit=limit,
        chance=chance or Random(0),
        before_answer=before_answer,
        time_flows=time_flows,
        tells_time=tells_time,
    )


def parts_of(planner: WalkPlanner) -> list[Window]:
    """Return what is planned or in flight and what is covered, in ascending order."""
    return sorted([*planner.planned, *planner.covered])


@st.composite
def update_times(draw: st.DrawFn, limit: int) -> list[int]:
    """Draw update times from ``BASE`` on, always fewer than ``limit`` in a second."""
    length = draw(st.sampled_from([2, 20, 300, 5_000, 1_000_000]), label="span")
    kind = draw(st.sampled_from(["uniform", "bursty", "boundary", "one second", "heavy"]))
    size = draw(st.integers(0, limit * draw(st.sampled_from([1, 3, 10]))))
    chance = Random(draw(st.integers(0, 2**32)))
    pick: dict[str, Callable[[], int]] = {
        "uniform": lambda: chance.randrange(length + 1),
        "bursty": lambda: min(length, length // 3 + chance.randrange(4)),
        "boundary": lambda: chance.choice([0, 1, length // 2, length - 1, length]),
        "one second": lambda: length // 2,
        "heavy": lambda: int(length * chance.random() ** 5),
    }
    held: dict[int, int] = {}
    times = []
    for _ in range(size):
        second = BASE + pick[kind]()
        if held.get(second, 0) < limit - 1:
            held[second] = held.get(second, 0) + 1
            times.append(second)
    return times


@st.composite
def service_rules(draw: st.DrawFn) -> ServiceRules:
    """Draw a meaning of the bounds, an order, and how windows are cut short."""
    return ServiceRules(
        lower_closed=draw(st.booleans(), label="lower closed"),
        upper_closed=draw(st.booleans(), label="upper closed"),
        order=draw(st.sampled_from(["ascending", "descending", "shuffled", "random"])),
        max_span=draw(st.sampled_from([None, None, 6, 40, 3_600])),
        span_clamp=draw(st.sampled_from(["after", "before"])),
        oldest=draw(st.sampled_from([None, None, BASE + 5, BASE + 100])),
        future=draw(st.sampled_from(["accept", "clamp", "refuse"])),
    )
