"""Which types the fields of a record may have, and which keys of an object are its own."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Final, Self, Union, get_args, get_origin

import attrs

from income_client.records.documents import ApplicationDocuments
from income_client.records.fields import BESIDE_THE_JSON, NO_EXTRA
from income_client.records.mapping import UntypedDict

from .scalars import untyped

DOCUMENTS_BY_TYPE: Final[Any] = attrs.fields(ApplicationDocuments).documents.type

_PLACES_FOR_EXTRA: Final = frozenset({"extra", "extracted_extra"})


def is_class(kind: Any) -> bool:
    """Return whether this is an ordinary class, not a form of typing."""
    return type(kind) is type and kind is not object


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


def put(record: Any, name: str, value: Any) -> None:
    """Set a field of a record that was just made and is seen by no one yet, frozen or not."""
    object.__setattr__(record, name, value)


def _is_beside(field: "attrs.Attribute[Any]") -> bool:
    return field.name in _PLACES_FOR_EXTRA or BESIDE_THE_JSON.items() <= field.metadata.items()


@attrs.frozen(kw_only=True)
class Shape:
    """The keys that an object of a record class has."""

    types: Mapping[str, Any]
    """Type by key, in the order of the fields."""
    defaults: Mapping[str, Any]
    """Value of each key that may be absent."""
    beside: Mapping[str, Any]
    """Fields of the class that are no keys of the object, with what they begin as."""

    @classmethod
    def of(cls, record: Any) -> Self:
        """Return the shape of a record class."""
        fields = attrs.fields_dict(record)
        beside = {name: field.default for name, field in fields.items() if _is_beside(field)}
        keys = {name: field for name, field in fields.items() if name not in beside}
        return cls(
            types={name: field.type for name, field in keys.items()},
            defaults={
                name: field.default
                for name, field in keys.items()
                if field.default is not attrs.NOTHING
            },
            beside=beside,
        )

    def typed(self, **types: Any) -> Self:
        """Return the shape with other types for some keys."""
        return attrs.evolve(self, types={**self.types, **types})

    @property
    def required(self) -> int:
        """How many keys must be there."""
        return len(self.types) - len(self.defaults)

    def leftovers(self, value: Mapping[str, Any], record: Any) -> UntypedDict:
        """Return what of an object its record has no field for.

        A default that was sent all the same is among it, or it would be lost on
        the way back: an explicit null for ``pages``, say.

        Raises:
            Refusal: some of it cannot be kept.
        """
        known = self.types
        left = {key: untyped(item) for key, item in value.items() if key not in known}
        for name, default in self.defaults.items():
            if name in value and getattr(record, name) == default:
                left[name] = value[name]
        return UntypedDict(left) if left else NO_EXTRA
