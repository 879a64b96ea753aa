"""The rule of the list call: from raw bounds to the applied window and its rows."""

from collections.abc import Sequence
from math import gcd
from typing import Final, assert_never

from attrs import frozen

from .service_rules import FutureBounds, Order, ServiceRules, SpanClamp
from .world import World

_GOLDEN: Final = 0.6180339887498949


@frozen(kw_only=True)
class ListReply:
    """A page of the list: the window that was applied and the ids in it."""

    after: int
    """``updated_after`` as applied, in service seconds."""
    before: int
    """``updated_before`` as applied, in service seconds."""
    ids: tuple[str, ...]
    """At most ``limit`` application ids, in the order of the rules."""


@frozen(kw_only=True)
class Refused:
    """A question that the service answers with 400."""

    parameter: str
    """Name of the query parameter."""
    reason: str
    """Description of the values that would be accepted."""


def _applied_bounds(
    rules: ServiceRules, after: int | None, before: int | None, now: int
) -> tuple[int, int]:
    """Return the bounds that the service applies for the bounds that were sent."""
    if after is None:
        after = 0 if rules.default_span is None else now - rules.default_span
    if before is None:
        before = now
    if rules.future is FutureBounds.CLAMP:
        after, before = min(after, now), min(before, now)
    if rules.oldest is not None:
        after = max(after, rules.oldest)
    if rules.max_span is None or before - after <= rules.max_span:
        return after, before
    match rules.span_clamp:
        case SpanClamp.AFTER:
            return before - rules.max_span, before
        case SpanClamp.BEFORE:
            return after, after + rules.max_span
        case _ as never:
            assert_never(never)


def _scatter_places(places: range, count: int, chance: int) -> Sequence[int]:
    size = len(places)
    # Any stride coprime to the size visits each place once: a permutation
    # whose first rows cost nothing for those that follow.
    stride = int(size * _GOLDEN) + chance % 97 + 1
    while gcd(stride, size) != 1:
        stride += 1
    first = chance % size
    return [places[(first + turn * stride) % size] for turn in range(count)]


def _first_places(world: World, rules: ServiceRules, places: range, count: int) -> Sequence[int]:
    match rules.order:
        case Order.ASCENDING:
            return places[:count]
        case Order.DESCENDING:
            return places[::-1][:count]
        case Order.SHUFFLED:
            return _scatter_places(places, count, world.seed * 1_000_003)
        case Order.RANDOM:
            return _scatter_places(places, count, (world.seed + world.questions) * 1_000_003)
        case _ as never:
            assert_never(never)


def select_rows(
    world: World,
    rules: ServiceRules,
    *,
    after: int | None,
    before: int | None,
    limit: int,
    reference: str | None = None,
) -> tuple[int, int, Sequence[int]] | Refused:
    """Return the applied bounds and the application numbers (contract section 4.1)."""
    if rules.future is FutureBounds.REFUSE:
        for name, bound in (("updated_after", after), ("updated_before", before)):
            if bound is not None and bound > world.now:
                return Refused(parameter=name, reason="must not lie in the future")
    low, high = _applied_bounds(rules, after, before, world.now)
    numbers: Sequence[int] = ()
    if reference is None:
        world.questions += 1
        places = world.places(rules, low, high)
        count = min(limit, len(places))
        if count:
            numbers = world.numbers_at(_first_places(world, rules, places, count))
    elif (number := world.number_by_reference(reference)) is not None:
        # A reference is unique, so that bounds narrow it only where they are given.
        second = world.listed_second(number)
        is_late_enough = after is None or second - low >= (not rules.lower_closed)
        is_early_enough = before is None or high - second >= (not rules.upper_closed)
        numbers = (number,) if is_late_enough and is_early_enough else ()
    return low, high, numbers


def list_reply(
    world: World, rules: ServiceRules, *, after: int | None, before: int | None, limit: int
) -> ListReply | Refused:
    """Return the reply to a list call in ids, without a socket and without JSON.

    >>> world = World([1782820000, 1782820001, 1782820002])
    >>> page = list_reply(world, ServiceRules(), after=1782820000, before=None, limit=1)
    >>> len(page.ids), world.updated_at(page.ids[0])
    (1, 1782820001)

    Args:
        world: the applications, and the present second.
        rules: how the service behaves.
        after: ``updated_after`` in service seconds, None if unset.
        before: ``updated_before`` in service seconds, None if unset.
        limit: most ids to return.
    """
    selection = select_rows(world, rules, after=after, before=before, limit=limit)
    if isinstance(selection, Refused):
        return selection
    low, high, numbers = selection
    return ListReply(after=low, before=high, ids=tuple(map(world.id_of, numbers)))
