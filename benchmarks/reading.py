"""Reading much: records against the least possible time, memory, files, and large replies."""

import asyncio
import hashlib
import io
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import aiohttp

from income_client import Document, DownloadPolicy, IncomeClient
from income_client.testing import make_document

from .calls import bare_aiohttp, name_of, parsed
from .report import Row, Scale, at_most, compared, exactly, in_turns, timed
from .services import CannedService, EmulatorProcess, PeakGrowth
from .stops import longest_stops

_IN_FLIGHT: Final = 16
_MOST_MEGABYTES: Final = 10
_MOST_OF_AN_AUDIT: Final = 300
_KINDS: Final = 100
_SMALL_FILE: Final = 100_000
_FILES_AT_A_TIME: Final = 8
_POLICY: Final = DownloadPolicy(
    allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
)

Save: TypeAlias = Callable[[aiohttp.ClientSession, str, Path], Coroutine[Any, Any, None]]


async def records(scale: Scale) -> list[Row]:
    """Time records with documents, in turns with a bare loop that makes the same requests."""
    ids = [name_of(number) for number in range(scale.records)]
    with CannedService(scale.latency) as service:

        async def ours() -> float:
            async with IncomeClient(
                service.url, auth=service.oauth2, concurrency=_IN_FLIGHT
            ) as client:
                return await timed(_drained(client, ids))

        async def bare() -> float:
            left = deque(f"{name}{part}" for name in ids for part in ("", "/documents"))
            async with bare_aiohttp(service.url) as session:

                async def work() -> None:
                    while left:
                        await parsed(session, left.popleft())

                return await timed(asyncio.gather(*(work() for _ in range(_IN_FLIGHT))))

        seconds = await in_turns({"ours": ours, "bare": bare}, scale.few_rounds)
    least = scale.latency * 2 * scale.records / _IN_FLIGHT
    about = f"{scale.records:,} records with documents, {_IN_FLIGHT} in flight"
    shown = {
        name: f"{median(taken) / least:.2f} ({median(taken):.2f} s)"
        for name, taken in seconds.items()
    }
    return [
        at_most(
            f"{about}: time / least possible",
            median(seconds["ours"]) / least,
            1.10,
            shown=shown["ours"],
            rounds=scale.few_rounds,
        ),
        Row(
            label=f"{about}, by bare aiohttp with orjson.loads: time / least possible",
            measured=shown["bare"],
            value=median(seconds["bare"]) / least,
            rounds=scale.few_rounds,
        ),
    ]


async def _drained(client: IncomeClient, ids: Iterable[str]) -> int:
    return len([None async for _ in client.fetch_records(ids, concurrency=_IN_FLIGHT)])


async def summaries_in_memory(scale: Scale) -> list[Row]:
    """Watch the memory while a long walk is read and nothing of it is kept."""
    count = scale.streamed
    with EmulatorProcess(applications=count, pattern="bursts", days=365) as service:
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            # What a client makes once, its token among it, is made before the count begins.
            await client.get_application_page(limit=1)
            growth = PeakGrowth()
            began = time.perf_counter()
            found = total = 0
            async for summary in client.list_applications():
                found += 1
                total += _number(summary.application_id)
            seconds, megabytes = time.perf_counter() - began, growth.megabytes
        truth = service.ids()
    is_exact = found == len(truth) and total == sum(map(_number, truth))
    about = f"{count:,} summaries read"
    return [
        _grown(f"{about}: memory growth", megabytes, _MOST_MEGABYTES),
        exactly(
            f"{about}: each of the service's once", is_exact, expected=True, shown=f"{found:,}"
        ),
        _pace(f"{about}: summaries a second", found, seconds),
    ]


async def audit_in_memory(scale: Scale) -> list[Row]:
    """Watch the memory of an audit, and count its list calls beside those of a walk."""
    count = scale.streamed
    with EmulatorProcess(applications=count, pattern="bursts", days=365) as service:
        ids = service.ids()
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            walk = client.list_applications()
            async for page in walk.pages():
                del page
            stored = io.BytesIO("\n".join(ids).encode())
            growth = PeakGrowth()
            # Read anew, as from a database; later than any update, so nothing is asked for twice.
            held = ((line.decode().rstrip("\n"), "2100-01-01") for line in stored)
            audit = await client.audit(held)
            megabytes = growth.megabytes
    about = f"{count:,} ids audited"
    beyond = audit.requests - walk.progress.requests
    return [
        _grown(f"{about}: memory growth", megabytes, _MOST_OF_AN_AUDIT),
        at_most(f"{about}: list requests beyond those of a walk", beyond, 50),
        exactly(f"{about}: findings", audit.drift, expected=0),
    ]


def _number(application_id: str) -> int:
    return int(application_id.removeprefix("app-"), 16)


async def records_in_memory(scale: Scale) -> list[Row]:
    """Watch the memory while records with documents are read and nothing of them is kept."""
    with CannedService() as service:
        async with IncomeClient(service.url, auth=service.oauth2) as client:

            async def read(count: int) -> int:
                found = 0
                async for _ in client.fetch_records(map(name_of, range(count))):
                    found += 1
                return found

            await read(_KINDS)
            growth = PeakGrowth()
            began = time.perf_counter()
            found = await read(scale.fetched)
            seconds, megabytes = time.perf_counter() - began, growth.megabytes
    about = f"{found:,} records with documents read"
    return [
        _grown(f"{about}: memory growth", megabytes, _MOST_MEGABYTES),
        _pace(f"{about}: records a second", found, seconds),
    ]


def _grown(label: str, megabytes: float, most: float) -> Row:
    return at_most(label, megabytes, most, shown=f"{megabytes:.1f} MB")


def _pace(label: str, found: int, seconds: float) -> Row:
    return Row(label=label, measured=f"{found / seconds:,.0f}", value=found / seconds)


async def large_file(scale: Scale) -> list[Row]:
    """Time one large file, in turns with bare loops; watch the memory of the first."""
    size = scale.large_bytes
    with CannedService() as service:
        file = _document(service, "large", size)
        with TemporaryDirectory() as folder:
            growth = PeakGrowth()
            await _downloaded(service, [file], Path(folder))
            megabytes = growth.megabytes
        seconds = await _files_in_turns(service, [file], scale.few_rounds, at_a_time=1)
    about = f"one file of {size / 1e6:,.0f} MB"
    return [
        compared(
            f"{about}: time / a bare loop that hashes and syncs", seconds, "ours", "safe", unit="s"
        ),
        compared(
            f"{about}: time / a bare loop that only writes",
            seconds,
            "ours",
            "bare",
            unit="s",
            goal=1.25,
        ),
        _grown(f"{about}: memory growth", megabytes, 50),
    ]


async def small_files(scale: Scale) -> list[Row]:
    """Time many small files, in turns with bare loops."""
    with CannedService() as service:
        files = [_document(service, f"{n}", _SMALL_FILE) for n in range(scale.files)]
        seconds = await _files_in_turns(service, files, scale.rounds, at_a_time=_FILES_AT_A_TIME)
    about = f"{scale.files} files of {_SMALL_FILE / 1000:g} kB, {_FILES_AT_A_TIME} at a time"
    safe = f"{about}: time / a bare loop that hashes and syncs"
    return [
        compared(safe, seconds, "ours", "safe", unit="s", goal=1.43),
    ]


def _document(service: CannedService, name: str, size: int) -> Document:
    return make_document(
        application_id="app-0",
        document_id=name,
        file_reference_ids=(f"{name}.pdf",),
        url=f"{service.url}/file/{name}/{size}",
        extracted_data=None,
    )


async def _files_in_turns(
    service: CannedService, files: list[Document], rounds: int, *, at_a_time: int
) -> dict[str, list[float]]:
    async def ours() -> float:
        with TemporaryDirectory() as folder:
            return await timed(_downloaded(service, files, Path(folder)))

    async def bare(how: Save) -> float:
        with TemporaryDirectory() as folder:
            return await timed(_saved(files, Path(folder), how, at_a_time))

    safe = partial(bare, _save_safely)
    ways: Mapping[str, Callable[[], Awaitable[float]]]
    ways = {"ours": ours, "bare": partial(bare, _save), "safe": safe}
    return await in_turns(ways, rounds)


async def _downloaded(service: CannedService, files: list[Document], folder: Path) -> None:
    async with IncomeClient(service.url, auth=service.oauth2, downloads=_POLICY) as client:
        done = client.download_all(files, folder, concurrency=_FILES_AT_A_TIME)
        if len([file async for file in done]) != len(files):
            raise RuntimeError("a file is missing")


async def _saved(files: list[Document], folder: Path, how: Save, at_a_time: int) -> None:
    left = deque(files)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work() -> None:
            while left:
                file = left.popleft()
                await how(session, f"{file.url}", folder / f"{file.document_id}.pdf")

        await asyncio.gather(*(work() for _ in range(at_a_time)))


async def _save(session: aiohttp.ClientSession, url: str, path: Path) -> None:
    """Read a chunk, write a chunk: no hash, no sync, no other name meanwhile."""
    async with session.get(url) as reply:
        with path.open("wb") as file:
            async for chunk in reply.content.iter_any():
                file.write(chunk)


async def _save_safely(session: aiohttp.ClientSession, url: str, path: Path) -> None:
    """Do the same with a SHA-256 on the way, and rename the file once it is on the disk."""
    partial_path = path.with_suffix(".part")
    digest = hashlib.sha256()
    async with session.get(url) as reply:
        with partial_path.open("wb") as file:
            async for chunk in reply.content.iter_any():
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    partial_path.replace(path)


MEASUREMENTS: Final[Mapping[str, Callable[[Scale], Coroutine[Any, Any, list[Row]]]]] = {
    "records": records,
    "summaries-memory": summaries_in_memory,
    "records-memory": records_in_memory,
    "audit-memory": audit_in_memory,
    "large-file": large_file,
    "small-files": small_files,
    "stops": longest_stops,
}
"""Every measurement by its name."""
