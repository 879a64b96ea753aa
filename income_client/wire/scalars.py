"""The rules of single JSON values: exact types, no coercion.

A reader takes a value from the JSON parser and raises `Refusal` with a fixed
reason, never with the value. A writer raises it for what JSON cannot carry
exactly. The last functions give the same rules as lines of a compiled reader: the
common values are read in place, and the rest, wrong or rare, by the reader.
"""

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from income_client.records.fields import Amount, ServiceTime, UtcTime
from income_client.records.mapping import FrozenDict, UntypedDict

from .strict_json import DIGITS, UnusualNumber, exactly, is_flat, kept
from .times import (
    DAY_LENGTH,
    PLAIN_LENGTH,
    has_hour_24,
    parse_date,
    parse_service_time,
    parse_utc_time,
    render_date,
    render_service_time,
    render_utc_time,
)

T = TypeVar("T")

Reader: TypeAlias = Callable[[Any, Any], Any]
"""Takes a JSON value and, unused, the type that is wanted of it."""

Writer: TypeAlias = Callable[[Any], Any]
"""Takes a value and returns what the JSON writer can take."""

UntypedObject: TypeAlias = Annotated[Mapping[str, Any], "an object of any content"]
"""The extracted data of a document type without a class."""

_ABSENT_AMOUNT: Final = ""
_BEYOND_DIGITS: Final = f"a number of more than {DIGITS} digits, or an exponent beyond {DIGITS}"

_KINDS: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    Decimal: "a number",
    UnusualNumber: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


class Refusal(Exception):  # noqa: N818 - never leaves the package
    """A value that the rules do not accept."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def expected(what: str, found: object) -> Refusal:
    """Return the refusal of a value of the wrong kind."""
    return Refusal(f"expected {what}, found {_KINDS.get(type(found), 'something else')}")


def _exactly(kind: type, what: str) -> Reader:
    def read(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise expected(what, value)
        return value

    return read


def _written_as(parse: Callable[[str], T | None], what: str) -> Reader:
    def read(value: Any, _: Any) -> T:
        if type(value) is not str:
            raise expected(what, value)
        parsed = parse(value)
        if parsed is None:
            raise Refusal(f"not {what}")
        return parsed

    return read


read_string: Final = _exactly(str, "a string")
read_integer: Final = _exactly(int, "an integer")
read_boolean: Final = _exactly(bool, "a boolean")
read_date: Final = _written_as(parse_date, "a date")
read_service_time: Final = _written_as(parse_service_time, "a time without zone")
read_utc_time: Final = _written_as(parse_utc_time, "a time ending in Z")
read_time: Final = _written_as(
    lambda text: parse_utc_time(text) or parse_service_time(text),
    "a time",
)


def read_number(value: Any, _: Any) -> int | float:
    """Return a number as a float if it has a fraction or an exponent."""
    if type(value) is int:
        return value
    if type(value) is not Decimal and type(value) is not UnusualNumber:
        raise expected("a number", value)
    number = float(value)
    if math.isinf(number):
        raise Refusal("a number beyond the range of a float")
    return number


def read_decimal(value: Any, _: Any) -> Decimal:
    """Return a number as a decimal with the digits that were sent."""
    if type(value) is Decimal:
        return value
    if type(value) is UnusualNumber:
        raise Refusal(_BEYOND_DIGITS)
    if type(value) is not int:
        raise expected("a number", value)
    try:
        return exactly(value)
    except ArithmeticError:
        raise Refusal(_BEYOND_DIGITS) from None


def read_amount(value: Any, _: Any) -> Decimal | None:
    """Return a number as a decimal, and the empty string as None (contract section 2.3)."""
    if type(value) is str and value == _ABSENT_AMOUNT:
        return None
    return read_decimal(value, _)


def untyped(value: Any) -> Any:
    """Return content without a known type as it can be kept."""
    if is_flat(value):
        return value
    try:
        return kept(value)
    except RecursionError:
        raise Refusal("nested too deeply") from None


def read_untyped(value: Any, _: Any) -> Any:
    """Return content without a known type; an object becomes an immutable mapping."""
    if not is_flat(value):
        value = untyped(value)
    return UntypedDict(value) if type(value) is dict else value


def read_untyped_object(value: Any, _: Any) -> Any:
    """Return an object without a known type as an immutable mapping."""
    if type(value) is not dict:
        raise expected("an object", value)
    return read_untyped(value, _)


def write_decimal(value: Decimal) -> Decimal:
    """Return a decimal, which is written with its digits."""
    if not value.is_finite():
        raise Refusal("not a number that JSON carries")
    return value


def write_amount(value: Decimal | None) -> Decimal | str:
    """Return a decimal as it is, and the empty string for None."""
    return _ABSENT_AMOUNT if value is None else write_decimal(value)


def write_service_time(value: datetime) -> str:
    """Return the text of a time without zone."""
    if value.tzinfo is not None:
        raise Refusal("a time without zone has none")
    return render_service_time(value)


def write_utc_time(value: datetime) -> str:
    """Return the text of a time with a zone, in UTC."""
    if value.utcoffset() is None:
        raise Refusal("a time in UTC has a zone")
    return render_utc_time(value)


def write_time(value: datetime) -> str:
    """Return the text of a time of either kind."""
    return write_service_time(value) if value.tzinfo is None else write_utc_time(value)


READERS: Final[Mapping[Any, Reader]] = {
    str: read_string,
    int: read_integer,
    float: read_number,
    bool: read_boolean,
    Decimal: read_decimal,
    date: read_date,
    datetime: read_time,
    ServiceTime: read_service_time,
    UtcTime: read_utc_time,
    Amount: read_amount,
    UntypedObject: read_untyped_object,
    Any: read_untyped,
    object: read_untyped,
}
"""The rule of every type of single value, as records are annotated with it."""

WRITERS: Final[Mapping[Any, Writer]] = {
    Decimal: write_decimal,
    date: render_date,
    datetime: write_time,
    ServiceTime: write_service_time,
    UtcTime: write_utc_time,
    Amount: write_amount,
}
"""The rules of the way back, where the JSON writer needs one."""

PLAIN_TYPES: Final = frozenset({str, int, bool})
"""Types whose values stay as the JSON parser gives them."""

LINES_SCOPE: Final[dict[str, Any]] = {
    "Decimal": Decimal,
    "exactly": exactly,
    "frozen_dict": FrozenDict,
    "parse_day": date.fromisoformat,
    "parse_time": datetime.fromisoformat,
    "separators": slice(4, None, 3),
}
"""The names in the lines."""


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
    """Return the lines that read a number, by a call if it is another value."""
    return [
        f"if type({x}) is int:",
        f"    {x} = exactly({x})",
        f"elif type({x}) is not Decimal:",
        f"    {call}",
    ]


def amount_lines(x: str, call: str) -> list[str]:
    """Return the lines that read an amount, which may be absent."""
    return [
        f"if type({x}) is int:",
        f"    {x} = exactly({x})",
        f"elif type({x}) is not Decimal:",
        f"    if {x} == '':",
        f"        {x} = None",
        "    else:",
        f"        {call}",
    ]
