"""Verdicts about the list call, from facts; where something cannot be told it says why."""

from collections import Counter
from typing import Final, assert_never

from income_client.cli.output import counted, in_words

from .facts import Facts, Verdict
from .list_facts import (
    LARGEST,
    Cannot,
    Clamp,
    Future,
    Limits,
    ListFacts,
    RowOrder,
    meaning_of_bounds,
    order_of,
)
from .rules import EQUAL_CLOCKS, Said
from .times import offset_of, zone_name, zone_shift

DEFAULT_LIMIT: Final = 25

_EITHER_WAY: Final = "nothing to do: walks and polls are right for every meaning"


def _lists(facts: Facts) -> ListFacts:
    return facts.lists or ListFacts()


def bounds(facts: Facts) -> Said:
    """Say what the bounds mean (contract section 4.1 does not)."""
    meaning = meaning_of_bounds(_lists(facts).trials)
    if isinstance(meaning, Cannot):
        return Said(Verdict.NOTE, f"cannot be told: {meaning.value}", _EITHER_WAY)
    lower = "inclusive" if meaning.lower_closed else "exclusive"
    upper = "inclusive" if meaning.upper_closed else "exclusive"
    return Said(
        Verdict.OK,
        f"updated_after is {lower}, updated_before is {upper} ({counted(meaning.rows, 'row')} "
        "looked for)",
    )


def order(facts: Facts) -> Said:
    """Say in which order rows come."""
    seconds = _lists(facts).update_seconds
    sampled = f"of {counted(len(seconds), 'row')} along a page"
    limits = _lists(facts).limits
    changes = limits is not None and limits.repeats is False
    match order_of(seconds):
        case RowOrder.UNTOLD:
            return Said(
                Verdict.NOTE,
                f"cannot be told: {counted(len(set(seconds)), 'update time')} {sampled}",
                "nothing to do: nothing here relies on an order",
            )
        case RowOrder.NONE:
            again = ", and another one when asked again" if changes else ""
            return Said(Verdict.OK, f"none by update time, {sampled}{again}")
        case RowOrder.ASCENDING | RowOrder.DESCENDING as seen:
            again = ", though other rows came when asked again" if changes else ""
            return Said(Verdict.OK, f"{seen.value} by update time, {sampled}{again}")
        case never:
            assert_never(never)


def limit(facts: Facts) -> Said:
    """Say whether pages hold what they were asked to hold (contract section 8)."""
    limits = _lists(facts).limits
    if limits is None:
        return Said(Verdict.SKIPPED, "no page came")
    if not limits.large:
        return Said(Verdict.NOTE, "cannot be told: nothing is listed")
    for is_so, said in (
        (bool(limits.hidden), _hiding(limits)),
        (limits.large > LARGEST, _too_long(LARGEST, limits.large)),
        (limits.small > limits.small_limit > 0, _too_long(limits.small_limit, limits.small)),
        (0 < limits.small < limits.small_limit, _too_short(limits)),
    ):
        if is_so:
            return said
    small = f"; asked for {limits.small_limit}, got {limits.small}" if limits.small_limit else ""
    usual = f"{limits.default_rows} where none was asked for"
    text = f"asked for {LARGEST}, got {limits.large}"
    if limits.large < LARGEST and limits.hidden is None:
        return Said(Verdict.NOTE, f"{text}{small}; {usual}; whether there are more is not known")
    all_of_them = ", all that there are" if limits.large < LARGEST else ""
    verdict = Verdict.OK if limits.default_rows <= DEFAULT_LIMIT else Verdict.NOTE
    return Said(verdict, f"{text}{all_of_them}{small}; {usual}")


def _hiding(limits: Limits) -> Said:
    return Said(
        Verdict.FAILED,
        f"a page of {limits.large} rows, fewer than the limit, hid {limits.hidden} or more",
        f"applications get lost: give limit={limits.large} to walks, and tell the service's owner",
    )


def _too_long(asked: int, given: int) -> Said:
    return Said(
        Verdict.WARNING,
        f"{given} rows where {asked} were asked for",
        "walks take such pages for full; tell the service's owner",
    )


def _too_short(limits: Limits) -> Said:
    return Said(
        Verdict.WARNING,
        f"{limits.small} rows where {limits.small_limit} were asked for and there are more",
        "tell the service's owner: a short page is taken for all there is",
    )


def default_window(facts: Facts) -> Said:
    """Say how far a page without bounds reaches."""
    lists = _lists(facts)
    if lists.default_span is None:
        return Said(Verdict.SKIPPED, "no page came")
    if not lists.ends_at_the_present:
        return Said(
            Verdict.NOTE,
            "without bounds the list ends before the present",
            "get_application_page shows nothing new; walks and polls send bounds",
        )
    if lists.starts_at_the_beginning:
        return Said(Verdict.OK, "without bounds the list is about all time")
    return Said(
        Verdict.NOTE,
        f"without bounds the list is about the last {in_words(lists.default_span)}",
        "get_application_page shows no more; walks ask from the beginning",
    )


def wide_windows(facts: Facts) -> Said:
    """Say what becomes of a window that is very wide."""
    lists = _lists(facts)
    span = "" if lists.clamp_seconds is None else in_words(lists.clamp_seconds)
    match lists.clamp:
        case Clamp.NONE:
            return Said(Verdict.OK, "served from the beginning of time")
        case Clamp.OLDEST:
            return Said(
                Verdict.NOTE,
                f"nothing older than {span} is listed",
                "poll more often than that, and keep what was read",
            )
        case Clamp.WIDTH:
            return Said(Verdict.NOTE, f"cut to {span}", "nothing to do: walks ask for the rest")
        case Clamp.UNTOLD:
            text = f", though one was cut to {span}" if span else ""
            return Said(Verdict.SKIPPED, f"a question was not answered{text}")
        case never:
            assert_never(never)


def future_bounds(facts: Facts) -> Said:
    """Say what becomes of a bound in the future."""
    match _lists(facts).future:
        case Future.ACCEPTED:
            return Said(Verdict.OK, "taken as they are")
        case Future.LOWERED:
            return Said(Verdict.NOTE, "lowered to the present", _LAST_PAGE)
        case Future.REFUSED:
            return Said(Verdict.NOTE, "refused", _LAST_PAGE)
        case Future.UNTOLD:
            return Said(Verdict.SKIPPED, "a question was not answered")
        case never:
            assert_never(never)


_LAST_PAGE: Final = "nothing to do: a walk reads its last page twice instead"


def service_time(facts: Facts) -> Said:
    """Compare the present that the list echoes with the Date header."""
    lists = _lists(facts)
    spoken = facts.hosts[0].spoken if facts.hosts else None
    frame, utc = offset_of(lists.presents), offset_of(getattr(spoken, "dates", ()))
    if frame is None:
        verdict = Verdict.WARNING if lists.presents else Verdict.SKIPPED
        why = "contradict each other" if lists.presents else "tell no present"
        return Said(verdict, f"the echoed bounds {why}")
    if utc is None:
        return Said(Verdict.SKIPPED, "there is no Date to compare the echoed bounds with")
    shift = zone_shift(frame, utc)
    apart = frame.seconds - utc.seconds - shift
    beside = f", {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} Date"
    is_close = abs(apart) <= EQUAL_CLOCKS + frame.error + utc.error
    text = f"times without zone are {zone_name(shift)}{'' if is_close else beside}"
    if shift and lists.trials and lists.shift != shift:
        return Said(
            Verdict.WARNING,
            f"the echoed present is {in_words(abs(shift))} from Date, and rows are not",
            "the service's Date is wrong, or its zone changes with the seasons",
        )
    if shift:
        return Said(Verdict.WARNING, text, "give IncomeClient that service_timezone")
    if is_close:
        return Said(Verdict.OK, text)
    return Said(Verdict.NOTE, text, "polls go by the earlier of both: keep settle above it")


def applications(facts: Facts) -> Said:
    """Say whether single applications can be read."""
    lists = _lists(facts)
    total = len(lists.update_seconds) + len(lists.unread)
    if not total:
        return Said(Verdict.NOTE, "none is listed")
    if not lists.unread:
        return Said(Verdict.OK, f"{total} of {total} read")
    text, times = Counter(lists.unread).most_common(1)[0]
    return Said(
        Verdict.WARNING if lists.update_seconds else Verdict.FAILED,
        f"{len(lists.unread)} of {total} not read; {times} times {text}",
        "what polls cannot read is kept as dead letters; tell the service's owner",
    )
