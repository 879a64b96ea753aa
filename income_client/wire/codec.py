"""The only way between JSON and records, and the classes registered for document types.

Decoding is quick and stops at the first fault. Only then does `faults_of` go
over the text again and name every fault. No inner exception leaves, and none is
chained: they would carry the values that they are about.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from income_client.errors import ConfigurationError, DecodeError, PayloadFault
from income_client.records.paystub import Paystub

from .readers import (
    RECORDS,
    array_element,
    faults_of,
    has_extra,
    make_converter,
    mapping_element,
    optional_element,
)
from .scalars import READERS
from .strict_json import parse_exactly, render

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")

_document_types: Final[dict[str, type]] = {"paystub": Paystub}
"""The class that holds the data of a document type."""


def decode(cls: type[T], body: bytes, look: Callable[[Any], None] | None = None) -> T | DecodeError:
    """Read a record from a reply's body, JSON in UTF-8 (contract section 2).

    ``look`` is called with the parsed body once the record is made. The error is a value, so
    that the frame that raises it holds no body. It names every fault, and is retryable if the
    body is not whole JSON.
    """
    tree = parse_exactly(body)
    if isinstance(tree, DecodeError):
        return tree
    try:
        record = _converter().structure(tree, cls)
    except Exception as error:  # noqa: BLE001 - whatever it is, its frames hold the values
        del tree
        refusal = type(error).__name__
    else:
        if look is not None:
            look(tree)
        return record
    faults = faults_of(cls, parse_exactly(body), _document_types)
    if not faults:
        # The text is as the fields say: a registered class has raised, by a validator or by a
        # bug of its own, and only the name of the error distinguishes them.
        faults = (PayloadFault("$", f"not accepted by its class: {refusal}"),)
    return DecodeError(faults)


def to_json(record: object) -> bytes:
    """Write a record as the service's own JSON, unknown fields included.

    >>> from income_client import AmountPair
    >>> to_json(AmountPair(current=None, ytd=None))
    b'{"current":"","ytd":""}'

    Args:
        record: any record of this package, or of a registered document type.

    Returns:
        JSON in UTF-8. An `ApplicationRecord` becomes an object with the
        members ``application`` and ``documents``.

    Raises:
        ConfigurationError: it is not a record, or holds what JSON cannot carry exactly.
    """
    written = _written(record)
    del record
    if isinstance(written, ConfigurationError):
        raise written
    return written


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
    written: object = text
    del text
    read: T | DecodeError | ConfigurationError
    match written:
        case _ if not _is_record_class(record_class):
            read = ConfigurationError("record_class is no class of records")
        case str():
            read = decode(record_class, written.encode("utf-8", "surrogatepass"))
        case bytes():
            read = decode(record_class, written)
        case _:
            read = ConfigurationError("text is bytes or a str")
    del written
    if isinstance(read, DecodeError | ConfigurationError):
        raise read
    return read


def register_document_type(key: str, cls: type) -> None:
    """Read the data of a document type into the given class.

    Its fields are decoded as strictly as the package's own: str, int, float,
    bool, Decimal, date, datetime, object, other attrs classes, ``X | None``,
    ``tuple[X, ...]`` and ``Mapping[str, X]`` of these. A field with a default may
    be absent. Unknown fields are kept in the class's ``extra`` or, if it has no
    such field, in ``Document.extracted_extra``; a class nested in it must have one.
    Whatever its converters, validators and ``__attrs_post_init__`` raise makes a reply a
    `DecodeError`, which has the name of the exception, and nothing else of it.

    Args:
        key: the service's key of the type, such as ``w2``.
        cls: an attrs class; the same one again changes nothing.

    Raises:
        ConfigurationError: the key is empty, has another class already, as
            ``paystub`` does, or the class cannot be decoded strictly.
    """
    _check_registration(key, cls)
    _document_types[key] = cls
    _converter.cache_clear()


def _check_registration(key: object, cls: object) -> None:
    if not isinstance(key, str) or not key:
        raise ConfigurationError("a document type is a str that is not empty")
    if not isinstance(cls, type) or not attrs.has(cls):
        raise ConfigurationError(f"the class for document type {key!r} must be an attrs class")
    if _document_types.get(key, cls) is not cls:
        raise ConfigurationError(f"document type {key!r} has another class already")
    _check_class(cls, frozenset())


def _check_class(cls: Any, around: frozenset[Any]) -> None:
    try:
        attrs.resolve_types(cls)
    except NameError:
        raise ConfigurationError(f"{cls.__name__} has an annotation that names nothing") from None
    for field in attrs.fields(cls):
        name = f"{cls.__name__}.{field.name}"
        if not field.init:
            raise ConfigurationError(f"{name} is not set by __init__")
        if field.name == "extra":
            if field.default is attrs.NOTHING:
                raise ConfigurationError(f"{name} has no default")
            continue
        if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
            raise ConfigurationError(f"{name} has a default that is made anew each time")
        _check_type(name, field.type, around | {cls})


def _check_type(name: str, kind: Any, around: frozenset[Any]) -> None:
    if kind in READERS:
        return
    if attrs.has(kind):
        if kind in around:
            raise ConfigurationError(f"{name} is of a class that holds itself")
        if not has_extra(kind):
            raise ConfigurationError(f"{kind.__name__}, the class of {name}, has no field extra")
        _check_class(kind, around)
        return
    elements = (array_element(kind), mapping_element(kind), optional_element(kind))
    element = next((element for element in elements if element is not None), None)
    if element is None:
        raise ConfigurationError(f"{name} is of a type that cannot be read strictly")
    _check_type(name, element, around)


@functools.cache
def _converter() -> "Converter":
    return make_converter(_document_types)


def _is_record_class(kind: object) -> bool:
    if not isinstance(kind, type):
        return False
    return kind in RECORDS or kind in _document_types.values()


def _written(record: object) -> bytes | ConfigurationError:
    kind = type(record)
    if not _is_record_class(kind):
        return ConfigurationError(f"{kind.__name__} is no record of the service")
    with contextlib.suppress(Exception):
        return render(_converter().unstructure(record))
    return ConfigurationError(f"this {kind.__name__} holds what JSON cannot carry exactly")
