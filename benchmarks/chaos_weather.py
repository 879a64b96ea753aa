"""What is thrown at a life: rules, faults and the moment of death; all by seeded chance."""

from collections.abc import Sequence
from random import Random
from typing import Final

from attrs import evolve, frozen

from income_client.emulator import Fault, FutureBounds, Order, ServiceRules, SpanClamp

HOT: Final = 12
"""How many applications, the first ones, are updated again and again."""

_DAY: Final = 86_400
_OFFSETS: Final = (0, 0, 3, -3, _DAY, -_DAY)
_SPANS: Final = (None, None, None, 900)
_FAULTS: Final = (
    Fault("status", status=500),
    Fault("status", status=503),
    Fault("status", status=429, headers={"Retry-After": "1"}),
    Fault("reset"),
    Fault("cut"),
    Fault("drop"),
    Fault("garbage"),
)
_PATHS: Final = ("*", "*/applications", "*/applications/*", "*/documents", "/token")
_RUSHES: Final = (0, 130, 1_050)
_MOST_SKIPPED: Final = 60


@frozen(kw_only=True)
class Death:
    """When a life is to end: so long after the worker has said a word so many times."""

    word: str = ""
    """The word's beginning; empty for the birth itself."""
    times: int = 0
    """How often it must be heard."""
    seconds: float
    """How long after that, in the machine's seconds."""


@frozen(kw_only=True)
class Weather:
    """What a life goes through."""

    is_calm: bool
    """Whether nothing fails, so that all polls come to their end."""
    rules: ServiceRules
    """How the service behaves."""
    faults: tuple[Fault, ...]
    """What it plays."""
    revokes: bool
    """Whether it forgets its tokens."""
    rush: int
    """Applications that are updated all at once, some time in this life."""
    death: Death
    """How it ends."""


def forecast(
    chance: Random,
    rules: ServiceRules,
    ids: Sequence[str],
    *,
    settle: int,
    long_lives: float = 0.0,
) -> Weather:
    """Return the weather of the next life.

    Args:
        chance: decides.
        rules: of the service so far.
        ids: its applications.
        settle: seconds of the poller; updates become visible sooner than that.
        long_lives: share of the lives that last long enough to read a full page.
    """
    is_calm = chance.random() < 0.5
    return Weather(
        is_calm=is_calm,
        rules=_rules(chance, rules, settle),
        faults=() if is_calm else (*_faults(chance), *_losses(chance, ids)),
        revokes=chance.random() < 0.2,
        rush=chance.choices(_RUSHES, weights=(70, 28, 2))[0],
        death=_death(chance, long_lives),
    )


def _rules(chance: Random, rules: ServiceRules, settle: int) -> ServiceRules:
    return evolve(
        rules,
        lower_closed=chance.random() < 0.5,
        upper_closed=chance.random() < 0.5,
        order=chance.choice(list(Order)),
        future=chance.choice(list(FutureBounds)),
        max_span=chance.choice(_SPANS),
        span_clamp=chance.choice(list(SpanClamp)),
        visibility_delay=chance.randrange(settle),
        clock_offset=chance.choice(_OFFSETS),
    )


def _faults(chance: Random) -> list[Fault]:
    return [
        evolve(
            chance.choice(_FAULTS),
            path=chance.choice(_PATHS),
            times=chance.choice((1, 1, 2, 4)),
            skip=chance.randrange(_MOST_SKIPPED),
        )
        for _ in range(chance.randrange(2, 7))
    ]


def _losses(chance: Random, ids: Sequence[str]) -> list[Fault]:
    """Return faults for applications that are not there when they are read."""
    return [
        Fault(
            "status",
            status=404,
            path=f"*/applications/{chance.choice(chance.choice((ids, ids[:HOT])))}*",
            times=chance.choice((1, 4)),
        )
        for _ in range(chance.choice((0, 1, 3)))
    ]


def _death(chance: Random, long_lives: float) -> Death:
    """Return a moment; nearly half of them aim at where a batch is in hand or committed."""
    if chance.random() < long_lives:
        return Death(seconds=chance.uniform(3, 8))
    if chance.random() < 0.45:
        return Death(
            word=chance.choice(("batch", "written", "written", "committed")),
            times=chance.randrange(1, 4),
            seconds=chance.uniform(0, 0.006),
        )
    if chance.random() < 0.3:
        return Death(seconds=chance.uniform(0, 0.08))
    return Death(seconds=chance.uniform(0.1, 0.9))
