"""Amounts of money as a paystub states them; knows nothing of currencies or arithmetic."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from .fields import NO_EXTRA, Amount, masked


@frozen(kw_only=True)
class AmountPair:
    """One line of a paystub: for its period, and for the year so far (contract section 2.3)."""

    current: Amount = field(repr=masked)
    """For the pay period; None when the paystub states none."""
    ytd: Amount = field(repr=masked)
    """For the year up to the pay date; None when the paystub states none."""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    """Fields that the contract does not name."""
