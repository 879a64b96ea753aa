"""The only rules between JSON and records; knows neither addresses nor HTTP.

Decoding is quick and stops at the first fault. Only then does `findings` go
over the text again and name every fault. No exception leaves, and none is
chained: they would carry the values that they are about.
"""

import contextlib
import functools
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

import attrs
import orjson
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from income_client import records
from income_client.errors import ConfigurationError, DecodeError, PayloadFault
from income_client.records.documents import ApplicationDocuments, Document, DocumentSource
from income_client.records.mapping import FrozenDict

from . import document_types
from .compiled_readers import compile_reader
from .findings import faults_of
from .scalars import READERS, WRITERS, Reader, UntypedObject, Writer, expected
from .shapes import (
    DOCUMENTS_BY_TYPE,
    Shape,
    array_element,
    has_extra,
    is_class,
    mapping_element,
    put,
)
from .strict_json import parse

T = TypeVar("T")

_RECORDS: Final = frozenset(
    kind for kind in vars(records).values() if attrs.has(kind) and kind is not records.Window
)

_WITHIN_OTHERS: Final = {
    kind for kind in _RECORDS - {ApplicationDocuments, Document} if has_extra(kind)
}


def decode(cls: type[T], body: bytes) -> T | DecodeError:
    """Read a record from a reply's body (contract section 2).

    Args:
        cls: the record that the body holds.
        body: JSON in UTF-8.

    Returns:
        The record, or the error as a value: whoever raises it holds no body.
        It names every fault; it is retryable if the body is not whole JSON.
    """
    tree = parse(body)
    if isinstance(tree, DecodeError):
        return tree
    try:
        return _converter().structure(tree, cls)
    except Exception:  # noqa: BLE001 - whatever it is, its frames hold the values
        del tree
    faults = faults_of(cls, parse(body), document_types.registered_types())
    return DecodeError(faults or (PayloadFault("$", "not accepted by its class"),))


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
        ConfigurationError: it is no record, or holds what JSON cannot carry exactly.
    """
    written = _written(record)
    del record
    if isinstance(written, ConfigurationError):
        raise written
    return written


def register_document_type(key: str, cls: type) -> None:
    """Have the data of a document type read into a class of the caller's.

    Its fields are decoded as strictly as the package's own: str, int, float,
    bool, Decimal, date, datetime, object, other attrs classes, ``X | None``,
    ``tuple[X, ...]`` and ``Mapping[str, X]`` of these. A field with a default may
    be absent. Unknown fields are kept in the class's ``extra`` or, if it has no
    such field, in ``Document.extracted_extra``; a class nested in it must have one.

    Args:
        key: the service's key of the type, such as ``w2``.
        cls: an attrs class; the same one again changes nothing.

    Raises:
        ConfigurationError: the key is empty, has another class already, as
            ``paystub`` does, or the class cannot be decoded strictly.
    """
    document_types.register(key, cls)
    _converter.cache_clear()


def make_converter(
    types: Mapping[str, type],
    *,
    compiled: Collection[type] = _RECORDS,
) -> Converter:
    """Make a converter with these rules.

    Args:
        types: the class that holds the extracted data, by document type.
        compiled: classes that are read by functions of our own; they give what
            cattrs would give, and sooner.
    """
    converter = Converter(detailed_validation=False)
    for kind, read in READERS.items():
        if is_class(kind):
            converter.register_structure_hook(kind, read)
        else:
            converter.register_structure_hook_func(_exactly(kind), read)
    for kind, write in WRITERS.items():
        if is_class(kind):
            converter.register_unstructure_hook(kind, write)
        else:
            converter.register_unstructure_hook_func(_exactly(kind), write)
    converter.register_structure_hook_factory(_is_array, _array_reader)
    converter.register_structure_hook_factory(_is_mapping, _mapping_reader)
    converter.register_structure_hook_factory(
        _exactly(DOCUMENTS_BY_TYPE),
        lambda _: _documents_reader(types, converter, compiled=Document in compiled),
    )
    converter.register_structure_hook_factory(
        attrs.has,
        lambda cls: _record_reader(cls, converter, compiled=cls in compiled),
    )
    converter.register_structure_hook_factory(
        _exactly(ApplicationDocuments),
        lambda cls: _with_sources(_record_reader(cls, converter, compiled=cls in compiled)),
    )
    converter.register_unstructure_hook_factory(attrs.has, _record_writer)
    converter.register_unstructure_hook_func(_exactly(object), _object_writer(converter))
    return converter


def _is_array(kind: Any) -> bool:
    return array_element(kind) is not None


def _is_mapping(kind: Any) -> bool:
    return mapping_element(kind) is not None


def _exactly(kind: Any) -> Callable[[Any], bool]:
    return functools.partial(operator.eq, kind)


@functools.cache
def _converter() -> Converter:
    return make_converter(document_types.registered_types())


def _written(record: object) -> bytes | ConfigurationError:
    kind = type(record)
    if kind not in _RECORDS and kind not in document_types.registered_types().values():
        return ConfigurationError(f"{kind.__name__} is no record of the service")
    with contextlib.suppress(Exception):
        return orjson.dumps(_converter().unstructure(record))
    return ConfigurationError(f"this {kind.__name__} holds what JSON cannot carry exactly")


def _array_reader(kind: Any, converter: Converter) -> Reader:
    element = array_element(kind)
    return _array_of(converter.get_structure_hook(element), element)


def _array_of(read: Reader, element: Any) -> Reader:
    def read_array(value: Any, _: Any) -> Any:
        if type(value) is not list:
            raise expected("an array", value)
        return tuple([read(item, element) for item in value])

    return read_array


def _mapping_reader(kind: Any, converter: Converter) -> Reader:
    element = mapping_element(kind)
    read = converter.get_structure_hook(element)

    def read_mapping(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise expected("an object", value)
        return FrozenDict({key: read(item, element) for key, item in value.items()})

    return read_mapping


def _record_reader(cls: Any, converter: Converter, *, compiled: bool, **types: Any) -> Reader:
    keeps_extra = has_extra(cls)
    if compiled and keeps_extra:
        return compile_reader(cls, converter.get_structure_hook, _WITHIN_OTHERS, **types)
    shape = Shape.of(cls)
    required = shape.required
    overrides: dict[str, Any] = {name: override(omit=True) for name in shape.beside}
    for name, kind in types.items():
        overrides[name] = override(struct_hook=converter.get_structure_hook(kind))
    structure = make_dict_structure_fn(cls, converter, _cattrs_use_linecache=False, **overrides)

    def read_record(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise expected("an object", value)
        record = structure(value, cls)
        if keeps_extra and len(value) != required:
            put(record, "extra", shape.leftovers(value, record))
        return record

    return read_record


def _document_reader(data: Any, converter: Converter, *, compiled: bool) -> Reader:
    read = _record_reader(Document, converter, compiled=compiled, extracted_data=data)
    if data is UntypedObject or has_extra(data):
        return read
    shape = Shape.of(data)

    def read_document(value: Any, _: Any) -> Any:
        document = read(value, Document)
        left = shape.leftovers(value["extracted_data"], document.extracted_data)
        put(document, "extracted_extra", left)
        return document

    return read_document


def _documents_reader(
    types: Mapping[str, type],
    converter: Converter,
    *,
    compiled: bool,
) -> Reader:
    def array(data: Any) -> Reader:
        return _array_of(_document_reader(data, converter, compiled=compiled), Document)

    untyped = array(UntypedObject)
    typed = {key: array(cls) for key, cls in types.items()}

    def read_documents(value: Any, kind: Any) -> Any:
        if type(value) is not dict:
            raise expected("an object", value)
        return FrozenDict({k: typed.get(k, untyped)(items, kind) for k, items in value.items()})

    return read_documents


def _with_sources(read: Reader) -> Reader:
    def read_application_documents(value: Any, kind: Any) -> Any:
        record = read(value, kind)
        for key, documents in record.documents.items():
            source = DocumentSource(record.application_id, key)
            for document in documents:
                put(document, "source", source)
        return record

    return read_application_documents


def _record_writer(cls: Any, converter: Converter) -> Writer:
    shape = Shape.of(cls)
    keeps_extra = has_extra(cls)
    overrides: dict[str, Any] = {name: override(omit=True) for name in shape.beside}
    overrides |= {name: override(omit_if_default=True) for name in shape.defaults}
    write = make_dict_unstructure_fn(cls, converter, _cattrs_use_linecache=False, **overrides)

    def write_record(record: Any) -> Any:
        fields = write(record)
        if cls is Document and record.extracted_extra:
            fields["extracted_data"] = {**record.extracted_extra, **fields["extracted_data"]}
        return {**record.extra, **fields} if keeps_extra and record.extra else fields

    return write_record


def _object_writer(converter: Converter) -> Writer:
    def write_object(value: Any) -> Any:
        return converter.unstructure(value) if attrs.has(type(value)) else value

    return write_object
