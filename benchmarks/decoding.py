"""Bytes to records, against pydantic and against parsing alone: CPU time.

The replies are an application with two applicants, twelve paystubs and two W-2, and a page of
the list, as the emulator invents them. The models of pydantic have the fields of the records, are
as strict and keep unknown fields as well. pydantic takes its turns twice: how far that ratio is
from 1 is how far the others may be wrong.
"""

import functools
import gc
import operator
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from decimal import Decimal
from functools import partial
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs
import orjson
from attrs import frozen
from pydantic import AwareDatetime, BaseModel, ConfigDict, NaiveDatetime, create_model

from income_client.emulator import World
from income_client.emulator.api import row_of
from income_client.emulator.invented import invent_application
from income_client.emulator.world import Contents
from income_client.records import Application, ApplicationDocuments, ApplicationPage
from income_client.records.documents import Document
from income_client.records.fields import Amount, ServiceTime, UtcTime
from income_client.records.paystub import Paystub
from income_client.wire.codec import decode

from .report import Row, Scale, compared, in_turns

_FIRST: Final = 1_706_691_600
_STRICT: Final = ConfigDict(strict=True, extra="allow", frozen=True)
_DOCUMENTS: Final = {"paystub": 12, "w2": 2}
_NOT_IN_JSON: Final = frozenset({"extra", "extracted_extra", "source"})
_TYPES: Final[Mapping[Any, Any]] = {
    Amount: Literal[""] | Decimal,
    UtcTime: AwareDatetime,
    ServiceTime: NaiveDatetime,
}
_SIGNED: Final = (
    "https://bucket.s3.amazonaws.com/{}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=3600"
    f"&X-Amz-Date=20240131T100000Z&X-Amz-SignedHeaders=host&X-Amz-Security-Token={'Invented' * 16}"
    f"&X-Amz-Signature={7:064x}"
)


@functools.cache
def _invented() -> list[Contents]:
    world = World(range(_FIRST, _FIRST + 100))
    return [invent_application(world, number) for number in range(100)]


def _couple() -> Contents:
    return next(one for one in _invented() if len(one.application["applicants"]) == 2)


def application() -> bytes:
    """Return an application with two applicants (contract section 2.2)."""
    return orjson.dumps(_couple().application)


def documents() -> bytes:
    """Return twelve paystubs and two W-2, as of that application (contract section 2.3)."""
    chosen = {
        kind: [
            document | {"url": _SIGNED.format(document["document_id"])}
            for one in _invented()
            for document in one.documents["documents"].get(kind, ())
        ][:count]
        for kind, count in _DOCUMENTS.items()
    }
    return orjson.dumps({**_couple().documents, "documents": chosen})


def page() -> bytes:
    """Return a page of 1,000 summaries (contract section 2.1)."""
    world = World(range(_FIRST, _FIRST + 1000))
    rows = [
        row_of(world, number) | {"application_id": f"5f3a1c20-8b1e-4a52-9c07-{number:012d}"}
        for number in range(1000)
    ]
    span = {"updated_after": "2024-01-01T00:00:00", "updated_before": "2024-02-01T00:00:00"}
    return orjson.dumps({**span, "applications": rows})


@functools.cache
def model_of(record: type) -> type[BaseModel]:
    """Return the strict model of pydantic with the fields of a record, and so within it."""
    hints = get_type_hints(record, include_extras=True)
    fields: dict[str, Any] = {
        field.name: (_type_of(hints[field.name]), ... if field.default is attrs.NOTHING else None)
        for field in attrs.fields(record)
        if field.name not in _NOT_IN_JSON
    }
    return create_model(record.__name__, __config__=_STRICT, **fields)


def _type_of(kind: Any) -> Any:
    if kind in _TYPES:
        return _TYPES[kind]
    if attrs.has(kind):
        return model_of(kind)
    if get_origin(kind) in {Union, UnionType}:
        return functools.reduce(operator.or_, map(_type_of, get_args(kind)))
    if get_origin(kind) is tuple:
        return tuple[_type_of(get_args(kind)[0]), ...]  # type: ignore[misc]
    if get_origin(kind) is Mapping:
        return dict[str, _type_of(get_args(kind)[1])]  # type: ignore[misc]
    return Any if kind is object else kind


def _documents_model() -> type[BaseModel]:
    """Return the model of documents, where a paystub is a model as well."""
    document = model_of(Document)
    paystub: Any = create_model(
        "PaystubDocument", __base__=document, extracted_data=(model_of(Paystub), ...)
    )
    kinds: dict[str, Any] = {
        kind: (tuple[paystub if kind == "paystub" else document, ...], ())  # type: ignore[misc]
        for kind in _DOCUMENTS
    }
    by_type: Any = create_model("ByType", __config__=_STRICT, **kinds)
    return create_model(
        "Documents", __base__=model_of(ApplicationDocuments), documents=(by_type, ...)
    )


Decode: TypeAlias = Callable[[bytes], object]


@frozen(kw_only=True)
class Reply:
    """A reply, and both ways to decode it."""

    name: str
    """With its size."""
    body: bytes
    """The bytes."""
    record: type
    """Records that this package reads from the replies."""
    model: type[BaseModel]
    """Records that pydantic reads from the replies."""


def replies() -> tuple[Reply, ...]:
    """Return a reply of each kind."""
    kinds: tuple[tuple[str, bytes, type, type[BaseModel]], ...] = (
        ("an application of {}", application(), Application, model_of(Application)),
        ("documents of {}", documents(), ApplicationDocuments, _documents_model()),
        ("a page of 1,000 summaries", page(), ApplicationPage, model_of(ApplicationPage)),
    )
    return tuple(
        Reply(name=name.format(f"{len(body) / 1000:.0f} kB"), body=body, record=record, model=model)
        for name, body, record, model in kinds
    )


async def _decode(number: int, scale: Scale) -> list[Row]:
    reply = replies()[number]
    ways: dict[str, Decode] = {
        "ours": partial(decode, reply.record),
        "pydantic": reply.model.model_validate_json,
        "orjson": orjson.loads,
        "pydantic again": reply.model.model_validate_json,
    }
    calls = max(1, scale.decoded // len(reply.body))

    def timed(way: Decode) -> Callable[[], Awaitable[float]]:
        async def measure() -> float:
            gc.collect()
            began = time.process_time()
            for _ in range(calls):
                way(reply.body)
            # The clock may be coarse, and a ratio needs a number.
            return max(1e-9, time.process_time() - began) / calls

        return measure

    for way in ways.values():
        way(reply.body)
    costs = await in_turns({name: timed(way) for name, way in ways.items()}, scale.rounds)
    against = partial(compared, seconds=costs, other="pydantic", unit="us")
    return [
        against(f"decoding {reply.name}: CPU / pydantic's", one="ours", goal=_GOALS[number]),
        against(f"orjson.loads of {reply.name}, no records: CPU / pydantic's", one="orjson"),
        against(f"control: pydantic / itself, {reply.name}", one="pydantic again"),
    ]


_GOALS: Final = (0.65, 0.65, None)

MEASUREMENTS: Final[Mapping[str, Callable[[Scale], Coroutine[Any, Any, list[Row]]]]] = {
    "application": partial(_decode, 0),
    "documents": partial(_decode, 1),
    "page": partial(_decode, 2),
}
"""Every measurement by its name."""
