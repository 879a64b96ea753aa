"""JSON text to plain values and records, and back.

Numbers with a fraction or an exponent are parsed from their text into `Decimal`, never through a
float. Records are read quickly, up to the first fault; only then is the text read again to name
every fault. The exceptions of that are dropped: they hold the values that they are about. How
records are made is loaded with the first of them, so that parsing alone stays cheap to import.
"""

import contextlib
import decimal
import functools
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from types import ModuleType
from typing import Any, Final, TypeVar

import msgspec

from income_client.errors import ConfigurationError, DecodeError, InvalidArgumentError, PayloadFault
from income_client.records.fields import UntypedDict, shown_key
from income_client.system.frames import strip_frames
from income_client.system.texts import has_surrogate

from .scalars import TOO_DEEP, UnusualNumber, copy_untyped, exactly, is_untyped

T = TypeVar("T")

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NOT_JSON: Final = "not JSON, or cut short"
_MOST_VALUES: Final = 250_000
"""Values in the largest text that is read, dozens of times those of a page of 1,000 rows.

Each takes a hundred bytes of memory or more, whatever the size of its text.
"""
_TOO_MANY_VALUES: Final = f"more than {_MOST_VALUES:,} values"
_HALF_ESCAPED: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF_A_CHARACTER: Final = "half a surrogate pair, which is no character"
_UNREADABLE: Final = "a number too large to be read, or not a number"
_MOST_HALVES: Final = 1000


def _any_number(text: str) -> Decimal:
    try:
        return exactly(text)
    except decimal.DecimalException:
        return UnusualNumber(text)


_PLAIN: Final = msgspec.json.Decoder()
_EXACT: Final = msgspec.json.Decoder(float_hook=exactly)
_TOLERANT: Final = msgspec.json.Decoder(float_hook=_any_number)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


class _GivenTwice(Exception):  # noqa: N818 - never leaves this module
    pass


def parse(body: bytes, *, exactly: bool = False) -> Any:
    """Parse a JSON text, with numbers as int and float.

    With ``exactly``, a number with a fraction or an exponent is a `Decimal` with the digits that
    were sent.

    For texts that decide who is trusted: a key given twice in one object is refused, since two
    readers may disagree on which of the two counts.

    Raises:
        DecodeError: the text is not accepted; retryable if it is not whole JSON, as a reply that
            was cut short or written by a proxy is not.
    """
    tree = _parse_with(body, _TOLERANT if exactly else _PLAIN)
    try:
        tree = copy_untyped(tree)
        json.loads(body, object_pairs_hook=_refuse_repeated, parse_int=len, parse_float=len)
    except RecursionError:
        reason = TOO_DEEP
    except _GivenTwice:
        reason = "a key is given twice in one object"
    else:
        return tree
    raise DecodeError((PayloadFault("$", reason),))


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _GivenTwice


def parse_exactly(body: bytes) -> Any:
    """Parse a JSON text, with numbers as int and `Decimal`; raise `DecodeError`."""
    check_values(body)
    try:
        return _EXACT.decode(body.removeprefix(_BYTE_ORDER_MARK))
    except (ArithmeticError, ValueError, RecursionError):
        # Rare: either numbers beyond those of an amount, or a text that is refused.
        decoder = _TOLERANT
    return _parse_with(body, decoder)


def _parse_with(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    check_values(body)
    try:
        return decoder.decode(body.removeprefix(_BYTE_ORDER_MARK))
    except RecursionError:
        reason = TOO_DEEP
    except (msgspec.ValidationError, decimal.InvalidOperation):
        reason = "a number too large to be read"
    except ValueError:
        reason = _NOT_JSON
    if reason == _NOT_JSON and (halves := _halves_in(body)):
        raise DecodeError(halves)
    raise DecodeError((PayloadFault("$", reason),), retryable=reason == _NOT_JSON)


def check_values(body: bytes) -> None:
    """Raise `DecodeError` if a JSON text may hold too many values.

    Commas and brackets within texts count too, which are few beside those between values.
    """
    # A value and the comma before it take two bytes, so that usual texts need not be counted.
    if len(body) <= 2 * _MOST_VALUES:
        return
    if sum(body.count(mark) for mark in (b",", b"[", b"{")) > _MOST_VALUES:
        raise DecodeError((PayloadFault("$", _TOO_MANY_VALUES),))


def _halves_in(body: bytes) -> tuple[PayloadFault, ...]:
    """Return a fault for each half of a surrogate pair in a text that is valid JSON otherwise."""
    if _HALF_ESCAPED.search(body) is None:
        return ()
    try:
        text = body.removeprefix(_BYTE_ORDER_MARK).decode()
        tree = json.loads(text, parse_float=str, parse_int=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return ()
    return tuple(islice(flaws_of(tree), _MOST_HALVES))


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def parse_leniently(body: bytes) -> Any:
    """Parse a JSON text in which single values may be invalid.

    Halves of surrogate pairs, numbers beyond all limits, NaN and Infinity are kept, for
    `flaws_of` to find: they spoil what they are part of, and not the whole text.

    Raises:
        DecodeError: the text holds too many values.
        ValueError: the text is not whole even so.
        RecursionError: it is nested too deeply.
    """
    check_values(body)
    text = body.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "surrogatepass")
    return json.loads(
        text, parse_float=_some_number, parse_int=_some_integer, parse_constant=_no_number
    )


def _some_number(text: str) -> Decimal:
    try:
        return _any_number(text)
    except ArithmeticError:
        return _no_number(text)


def _some_integer(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:  # beyond the digits that are converted
        return _no_number(text)


def _no_number(_: str) -> Decimal:
    return UnusualNumber("NaN")


def flaws_of(tree: Any, path: str = "$") -> Iterator[PayloadFault]:
    """Yield a fault for each value of a leniently parsed tree that JSON cannot carry."""
    pending = [(path, tree)]
    while pending:
        place, value = pending.pop()
        match value:
            case str() if has_surrogate(value):
                yield PayloadFault(place, _HALF_A_CHARACTER)
            case Decimal() if value.is_nan():
                yield PayloadFault(place, _UNREADABLE)
            case list():
                pending += [(f"{place}[{index}]", item) for index, item in enumerate(value)][::-1]
            case dict():
                for key in value:
                    if has_surrogate(key):
                        yield PayloadFault(f"{place}.{shown_key(key)}", _HALF_A_CHARACTER)
                items = [(f"{place}.{shown_key(key)}", item) for key, item in value.items()]
                pending += items[::-1]


def render(tree: Any) -> bytes:
    """Return the JSON text of plain values, with the digits of every `Decimal`."""
    return _ENCODER.encode(tree)


def decode(cls: type[T], body: bytes, on_tree: Callable[[Any], None] | None = None) -> T:
    """Read a record from a reply's body, JSON in UTF-8 (contract section 2).

    ``on_tree`` is called with the parsed body once the record is made.

    Raises:
        DecodeError: with every fault; retryable if the body is not whole JSON.
    """
    check_values(body)
    kind: Any = cls
    record: T
    if on_tree is None and (quick := _quick_reader(kind)) is not None:
        with contextlib.suppress(Exception):  # read again below, which keeps unknown fields
            record = quick(body)
            return record
    tree = parse_exactly(body)
    record = _read_tree(cls, tree)
    if on_tree is not None:
        on_tree(tree)
    return record


def _read_tree(cls: type[T], tree: Any) -> T:
    """Return the record of a parsed text; raise `DecodeError` with every fault."""
    try:
        record: T = _readers_module().reader_of(cls)(tree, cls)
    except Exception as error:  # noqa: BLE001 - a class of the user's raises what it likes
        # If the text is as the fields say, a registered class has raised, by a validator or by a
        # bug of its own, and only the name of the error distinguishes them.
        other = PayloadFault("$", f"not accepted by its class: {type(error).__name__}")
        raise DecodeError(_readers_module().faults_of(cls, tree) or (other,)) from None
    return record


def _read_document(tree: Any) -> Any:
    """Read a document that was written by itself, with its source if it was written with one."""
    documents = _documents_module()
    match tree:
        case {"source": {"application_id": str(), "document_type": str()} as source, **members}:
            # The type says of which class the data is.
            reply = {
                "application_id": source["application_id"],
                "application_reference_id": "",
                "documents": {source["document_type"]: [members]},
            }
            (document,) = _read_tree(documents.ApplicationDocuments, reply)
            return document
        case _:
            return _read_tree(documents.Document, tree)


def decode_untyped(body: bytes) -> Any:
    """Read a reply's body of no known type: its numbers exact, its objects immutable.

    Raises:
        DecodeError: retryable if the body is not whole JSON.
    """
    tree = parse_exactly(body)
    try:
        return _mask_objects(copy_untyped(tree))
    except RecursionError:
        raise DecodeError((PayloadFault("$", TOO_DEEP),)) from None


def _mask_objects(value: Any) -> Any:
    match value:
        case dict():
            return UntypedDict(value)
        case list():
            return [_mask_objects(item) for item in value]
        case _:
            return value


@functools.cache
def _documents_module() -> ModuleType:
    from income_client.records import documents  # noqa: PLC0415 - see above

    return documents


@functools.cache
def _readers_module() -> ModuleType:
    from . import readers  # noqa: PLC0415 - see above

    return readers


@functools.cache
def _writers_module() -> ModuleType:
    from . import writers  # noqa: PLC0415 - as above

    return writers


@functools.cache
def _quick_reader(cls: Any) -> Callable[[bytes], Any] | None:
    from .compiled import quick_reader  # noqa: PLC0415 - as above

    return quick_reader(cls)


def to_json(record: object) -> bytes:
    """Write a record as the service's own JSON, unknown fields included.

    >>> from income_client.records import AmountPair
    >>> to_json(AmountPair(current=None, ytd=None))
    b'{"current":"","ytd":""}'

    Args:
        record: any record of this package, or of a registered document type; or an object or
            array that ``get_json`` has returned, or that is part of it.

    Returns:
        JSON in UTF-8, each number with the digits that were sent. An `ApplicationRecord` becomes
        an object with the members ``application`` and ``documents``. A `Document` by itself has
        its ``source`` as a member too, from which an expired URL can be replaced.

    Raises:
        ConfigurationError: it is neither, or holds what JSON cannot carry exactly or `from_json`
            would refuse, such as a text in place of an amount.
    """
    kind = type(record)
    is_tree = isinstance(record, dict | list) and is_untyped(record)
    if is_tree or _readers_module().is_record_class(kind):
        try:
            return render(record if is_tree else _writers_module().write_record(record))
        except Exception:  # noqa: BLE001 - a record made by hand holds anything
            fault = f"this {kind.__name__} holds what JSON cannot carry exactly"
    else:
        fault = f"{kind.__name__} is not a record class of the service"
    del record  # it may be plain data: crash reporters send the variables of frames
    raise ConfigurationError(fault)


@strip_frames
def from_json(record_class: type[T], text: bytes | str) -> T:
    """Read a record that `to_json` has written, as strictly as the service's replies.

    Args:
        record_class: of the record, such as `ApplicationRecord` for a line of an export;
            a registered document type as well.
        text: the JSON; bytes are UTF-8.

    Returns:
        A record equal to the one that was written.

    Raises:
        DecodeError: this is not JSON, or not of such a record.
        ConfigurationError: ``record_class`` is not a class of records, or ``text`` is
            neither bytes nor a str.
    """
    cls, body = _check_arguments(record_class, text)
    if cls is not _documents_module().Document:
        return decode(cls, body)
    document: T = _read_document(parse_exactly(body))
    return document


def _check_arguments(record_class: type[T], text: object) -> tuple[type[T], bytes]:
    if not _readers_module().is_record_class(record_class):
        raise InvalidArgumentError(
            "record_class must be a class of records", argument="record_class"
        )
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    if not isinstance(text, bytes):
        raise InvalidArgumentError("text is bytes or a str", argument="text")
    return record_class, text
