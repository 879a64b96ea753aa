"""Types of fields, immutable mappings and masks that all records share."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, NoReturn, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_PLAIN_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_CHANGES: Final = (
    *("__setitem__", "__delitem__", "__ior__"),
    *("clear", "pop", "popitem", "setdefault", "update"),
)
"""Names of the methods of a dict that change it."""


def shown_key(key: object) -> str:
    """Return a key of a reply if it looks like a field's name, ``*`` otherwise."""
    return key if isinstance(key, str) and _PLAIN_KEY.fullmatch(key) else "*"


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed; equal to any dict with the same items.

    Its repr shows only keys that look like names: a key may be a borrower's e-mail address.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{shown_key(key)}: {value!r}" for key, value in self.items()) + "}"

    def __copy__(self) -> "FrozenDict[K, V]":
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[dict[K, V]]]:
        return type(self), (dict(self),)


def _refuse(mapping: object, *_: Any, **__: Any) -> NoReturn:
    raise TypeError(f"{type(mapping).__name__} cannot be changed")


for _name in _CHANGES:
    # Written as methods, these would be errors of overriding to a type checker.
    setattr(FrozenDict, _name, _refuse)


class UntypedDict(FrozenDict[str, Any]):
    """Fields that the contract does not name; the repr shows only their number."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} fields>"


ServiceTime: TypeAlias = Annotated[datetime, "without zone, in the service's frame"]
"""A time without zone, in the service's own zone."""

UtcTime: TypeAlias = Annotated[datetime, "aware, in UTC"]
"""A time in UTC, which ends in Z in JSON."""

Amount: TypeAlias = Annotated[Decimal | None, "an absent amount is None"]
"""An amount that may be absent."""

NO_EXTRA: Final = UntypedDict()
"""The empty mapping that all records without unknown fields share."""

BESIDE_THE_JSON: Final[Mapping[str, bool]] = {"beside_the_json": True}
"""Metadata of a field that is not a member of the record's own JSON object."""


def masked(_: object) -> str:
    """Return the mask that a repr shows in place of personal data."""
    return "***"
