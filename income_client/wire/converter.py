"""How records are made of parsed JSON, and taken apart again: the rules that cattrs is given.

Knows neither a reply nor its text; who calls what is made here sees to it that no
exception of it leaves.
"""

import functools
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from income_client import records
from income_client.records.documents import ApplicationDocuments, Document, DocumentSource
from income_client.records.mapping import FrozenDict

from .readers import compile_reader
from .scalars import READERS, WRITERS, Reader, Refusal, UntypedObject, Writer, expected
from .shapes import (
    DOCUMENTS_BY_TYPE,
    Shape,
    array_element,
    has_extra,
    is_class,
    mapping_element,
    put,
)
from .strict_json import is_finite

T = TypeVar("T")

RECORDS: Final = frozenset(
    kind for kind in vars(records).values() if attrs.has(kind) and kind is not records.Window
)
"""The classes that the service's replies become."""

_WITHIN_OTHERS: Final = {
    kind for kind in RECORDS - {ApplicationDocuments, Document} if has_extra(kind)
}


def make_converter(
    types: Mapping[str, type],
    *,
    compiled: Collection[type] = RECORDS,
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
            beside = _writable(record.extracted_extra)
            fields["extracted_data"] = {**beside, **fields["extracted_data"]}
        return {**_writable(record.extra), **fields} if keeps_extra and record.extra else fields

    return write_record


def _writable(value: T) -> T:
    """Return content without a known type if JSON can carry its numbers."""
    if not is_finite(value):
        raise Refusal("not a number that JSON carries")
    return value


def _object_writer(converter: Converter) -> Writer:
    def write_object(value: Any) -> Any:
        return converter.unstructure(value) if attrs.has(type(value)) else _writable(value)

    return write_object
