"""Bytes to records, beside other ways: ``python -m benchmarks.decoding [row ...] [--quick]``.

Knows which replies are decoded and what by. Every reply is measured in a process
of its own, where all ways take turns in an order that chance gives; what counts is
CPU time, as the median over the rounds of the ratios within each. The same way is
there twice: how far that ratio is from 1 is how far any may be wrong. Models give
the garbage collector much to do, records do not; pydantic is there without it as well.
"""

import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, Final, TypeAlias

import orjson
from attrs import frozen

from income_client.records import Application, ApplicationDocuments, ApplicationPage
from income_client.wire.codec import decode

from . import decoding_payloads
from .command import run_afresh
from .decoding_peers import ApplicationModel, DocumentsModel, Model, PageModel, struct_decoder
from .table import Row, at_most

Decode: TypeAlias = Callable[[bytes], object]
Measurement: TypeAlias = "Callable[[DecodingScale], Coroutine[Any, Any, list[Row]]]"

_PAGE_ROWS: Final = 1000
_UNCOLLECTED: Final = "pydantic, uncollected"


@frozen(kw_only=True)
class DecodingScale:
    """The sizes of all loads."""

    rounds: int
    """Times that the ways take turns."""
    megabytes: float
    """Read by each way in each round."""
    held: int
    """Summaries that are held at once."""


FULL: Final = DecodingScale(rounds=15, megabytes=4.0, held=100_000)
"""What the goals are about."""

QUICK: Final = DecodingScale(rounds=3, megabytes=0.15, held=2_000)
"""Enough to see every row; its figures mean nothing."""


async def decode_application(scale: DecodingScale) -> list[Row]:
    """Decode an application with two applicants."""
    body = decoding_payloads.application()
    return _rows("an application", body, Application, ApplicationModel, scale, pydantic_goal=0.65)


async def decode_documents(scale: DecodingScale) -> list[Row]:
    """Decode a documents reply with 12 paystubs and 2 W-2."""
    body = decoding_payloads.documents()
    return _rows("documents", body, ApplicationDocuments, DocumentsModel, scale, pydantic_goal=0.65)


async def decode_page(scale: DecodingScale) -> list[Row]:
    """Decode a page of 1000 summaries."""
    body = decoding_payloads.page(_PAGE_ROWS)
    return _rows("a page", body, ApplicationPage, PageModel, scale, orjson_goal=2.6)


def _rows(
    what: str,
    body: bytes,
    record: type,
    model: type[Model],
    scale: DecodingScale,
    *,
    pydantic_goal: float | None = None,
    orjson_goal: float | None = None,
) -> list[Row]:
    ours = partial(decode, record)
    ways: dict[str, Decode] = {
        "ours": ours,
        "again": ours,
        "pydantic": model.model_validate_json,
        _UNCOLLECTED: model.model_validate_json,
        "orjson": orjson.loads,
        "msgspec": struct_decoder(model),
    }
    costs = _costs(ways, body, scale)
    microseconds = median(costs["ours"])
    kept = "strict, unknown fields kept"

    def row(text: str, way: str, goal: float | None = None) -> Row:
        ratio = median(a / b for a, b in zip(costs["ours"], costs[way], strict=True))
        if goal is not None:
            return at_most(text, ratio, goal, shown=f"{ratio:.2f} x", rounds=scale.rounds)
        return Row(what=text, measured=f"{ratio:.2f} x", value=ratio, rounds=scale.rounds)

    return [
        Row(
            what=f"{what} ({len(body) / 1000:.1f} KB): decoded in",
            measured=f"{microseconds:.1f} us",
            value=microseconds,
            rounds=scale.rounds,
        ),
        row(f"{what} / pydantic, {kept}", "pydantic", pydantic_goal),
        row(f"{what} / pydantic while its garbage is not collected", _UNCOLLECTED),
        row(f"{what} / orjson.loads, without records", "orjson", orjson_goal),
        row(f"{what} / msgspec, made in C: unknown fields dropped, keys may repeat", "msgspec"),
        row(f"{what} / the same again", "again"),
    ]


def _costs(
    ways: Mapping[str, Decode], body: bytes, scale: DecodingScale
) -> Mapping[str, list[float]]:
    """Return the microseconds of CPU that each way takes for a body, round by round."""
    chance = random.Random(7)
    repeats = max(1, round(scale.megabytes * 1e6 / len(body)))
    costs: dict[str, list[float]] = {way: [] for way in ways}
    for way in ways.values():
        way(body)
    for _ in range(scale.rounds):
        for name in chance.sample(list(ways), len(ways)):
            way = ways[name]
            if name == _UNCOLLECTED:
                gc.disable()
            began = time.process_time_ns()
            for _ in range(repeats):
                way(body)
            # The clock may be coarse, and a ratio needs a number.
            costs[name].append(max(1, time.process_time_ns() - began) / repeats / 1000)
            gc.enable()
    return costs


async def hold_summaries(scale: DecodingScale) -> list[Row]:
    """Hold many summaries, all different, and count the bytes that Python gave for them."""
    pages = range(0, scale.held, _PAGE_ROWS)
    ours = _bytes_each(partial(decode, ApplicationPage), pages)
    models = _bytes_each(PageModel.model_validate_json, pages)
    held = f"{scale.held:,} summaries held"
    return [
        at_most(f"{held}: memory each / pydantic's", ours / models, 0.5),
        Row(what=f"{held}: bytes each", measured=f"{ours:.0f}", value=ours),
        Row(what=f"{held}: bytes each, pydantic", measured=f"{models:.0f}", value=models),
    ]


def _bytes_each(way: Decode, pages: Sequence[int]) -> float:
    way(decoding_payloads.page(_PAGE_ROWS))
    gc.collect()
    tracemalloc.start()
    held = [_summaries(way, decoding_payloads.page(_PAGE_ROWS, first)) for first in pages]
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / sum(map(len, held))


def _summaries(way: Decode, body: bytes) -> Sequence[Any]:
    page: Any = way(body)
    summaries: Sequence[Any] = page.applications
    return summaries


MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "application": decode_application,
    "documents": decode_documents,
    "page": decode_page,
    "memory": hold_summaries,
}
"""Every measurement by the name that the command line knows it by."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print the table.

    Args:
        arguments: in place of those of the process.
    """
    run_afresh(
        MEASUREMENTS, arguments, part="decoding", description=__doc__, quick=QUICK, full=FULL
    )


if __name__ == "__main__":
    main()
