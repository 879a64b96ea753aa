"""The types that records are annotated with, and the objects that records are in JSON."""

import functools
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Self, Union, get_args, get_origin

import attrs

from income_client.records import applications, documents, paystub
from income_client.records.documents import ApplicationDocuments, Document, DocumentSource
from income_client.records.fields import BESIDE_THE_JSON, NO_EXTRA, UntypedDict

from .scalars import UntypedObject, keep_untyped

RECORDS: Final = frozenset(
    kind
    for module in (applications, documents, paystub)
    for kind in vars(module).values()
    if attrs.has(kind) and kind.__module__ == module.__name__ and kind is not DocumentSource
)
"""The classes that the service's replies become."""

BY_TYPE: Final[Any] = attrs.fields(ApplicationDocuments).documents.type
"""The type of the documents of an application, by their own type."""


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
    """Return whether a class keeps unknown fields."""
    return "extra" in attrs.fields_dict(cls)


COMPILED: Final = frozenset(filter(has_extra, RECORDS))
"""Record classes that have compiled readers."""


@functools.cache
def documents_of(data: type | None) -> Any:
    """Return the type of documents whose data has a class, or no known class."""
    return tuple[Annotated[Document, data or UntypedObject], ...]


def is_document(kind: Any) -> bool:
    """Return whether a type is a document with a class for its data."""
    return get_origin(kind) is Annotated and get_args(kind)[0] is Document


def is_container(kind: Any) -> bool:
    """Return whether a type is an array or a mapping of values of one type."""
    return array_element(kind) is not None or mapping_element(kind) is not None


@attrs.frozen
class Shape:
    """The object that a record is in JSON: types by key, and defaults of what may be absent."""

    cls: Any
    types: Mapping[str, Any]
    defaults: Mapping[str, Any]
    beside: Mapping[str, Any]
    """Fields of the class that are not keys of the object, with their initial values."""

    @classmethod
    def of(cls, kind: Any) -> Self:
        """Return the shape of a record class, or of a document with the class of its data."""
        record, data = get_args(kind) if is_document(kind) else (kind, None)
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
        """Number of keys that must be present."""
        return len(self.types) - len(self.defaults)

    def leftovers(self, value: Mapping[str, Any], record: Any) -> UntypedDict:
        """Return the members of an object for which its record has no field."""
        types, rest = self.types, {}
        for key in value:
            if key not in types:
                item = value[key]
                rest[key] = item if type(item) is str else keep_untyped(item)
        # A default that was sent would be lost on the way back: a null for ``pages``, say.
        for name in self.defaults:
            if name in value and getattr(record, name) == self.defaults[name]:
                rest[name] = value[name]
        return UntypedDict(rest) if rest else NO_EXTRA
