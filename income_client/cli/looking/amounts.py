"""Amounts in words and as lengths: exact where they are read; knows nothing of whose they are."""

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Final

_EXACTLY: Final = Context(prec=2000, rounding=ROUND_HALF_EVEN)
"""Room for any sum of JSON numbers: they have at most 324 digits on either side."""
_CENT: Final = -2
_LONGEST: Final = 28
_UNITS: Final = ((Decimal(10**9), "B"), (Decimal(10**6), "M"), (Decimal(1000), "k"))
_SMALL: Final = 10
_HUGE: Final = 10**12


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """Return the sum with all its digits."""
    with localcontext(_EXACTLY):
        return sum(amounts, Decimal(0))


def amount_text(amount: Decimal) -> str:
    """Return an amount with grouped thousands, at least two decimals and all its digits.

    One that is too long for any place to show it is said to be rounded.
    """
    exponent = amount.normalize(_EXACTLY).as_tuple().exponent
    decimals = max(-exponent, 2) if isinstance(exponent, int) and exponent < _CENT else 2
    with localcontext(_EXACTLY):
        text = f"{amount:,.{decimals}f}" if amount else "0.00"
        return text if len(text) <= _LONGEST else f"about {amount:.6e}"


def short_text(amount: Decimal) -> str:
    """Return an amount in thousands or millions, where the exact one stands elsewhere."""
    size = abs(amount)
    if size >= _HUGE:
        return f"{amount:.0e}"
    for unit, letter in _UNITS:
        if size >= unit:
            with localcontext(_EXACTLY):
                scaled = amount / unit
                return f"{scaled:.{1 if abs(scaled) < _SMALL else 0}f}{letter}"
    return f"{amount:.0f}"


def share(amount: Decimal, whole: Decimal) -> float:
    """Return which part of the whole an amount is, 0 to 1; nothing is below zero."""
    if amount <= 0 or whole <= 0:
        return 0.0
    return min(float(amount / whole), 1.0)
