"""Walks without a socket: the planner asks, the pure rule of the list call answers."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from attrs import define, field
from hypothesis import strategies as st

from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import EPOCH
from income_client.walk.checkpoint import read_checkpoint, write_checkpoint
from income_client.walk.planner import Question, WalkPlanner
from income_client.walk.windows import Answer, Bounds, Delivery
from tests.support.listing import BASE, DAY, Listing, Page, Query
from tests.support.walk_data import LIMITS, WALKERS, listings


def rows_of(dates: Mapping[str, int]) -> tuple[ApplicationSummary, ...]:
    """Return rows of the list with these ids, each with the second of its date."""
    return tuple(
        ApplicationSummary(
            application_id=key,
            application_reference_id=key,
            application_date=EPOCH + timedelta(seconds=second),
        )
        for key, second in dates.items()
    )


def page_of(after: int, before: int, dates: Mapping[str, int]) -> ApplicationPage:
    """Return a page of such rows that echoes these bounds."""
    return ApplicationPage(
        updated_after=EPOCH + timedelta(seconds=after),
        updated_before=EPOCH + timedelta(seconds=before),
        applications=rows_of(dates),
    )


@define(kw_only=True)
class DryWalk:
    """One walk over a listing, a step at a time; its chance decides which answer comes next."""

    listing: Listing
    planner: WalkPlanner
    limit: int
    dates: Mapping[str, int]
    """The second of each application's date."""
    delivered: list[Delivery] = field(factory=list)
    in_flight: list[tuple[Question, Answer | None]] = field(factory=list)
    """Questions and their answers, None for one that is refused."""
    options: Mapping[str, Any]
    """Of the planner."""

    @property
    def ids(self) -> list[str]:
        """The ids delivered, in order."""
        return [row.application_id for one in self.delivered for row in one.page.applications]

    def run(self) -> "DryWalk":
        """Walk to the end."""
        while self.step():
            pass
        return self

    def resumed(self) -> "DryWalk":
        """Walk to the end from where this walk is."""
        bounds = self.planner.bounds
        _, covered = read_checkpoint(write_checkpoint(bounds, self.planner.covered))
        options = {**self.options, "covered": covered}
        return dry_walk(
            self.listing, bounds.after, bounds.before, limit=self.limit, dates=self.dates, **options
        ).run()

    def step(self) -> bool:
        """Ask all that can be asked, take one answer; tell whether there was one."""
        while (question := self.planner.next()) is not None:
            self.in_flight.append((question, self._ask(question)))
        if not self.in_flight:
            assert self.planner.is_finished
            return False
        which = self.listing.chance.randrange(len(self.in_flight))
        question, answer = self.in_flight.pop(which)
        if answer is None:
            assert self.planner.refuse(question), f"{question} was refused"
        else:
            self.planner.receive(question, answer)
        while self.planner.ready:
            delivery = self.planner.ready.popleft()
            self.delivered.append(delivery)
            self.planner.acknowledge(delivery)
        return True

    def _ask(self, question: Question) -> Answer | None:
        listing, bounds = self.listing, question.bounds
        if not listing.rules.clock_stands:
            listing.now += round(question.delay)
        reply = listing.ask(Query(after=bounds.after, before=bounds.before, limit=self.limit))
        assert not listing.overran, "the walk does not end"
        if not isinstance(reply, Page):
            return None
        ahead = listing.rules.date_ahead
        served_at = None if ahead is None else listing.now + ahead
        page = page_of(reply.after, reply.before, {key: self.dates[key] for key in reply.ids})
        return Answer.of(page, self.limit, served_at)


def dry_walk(
    listing: Listing,
    after: int,
    before: int | None,
    *,
    limit: int,
    dates: Mapping[str, int] | None = None,
    **options: Any,
) -> DryWalk:
    """Prepare a walk; without ``dates`` they lie up to three days before the first update."""
    if dates is None:
        rows = enumerate(listing.rows.items())
        dates = {key: second - number * 7919 % (3 * DAY) for number, (key, second) in rows}
    planner = WalkPlanner(Bounds(after, before), limit=limit, **{"walkers": 1, **options})
    return DryWalk(listing=listing, planner=planner, limit=limit, dates=dates, options=options)


@st.composite
def walks(
    draw: st.DrawFn,
    /,
    since: Sequence[int] = (5,),
    after: Sequence[int] = (-1,),
    is_open: Sequence[bool] = (False, True),
    limits: st.SearchStrategy[int] = LIMITS,
    walkers: st.SearchStrategy[int] = WALKERS,
    **fixed: Any,
) -> DryWalk:
    """Draw a walk up to the present of a listing, which is its upper bound unless it is open.

    Args:
        draw: given by Hypothesis.
        since: as for `listings`.
        after: seconds from ``BASE`` to the lower bound.
        is_open: whether there is no upper bound.
        limits: of its pages.
        walkers: how many questions are in flight at once.
        fixed: as for `readings`.
    """
    limit = draw(limits, "limit")
    listing = draw(listings(Listing, limit, since, **fixed))
    lower = BASE + draw(st.sampled_from(after), "after")
    before = None if draw(st.sampled_from(is_open), "is open") else listing.now
    return dry_walk(listing, lower, before, limit=limit, walkers=draw(walkers, "walkers"))
