"""Functions that make JSON objects of records, written from the fields of the records and compiled.

They take half the time of functions that look each field up. This is the one for `AmountPair`,
whose fields are amounts::

    def write(record):
        members = {'current': write_2(record.current), 'ytd': write_3(record.ytd)}
        if record.extra:
            members = {**write_untyped(record.extra), **members}
        return members

What they raise holds the values that it is about: the caller must drop it.
"""

import functools
from typing import Any, Final

import attrs

from income_client.records.documents import Document

from .scalars import WRITERS, Writer, write_untyped
from .shapes import Shape, array_element, has_extra, mapping_element, optional_element


def write_object(value: Any) -> Any:
    """Return the JSON object of a record, and content without a known type as it is."""
    kind = type(value)
    return writer_of(kind)(value) if attrs.has(kind) else write_untyped(value)


def write_record(record: Any) -> Any:
    """Return the JSON object of a record by itself: that of a document has its source too."""
    members = write_object(record)
    if isinstance(record, Document) and record.source is not None:
        members = {**members, "source": attrs.asdict(record.source)}
    return members


_WRITERS: Final = {**WRITERS, object: write_object}


@functools.cache
def writer_of(cls: Any) -> Writer:
    """Return a function that makes the JSON object of a record of this class."""
    attrs.resolve_types(cls)
    function = _Function()
    # Made of names of fields.
    exec(f"def write(record):\n{function.lines(cls)}", function.scope)  # noqa: S102
    writer: Writer = function.scope["write"]
    return writer


class _Function:
    """Source code of a writing function, and the values of the names in it."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {"write_untyped": write_untyped}

    def lines(self, cls: Any) -> str:
        """Return the lines that make the object of a record."""
        shape = Shape.of(cls)
        values = {name: self._value(f"record.{name}", kind) for name, kind in shape.types.items()}
        members = ", ".join(
            f"{name!r}: {value}" for name, value in values.items() if name not in shape.defaults
        )
        lines = [f"members = {{{members}}}"]
        for name, default in shape.defaults.items():
            lines += [
                f"if record.{name} != {self._bind_name('default', default)}:",
                f"    members[{name!r}] = {values[name]}",
            ]
        if cls is Document:
            beside = "**write_untyped(record.extracted_extra), **members['extracted_data']"
            lines += [
                "if record.extracted_extra:",
                f"    members['extracted_data'] = {{{beside}}}",
            ]
        if has_extra(cls):
            lines += [
                "if record.extra:",
                "    members = {**write_untyped(record.extra), **members}",
            ]
        return "\n".join(f"    {line}" for line in [*lines, "return members"])

    def _value(self, x: str, kind: Any) -> str:
        """Return the expression for a value in the form that the JSON writer takes."""
        if kind in _WRITERS or attrs.has(kind):
            write = _WRITERS.get(kind) or writer_of(kind)
            return f"{self._bind_name('write', write)}({x})"
        if (element := optional_element(kind)) is not None:
            return f"None if {x} is None else {self._value(x, element)}"
        if (element := array_element(kind)) is not None:
            item = self._bind_name("item")
            return f"[{self._value(item, element)} for {item} in {x}]"
        if (element := mapping_element(kind)) is not None:
            key, item = self._bind_name("key"), self._bind_name("item")
            return f"{{{key}: {self._value(item, element)} for {key}, {item} in {x}.items()}}"
        return x

    def _bind_name(self, stem: str, value: Any = None) -> str:
        """Return a name that no other line uses, bound to a value if it is not a local."""
        name = f"{stem}_{len(self.scope)}"
        self.scope[name] = value
        return name
