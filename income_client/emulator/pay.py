"""Invented pay of one employment in one year, in cents, such that all its sums agree."""

from collections.abc import Mapping
from datetime import date, timedelta
from random import Random
from typing import Final

from attrs import frozen

EARNED: Final = (
    "regular_pay",
    "overtime_pay",
    "bonus_pay",
    "commission_pay",
    "tips_pay",
    "sick_pay",
    "vacation_pay",
)
WITHHELD: Final = ("garnishments", "loans401_k")

_EMPTY_ALIKE: Final = ("commission_pay", "tips_pay", "garnishments")
_CENT_TAXES: Final = (("Federal income tax", 1200), ("Social Security", 620), ("Medicare", 145))
_DAYS_OF: Final = {"weekly": 7, "biweekly": 14, "semimonthly": 15, "monthly": 30}
_YEAR_DAYS: Final = 365
_PAID_AFTER: Final = timedelta(days=5)


@frozen(kw_only=True)
class Levy:
    """A tax or a deduction of one paystub, in cents."""

    name: str
    """What it is for."""
    current: int
    """In this period."""
    ytd: int
    """Since the year began."""


@frozen(kw_only=True)
class Stub:
    """The figures of one paystub, in cents; an amount that the stub does not show is None."""

    begins: date
    """First day of the period."""
    ends: date
    """Last day of the period."""
    paid: date
    """Day of payment."""
    frequency: str
    """Length of the period."""
    hours: float
    """Hours worked in the period."""
    rate: int
    """Cents an hour."""
    current: Mapping[str, int | None]
    """Amounts of the period by field name, gross and net included."""
    ytd: Mapping[str, int | None]
    """Amounts since the year began by field name, gross and net included."""
    taxes: tuple[Levy, ...]
    """Taxes withheld."""
    deductions: tuple[Levy, ...]
    """Other amounts withheld."""

    @property
    def gross_to_date(self) -> int:
        """Gross pay since the year began, in cents."""
        return self.ytd["gross_pay"] or 0


@frozen(kw_only=True)
class Employment:
    """What stays the same over the paystubs of one employment."""

    frequency: str
    """Length of a pay period."""
    rate: int
    """Cents an hour."""
    hours: float
    """Regular hours in a period."""
    shown: frozenset[str]
    """Amounts that the employer prints; the others are absent."""
    insured: int
    """Cents for health insurance in each period, 0 for none."""

    @property
    def regular(self) -> int:
        """Regular pay of a period, in cents."""
        return round(self.rate * self.hours)

    @property
    def period(self) -> timedelta:
        """Length of a pay period."""
        return timedelta(days=_DAYS_OF[self.frequency])


def invent_employment(rng: Random) -> Employment:
    """Make the terms of an employment up."""
    frequency = rng.choice(tuple(_DAYS_OF))
    shown = {name for name in (*EARNED, *WITHHELD) if name not in _EMPTY_ALIKE}
    shown |= {name for name in _EMPTY_ALIKE if rng.random() < 0.3}  # noqa: PLR2004 - a share
    return Employment(
        frequency=frequency,
        rate=rng.randrange(1600, 9000, 25) + rng.choice((0, 0, 33)),
        hours=round(_DAYS_OF[frequency] / 7 * rng.choice((40, 40, 37.5, 32, 24)), 2),
        shown=frozenset(shown),
        insured=rng.choice((0, 4250, 11_999)),
    )


def _invent_extras(rng: Random, employment: Employment) -> dict[str, int]:
    regular = employment.regular
    sums = {
        "regular_pay": regular,
        "overtime_pay": round(employment.rate * 1.5) * rng.choice((0, 0, 2, 5)),
        "bonus_pay": rng.choice((0, 0, 0, 50_000)),
        "commission_pay": rng.randrange(regular // 10 + 1),
        "tips_pay": rng.randrange(20_000),
        "sick_pay": employment.rate * rng.choice((0, 0, 0, 8)),
        "vacation_pay": employment.rate * rng.choice((0, 0, 0, 16)),
        "garnishments": 7_500,
        "loans401_k": rng.choice((0, 0, 6_000)),
    }
    return {name: cents for name, cents in sums.items() if name in employment.shown}


def _levies(employment: Employment, gross: int, gross_to_date: int, periods: int) -> list[Levy]:
    taxes = [
        Levy(name=name, current=gross * share // 10_000, ytd=gross_to_date * share // 10_000)
        for name, share in _CENT_TAXES
    ]
    insured = employment.insured
    return [*taxes, Levy(name="Health insurance", current=insured, ytd=insured * periods)]


def _gross(amounts: Mapping[str, int]) -> int:
    return sum(amounts.get(name, 0) for name in EARNED)


def _totals(amounts: Mapping[str, int], levied: int) -> dict[str, int | None]:
    gross = _gross(amounts)
    net = gross - levied - sum(amounts.get(name, 0) for name in WITHHELD)
    shown = {name: amounts.get(name) for name in (*EARNED, *WITHHELD)}
    return {**shown, "gross_pay": gross, "net_pay": net}


def invent_stubs(
    rng: Random, employment: Employment, *, year: int, today: date, count: int, raised: int
) -> tuple[Stub, ...]:
    """Make the latest paystubs of a year up, each one's totals built on those before.

    Args:
        rng: seeded chance.
        employment: the terms.
        year: the year that the totals are for.
        today: the day of the application, before which the last stub was paid.
        count: most stubs to make; fewer early in the year.
        raised: cents of bonus on top in the last stub.
    """
    new_year = date(year, 1, 1)
    worked = min((today - new_year - _PAID_AFTER).days, _YEAR_DAYS)
    passed = worked // employment.period.days
    periods = max(1, passed)
    count = min(count, periods)
    earlier = _invent_extras(rng, employment)
    to_date = {name: cents * (periods - count) for name, cents in earlier.items()}
    stubs = []
    for turn in range(periods - count, periods):
        amounts = _invent_extras(rng, employment)
        if turn == periods - 1:
            amounts["bonus_pay"] += raised
        to_date = {name: to_date[name] + cents for name, cents in amounts.items()}
        begins = new_year + employment.period * turn
        stubs.append(_stub(employment, begins, turn + 1, amounts, to_date))
    return tuple(stubs)


def _stub(
    employment: Employment,
    begins: date,
    periods: int,
    amounts: Mapping[str, int],
    to_date: Mapping[str, int],
) -> Stub:
    levies = _levies(employment, _gross(amounts), _gross(to_date), periods)
    ends = begins + employment.period - timedelta(days=1)
    return Stub(
        begins=begins,
        ends=ends,
        paid=ends + _PAID_AFTER,
        frequency=employment.frequency,
        hours=employment.hours,
        rate=employment.rate,
        current=_totals(amounts, sum(levy.current for levy in levies)),
        ytd=_totals(to_date, sum(levy.ytd for levy in levies)),
        taxes=tuple(levies[:-1]),
        deductions=tuple(levies[-1:] if employment.insured else ()),
    )
