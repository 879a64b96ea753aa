"""The rules of single values as lines of a compiled reader; knows no field and no record.

Each has the values of everyday in place and leaves what is rarer, or wrong, to the
reader in `scalars`: what they give is the same.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from income_client.records.mapping import FrozenDict

from .times import DAY_LENGTH, PLAIN_LENGTH, has_hour_24

PLAIN_TYPES: Final = frozenset({str, int, bool})
"""Types whose values are what the JSON parser gave."""

SCOPE: Final[dict[str, Any]] = {
    "Decimal": Decimal,
    "frozen_dict": FrozenDict,
    "parse_day": date.fromisoformat,
    "parse_time": datetime.fromisoformat,
    "separators": slice(4, None, 3),
}
"""What the lines name."""


def day_lines(x: str) -> list[str]:
    """Return the lines that read a day."""
    # The parser knows weeks as well, and takes more than that, such as 0001010100.
    return [
        f"text = {x}",
        f"if len(text) != {DAY_LENGTH} or text[separators] != '--':",
        "    raise TypeError",
        f"{x} = parse_day(text)",
    ]


def time_lines(x: str, call: str, *, is_utc: bool) -> list[str]:
    """Return the lines that read a time, by a call if it is not in the contract's own form."""
    length, separators = PLAIN_LENGTH + is_utc, "--T::Z" if is_utc else "--T::"
    rest = f" and 'T24' not in {x}" if has_hour_24() else ""
    return [
        f"if len({x}) == {length} and {x}[separators] == {separators!r}{rest}:",
        f"    {x} = parse_time({x})",
        "else:",
        f"    {call}",
    ]


def decimal_lines(x: str, call: str) -> list[str]:
    """Return the lines that read a number, by a call if it is not one with a fraction."""
    return [f"if type({x}) is not Decimal:", f"    {call}"]


def amount_lines(x: str, call: str) -> list[str]:
    """Return the lines that read an amount, which may be absent."""
    return [
        f"if type({x}) is not Decimal:",
        f"    if {x} == '':",
        f"        {x} = None",
        "    else:",
        f"        {call}",
    ]
