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
from income_client.emulator.listing import AppliedWindow, applied_window

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


def _page(rules: ServiceRules, limit: int) -> list[int]:
    world = World(range(40), now=NOW, rules=rules)
    reply = list_reply(world, rules, after=9, before=30, limit=limit)
    assert isinstance(reply, ListReply)
    return [world.updated_at(name) for name in reply.ids]


def test_sorted_orders() -> None:
    """Ascending pages begin with the oldest row, descending ones with the newest."""
    assert _page(ServiceRules(order="ascending"), 3) == [10, 11, 12]
    assert _page(ServiceRules(order="descending"), 3) == [29, 28, 27]


def test_shuffled_order_is_stable() -> None:
    """Shuffled pages follow no order, and the same question gives the same page."""
    rules = ServiceRules(order="shuffled")
    page = _page(rules, 20)
    assert page == _page(rules, 20)
    assert sorted(page) == list(range(10, 30))
    assert page not in (sorted(page), sorted(page, reverse=True))


def test_random_order_differs() -> None:
    """Random pages of the same question differ from one request to the next."""
    rules = ServiceRules(order="random")
    world = World(range(40), now=NOW, rules=rules)
    pages = {str(list_reply(world, rules, after=None, before=None, limit=5)) for _ in range(20)}
    assert len(pages) > 10


def test_wide_window_is_narrowed_at_either_end() -> None:
    """A window wider than the service serves loses its lower or its upper part."""
    for clamp, expected in (("after", (20, 30)), ("before", (0, 10))):
        rules = ServiceRules(max_span=10, span_clamp=clamp)
        window = applied_window(rules, after=0, before=30, now=NOW)
        assert window == AppliedWindow(after=expected[0], before=expected[1])


def test_retention_raises_the_lower_bound() -> None:
    """A lower bound before the retention is raised to it, and the truth begins there as well."""
    rules = ServiceRules(oldest=20, lower_closed=True)
    world = World(range(40), now=NOW, rules=rules)
    assert applied_window(rules, after=3, before=30, now=NOW) == AppliedWindow(after=20, before=30)
    assert len(world.truth(3, 30)) == 10


def test_future_bounds() -> None:
    """A bound in the future is kept, lowered to the present, or refused."""
    asked = {"after": 10, "before": NOW + 1}
    accept, clamp, refuse = (
        applied_window(ServiceRules(future=name), now=NOW, **asked)
        for name in ("accept", "clamp", "refuse")
    )
    assert accept == AppliedWindow(after=10, before=NOW + 1)
    assert clamp == AppliedWindow(after=10, before=NOW)
    assert isinstance(refuse, Refused)
    assert refuse.parameter == "updated_before"


def test_unset_bounds() -> None:
    """Unset bounds mean the beginning of time, or the default span, and the present."""
    for span, after in ((None, 0), (7, NOW - 7)):
        rules = ServiceRules(default_span=span)
        window = applied_window(rules, after=None, before=None, now=NOW)
        assert window == AppliedWindow(after=after, before=NOW)
