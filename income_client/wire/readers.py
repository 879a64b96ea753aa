"""How records are made of parsed JSON, and taken apart again.

The converter is the one registry of rules. The classes of callers are read by functions of
cattrs. The package's own records are read by functions that are written from their fields and
compiled, which take a third of the time. Both stop at the first fault; `faults_of` then goes
over the same types again and names every fault, as a generator, since a hostile payload of some
megabytes has millions.

Exceptions raised here hold the values that they are about: the caller must drop them.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from textwrap import indent
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Self, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from income_client import records
from income_client.errors import ConfigurationError, PayloadFault
from income_client.records.documents import ApplicationDocuments, Document, DocumentSource
from income_client.records.fields import (
    BESIDE_THE_JSON,
    NO_EXTRA,
    FrozenDict,
    UntypedDict,
    shown_key,
)
from income_client.records.paystub import Paystub

from .scalars import (
    READERS,
    SCOPE,
    TEMPLATES,
    WRITERS,
    Reader,
    Refusal,
    UntypedObject,
    Writer,
    expected,
    read_untyped,
    untyped,
    write_untyped,
)

T = TypeVar("T")

_RECORDS: Final = frozenset(
    kind for kind in vars(records).values() if attrs.has(kind) and kind is not records.Window
)
"""The classes that the service's replies become."""

_BY_TYPE: Final[Any] = attrs.fields(ApplicationDocuments).documents.type
"""The type of the documents of an application, by their own type."""

MOST_FAULTS: Final = 1000
"""Most that an error names of the faults of one kind."""

_document_types: Final[dict[str, type]] = {"paystub": Paystub}
"""The class that holds the data of a document type."""


def is_record_class(kind: object) -> bool:
    """Return whether this is a class of records, or registered for a document type."""
    return isinstance(kind, type) and (kind in _RECORDS or kind in _document_types.values())


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
        if not _has_extra(kind):
            raise ConfigurationError(f"{kind.__name__}, the class of {name}, has no field extra")
        _check_class(kind, around)
        return
    element = _array_element(kind) or _mapping_element(kind) or _optional_element(kind)
    if element is None:
        raise ConfigurationError(f"{name} is of a type that cannot be read strictly")
    _check_type(name, element, around)


def _array_element(kind: Any) -> Any:
    """Return X of ``tuple[X, ...]``, None for anything else."""
    arguments = get_args(kind)
    return arguments[0] if get_origin(kind) is tuple and arguments[1:] == (Ellipsis,) else None


def _mapping_element(kind: Any) -> Any:
    """Return X of ``Mapping[str, X]``, None for anything else."""
    arguments = get_args(kind)
    return arguments[1] if get_origin(kind) is Mapping and arguments[0] is str else None


def _optional_element(kind: Any) -> Any:
    """Return X of ``X | None``, None for anything else."""
    if get_origin(kind) not in {Union, UnionType}:
        return None
    others = [argument for argument in get_args(kind) if argument is not NoneType]
    return others[0] if len(others) == 1 else None


def _has_extra(cls: Any) -> bool:
    return "extra" in attrs.fields_dict(cls)


_COMPILED: Final = frozenset(filter(_has_extra, _RECORDS))
"""Records that are read by the lines written for them, alone or within others."""


@functools.cache
def _documents_of(data: type | None) -> Any:
    """Return the type of documents that hold data of this class, or of none that is known."""
    return tuple[Annotated[Document, data or UntypedObject], ...]


def _is_document(kind: Any) -> bool:
    return get_origin(kind) is Annotated and get_args(kind)[0] is Document


def _is_container(kind: Any) -> bool:
    return _array_element(kind) is not None or _mapping_element(kind) is not None


@attrs.frozen
class _Shape:
    """The object that a record is in JSON: types by key, and defaults of what may be absent."""

    cls: Any
    types: Mapping[str, Any]
    defaults: Mapping[str, Any]
    beside: Mapping[str, Any]
    """Fields of the class that are not keys of the object, with their initial values."""

    @classmethod
    def of(cls, kind: Any) -> Self:
        """Return the shape of a record class, or of a document with the class of its data."""
        record, data = get_args(kind) if _is_document(kind) else (kind, None)
        types: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        beside: dict[str, Any] = {}
        for field in attrs.fields(record):
            if field.name == "extra" or BESIDE_THE_JSON.items() <= field.metadata.items():
                beside[field.name] = field.default
                continue
            types[field.name] = field.type
            if field.default is not attrs.NOTHING:
                defaults[field.name] = field.default
        if data is not None:
            types["extracted_data"] = data
        return cls(record, types, defaults, beside)

    @property
    def required(self) -> int:
        """How many keys must be there."""
        return len(self.types) - len(self.defaults)

    def leftovers(self, value: Mapping[str, Any], record: Any) -> UntypedDict:
        """Return the members of an object for which its record has no field."""
        known, left = self.types, {}
        for key in value:
            if key not in known:
                item = value[key]
                left[key] = item if type(item) is str else untyped(item)
        # A default that was sent would be lost on the way back: a null for ``pages``, say.
        for name in self.defaults:
            if name in value and getattr(record, name) == self.defaults[name]:
                left[name] = value[name]
        return UntypedDict(left) if left else NO_EXTRA


@functools.cache
def reader_of(kind: Any) -> Reader:
    """Return what reads a JSON value into a record of this class."""
    return converter().get_structure_hook(kind)


@functools.cache
def converter() -> Converter:
    """Return the converter that has all rules, both ways."""
    made = Converter(detailed_validation=False)
    for kind, read in READERS.items():
        made.register_structure_hook_func(_exactly(kind), read)
    for kind in (str, int, float, bool):  # cattrs prefers its own for these, which convert
        made.register_structure_hook(kind, READERS[kind])
    for kind, write in {**WRITERS, object: _write_object}.items():
        made.register_unstructure_hook_func(_exactly(kind), write)
    hook = made.register_structure_hook_factory
    hook(_is_container, _compiled)
    hook(attrs.has, _record_reader)
    hook(_is_document, _compiled)
    hook(_exactly(_BY_TYPE), lambda _: _read_documents)
    hook(_exactly(ApplicationDocuments), lambda kind: _with_sources(_compiled(kind)))
    made.register_unstructure_hook_factory(attrs.has, _record_writer)
    return made


def _exactly(kind: Any) -> Callable[[Any], bool]:
    return functools.partial(operator.eq, kind)


def _put(record: Any, name: str, value: Any) -> None:
    """Set a field of a record that is still being made, frozen or not."""
    object.__setattr__(record, name, value)


def _record_reader(cls: Any, converter: Converter) -> Reader:
    if cls in _COMPILED:
        return _compiled(cls)
    shape = _Shape.of(cls)
    keeps_extra = _has_extra(cls)
    omitted: dict[str, Any] = {name: override(omit=True) for name in shape.beside}
    structure = make_dict_structure_fn(cls, converter, _cattrs_use_linecache=False, **omitted)

    def read_record(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise expected("an object", value)
        record = structure(value, cls)
        if keeps_extra and len(value) != shape.required:
            _put(record, "extra", shape.leftovers(value, record))
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
    return reader_of(_documents_of(data))


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
    keeps_extra = _has_extra(cls)
    overrides: dict[str, Any] = {name: override(omit=True) for name in shape.beside}
    overrides |= {name: override(omit_if_default=True) for name in shape.defaults}
    write = make_dict_unstructure_fn(cls, converter, _cattrs_use_linecache=False, **overrides)

    def write_record(record: Any) -> Any:
        fields = write(record)
        if cls is Document and record.extracted_extra:
            beside = write_untyped(record.extracted_extra)
            fields["extracted_data"] = {**beside, **fields["extracted_data"]}
        return {**write_untyped(record.extra), **fields} if keeps_extra and record.extra else fields

    return write_record


def _write_object(value: Any) -> Any:
    return converter().unstructure(value) if attrs.has(type(value)) else write_untyped(value)


def _compiled(kind: Any) -> Reader:
    """Return a function that reads values of a type, made of lines for all that is in it."""
    # Fields are stored one by one instead of through ``__init__``, which does nothing but store.
    function = _Function()
    source = f"def read(value, _):\n{_indented(function.lines('value', kind))}\n    return value"
    exec(source, function.scope)  # noqa: S102 - made of nothing but names of fields
    reader: Reader = function.scope["read"]
    return reader


@functools.cache
def _blank(cls: Any) -> Any:
    """Return a class whose instances can be filled in, and then become one of the record class."""
    # All three, or a store looks for the method of the record class each time.
    methods = ("__init__", "__setattr__", "__delattr__")
    members = {name: getattr(object, name) for name in methods}
    return type(cls.__name__, (cls,), {"__slots__": (), **members})


@attrs.frozen
class _Function:
    """Writes the lines of a function, and has the values of the names in them."""

    scope: dict[str, Any] = attrs.field(factory=lambda: dict(SCOPE))

    def lines(self, x: str, kind: Any) -> str:
        """Return the lines that replace a JSON value by its meaning."""
        if (element := _optional_element(kind)) is not None:
            return f"if {x} is not None:\n{_indented(self.lines(x, element))}"
        if kind in TEMPLATES:
            read = self._name("read", READERS.get(kind))
            return TEMPLATES[kind].strip().format(x=x, read=read)
        if kind in _COMPILED or _is_document(kind):
            return self._record(x, kind)
        if (element := _array_element(kind)) is not None:
            return self._array(x, element)
        if (element := _mapping_element(kind)) is not None and kind != _BY_TYPE:
            return self._mapping(x, element)
        return f"{x} = {self._name('read', reader_of(kind))}({x}, None)"

    def _record(self, value: str, kind: Any) -> str:
        shape = _Shape.of(kind)
        record, x = self._name("record"), self._name("x")
        lines = [f"{record} = {self._name('blank', _blank(shape.cls))}()"]
        if not shape.required:
            # Otherwise only a dict gets past the first key: nothing else that JSON has takes one.
            lines += [f"if type({value}) is not dict:", "    raise TypeError"]
        for name, kind_of_field in shape.types.items():
            taken = f"{x} = {value}[{name!r}]\n{self.lines(x, kind_of_field)}"
            if name in shape.defaults:
                default = self._name("default", shape.defaults[name])
                taken = f"{x} = {default}\nif {name!r} in {value}:\n{_indented(taken)}"
            lines += [taken, f"{record}.{name} = {x}"]
        for name, initial in shape.beside.items():
            lines.append(f"{record}.{name} = {self._name('initial', initial)}")
        data: Any = shape.types.get("extracted_data")
        if attrs.has(data) and not _has_extra(data):
            rest = f"({value}['extracted_data'], {record}.extracted_data)"
            leftovers = self._name("leftovers", _Shape.of(data).leftovers)
            lines.append(f"{record}.extracted_extra = {leftovers}{rest}")
        leftovers = self._name("leftovers", shape.leftovers)
        lines += [
            f"if len({value}) != {shape.required}:",
            f"    {record}.extra = {leftovers}({value}, {record})",
            f"{record}.__class__ = {self._name('cls', shape.cls)}",
            f"{value} = {record}",
        ]
        return "\n".join(lines)

    def _array(self, x: str, element: Any) -> str:
        items, item = map(self._name, ("items", "item"))
        return f"""
if type({x}) is not list:
    raise TypeError
{items} = []
for {item} in {x}:
{_indented(self.lines(item, element))}
    {items}.append({item})
{x} = tuple({items})
""".strip()

    def _mapping(self, x: str, element: Any) -> str:
        items, key, item = map(self._name, ("items", "key", "item"))
        return f"""
if type({x}) is not dict:
    raise TypeError
{items} = {{}}
for {key}, {item} in {x}.items():
{_indented(self.lines(item, element))}
    {items}[{key}] = {item}
{x} = frozen_dict({items})
""".strip()

    def _name(self, stem: str, value: Any = None) -> str:
        """Return a name that no other line uses, bound to a value if it is not a local."""
        name = f"{stem}_{len(self.scope)}"
        self.scope[name] = value
        return name


def _indented(lines: str) -> str:
    return indent(lines, "    ")


def faults_of(cls: Any, value: Any, path: str = "$") -> tuple[PayloadFault, ...]:
    """Return the first thousand faults of a parsed value that should be of a record class."""
    return tuple(islice(_faults(path, cls, value), MOST_FAULTS))


def _faults(path: str, kind: Any, value: Any) -> Iterator[PayloadFault]:
    if kind in READERS:
        yield from _value_faults(path, READERS[kind], value)
    elif attrs.has(kind) or _is_document(kind):
        yield from _object_faults(path, kind, value)
    elif (element := _optional_element(kind)) is not None:
        if value is not None:
            yield from _faults(path, element, value)
    elif (element := _array_element(kind)) is not None:
        if type(value) is not list:
            yield _wrong_kind(path, "an array", value)
            return
        for index, item in enumerate(value):
            yield from _faults(f"{path}[{index}]", element, item)
    elif type(value) is dict:
        for key, item in value.items():
            data = _document_types.get(key)
            element = _documents_of(data) if kind == _BY_TYPE else _mapping_element(kind)
            yield from _faults(f"{path}.{shown_key(key)}", element, item)
    else:
        yield _wrong_kind(path, "an object", value)


def _object_faults(path: str, kind: Any, value: Any) -> Iterator[PayloadFault]:
    if type(value) is not dict:
        yield _wrong_kind(path, "an object", value)
        return
    shape = _Shape.of(kind)
    for name, kind_of_field in shape.types.items():
        if name in value:
            yield from _faults(f"{path}.{name}", kind_of_field, value[name])
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
