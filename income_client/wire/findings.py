"""Every fault of a payload with its path, up to a thousand; makes no record.

This is the slow second look at what the converter refused. It asks the same
readers for single values and goes through the rest by the records' types.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import attrs

from income_client.errors import PayloadFault
from income_client.records.documents import Document
from income_client.records.mapping import shown_key

from .scalars import READERS, Reader, Refusal, UntypedObject, expected, read_untyped
from .shapes import DOCUMENTS_BY_TYPE, Shape, array_element, mapping_element, optional_element

_MOST: Final = 1000
"""Faults that are told: a hostile payload of some megabytes has millions."""


def faults_of(kind: Any, value: Any, types: Mapping[str, type]) -> tuple[PayloadFault, ...]:
    """Return what is wrong with a value that should be of a record class.

    Args:
        kind: the record class.
        value: what the JSON parser gave.
        types: the class that holds the extracted data, by document type.
    """
    return tuple(islice(_Search(types=types).within("$", kind, value), _MOST))


@attrs.frozen(kw_only=True)
class _Search:
    types: Mapping[str, type]

    def within(self, path: str, kind: Any, value: Any) -> Iterator[PayloadFault]:
        if kind in READERS:
            yield from _of_scalar(path, READERS[kind], value)
        elif kind == DOCUMENTS_BY_TYPE:
            yield from self._of_documents(path, value)
        elif attrs.has(kind):
            yield from self._of_record(path, Shape.of(kind), value)
        elif (element := array_element(kind)) is not None:
            yield from self._of_array(path, element, value)
        elif (element := mapping_element(kind)) is not None:
            yield from self._of_mapping(path, element, value)
        elif value is not None and (element := optional_element(kind)) is not None:
            yield from self.within(path, element, value)

    def _of_record(self, path: str, shape: Shape, value: Any) -> Iterator[PayloadFault]:
        if type(value) is not dict:
            yield _wrong_kind(path, "an object", value)
            return
        for name, kind in shape.types.items():
            if name in value:
                yield from self.within(f"{path}.{name}", kind, value[name])
            elif name not in shape.defaults:
                yield PayloadFault(f"{path}.{name}", "missing")
        for key, item in value.items():
            if key not in shape.types:
                yield from _of_scalar(f"{path}.{shown_key(key)}", read_untyped, item)

    def _of_array(self, path: str, element: Any, value: Any) -> Iterator[PayloadFault]:
        if type(value) is not list:
            yield _wrong_kind(path, "an array", value)
            return
        for index, item in enumerate(value):
            yield from self.within(f"{path}[{index}]", element, item)

    def _of_mapping(self, path: str, element: Any, value: Any) -> Iterator[PayloadFault]:
        if type(value) is not dict:
            yield _wrong_kind(path, "an object", value)
            return
        for key, item in value.items():
            yield from self.within(f"{path}.{shown_key(key)}", element, item)

    def _of_documents(self, path: str, value: Any) -> Iterator[PayloadFault]:
        if type(value) is not dict:
            yield _wrong_kind(path, "an object", value)
            return
        for key, documents in value.items():
            shape = Shape.of(Document).typed(extracted_data=self.types.get(key, UntypedObject))
            here = f"{path}.{shown_key(key)}"
            if type(documents) is not list:
                yield _wrong_kind(here, "an array", documents)
                continue
            for index, document in enumerate(documents):
                yield from self._of_record(f"{here}[{index}]", shape, document)


def _of_scalar(path: str, read: Reader, value: Any) -> Iterator[PayloadFault]:
    try:
        read(value, Any)
    except Refusal as refusal:
        yield PayloadFault(path, refusal.reason)


def _wrong_kind(path: str, what: str, value: Any) -> PayloadFault:
    return PayloadFault(path, expected(what, value).reason)
