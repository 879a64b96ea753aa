"""The rules of single JSON values: exact types, no coercion.

A reader takes a value from the JSON parser and raises `Refusal` with a fixed reason, never with
the value. A writer raises it for what JSON cannot carry exactly. `TEMPLATES` has the same rules
as lines of a compiled reader, which read the common values in place.
"""

import decimal
import gc
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from income_client.records.fields import Amount, FrozenDict, ServiceTime, UntypedDict, UtcTime

from .times import (
    has_hour_24,
    parse_date,
    parse_service_time,
    parse_utc_time,
)

T = TypeVar("T")

Reader: TypeAlias = Callable[[Any, Any], Any]
"""Takes a JSON value and, unused, the type that is wanted of it."""

Writer: TypeAlias = Callable[[Any], Any]
"""Takes a value and returns what the JSON writer can take."""

UntypedObject: TypeAlias = Annotated[Mapping[str, Any], "an object of any content"]
"""The extracted data of a document type without a class."""

DIGITS: Final = 40
"""The most digits of an amount, and the largest exponent either way."""
TOO_DEEP: Final = "nested too deeply"

_BEYOND_DIGITS: Final = f"a number of more than {DIGITS} digits, or an exponent beyond {DIGITS}"
_NOT_FINITE: Final = "not a number that JSON carries"
_ABSENT_AMOUNT: Final = ""
_DEEPEST: Final = 100
_MOST_DAYS: Final = 4096

exactly: Final = decimal.Context(
    prec=DIGITS,
    Emin=-DIGITS,
    Emax=DIGITS,
    traps=[
        decimal.Clamped,
        decimal.InvalidOperation,
        decimal.Inexact,
        decimal.Overflow,
        decimal.Rounded,
        decimal.Subnormal,
        decimal.Underflow,
    ],
).create_decimal
"""Makes a Decimal within the limits of an amount, every digit kept; raises ArithmeticError."""


class UnusualNumber(Decimal):
    """A number beyond the limits of an amount: refused as one, kept where no type is known."""

    # Without slots, so that the garbage collector tracks what holds one: see `keep_untyped`.


_ATOMS: Final = frozenset({str, int, bool, type(None), Decimal})
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


def expected(what: str, value: object) -> Refusal:
    """Return the refusal of a value of the wrong kind."""
    return Refusal(f"expected {what}, found {_KINDS.get(type(value), 'something else')}")


def _reader_of_type(kind: type, what: str) -> Reader:
    def read(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise expected(what, value)
        return value

    return read


def _reader_of_text(parse: Callable[[str], T | None], what: str) -> Reader:
    def read(value: Any, _: Any) -> T:
        if type(value) is not str:
            raise expected(what, value)
        parsed = parse(value)
        if parsed is None:
            raise Refusal(f"not {what}")
        return parsed

    return read


def _parse_time(text: str) -> datetime | None:
    return parse_utc_time(text) or parse_service_time(text)


def _read_number(value: Any, _: Any) -> int | float:
    """Return a number as a float if it has a fraction or an exponent."""
    if type(value) is int:
        return value
    if not isinstance(value, Decimal):
        raise expected("a number", value)
    number = float(value)
    if math.isinf(number):
        raise Refusal("a number beyond the range of a float")
    return number


def _read_decimal(value: Any, _: Any) -> Decimal:
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


def _read_amount(value: Any, _: Any) -> Decimal | None:
    """Return a number as a decimal, and the empty string as None (contract section 2.3)."""
    if type(value) is str and value == _ABSENT_AMOUNT:
        return None
    return _read_decimal(value, _)


def read_untyped(value: Any, _: Any) -> Any:
    """Return content without a known type; an object becomes an immutable mapping."""
    value = keep_untyped(value)
    return UntypedDict(value) if type(value) is dict else value


def _read_untyped_object(value: Any, _: Any) -> Any:
    if type(value) is not dict:
        raise expected("an object", value)
    return read_untyped(value, _)


def keep_untyped(value: Any) -> Any:
    """Return content without a known type, copied if it is nested; raise `Refusal` if too deep."""
    # An object that the garbage collector does not track holds nothing that is nested.
    if type(value) in _ATOMS or (type(value) is dict and not gc.is_tracked(value)):
        return value
    try:
        return copy_untyped(value)
    except RecursionError:
        raise Refusal(TOO_DEEP) from None


def copy_untyped(value: Any, depth: int = _DEEPEST) -> Any:
    """Return a copy of nested content; raise RecursionError beyond a hundred levels."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return Decimal(value) if kind is UnusualNumber else value
    if depth == 0:
        raise RecursionError(TOO_DEEP)
    if kind is list:
        return [copy_untyped(item, depth - 1) for item in value]
    return {key: copy_untyped(item, depth - 1) for key, item in value.items()}


def is_untyped(value: Any, depth: int = _DEEPEST) -> bool:
    """Return whether a value is content without a known type that a reply may contain."""
    kind = type(value)
    if kind is Decimal:
        return bool(value.is_finite())
    if kind in _ATOMS or depth == 0:
        return kind in _ATOMS
    if kind is list:
        return all(is_untyped(item, depth - 1) for item in value)
    is_object = kind in (dict, UntypedDict) and all(type(key) is str for key in value)
    return is_object and all(is_untyped(item, depth - 1) for item in value.values())


def write_untyped(value: T) -> T:
    """Return content without a known type if JSON can carry its numbers."""
    if not _is_finite(value):
        raise Refusal(_NOT_FINITE)
    return value


def _is_finite(value: Any) -> bool:
    match value:
        case str() | int() | None:
            return True
        case Decimal():
            return value.is_finite()
        case float():
            return math.isfinite(value)
        case list() | tuple():
            return all(map(_is_finite, value))
        case Mapping():  # last, as whether this matches takes the longest
            return all(map(_is_finite, value.values()))
        case _:
            return True


def _writer_of_type(kind: type[T], what: str) -> Callable[[T], T]:
    def write(value: T) -> T:
        if type(value) is not kind:
            raise expected(what, value)
        return value

    return write


def _write_text(value: str) -> str:
    if not isinstance(value, str):  # a member of an enumeration of texts is one
        raise expected("a string", value)
    return value


def _write_number(value: float | Decimal) -> float | Decimal:
    """Return a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise expected("a number", value)
    if math.isinf(float(value)):
        raise Refusal("a number beyond the range of a float")
    return write_untyped(value)


def _write_decimal(value: float | Decimal) -> float | Decimal:
    """Return a number within the limits of an amount."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise expected("a number", value)
    if not exactly(str(value)).is_finite():
        raise Refusal(_NOT_FINITE)
    return value


def _write_amount(value: Decimal | None) -> float | Decimal | str:
    if value is None:
        return _ABSENT_AMOUNT
    # A record has hundreds of amounts: most are seen to be right here, without another call.
    if type(value) is Decimal and exactly(value).is_finite():
        return value
    return _write_decimal(value)


def _write_service_time(value: datetime) -> datetime:
    if value.tzinfo is not None:
        raise Refusal("a time without zone has none")
    return value


def _write_utc_time(value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise Refusal("a time in UTC has a zone")
    return value.astimezone(UTC)


def _write_time(value: datetime) -> datetime:
    return _write_service_time(value) if value.tzinfo is None else _write_utc_time(value)


READERS: Final[Mapping[Any, Reader]] = {
    str: _reader_of_type(str, "a string"),
    int: _reader_of_type(int, "an integer"),
    float: _read_number,
    bool: _reader_of_type(bool, "a boolean"),
    Decimal: _read_decimal,
    date: _reader_of_text(parse_date, "a date"),
    datetime: _reader_of_text(_parse_time, "a time"),
    ServiceTime: _reader_of_text(parse_service_time, "a time without zone"),
    UtcTime: _reader_of_text(parse_utc_time, "a time ending in Z"),
    Amount: _read_amount,
    UntypedObject: _read_untyped_object,
    Any: read_untyped,
    object: read_untyped,
}
"""The rule of every type of single value, as records are annotated with it."""

WRITERS: Final[Mapping[Any, Writer]] = {
    str: _write_text,
    int: _writer_of_type(int, "an integer"),
    float: _write_number,
    bool: _writer_of_type(bool, "a boolean"),
    Decimal: _write_decimal,
    date: _writer_of_type(date, "a date"),
    datetime: _write_time,
    ServiceTime: _write_service_time,
    UtcTime: _write_utc_time,
    Amount: _write_amount,
}
"""The rules of the way back: what a reader of the same type would refuse is not written."""


class _Days(dict[str, date]):
    """Cache of dates by their text, since the same few thousand texts occur again and again."""

    __slots__ = ()

    def __missing__(self, text: str) -> date:
        day = parse_date(text)
        if day is None:
            raise ValueError
        if len(self) >= _MOST_DAYS:
            self.clear()
        self[text] = day
        return day


SCOPE: Final[Mapping[str, Any]] = {
    "Decimal": Decimal,
    "days": _Days(),
    "exactly": exactly,
    "frozen_dict": FrozenDict,
    "is_tracked": gc.is_tracked,
    "parse_time": datetime.fromisoformat,
    "separators": slice(-15, None, 3),
    "separators_and_z": slice(-16, None, 3),
    "untyped_dict": UntypedDict,
    "zero": Decimal(0),
}
"""The names in the templates."""

# Nothing else that the parser takes has these separators at these places, counted from the end.
# The hour 24 apart, which it takes in some versions.
_NO_HOUR_24: Final = " and 'T24' not in {x}" if has_hour_24() else ""

TEMPLATES: Final[Mapping[Any, str]] = {
    **{
        kind: f"""
if type({{x}}) is not {kind.__name__}:
    raise TypeError
"""
        for kind in (str, int, bool)
    },
    date: """
{x} = days[{x}]
""",
    ServiceTime: f"""
if {{x}}[separators] == '--T::'{_NO_HOUR_24}:
    {{x}} = parse_time({{x}})
else:
    {{x}} = {{read}}({{x}}, None)
""",
    UtcTime: f"""
if {{x}}[separators_and_z] == '--T::Z'{_NO_HOUR_24}:
    {{x}} = parse_time({{x}})
else:
    {{x}} = {{read}}({{x}}, None)
""",
    Decimal: """
if type({x}) is not Decimal:
    {x} = {read}({x}, None)
""",
    Amount: """
if type({x}) is not Decimal:
    if type({x}) is int:
        {x} = exactly({x}) if {x} else zero
    elif {x} == '':
        {x} = None
    else:
        {x} = {read}({x}, None)
""",
    tuple[str, ...]: """
if type({x}) is not list:
    raise TypeError
for item in {x}:
    if type(item) is not str:
        raise TypeError
{x} = tuple({x})
""",
    Any: """
if type({x}) is dict and not is_tracked({x}):
    {x} = untyped_dict({x})
else:
    {x} = {read}({x}, None)
""",
}
"""The rules of common types as lines that replace the value in ``x``; ``read`` is the reader."""
