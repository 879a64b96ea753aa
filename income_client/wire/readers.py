"""How records are made of parsed JSON, and taken apart again.

The converter is the one registry of rules. The package's own records are read by functions
that are written from their fields and compiled: they do what a structuring function of
cattrs does, in a fraction of the time. They stop at the first fault and give no reason;
`faults_of` then goes over the same types again and names every fault.

Exceptions raised here hold the values that they are about: the caller must drop them.
"""

import functools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from itertools import islice
from types import NoneType, UnionType
from typing import Any, Final, Self, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from income_client import records
from income_client.errors import PayloadFault
from income_client.records.documents import ApplicationDocuments, Document, DocumentSource
from income_client.records.fields import BESIDE_THE_JSON, NO_EXTRA, Amount, ServiceTime, UtcTime
from income_client.records.mapping import FrozenDict, UntypedDict, shown_key

from .scalars import (
    LINES_SCOPE,
    PLAIN_TYPES,
    READERS,
    WRITERS,
    Reader,
    Refusal,
    UntypedObject,
    Writer,
    amount_lines,
    day_lines,
    decimal_lines,
    expected,
    read_untyped,
    time_lines,
    untyped,
)
from .strict_json import is_finite

T = TypeVar("T")

DOCUMENTS_BY_TYPE: Final[Any] = attrs.fields(ApplicationDocuments).documents.type
"""The type of the documents of an application, by their own type."""

RECORDS: Final = frozenset(
    kind for kind in vars(records).values() if attrs.has(kind) and kind is not records.Window
)
"""The classes that the service's replies become."""

_PLACES_FOR_EXTRA: Final = frozenset({"extra", "extracted_extra"})
_REFUSE: Final = "    raise TypeError"
_MOST_FAULTS: Final = 1000
"""Faults that are reported: a hostile payload of some megabytes has millions."""


def array_element(kind: Any) -> Any:
    """Return X of ``tuple[X, ...]``, None for anything else."""
    arguments = get_args(kind)
    return arguments[0] if get_origin(kind) is tuple and arguments[1:] == (Ellipsis,) else None


def mapping_element(kind: Any) -> Any:
    """Return X of ``Mapping[str, X]``, None for anything else."""
    arguments = get_args(kind)
    return arguments[1] if get_origin(kind) is Mapping and arguments[0] is str else None


def optional_element(kind: Any) -> Any:
    """Return X of ``X | None``, None for anything else."""
    if get_origin(kind) not in {Union, UnionType}:
        return None
    others = [argument for argument in get_args(kind) if argument is not NoneType]
    return others[0] if len(others) == 1 else None


def has_extra(cls: Any) -> bool:
    """Return whether a record class has a place for unknown fields."""
    return "extra" in attrs.fields_dict(cls)


_NESTED: Final = {kind for kind in RECORDS - {ApplicationDocuments, Document} if has_extra(kind)}
"""Records that are read in the function of the record that holds them."""


@attrs.frozen(kw_only=True)
class _Shape:
    """The keys that an object of a record class has."""

    types: Mapping[str, Any]
    """Type by key, in the order of the fields."""
    defaults: Mapping[str, Any]
    """Value of each key that may be absent."""
    beside: Mapping[str, Any]
    """Fields of the class that are no keys of the object, with their initial values."""

    @classmethod
    def of(cls, record: Any, **types: Any) -> Self:
        """Return the shape of a record class, with other types for some keys."""
        fields = attrs.fields_dict(record)
        beside = {
            name: field.default
            for name, field in fields.items()
            if name in _PLACES_FOR_EXTRA or BESIDE_THE_JSON.items() <= field.metadata.items()
        }
        keys = {name: field for name, field in fields.items() if name not in beside}
        return cls(
            types={name: types.get(name, field.type) for name, field in keys.items()},
            defaults={
                name: field.default
                for name, field in keys.items()
                if field.default is not attrs.NOTHING
            },
            beside=beside,
        )

    @property
    def required(self) -> int:
        """How many keys must be there."""
        return len(self.types) - len(self.defaults)

    def leftovers(self, value: Mapping[str, Any], record: Any) -> UntypedDict:
        """Return the members of an object for which its record has no field.

        A default that was sent explicitly is one of them, or it would be lost on
        the way back: a null for ``pages``, say.
        """
        known = self.types
        left = {key: untyped(item) for key, item in value.items() if key not in known}
        for name, default in self.defaults.items():
            if name in value and getattr(record, name) == default:
                left[name] = value[name]
        return UntypedDict(left) if left else NO_EXTRA


def make_converter(
    types: Mapping[str, type],
    *,
    compiled: Collection[type] = RECORDS,
) -> Converter:
    """Make a converter with these rules.

    Args:
        types: the class that holds the extracted data, by document type.
        compiled: record classes that are read by compiled functions; they give what
            cattrs would give, and sooner.
    """
    converter = Converter(detailed_validation=False)
    for kind, read in READERS.items():
        if _is_class(kind):
            converter.register_structure_hook(kind, read)
        else:
            converter.register_structure_hook_func(_exactly(kind), read)
    for kind, write in WRITERS.items():
        if _is_class(kind):
            converter.register_unstructure_hook(kind, write)
        else:
            converter.register_unstructure_hook_func(_exactly(kind), write)
    hook = converter.register_structure_hook_factory
    hook(lambda kind: array_element(kind) is not None, _array_reader)
    hook(lambda kind: mapping_element(kind) is not None, _mapping_reader)
    hook(
        _exactly(DOCUMENTS_BY_TYPE),
        lambda _: _documents_reader(types, converter, compiled=Document in compiled),
    )
    hook(attrs.has, lambda cls: _record_reader(cls, converter, compiled=cls in compiled))
    hook(
        _exactly(ApplicationDocuments),
        lambda cls: _with_sources(_record_reader(cls, converter, compiled=cls in compiled)),
    )
    converter.register_unstructure_hook_factory(attrs.has, _record_writer)
    converter.register_unstructure_hook_func(_exactly(object), _object_writer(converter))
    return converter


def _is_class(kind: Any) -> bool:
    return type(kind) is type and kind is not object


def _exactly(kind: Any) -> Callable[[Any], bool]:
    return functools.partial(operator.eq, kind)


def _put(record: Any, name: str, value: Any) -> None:
    """Set a field of a new record that nobody has seen yet, frozen or not."""
    object.__setattr__(record, name, value)


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
    shape = _Shape.of(cls, **types)
    keeps_extra = has_extra(cls)
    if compiled and keeps_extra:
        return _compiled(cls, shape, converter.get_structure_hook)
    overrides: dict[str, Any] = {name: override(omit=True) for name in shape.beside}
    for name, kind in types.items():
        overrides[name] = override(struct_hook=converter.get_structure_hook(kind))
    structure = make_dict_structure_fn(cls, converter, _cattrs_use_linecache=False, **overrides)

    def read_record(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise expected("an object", value)
        record = structure(value, cls)
        if keeps_extra and len(value) != shape.required:
            _put(record, "extra", shape.leftovers(value, record))
        return record

    return read_record


def _document_reader(data: Any, converter: Converter, *, compiled: bool) -> Reader:
    read = _record_reader(Document, converter, compiled=compiled, extracted_data=data)
    if data is UntypedObject or has_extra(data):
        return read
    shape = _Shape.of(data)

    def read_document(value: Any, _: Any) -> Any:
        document = read(value, Document)
        left = shape.leftovers(value["extracted_data"], document.extracted_data)
        _put(document, "extracted_extra", left)
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

    of_untyped = array(UntypedObject)
    typed = {key: array(cls) for key, cls in types.items()}

    def read_documents(value: Any, kind: Any) -> Any:
        if type(value) is not dict:
            raise expected("an object", value)
        return FrozenDict({k: typed.get(k, of_untyped)(items, kind) for k, items in value.items()})

    return read_documents


def _with_sources(read: Reader) -> Reader:
    def read_application_documents(value: Any, kind: Any) -> Any:
        record = read(value, kind)
        for key, documents in record.documents.items():
            source = DocumentSource(record.application_id, key)
            for document in documents:
                _put(document, "source", source)
        return record

    return read_application_documents


def _record_writer(cls: Any, converter: Converter) -> Writer:
    shape = _Shape.of(cls)
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


def _object_writer(converter: Converter) -> Writer:
    def write_object(value: Any) -> Any:
        return converter.unstructure(value) if attrs.has(type(value)) else _writable(value)

    return write_object


def _writable(value: T) -> T:
    """Return content without a known type if JSON can carry its numbers."""
    if not is_finite(value):
        raise Refusal("not a number that JSON carries")
    return value


def _compiled(cls: Any, shape: _Shape, reader_of: Callable[[Any], Reader]) -> Reader:
    """Return the compiled reader of one of the package's own records.

    Exact types are tested in place, records within records are read in the same function,
    and fields are stored one by one instead of through ``__init__``, which does nothing
    but store.
    """
    function = _Function(reader_of)
    lines = [
        "record = blank()",
        *function.record(cls, shape, "value", "record"),
        "return record",
    ]
    scope = {**function.scope, "blank": _blank(cls)}
    source = "\n".join(["def read_record(value, _):", *_indented(lines)])
    exec(source, scope)  # noqa: S102 - made of nothing but names of fields
    reader: Reader = scope["read_record"]
    return reader


@functools.cache
def _blank(cls: Any) -> Any:
    """Return a class of the same layout whose instances can be filled in.

    CPython lets such an instance become one of the record class. Until then it
    is a local of one function.
    """
    # All three, or a store looks for the method of the record class each time.
    methods = ("__init__", "__setattr__", "__delattr__")
    members = {name: getattr(object, name) for name in methods}
    return type(cls.__name__, (cls,), {"__slots__": (), **members})


@attrs.frozen
class _Function:
    """The lines of a function, and the values of the names in them."""

    reader_of: Callable[[Any], Reader]
    scope: dict[str, Any] = attrs.field(factory=LINES_SCOPE.copy)

    def record(self, cls: Any, shape: _Shape, value: str, record: str) -> list[str]:
        """Return the lines that make a record of a blank one and of an object."""
        lines = []
        if not shape.required:
            lines = [f"if type({value}) is not dict:", _REFUSE]
        # Otherwise only a dict gets past the first key: nothing else that JSON has takes one.
        x = self._name("x")
        for name, kind in shape.types.items():
            taken = [f"{x} = {value}[{name!r}]", *self._read(x, kind)]
            if name in shape.defaults:
                default = self._name("default", shape.defaults[name])
                taken = [f"{x} = {default}", f"if {name!r} in {value}:", *_indented(taken)]
            lines += [*taken, f"{record}.{name} = {x}"]
        lines += [
            f"{record}.{name} = {self._name('first', first)}"
            for name, first in shape.beside.items()
        ]
        return [
            *lines,
            f"if len({value}) != {shape.required}:",
            f"    {record}.extra = {self._name('leftovers', shape.leftovers)}({value}, {record})",
            f"{record}.__class__ = {self._name('cls', cls)}",
        ]

    def _read(self, x: str, kind: Any) -> list[str]:
        """Return the lines that replace a JSON value by its meaning."""
        if (element := optional_element(kind)) is not None:
            return [f"if {x} is not None:", *_indented(self._read(x, element))]
        if kind in PLAIN_TYPES:
            return [f"if type({x}) is not {kind.__name__}:", _REFUSE]
        if kind in _NESTED:
            return self._nested(x, kind)
        if (element := array_element(kind)) in _NESTED or element in PLAIN_TYPES:
            return self._array(x, element)
        if (element := mapping_element(kind)) in _NESTED:
            return self._mapping(x, element)
        return self._scalar(x, kind)

    def _scalar(self, x: str, kind: Any) -> list[str]:
        call = f"{x} = {self._name('read', self.reader_of(kind))}({x}, None)"
        if kind is date:
            return day_lines(x)
        if kind is Decimal:
            return decimal_lines(x, call)
        if kind == Amount:
            return amount_lines(x, call)
        if kind in (ServiceTime, UtcTime):
            return time_lines(x, call, is_utc=kind == UtcTime)
        return [call]

    def _nested(self, x: str, cls: Any) -> list[str]:
        record = self._name("record")
        return [
            f"{record} = {self._name('blank', _blank(cls))}()",
            *self.record(cls, _Shape.of(cls), x, record),
            f"{x} = {record}",
        ]

    def _array(self, x: str, element: Any) -> list[str]:
        items, item = map(self._name, ("items", "item"))
        return [
            f"if type({x}) is not list:",
            _REFUSE,
            f"{items} = []",
            f"for {item} in {x}:",
            *_indented(self._read(item, element)),
            f"    {items}.append({item})",
            f"{x} = tuple({items})",
        ]

    def _mapping(self, x: str, element: Any) -> list[str]:
        items, key, item = map(self._name, ("items", "key", "item"))
        return [
            f"if type({x}) is not dict:",
            _REFUSE,
            f"{items} = {{}}",
            f"for {key}, {item} in {x}.items():",
            *_indented(self._read(item, element)),
            f"    {items}[{key}] = {item}",
            f"{x} = frozen_dict({items})",
        ]

    def _name(self, stem: str, value: Any = None) -> str:
        """Return a name that no other line uses, bound to a value if it is not a local."""
        name = f"{stem}_{len(self.scope)}"
        self.scope[name] = value
        return name


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def faults_of(kind: Any, value: Any, types: Mapping[str, type]) -> tuple[PayloadFault, ...]:
    """Return the first thousand faults of a value that should be of a record class.

    Args:
        kind: the record class.
        value: the output of the JSON parser.
        types: the class that holds the extracted data, by document type.
    """
    return tuple(islice(_faults("$", kind, value, types), _MOST_FAULTS))


def _faults(path: str, kind: Any, value: Any, types: Mapping[str, type]) -> Iterator[PayloadFault]:
    if kind in READERS:
        yield from _value_faults(path, READERS[kind], value)
    elif kind == DOCUMENTS_BY_TYPE and type(value) is dict:
        yield from _document_faults(path, value, types)
    elif attrs.has(kind):
        yield from _record_faults(path, _Shape.of(kind), value, types)
    elif (element := optional_element(kind)) is None:
        yield from _container_faults(path, kind, value, types)
    elif value is not None:
        yield from _faults(path, element, value, types)


def _container_faults(
    path: str, kind: Any, value: Any, types: Mapping[str, type]
) -> Iterator[PayloadFault]:
    element = array_element(kind)
    if element is not None and type(value) is list:
        for index, item in enumerate(value):
            yield from _faults(f"{path}[{index}]", element, item, types)
    elif element is not None:
        yield _wrong_kind(path, "an array", value)
    elif type(value) is dict:
        for key, item in value.items():
            yield from _faults(f"{path}.{shown_key(key)}", mapping_element(kind), item, types)
    else:
        yield _wrong_kind(path, "an object", value)


def _record_faults(
    path: str, shape: _Shape, value: Any, types: Mapping[str, type]
) -> Iterator[PayloadFault]:
    if type(value) is not dict:
        yield _wrong_kind(path, "an object", value)
        return
    for name, kind in shape.types.items():
        if name in value:
            yield from _faults(f"{path}.{name}", kind, value[name], types)
        elif name not in shape.defaults:
            yield PayloadFault(f"{path}.{name}", "missing")
    for key, item in value.items():
        if key not in shape.types:
            yield from _value_faults(f"{path}.{shown_key(key)}", read_untyped, item)


def _document_faults(
    path: str, by_type: Mapping[str, Any], types: Mapping[str, type]
) -> Iterator[PayloadFault]:
    for key, documents in by_type.items():
        here = f"{path}.{shown_key(key)}"
        if type(documents) is not list:
            yield _wrong_kind(here, "an array", documents)
            continue
        shape = _Shape.of(Document, extracted_data=types.get(key, UntypedObject))
        for index, document in enumerate(documents):
            yield from _record_faults(f"{here}[{index}]", shape, document, types)


def _value_faults(path: str, read: Reader, value: Any) -> Iterator[PayloadFault]:
    try:
        read(value, Any)
    except Refusal as refusal:
        yield PayloadFault(path, refusal.reason)


def _wrong_kind(path: str, what: str, value: Any) -> PayloadFault:
    return PayloadFault(path, expected(what, value).reason)
