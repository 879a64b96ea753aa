"""Situations that a longer run must contain, and seeds that have failed once."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

ONCE_FAILED: Final[tuple[tuple[str, str, int], ...]] = (
    ("pollers", "small", 20261128158),
    ("pollers", "small", 20261128333),
)
"""Scenarios, profiles and seeds that have shown a fault; each is run every time. A new draw changes
the plans of all seeds: a fault that was mended has a directed test as well."""

_OF_POLLERS: Final = (
    "clock set back: far",
    "clock set back: within settle",
    "clock stands still",
    "consumer: block failed",
    "consumer: block failed on a poisonous record",
    "consumer: holds a batch for long",
    "consumer: loop left with a batch",
    "consumer: record read amid an update",
    "consumer: record received",
    "consumer: transaction too early",
    "dead letter: application",
    "dead letter: forgotten",
    "dead letter: resolved",
    "dead letter: rows",
    "dead letter: window",
    "machine: killed",
    "machine: paused",
    "machine: paused with its clock",
    "machine: power cut",
    "once: the error of a poll",
    "service: 401",
    "service: 404",
    "service: 429",
    "service: 5xx",
    "service: failing application",
    "service: full page",
    "service: future bound refused",
    "service: invalid application",
    "service: invalid row",
    "service: reply cut",
    "service: row without an id",
    "service: window cut short",
    "standby: lease expired",
    "store: call lost",
    "store: conflict",
    "store: emptied",
    "store: left by 0.2.0",
    "store: emptied, and refused",
    "store: read-only",
    "store: restored from a backup",
    "store: rolled back",
    "store: save made late",
    "store: save made, reply lost",
    "takeover: expired",
    "takeover: given up",
    "wake-up answered at once",
    "wake-up answered in time",
    "wake-up: a poll after a takeover",
    "wake-up: of a standby",
    "wake-up: of the leader",
    "wake-up: rung without a poller",
    "zone: clocks set back",
    "zone: clocks set forward",
)


_OF_RELAYS: Final = (
    "stream: cut",
    "stream: late",
    "stream: lost",
    "stream: message stored",
    "stream: refused",
    "stream: repeated message dropped",
    "stream: reply_lost",
    "stream: stored twice",
    "takeover: expired",
    "takeover: given up",
)

_OF_TOKENS: Final = (
    "API: 401",
    "API: failing",
    "call: repeated after a 401",
    "endpoint: credentials refused",
    "endpoint: failing",
    "machine: killed",
    "machine: paused",
    "machine: paused with its clock",
    "store: call failed",
    "store: claimed by another process",
    "store: token requested while it answers",
    "store: token saved",
)

_OF_WALKS: Final = (
    "clock stands still",
    "machine: killed",
    "machine: paused",
    "service: full page",
    "service: future bound refused",
    "service: window cut short",
    "walk: bound ahead of the clock lowered",
    "walk: bound ahead of the clock refused",
    "walk: ended",
    "walk: iterated again after an error",
    "walk: resumed",
    "walk: saturated second",
)

REQUIRED: Final = {
    "pollers": _OF_POLLERS,
    "relay": _OF_RELAYS,
    "tokens": _OF_TOKENS,
    "walks": _OF_WALKS,
}
"""By scenario, what must come about in a longer run."""


def missing_from(situations: Iterable[str], scenario: str) -> list[str]:
    """Return which situations of a scenario have not come about."""
    return sorted(set(REQUIRED[scenario]) - set(situations))


def table_of(times: Counter[str], seeds: Counter[str]) -> str:
    """Return a table: how often each situation came about, and in how many seeds."""
    lines = [f"{name:<50} {times[name]:>9} in {seeds[name]:>6} seeds" for name in sorted(times)]
    return "\n".join(lines)
