"""The rules of single JSON values: exact types, no coercion; knows no field and no record.

A reader takes what the JSON parser gave and raises `Refusal` with a fixed
reason, never with the value. A writer raises it for what JSON cannot carry
exactly.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import orjson

from income_client.records.fields import Amount, ServiceTime, UtcTime
from income_client.records.mapping import UntypedDict

from .strict_json import is_flat, untyped_refusal
from .timestamps import (
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

BEYOND_DIGITS: Final = 10**15
_ABSENT_AMOUNT: Final = ""

_KINDS: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
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
    """Return a number as it is, whole or not."""
    if type(value) is int or type(value) is float:
        return value
    raise expected("a number", value)


def read_decimal(value: Any, _: Any) -> Decimal:
    """Return a number as the decimal that its digits say."""
    if type(value) is not float and type(value) is not int:
        raise expected("a number", value)
    if not -BEYOND_DIGITS < value < BEYOND_DIGITS:
        raise Refusal("a number of more than 15 digits before the point")
    if type(value) is int:
        return Decimal(value)
    # The shortest digits that mean the number are those that were sent: no binary noise.
    return Decimal(orjson.dumps(value).decode())


def read_amount(value: Any, _: Any) -> Decimal | None:
    """Return a number as a decimal, and the empty string as None (contract section 2.3)."""
    if type(value) is str and value == _ABSENT_AMOUNT:
        return None
    return read_decimal(value, _)


def read_untyped(value: Any, _: Any) -> Any:
    """Return content without a known type; an object becomes an immutable mapping."""
    if not is_flat(value):
        reason = untyped_refusal(value)
        if reason is not None:
            raise Refusal(reason)
    return UntypedDict(value) if type(value) is dict else value


def read_untyped_object(value: Any, _: Any) -> Any:
    """Return an object without a known type as an immutable mapping."""
    if type(value) is not dict:
        raise expected("an object", value)
    return read_untyped(value, _)


def write_decimal(value: Decimal) -> int | float:
    """Return the number that reads as this decimal: whole ones without a fraction."""
    if not (value.is_finite() and -BEYOND_DIGITS < value < BEYOND_DIGITS):
        raise Refusal("not a number that JSON carries exactly")
    if value.as_tuple().exponent >= 0:  # type: ignore[operator]
        return int(value)
    number = float(value)
    if Decimal(repr(number)) != value:
        raise Refusal("not a number that JSON carries exactly")
    return number


def write_amount(value: Decimal | None) -> int | float | str:
    """Return the number that reads as this decimal, and the empty string for None."""
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
