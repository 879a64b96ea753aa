"""The fields of records that the contract does not name, each where it stood; knows no table."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

import attrs

from income_client.records.fields import UntypedDict

_KEPT_APART: Final = frozenset({"extra", "extracted_extra"})
NONE_BESIDE: Final[frozenset[str]] = frozenset()


def unknown_fields(record: Any, beside: frozenset[str] = NONE_BESIDE) -> dict[str, Any]:
    """Return what no field of a record, or of those within it, has a place for.

    The data extracted from a document is looked at elsewhere.

    Args:
        record: any record.
        beside: fields whose records are looked at elsewhere.

    Returns:
        Unknown fields at their places: by name in objects, by position, from 0, in arrays.
    """
    found = dict(getattr(record, "extra", {}))
    kind: Any = type(record)
    for name in _field_names(kind):
        if name not in beside:
            inner = _within(getattr(record, name), beside)
            if inner:
                found[name] = inner
    return found


def _within(value: Any, beside: frozenset[str]) -> dict[str, Any]:
    match value:
        case UntypedDict():
            return {}
        case Mapping():
            return _of_each(iter(value.items()), beside)
        case tuple():
            return _of_each(((str(place), one) for place, one in enumerate(value)), beside)
        case _ if attrs.has(type(value)):
            return unknown_fields(value, beside)
        case _:
            return {}


def _of_each(items: Iterator[tuple[str, Any]], beside: frozenset[str]) -> dict[str, Any]:
    found = ((key, _within(value, beside)) for key, value in items)
    return {key: inner for key, inner in found if inner}


@functools.cache
def _field_names(kind: Any) -> tuple[str, ...]:
    """Return the fields that can hold records; content of any type, as JSON gave it, does not."""
    return tuple(
        one.name
        for one in attrs.fields(kind)
        if one.name not in _KEPT_APART and _holds_records(one.type)
    )


def _holds_records(annotation: Any) -> bool:
    return attrs.has(annotation) or any(map(_holds_records, get_args(annotation)))
