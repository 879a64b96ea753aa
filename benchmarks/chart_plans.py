"""Which rows stand on which chart, and what a reader is told about them; draws nothing."""

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from .drawing import Kind


@frozen
class Pick:
    """A row that becomes a bar."""

    label: str
    """What stands before the bar; may hold groups of the pattern, as ``\\1``."""
    row: str
    """How the row's name begins, as a pattern; of several rows the last is meant."""
    kind: Kind = Kind.OURS
    """Whose figure it is."""
    over: str | None = None
    """The row whose figure it is divided by, likewise; then it has no goal."""


@frozen(kw_only=True)
class Bars:
    """Rows of a part that become the bars of one group."""

    part: str
    """Which."""
    heading: str = ""
    """Over the bars; none by default."""
    picks: Sequence[Pick]
    """From top to bottom."""
    unit: str = ""
    """Of the figures, and then they have one decimal."""


@frozen(kw_only=True)
class Plan:
    """What one chart shows."""

    name: str
    """Of its file, without the suffix."""
    title: str
    """What is seen."""
    subtitle: str
    """What a bar's length means, and which end is good."""
    groups: Sequence[Bars]
    """From top to bottom."""
    longest: float | None = None
    """Bars beyond are cut; none by default."""


_PATTERNS: Final = {
    "uniform": "uniform: as many at any time",
    "growth": "growth: ever more",
    "diurnal": "diurnal: office hours",
    "bursts": "bursts: a few bulk imports",
    "pareto": "Pareto: few hours have most",
    "bmodel": "b-model: bursts within bursts",
}


def _walks(what: str) -> Sequence[Bars]:
    peers = {
        "fixed days, bisected": "fixed days, bisected",
        "halve and double": "halve and double",
        "top-down bisection": "top-down bisection",
    }
    return [
        Bars(
            part="walking",
            heading=heading,
            picks=[
                Pick("this client", rf"{pattern}, [\d,]+ rows, {what} / least, this client"),
                *(
                    Pick(label, rf"{pattern}, [\d,]+ rows, {what}, {peer}$", Kind.PEER)
                    for peer, label in peers.items()
                ),
            ],
        )
        for pattern, heading in _PATTERNS.items()
    ]


def _decoding(heading: str, what: str) -> Bars:
    pydantic, resting = (rf"{what} / pydantic{how}" for how in (", strict", " while its garbage"))
    orjson, msgspec = (rf"{what} / {peer}" for peer in ("orjson", "msgspec"))
    return Bars(
        part="decoding",
        heading=heading,
        picks=[
            Pick("this client", pydantic),
            Pick("pydantic, as strict", pydantic, Kind.PEER, over=pydantic),
            Pick("pydantic, nothing collected", pydantic, Kind.PEER, over=resting),
            Pick("msgspec, extras dropped", pydantic, Kind.LIMIT, over=msgspec),
            Pick("orjson.loads, no records", pydantic, Kind.LIMIT, over=orjson),
        ],
    )


_DECODING: Final = [
    _decoding("an application, 3.5 KB", "an application"),
    _decoding("a documents reply, 24 KB", "documents"),
    _decoding("a page of 1000 summaries", "a page"),
]

_PARSING: Final = Bars(
    part="decoding",
    picks=[
        Pick("a page of 1000 summaries", "a page / orjson"),
        Pick("an application, 3.5 KB", "an application / orjson"),
        Pick("a documents reply, 24 KB", "documents / orjson"),
    ],
)

_HELD: Final = r"[\d,]+ summaries held: memory each / pydantic's"

_SIZES: Final = Bars(
    part="decoding",
    picks=[
        Pick("this client", _HELD),
        Pick("pydantic", _HELD, Kind.PEER, over=_HELD),
    ],
)


def _calls(heading: str, what: str) -> Bars:
    alone, many = (rf"{what} .*, {count} in flight: CPU / httpx" for count in (1, 16))
    return Bars(
        part="calling",
        heading=heading,
        picks=[
            Pick("this client, 1 in flight", alone),
            Pick("this client, 16 in flight", many),
            Pick("httpx with pydantic", alone, Kind.PEER, over=alone),
        ],
    )


_CALLS: Final = [
    _calls("an application, 3.5 KB", "application of"),
    _calls("a documents reply, 24 KB", "documents of"),
    _calls("a page of 1000 summaries", "page of"),
]

_BARE: Final = Bars(
    part="calling",
    picks=[
        Pick("a call, 16 in flight", "small application, 16 in flight: CPU / bare"),
        Pick("the same with a query", "small page with a query: CPU / bare"),
        Pick("retries armed, never needed", "retries armed but idle: CPU"),
        Pick("import of the package", "import income_client / import aiohttp.*: wall"),
        Pick("import and construction of a client", "import and construction of a client .*: wall"),
        Pick("bare aiohttp itself", "control: bare aiohttp", Kind.LIMIT),
    ],
)

_RECORDS: Final = [
    Bars(
        part="core",
        heading=f"{in_flight} requests in flight",
        picks=[
            Pick("this client", rf"[\d,]+ records with documents, .* {in_flight} in flight"),
            Pick(
                "bare aiohttp, no records",
                rf"the same requests .* {in_flight} in flight",
                Kind.LIMIT,
            ),
        ],
    )
    for in_flight in (16, 64)
]

_MEMORY: Final = Bars(
    part="core",
    picks=[
        Pick(r"\1", r"([\d,]+ summaries) streamed"),
        Pick(r"\1", r"([\d,]+ records) with documents fetched"),
    ],
    unit=" MB",
)

PLANS: Final = (
    Plan(
        name="decoding",
        title="From bytes to records: strict, unknown fields kept",
        subtitle="CPU time / pydantic's for the same bytes: shorter is better",
        groups=_DECODING,
    ),
    Plan(
        name="parsing",
        title="Records, against parsing alone",
        subtitle="CPU time / that of orjson.loads of the same bytes: shorter is better",
        groups=[_PARSING],
    ),
    Plan(
        name="summaries",
        title="Memory that a summary takes",
        subtitle="bytes / pydantic's for the same summaries: shorter is better",
        groups=[_SIZES],
    ),
    Plan(
        name="calls",
        title="One call, from request to record",
        subtitle="CPU time of the process / that of httpx with pydantic: shorter is better",
        groups=_CALLS,
    ),
    Plan(
        name="overhead",
        title="What is added to aiohttp",
        subtitle=(
            "CPU time / that of bare aiohttp doing the same (retries: / that without; "
            "import: time / aiohttp's)"
        ),
        groups=[_BARE],
    ),
    Plan(
        name="requests",
        title="List requests of a walk, one after the other",
        subtitle="1,000,000 rows; requests / the fewest that can carry them: shorter is better",
        groups=_walks("1 in flight: requests"),
        longest=6.0,
    ),
    Plan(
        name="walks",
        title="Time of a walk with eight requests in flight",
        subtitle="1,000,000 rows; time / the least that so many rows can take: shorter is better",
        groups=_walks("8 in flight: time"),
        longest=8.0,
    ),
    Plan(
        name="records",
        title="Records with their documents from a service that takes 20 ms",
        subtitle="time / the least that so many requests can take: shorter is better",
        groups=_RECORDS,
    ),
    Plan(
        name="memory",
        title="What stays in memory of what was read",
        subtitle="peak growth of the process: shorter is better",
        groups=[_MEMORY],
    ),
)
"""Every chart, in the order of the README."""
