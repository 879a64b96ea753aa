"""The rule of the list call, against a plain reading of the contract."""

from collections.abc import Sequence

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator import (
    FutureBounds,
    ListReply,
    Order,
    Refused,
    ServiceRules,
    SpanClamp,
    World,
    list_reply,
)

NOW = 50
TIMES = st.lists(st.integers(0, 60), max_size=40)
BOUND = st.none() | st.integers(-5, 65)
RULES = st.builds(
    ServiceRules,
    lower_closed=st.booleans(),
    upper_closed=st.booleans(),
    order=st.sampled_from(Order),
    max_span=st.none() | st.integers(1, 30),
    span_clamp=st.sampled_from(SpanClamp),
    oldest=st.none() | st.integers(0, 40),
    future=st.sampled_from([FutureBounds.ACCEPT, FutureBounds.CLAMP]),
    default_span=st.none() | st.integers(0, 40),
)


def _within(window: ListReply, rules: ServiceRules, times: Sequence[int]) -> list[int]:
    return [
        number
        for number, second in enumerate(times)
        if (second > window.after or (rules.lower_closed and second == window.after))
        and (second < window.before or (rules.upper_closed and second == window.before))
    ]


@given(times=TIMES, rules=RULES, after=BOUND, before=BOUND, limit=st.integers(1, 50))
def test_page_holds_rows_of_the_echoed_window(
    times: list[int], rules: ServiceRules, after: int | None, before: int | None, limit: int
) -> None:
    """A page holds rows of the window it echoes, each once, and all of them unless it is full."""
    world = World(times, now=NOW, rules=rules)
    reply = list_reply(world, rules, after=after, before=before, limit=limit)
    assert isinstance(reply, ListReply)
    matching = {world.id_of(number) for number in _within(reply, rules, times)}
    assert len(reply.ids) == min(limit, len(matching))
    assert set(reply.ids) <= matching
    assert len(set(reply.ids)) == len(reply.ids)


@given(times=TIMES, rules=RULES, after=BOUND, before=BOUND)
def test_truth_is_the_unlimited_page(
    times: list[int], rules: ServiceRules, after: int | None, before: int | None
) -> None:
    """The truth about two bounds is what a question returns when nothing narrows it."""
    rules = evolve(rules, max_span=None, default_span=None, future="accept")
    world = World(times, now=NOW, rules=rules)
    reply = list_reply(world, rules, after=after, before=before, limit=1000)
    assert isinstance(reply, ListReply)
    assert set(reply.ids) == world.truth(after, before)


def _page(world: World, limit: int) -> list[int]:
    reply = list_reply(world, world.rules, after=9, before=30, limit=limit)
    assert isinstance(reply, ListReply)
    return [world.updated_at(name) for name in reply.ids]


def test_orders() -> None:
    """Sorted pages begin at one end; shuffled ones repeat, random ones do not."""
    worlds = {order: World(range(40), now=NOW, rules=ServiceRules(order=order)) for order in Order}
    assert _page(worlds[Order.ASCENDING], 3) == [10, 11, 12]
    assert _page(worlds[Order.DESCENDING], 3) == [29, 28, 27]
    shuffled = _page(worlds[Order.SHUFFLED], 20)
    assert shuffled == _page(worlds[Order.SHUFFLED], 20)
    assert sorted(shuffled) == list(range(10, 30))
    assert shuffled not in (sorted(shuffled), sorted(shuffled, reverse=True))
    assert len({str(_page(worlds[Order.RANDOM], 5)) for _ in range(20)}) > 10


def _window(rules: ServiceRules, after: int | None, before: int | None) -> tuple[int, int]:
    reply = list_reply(World([], now=NOW), rules, after=after, before=before, limit=1)
    assert isinstance(reply, ListReply)
    return reply.after, reply.before


def test_the_window_that_is_applied() -> None:
    """Wide windows, early and future bounds are narrowed; unset ones mean span and present."""
    assert _window(ServiceRules(), None, None) == (0, NOW)
    assert _window(ServiceRules(default_span=7), None, None) == (NOW - 7, NOW)
    assert _window(ServiceRules(max_span=10, span_clamp="after"), 0, 30) == (20, 30)
    assert _window(ServiceRules(max_span=10, span_clamp="before"), 0, 30) == (0, 10)
    assert _window(ServiceRules(oldest=20), 3, 30) == (20, 30)
    assert _window(ServiceRules(future="accept"), 10, NOW + 1) == (10, NOW + 1)
    assert _window(ServiceRules(future="clamp"), 10, NOW + 1) == (10, NOW)
    world, rules = World([], now=NOW), ServiceRules(future="refuse")
    refused = list_reply(world, rules, after=10, before=NOW + 1, limit=1)
    assert isinstance(refused, Refused)
    assert refused.parameter == "updated_before"
