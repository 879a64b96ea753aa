"""Walks without a socket: the planner asks, the pure rule of the list call answers."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

from attrs import define, field

from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import EPOCH, Window
from income_client.walk.planner import Question, WalkPlanner
from income_client.walk.windows import Answer, Bounds, Delivery
from tests.support.listing import Listing, Outcome, Page, Query
from tests.support.walk_data import DAY

Hook = Callable[[Listing], None]


def nothing(world: Listing) -> None:
    """Let the service be."""


@define(kw_only=True)
class Walk:
    """One walk over a world, a step at a time."""

    world: Listing
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
    dates: dict[str, int] = field(init=False)
    """The second of each application's date, up to three days before it was first updated."""
    delivered: list[Delivery] = field(factory=list)
    in_flight: list[tuple[Question, Outcome]] = field(factory=list)

    @dates.default
    def _invented(self) -> dict[str, int]:
        rows = enumerate(self.world.rows.items())
        return {key: second - number * 7919 % (3 * DAY) for number, (key, second) in rows}

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
        if isinstance(reply, int):
            assert self.planner.refuse(question), f"{question} was refused: {reply}"
        else:
            served_at = self.world.now if self.tells_time else None
            answer = Answer.of(self._read(reply), self.limit, served_at)
            self.planner.receive(question, answer)
        assert self.planner.requests <= self.most_requests, "the walk does not end"
        while self.planner.ready:
            delivery = self.planner.ready.popleft()
            self.delivered.append(delivery)
            self.planner.acknowledge(delivery)
        return True

    def row_of(self, application_id: str) -> ApplicationSummary:
        """Return an application as a row of the list."""
        return ApplicationSummary(
            application_id=application_id,
            application_reference_id=application_id,
            application_date=EPOCH + timedelta(seconds=self.dates[application_id]),
        )

    def _read(self, page: Page) -> ApplicationPage:
        return ApplicationPage(
            updated_after=EPOCH + timedelta(seconds=page.after),
            updated_before=EPOCH + timedelta(seconds=page.before),
            applications=tuple(map(self.row_of, page.ids)),
        )

    def _ask(self) -> None:
        while (question := self.planner.next()) is not None:
            if question.delay and self.time_flows:
                self.world.now += round(question.delay)
            self.before_answer(self.world)
            bounds = question.bounds
            query = Query(after=bounds.after, before=bounds.before, limit=self.limit)
            self.in_flight.append((question, self.world.page(query)))


def walk(
    world: Listing,
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
