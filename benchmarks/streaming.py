"""Memory while much is read and nothing of it is kept: resident, of a fresh process, at its peak.

What a client makes once, its token and its decoders among it, is made before the count begins.
"""

import time
from itertools import cycle, islice
from typing import Final

from income_client import IncomeClient

from .memory import PeakGrowth
from .processes import EmulatorProcess
from .replaying import ReplayProcess
from .scale import Scale
from .table import Row, at_most

_YEAR: Final = 365
_MOST_MEGABYTES: Final = 10


async def stream_summaries(scale: Scale) -> list[Row]:
    """Watch the memory while a long walk is consumed and nothing of it is kept."""
    count = scale.streamed
    with EmulatorProcess(applications=count, pattern="bursts", days=_YEAR) as service:
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            await client.get_application_page(limit=1)
            growth = PeakGrowth()
            began = time.perf_counter()
            found = total = 0
            async for summary in client.list_applications():
                found += 1
                total += _number(summary.application_id)
            seconds = time.perf_counter() - began
            megabytes = growth.megabytes
        truth = service.ids()
    is_exact = found == len(truth) and total == sum(map(_number, truth))
    return [
        _grown(f"{count:,} summaries streamed: peak growth of resident memory", megabytes),
        Row(
            what="  number and sum of the ids agree with the service's",
            measured=f"{found:,} of {len(truth):,}",
            goal="all",
            is_met=is_exact,
        ),
        _pace(seconds, found),
    ]


async def stream_records(scale: Scale) -> list[Row]:
    """Watch the memory while records with documents are fetched and dropped."""
    with ReplayProcess(scale.kinds, 0) as service:
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            # Each kind once: buffers grow to the largest reply that there is.
            found = await _drained(client, service.ids, len(service.ids))
            growth = PeakGrowth()
            began = time.perf_counter()
            found = await _drained(client, service.ids, scale.fetched)
            seconds = time.perf_counter() - began
            megabytes = growth.megabytes
    what = f"{found:,} records with documents fetched: peak growth of resident memory"
    return [_grown(what, megabytes), _pace(seconds, found)]


async def _drained(client: IncomeClient, ids: list[str], count: int) -> int:
    found = 0
    async for _ in client.fetch_records(islice(cycle(ids), count)):
        found += 1
    return found


def _grown(what: str, megabytes: float) -> Row:
    return at_most(what, megabytes, _MOST_MEGABYTES, shown=f"{megabytes:.1f} MB")


def _pace(seconds: float, found: int) -> Row:
    return Row(
        what="  time, the service on the other core",
        measured=f"{seconds:.1f} s, {found / seconds:,.0f} a second",
    )


def _number(application_id: str) -> int:
    return int(application_id.removeprefix("app-"), 16)
