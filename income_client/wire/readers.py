"""Make records of parsed JSON.

The converter is the one registry of rules. The classes of callers are read by functions of
cattrs. The package's own records are read by functions that are written from their fields and
compiled, which take a third of the time. Both stop at the first fault; `faults_of` then goes
over the same types again and names every fault, as a generator, since a hostile payload of some
megabytes has millions.

Exceptions raised here hold the values that they are about: the caller must drop them.
"""

import functools
import operator
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, override

from income_client.errors import ConfigurationError, PayloadFault
from income_client.records.document_types import DOCUMENT_TYPES
from income_client.records.documents import ApplicationDocuments, DocumentSource
from income_client.records.fields import FrozenDict, shown_key

from .compiled import compiled
from .scalars import (
    READERS,
    Reader,
    Refusal,
    expected,
    read_untyped,
)
from .shapes import (
    BY_TYPE,
    COMPILED,
    RECORDS,
    Shape,
    array_element,
    documents_of,
    has_extra,
    is_container,
    is_document,
    mapping_element,
    optional_element,
)

T = TypeVar("T")

MOST_FAULTS: Final = 1000
"""Largest number of faults of one kind that an error names."""

_document_types: Final[dict[str, type]] = {key: kind.data for key, kind in DOCUMENT_TYPES.items()}
"""Classes of extracted data, by document type."""


def is_record_class(kind: object) -> bool:
    """Return whether a class is a record class, or registered for a document type."""
    return isinstance(kind, type) and (kind in RECORDS or kind in _document_types.values())


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
        key: the service's key of the type, such as ``invented_form``.
        cls: an attrs class; the same one again changes nothing.

    Raises:
        ConfigurationError: the key is empty, has another class already, as
            ``paystub`` does, or the class cannot be decoded strictly.
    """
    _check_registration(key, cls)
    _document_types[key] = cls


def _check_registration(key: object, cls: object) -> None:
    if not isinstance(key, str) or not key:
        raise ConfigurationError("key must be a str that is not empty")
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
    element = array_element(kind) or mapping_element(kind) or optional_element(kind)
    if element is None:
        raise ConfigurationError(f"{name} is of a type that cannot be read strictly")
    _check_type(name, element, around)


@functools.cache
def reader_of(kind: Any) -> Reader:
    """Return the function that reads a JSON value into a record class."""
    return _converter().get_structure_hook(kind)


@functools.cache
def _converter() -> Converter:
    """Return the converter that has all rules."""
    converter = Converter(detailed_validation=False)
    for kind, read in READERS.items():
        converter.register_structure_hook_func(_is_type(kind), read)
    for kind in (str, int, float, bool):  # cattrs prefers its own for these, which convert
        converter.register_structure_hook(kind, READERS[kind])
    hook = converter.register_structure_hook_factory
    compile_reader = functools.partial(compiled, reader_of=reader_of)
    hook(is_container, compile_reader)
    hook(attrs.has, _record_reader)
    hook(is_document, compile_reader)
    hook(_is_type(BY_TYPE), lambda _: _read_documents)
    hook(_is_type(ApplicationDocuments), lambda kind: _with_sources(compile_reader(kind)))
    return converter


def _is_type(kind: Any) -> Callable[[Any], bool]:
    return functools.partial(operator.eq, kind)


def _set_field(record: Any, name: str, value: Any) -> None:
    """Set a field of a record that is still being made, frozen or not."""
    object.__setattr__(record, name, value)


def _record_reader(cls: Any, converter: Converter) -> Reader:
    if cls in COMPILED:
        return compiled(cls, reader_of)
    shape = Shape.of(cls)
    keeps_extra = has_extra(cls)
    omitted: dict[str, Any] = {name: override(omit=True) for name in shape.beside}
    structure = make_dict_structure_fn(cls, converter, _cattrs_use_linecache=False, **omitted)

    def read_record(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise expected("an object", value)
        record = structure(value, cls)
        if keeps_extra and len(value) != shape.required:
            _set_field(record, "extra", shape.leftovers(value, record))
        return record

    return read_record


def _read_documents(value: Any, kind: Any) -> Any:
    if type(value) is not dict:
        raise expected("an object", value)
    by_type = {}
    for key, documents in value.items():
        by_type[key] = _documents_reader(_document_types.get(key))(documents, kind)
    return FrozenDict(by_type)


@functools.cache
def _documents_reader(data: type | None) -> Reader:
    return reader_of(documents_of(data))


def _with_sources(read: Reader) -> Reader:
    def read_application_documents(value: Any, kind: Any) -> Any:
        record = read(value, kind)
        for key, documents in record.documents.items():
            source = DocumentSource(record.application_id, key)
            for document in documents:
                _set_field(document, "source", source)
        return record

    return read_application_documents


def faults_of(cls: Any, value: Any, path: str = "$") -> tuple[PayloadFault, ...]:
    """Return the first thousand faults of a parsed value that should be of a record class."""
    return tuple(islice(_faults_at(path, cls, value), MOST_FAULTS))


def _faults_at(path: str, kind: Any, value: Any) -> Iterator[PayloadFault]:
    if kind in READERS:
        yield from _value_faults(path, READERS[kind], value)
    elif attrs.has(kind) or is_document(kind):
        yield from _object_faults(path, kind, value)
    elif (element := optional_element(kind)) is not None:
        if value is not None:
            yield from _faults_at(path, element, value)
    elif (element := array_element(kind)) is not None:
        if type(value) is not list:
            yield _wrong_kind(path, "an array", value)
            return
        for index, item in enumerate(value):
            yield from _faults_at(f"{path}[{index}]", element, item)
    elif type(value) is dict:
        for key, item in value.items():
            data = _document_types.get(key)
            element = documents_of(data) if kind == BY_TYPE else mapping_element(kind)
            yield from _faults_at(f"{path}.{shown_key(key)}", element, item)
    else:
        yield _wrong_kind(path, "an object", value)


def _object_faults(path: str, kind: Any, value: Any) -> Iterator[PayloadFault]:
    if type(value) is not dict:
        yield _wrong_kind(path, "an object", value)
        return
    shape = Shape.of(kind)
    for name, kind_of_field in shape.types.items():
        if name in value:
            yield from _faults_at(f"{path}.{name}", kind_of_field, value[name])
        elif name not in shape.defaults:
            yield PayloadFault(f"{path}.{name}", "missing")
    for key, item in value.items():
        if key not in shape.types:
            yield from _value_faults(f"{path}.{shown_key(key)}", read_untyped, item)


def _value_faults(path: str, read: Reader, value: Any) -> Iterator[PayloadFault]:
    try:
        read(value, Any)
    except Refusal as refusal:
        yield PayloadFault(path, refusal.reason)


def _wrong_kind(path: str, what: str, value: Any) -> PayloadFault:
    return PayloadFault(path, expected(what, value).reason)
