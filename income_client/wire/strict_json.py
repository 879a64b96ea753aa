"""Parse JSON replies into plain values, and write values back with the same digits.

Numbers with a fraction or an exponent are parsed from their text into `Decimal`, never
through a float. Knows no record and no field.
"""

import decimal
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from income_client.errors import DecodeError, PayloadFault

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_DEEPEST: Final = 100
_ALWAYS_KEPT: Final = frozenset({str, int, bool, type(None), Decimal})
_TOO_DEEP: Final = "nested too deeply"

DIGITS: Final = 40
"""The most digits of an amount, and the largest exponent either way."""

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

    __slots__ = ()


def _any_number(text: str) -> Decimal:
    try:
        return exactly(text)
    except decimal.DecimalException:
        return UnusualNumber(text)


_PLAIN: Final = msgspec.json.Decoder()
_EXACT: Final = msgspec.json.Decoder(float_hook=exactly)
_TOLERANT: Final = msgspec.json.Decoder(float_hook=_any_number)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def parse(body: bytes) -> Any:
    """Return what a JSON text means, or a `DecodeError` as a value.

    For texts that decide who is trusted: a key given twice in one object is refused,
    since two readers may disagree on which of the two counts.

    The error is retryable if the text is not whole JSON, as a reply that was cut
    short or written by a proxy is not; asked again, the service may do better.
    """
    tree = _parsed(body, _PLAIN)
    reason = None if isinstance(tree, DecodeError) else _refusal(body, tree)
    return tree if reason is None else DecodeError((PayloadFault("$", reason),))


def _refusal(body: bytes, tree: Any) -> str | None:
    repeated = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len(dict(pairs)) != len(pairs)

    try:
        kept(tree)
        json.loads(body, object_pairs_hook=look, parse_int=len, parse_float=len)
    except RecursionError:
        return _TOO_DEEP
    return "a key is given twice in one object" if repeated else None


def parse_exactly(body: bytes) -> Any:
    """Return what a JSON text means, its numbers as int and `Decimal`, or a `DecodeError`."""
    try:
        return _parsed(body, _EXACT)
    except ArithmeticError:
        return _parsed(body, _TOLERANT)


def _parsed(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(body.removeprefix(_BYTE_ORDER_MARK))
    except RecursionError:
        return DecodeError((PayloadFault("$", _TOO_DEEP),))
    except (msgspec.ValidationError, decimal.InvalidOperation):
        return DecodeError((PayloadFault("$", "a number too large to be read"),))
    except ValueError:
        return DecodeError((PayloadFault("$", "not JSON, or cut short"),), retryable=True)


def render(tree: Any) -> bytes:
    """Return the JSON text of plain values, with the digits of every `Decimal`.

    Raises:
        Exception: it holds what JSON cannot carry; the exception may show it.
    """
    return _ENCODER.encode(tree)


def is_finite(value: Any) -> bool:
    """Return whether no number in nested content is infinite or not a number."""
    match value:
        case Mapping():
            return all(map(is_finite, value.values()))
        case list() | tuple():
            return all(map(is_finite, value))
        case Decimal():
            return value.is_finite()
        case float():
            return math.isfinite(value)
        case _:
            return True


def is_flat(value: Any) -> bool:
    """Return whether this is one value, or an object of values, that can be kept as it is.

    Most content without a known type is.
    """
    for item in value.values() if type(value) is dict else (value,):
        if type(item) not in _ALWAYS_KEPT:
            return False
    return True


def kept(value: Any) -> Any:
    """Return nested content without a known type as it can be kept.

    Raises:
        RecursionError: it is nested more than a hundred levels deep.
    """
    return _kept(value, _DEEPEST)


def _kept(value: Any, depth: int) -> Any:
    if type(value) is UnusualNumber:
        return Decimal(value)
    if isinstance(value, dict | list) and depth == 0:
        raise RecursionError(_TOO_DEEP)
    match value:
        case dict():
            return {key: _kept(item, depth - 1) for key, item in value.items()}
        case list():
            return [_kept(item, depth - 1) for item in value]
        case _:
            return value
