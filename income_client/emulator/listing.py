"""The rule of the list call: from raw bounds to the applied window and its rows; knows no JSON."""

from collections.abc import Sequence
from math import gcd
from typing import Final, assert_never

from attrs import evolve, field, frozen

from .rules import FutureBounds, Order, ServiceRules, SpanClamp
from .world import World

_GOLDEN: Final = 0.6180339887498949


@frozen(kw_only=True)
class ListReply:
    """One page of the list: the window that was applied and the ids in it."""

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
    """What would have been accepted."""


@frozen(kw_only=True)
class AppliedWindow:
    """The bounds that a question is answered for."""

    after: int
    """Lower bound in service seconds."""
    before: int
    """Upper bound in service seconds."""


@frozen(kw_only=True)
class Selection:
    """Rows by number, before anything is written about them."""

    window: AppliedWindow
    """The bounds that were applied."""
    numbers: Sequence[int] = field(repr=False)
    """Application numbers, in the order of the rules."""


def applied_window(
    rules: ServiceRules, *, after: int | None, before: int | None, now: int
) -> AppliedWindow | Refused:
    """Turn the bounds that were sent into those that the service applies.

    Args:
        rules: how the service behaves.
        after: ``updated_after`` in service seconds, None if unset.
        before: ``updated_before`` in service seconds, None if unset.
        now: the present service second.
    """
    if rules.future is FutureBounds.REFUSE:
        for name, bound in (("updated_after", after), ("updated_before", before)):
            if bound is not None and bound > now:
                return Refused(parameter=name, reason="must not lie in the future")
    if after is None:
        after = 0 if rules.default_span is None else now - rules.default_span
    if before is None:
        before = now
    if rules.future is FutureBounds.CLAMP:
        after, before = min(after, now), min(before, now)
    if rules.oldest is not None:
        after = max(after, rules.oldest)
    return _clamp_span(rules, AppliedWindow(after=after, before=before))


def _clamp_span(rules: ServiceRules, window: AppliedWindow) -> AppliedWindow:
    if rules.max_span is None or window.before - window.after <= rules.max_span:
        return window
    match rules.span_clamp:
        case SpanClamp.AFTER:
            return evolve(window, after=window.before - rules.max_span)
        case SpanClamp.BEFORE:
            return evolve(window, before=window.after + rules.max_span)
        case _ as never:
            assert_never(never)


def _scattered(places: range, count: int, chance: int) -> Sequence[int]:
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
            return _scattered(places, count, world.seed * 1_000_003)
        case Order.RANDOM:
            return _scattered(places, count, (world.seed + world.questions) * 1_000_003)
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
) -> Selection | Refused:
    """Answer a list question in application numbers (contract section 4.1).

    Args:
        world: the applications, and the present second.
        rules: how the service behaves.
        after: ``updated_after`` in service seconds, None if unset.
        before: ``updated_before`` in service seconds, None if unset.
        limit: most rows to return.
        reference: the one reference to select, None for all.
    """
    window = applied_window(rules, after=after, before=before, now=world.now)
    if isinstance(window, Refused):
        return window
    if reference is not None:
        number = world.number_by_reference(reference)
        if number is None:
            return Selection(window=window, numbers=())
        # A reference is unique, so that bounds narrow it only where they are given.
        second = world.listed_second(number)
        is_late_enough = after is None or second - window.after >= (not rules.lower_closed)
        is_early_enough = before is None or window.before - second >= (not rules.upper_closed)
        found = (number,) if is_late_enough and is_early_enough else ()
        return Selection(window=window, numbers=found)
    world.questions += 1
    places = world.places(rules, window.after, window.before)
    count = min(limit, len(places))
    chosen = _first_places(world, rules, places, count) if count else ()
    return Selection(window=window, numbers=world.numbers_at(chosen))


def list_reply(
    world: World, rules: ServiceRules, *, after: int | None, before: int | None, limit: int
) -> ListReply | Refused:
    """Return the answer to a list question in ids, without a socket and without JSON.

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
    rows = select_rows(world, rules, after=after, before=before, limit=limit)
    if isinstance(rows, Refused):
        return rows
    ids = tuple(map(world.id_of, rows.numbers))
    return ListReply(after=rows.window.after, before=rows.window.before, ids=ids)
