"""The rule of the list call, against the second reading of the contract."""

from random import Random

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from income_client.emulator import ListReply, Order, Refused, ServiceRules, World, list_reply
from tests.support.listing import Outcome, Page, Query, Rules, list_rules

NOW = 50
TIMES = st.lists(st.integers(0, 60), max_size=40)
BOUND = st.none() | st.integers(-5, 65) | st.sampled_from([NOW - 1, NOW, NOW + 1])
SPAN_CLAMPS = {"start": "after", "end": "before"}
FUTURES = {"accept": "accept", "lower": "clamp", "refuse": "refuse"}
READINGS = st.builds(
    Rules,
    lower_closed=st.booleans(),
    upper_closed=st.booleans(),
    widest=st.none() | st.integers(1, 30),
    cut=st.sampled_from(sorted(SPAN_CLAMPS)),
    oldest=st.none() | st.integers(0, 40),
    future=st.sampled_from(sorted(FUTURES)),
    default_span=st.none() | st.integers(0, 40),
)


def rules_of(reading: Rules, order: Order = Order.ASCENDING) -> ServiceRules:
    """Return the emulator's rules for a reading."""
    return ServiceRules(
        lower_closed=reading.lower_closed,
        upper_closed=reading.upper_closed,
        order=order,
        max_span=reading.widest,
        span_clamp=SPAN_CLAMPS[reading.cut],
        oldest=reading.oldest,
        future=FUTURES[reading.future],
        default_span=reading.default_span,
    )


def read_again(world: World, reading: Rules, after: int | None, before: int | None) -> Outcome:
    """Answer for the same rows by the other rule, without a limit."""
    rows = {one: world.updated_at(one) for one in world.ids}
    query = Query(after=after, before=before, limit=len(rows) + 1)
    return list_rules(reading, rows, NOW, query, Random(0))


@settings(max_examples=200)
@given(st.data())
def test_both_readings_of_the_contract_agree(data: st.DataObject) -> None:
    """The same window is echoed, and of its rows as many are given, each once."""
    reading = data.draw(READINGS)
    after, before = data.draw(BOUND), data.draw(BOUND)
    limit = data.draw(st.integers(1, 50))
    rules = rules_of(reading, data.draw(st.sampled_from(Order)))
    world = World(data.draw(TIMES), now=NOW, rules=rules)
    reply = list_reply(world, rules, after=after, before=before, limit=limit)
    whole = read_again(world, reading, after, before)
    assert isinstance(reply, Refused) is (whole == 400)
    if isinstance(reply, Refused) or not isinstance(whole, Page):
        return
    assert (reply.after, reply.before) == (whole.after, whole.before)
    assert len(reply.ids) == len(set(reply.ids)) == min(limit, len(whole.ids))
    assert set(reply.ids) <= set(whole.ids)


@given(times=TIMES, reading=READINGS, after=BOUND, before=BOUND)
def test_truth_is_the_unlimited_page(
    times: list[int], reading: Rules, after: int | None, before: int | None
) -> None:
    """The truth about two bounds is what a question returns when nothing narrows it."""
    reading = evolve(reading, widest=None, default_span=None, future="accept")
    world = World(times, now=NOW, rules=rules_of(reading))
    whole = read_again(world, reading, after, before)
    assert isinstance(whole, Page)
    assert world.truth(after, before) == set(whole.ids)


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
