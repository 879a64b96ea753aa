"""A span that is cut into parts and listed by several processes, each taking part after part."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from income_client import IncomeClient, OAuth2ClientCredentials, SpanPart, split_span

from .processes import EmulatorProcess
from .scale import Scale
from .table import Row, at_most

_PROCESSES: Final = (1, 2, 4)
_PARTS: Final = 16
_DAYS: Final = 365
_LATENCY: Final = 5
"""Times the usual latency: a service far away, so that its one process here is no limit."""
_MOST_UNEVEN: Final = 1.5
_MOST_OF_ONE: Final = 0.6


async def read_parts(scale: Scale) -> list[Row]:
    """List all applications by 1, 2 and 4 processes, and count that each comes once."""
    count, latency = 2 * scale.walked, _LATENCY * scale.latency
    knobs = {"applications": count, "pattern": "diurnal", "days": _DAYS, "latency": latency}
    with EmulatorProcess(**knobs) as service:
        truth = service.ids()
        service.forget()
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            parts = await split_span(client, parts=_PARTS)
        asked = service.counts().lists
        seconds: dict[int, float] = {}
        for processes in _PROCESSES:
            seconds[processes], found = await _read(service, parts, processes)
    sizes = [len(ids) for ids in found[:-1]]
    uneven = max(sizes) / (sum(sizes) / len(sizes))
    is_exact = sorted(one for ids in found for one in ids) == sorted(truth)
    about = f"{count:,} applications in {len(parts)} parts, {latency * 1000:g} ms"
    ratios = [
        Row(
            what=f"{about}: listed by {processes} processes",
            measured=f"{count / taken:,.0f} /s ({taken:.1f} s)",
        )
        for processes, taken in seconds.items()
    ]
    return [
        Row(
            what=f"{about}: each in one part",
            measured="all" if is_exact else "not all",
            goal="all",
            is_met=is_exact,
        ),
        at_most("  largest part / mean", uneven, _MOST_UNEVEN),
        Row(what="  list requests of the split, for each part", measured=f"{asked / _PARTS:.1f}"),
        *ratios,
        at_most("  time by 2 processes / by 1", seconds[2] / seconds[1], _MOST_OF_ONE),
        Row(what="  time by 4 processes / by 1", measured=f"{seconds[4] / seconds[1]:.2f}"),
    ]


async def _read(
    service: EmulatorProcess, parts: Sequence[SpanPart], processes: int
) -> tuple[float, list[list[str]]]:
    loop = asyncio.get_running_loop()
    account = service.oauth2.client_id, service.oauth2.client_secret.reveal()
    *others, last = [part.to_json() for part in parts]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:

        def listed(line: str) -> asyncio.Future[list[str]]:
            return loop.run_in_executor(pool, _listed, service.url, account, line)

        # Each has started, and loaded what it needs, before time counts.
        await asyncio.gather(*(loop.run_in_executor(pool, _warm_up) for _ in range(processes)))
        began = time.perf_counter()
        ids = await asyncio.gather(*map(listed, others))
        ids.append(await listed(last))
        return time.perf_counter() - began, ids


def _warm_up() -> None:
    time.sleep(0.5)


def _listed(url: str, account: tuple[str, str], line: str) -> list[str]:
    async def ids() -> list[str]:
        async with IncomeClient(url, auth=OAuth2ClientCredentials(*account)) as client:
            rows = client.list_applications(part=SpanPart.from_json(line))
            return [row.application_id async for row in rows]

    return asyncio.run(ids())
