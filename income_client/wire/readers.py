"""One reader for each record class, written from its fields and compiled once.

It does what a structuring function of cattrs does, in a fraction of the time:
exact types are tested in place, records within records are read in the same
function, and fields are stored one by one instead of going through
``__init__``. So it is for the package's own records only, where ``__init__``
does nothing but store. Knows fields and the readers of their types; refuses to
know why a value is refused.
"""

import functools
from collections.abc import Callable, Collection, Iterable
from datetime import date
from decimal import Decimal
from typing import Any, Final

from attrs import field, frozen

from income_client.records.fields import Amount, ServiceTime, UtcTime

from .scalars import Reader
from .shapes import Shape, array_element, mapping_element, optional_element
from .written_out import PLAIN_TYPES, SCOPE, amount_lines, day_lines, decimal_lines, time_lines

_REFUSE: Final = "    raise TypeError"


def compile_reader(
    cls: Any,
    reader_of: Callable[[Any], Reader],
    within: Collection[type] = (),
    **types: Any,
) -> Reader:
    """Return the reader of a record class that has a place for unknown fields.

    What the reader raises has no reason, and holds the value in its frames:
    whoever calls it drops the exception.

    Args:
        cls: one of the package's own records.
        reader_of: returns the reader of a type.
        within: records, of the same kind, that are read in the function itself
            where they stand in another.
        **types: in place of the types of some fields.
    """
    function = _Function(reader_of, within)
    lines = [
        "record = blank()",
        *function.record(cls, Shape.of(cls).typed(**types), "value", "record"),
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


@frozen
class _Function:
    """The lines of a function, and what they name."""

    reader_of: Callable[[Any], Reader]
    within: Collection[type]
    scope: dict[str, Any] = field(factory=SCOPE.copy)

    def record(self, cls: Any, shape: Shape, value: str, record: str) -> list[str]:
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
        """Return the lines that put in place of a JSON value what it means."""
        if (element := optional_element(kind)) is not None:
            return [f"if {x} is not None:", *_indented(self._read(x, element))]
        if kind in PLAIN_TYPES:
            return [f"if type({x}) is not {kind.__name__}:", _REFUSE]
        if kind in self.within:
            return self._nested(x, kind)
        if (element := array_element(kind)) in self.within or element in PLAIN_TYPES:
            return self._array(x, element)
        if (element := mapping_element(kind)) in self.within:
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
            *self.record(cls, Shape.of(cls), x, record),
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
        """Return a name that no other line uses, bound to a value if it is no local."""
        name = f"{stem}_{len(self.scope)}"
        self.scope[name] = value
        return name


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
