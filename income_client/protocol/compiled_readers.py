"""One reader for each record class, written from its fields and compiled once.

It does what a structuring function of cattrs does, in a fraction of the time:
exact types are tested in place, and fields are stored one by one instead of
going through ``__init__``. So it is for the package's own records only, where
``__init__`` does nothing but store. Knows fields and the readers of their
types; refuses to know why a value is refused.
"""

import functools
from collections.abc import Callable
from typing import Any, Final

from .scalars import Reader
from .shapes import Shape, optional_element

_TESTED_IN_PLACE: Final = frozenset({str, int, bool})


def compile_reader(cls: Any, reader_of: Callable[[Any], Reader], **types: Any) -> Reader:
    """Return the reader of a record class that has a place for unknown fields.

    What the reader raises has no reason, and holds the value in its frames:
    whoever calls it drops the exception.

    Args:
        cls: one of the package's own records.
        reader_of: returns the reader of a type.
        **types: in place of the types of some fields.
    """
    shape = Shape.of(cls).typed(**types)
    scope: dict[str, Any] = {
        "blank": _blank(cls),
        "cls": cls,
        "defaults": shape.defaults,
        "leftovers": shape.leftovers,
        **{f"first_{name}": first for name, first in shape.beside.items()},
    }
    for name, kind in shape.types.items():
        element = optional_element(kind) or kind
        if element not in _TESTED_IN_PLACE:
            scope[f"read_{name}"] = reader_of(element)
    exec(_source(shape), scope)  # noqa: S102 - made of nothing but names of fields
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


def _source(shape: Shape) -> str:
    lines = ["if type(value) is not dict:", "    raise TypeError", "record = blank()"]
    lines += [f"record.{name} = first_{name}" for name in shape.beside]
    for name, kind in shape.types.items():
        taken = [f"x = value[{name!r}]", *_test(name, kind)]
        if name in shape.defaults:
            taken = [f"x = defaults[{name!r}]", f"if {name!r} in value:", *_indented(taken)]
        lines += [*taken, f"record.{name} = x"]
    lines += [
        f"if len(value) != {shape.required}:",
        "    record.extra = leftovers(value, record)",
        "record.__class__ = cls",
        "return record",
    ]
    return "\n".join(["def read_record(value, _):", *_indented(lines)])


def _test(name: str, kind: Any) -> list[str]:
    element = optional_element(kind)
    if element is not None:
        return ["if x is not None:", *_indented(_test(name, element))]
    if kind in _TESTED_IN_PLACE:
        return [f"if type(x) is not {kind.__name__}:", "    raise TypeError"]
    return [f"x = read_{name}(x, None)"]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
