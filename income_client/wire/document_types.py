"""Which class holds the data of which document type, and which classes can; converts nothing."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from income_client.errors import ConfigurationError
from income_client.records.paystub import Paystub

from .scalars import READERS
from .shapes import array_element, has_extra, mapping_element, optional_element

PAYSTUB: Final = "paystub"

_registered: Final[dict[str, type]] = {PAYSTUB: Paystub}


def registered_types() -> Mapping[str, type]:
    """Return the class of every document type that has one."""
    return _registered.copy()


def register(key: object, cls: object) -> None:
    """Remember the class that holds the data of a document type; see `wire`."""
    if not isinstance(key, str) or not key:
        raise ConfigurationError("a document type is a str that is not empty")
    if not isinstance(cls, type) or not attrs.has(cls):
        raise ConfigurationError(f"the class for document type {key!r} is no attrs class")
    if _registered.get(key, cls) is not cls:
        raise ConfigurationError(f"document type {key!r} has another class already")
    complaint = _complaint(cls, frozenset())
    if complaint is not None:
        raise ConfigurationError(complaint)
    _registered[key] = cls


def _complaint(cls: Any, path: frozenset[Any]) -> str | None:
    try:
        attrs.resolve_types(cls)
    except NameError:
        return f"{cls.__name__} has an annotation that names nothing"
    for field in attrs.fields(cls):
        name = f"{cls.__name__}.{field.name}"
        if not field.init:
            return f"{name} is not set by __init__"
        if field.name == "extra":
            if field.default is attrs.NOTHING:
                return f"{name} has no default"
            continue
        if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
            return f"{name} has a default that is made anew each time"
        complaint = _complaint_of_type(name, field.type, path | {cls})
        if complaint is not None:
            return complaint
    return None


def _complaint_of_type(name: str, kind: Any, path: frozenset[Any]) -> str | None:
    if kind in READERS:
        return None
    if attrs.has(kind):
        if kind in path:
            return f"{name} is of a class that holds itself"
        if not has_extra(kind):
            return f"{kind.__name__}, the class of {name}, has no field extra"
        return _complaint(kind, path)
    for element_of in (array_element, mapping_element, optional_element):
        element = element_of(kind)
        if element is not None:
            return _complaint_of_type(name, element, path)
    return f"{name} is of a type for which there is no strict rule"
