"""Downloads against the clock: one large file, many small ones, and one that is cut."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from income_client import IncomeClient

from .downloads_bare import Save, save, save_all, save_safely
from .downloads_scale import DownloadScale
from .downloads_server import POLICY, FileServer, sha256_of
from .memory import PeakGrowth
from .table import Row, at_most

_LEAST_SPEED: Final = 0.8
_LEAST_SPEED_SMALL: Final = 0.7
_MOST_MEGABYTES: Final = 50.0
_MOST_OF_SIZE: Final = 1.05

Download = Callable[[Path], Awaitable[None]]
"""Fills an empty folder."""


async def one_large(scale: DownloadScale) -> list[Row]:
    """Time one large file, in turns with a bare loop that does less and one that does as much."""
    size = scale.large_bytes
    with FileServer() as server:
        document = server.document("large", size)

        async def ours(folder: Path) -> None:
            async with _client(server) as client:
                assert (await client.download(document, folder / "large.pdf")).size == size

        def bare(how: Save) -> Download:
            return lambda folder: save_all([document.url], folder, how, concurrency=1)

        seconds = await _alternated((ours, bare(save), bare(save_safely)), scale.rounds)
    what = f"one file of {size / 1e6:,.0f} MB to disk: speed / that of a bare loop that only writes"
    return [
        _speed(what, seconds[0], seconds[1], goal=_LEAST_SPEED),
        _speed("  speed / that of a bare loop that hashes and syncs too", seconds[0], seconds[2]),
        _megabytes_a_second(size, seconds),
    ]


async def large_memory(scale: DownloadScale) -> list[Row]:
    """Watch the memory of a process that downloads one large file and does nothing else."""
    size = scale.large_bytes
    with FileServer() as server, TemporaryDirectory() as folder:
        peak = PeakGrowth()
        async with _client(server) as client:
            await client.download(server.document("large", size), Path(folder) / "large.pdf")
        grown = peak.megabytes
    what = f"one file of {size / 1e6:,.0f} MB: memory of the process above its start, MB"
    return [at_most(what, grown, _MOST_MEGABYTES, shown=f"{grown:.1f}")]


async def many_small(scale: DownloadScale) -> list[Row]:
    """Time many small files, in turns with bare loops."""
    numbers = range(scale.files)
    with FileServer() as server:
        documents = [server.document(f"small-{number}", scale.file_bytes) for number in numbers]
        urls = [document.url for document in documents]

        async def ours(folder: Path) -> None:
            async with _client(server) as client:
                done = client.download_all(documents, folder, concurrency=scale.concurrency)
                assert sum([file.size async for file in done]) == scale.files * scale.file_bytes

        def bare(how: Save) -> Download:
            return lambda folder: save_all(urls, folder, how, concurrency=scale.concurrency)

        seconds = await _alternated((ours, bare(save), bare(save_safely)), scale.rounds)
    what = (
        f"{scale.files} files of {scale.file_bytes / 1000:g} kB, {scale.concurrency} at a time: "
        f"speed / that of a bare loop that only writes"
    )
    return [
        _speed(what, seconds[0], seconds[1]),
        _speed(
            "  speed / that of a bare loop that hashes and syncs too",
            seconds[0],
            seconds[2],
            goal=_LEAST_SPEED_SMALL,
        ),
        Row(
            what="  files a second: this client, bare loop, with hash and sync",
            measured=", ".join(f"{scale.files / median(times):,.0f}" for times in seconds),
        ),
    ]


async def cut_short(scale: DownloadScale) -> list[Row]:
    """Count the bytes of a file whose connection is cut again and again."""
    size = scale.cut_bytes
    with FileServer() as server, TemporaryDirectory() as folder:
        document = server.document("cut", size, cuts=scale.cuts)
        async with _client(server) as client:
            file = await client.download(document, Path(folder) / "cut.pdf")
        transferred = server.sent() / size
    is_same = file.sha256 == await asyncio.to_thread(sha256_of, size)
    what = f"one file of {size / 1e6:,.0f} MB, cut {scale.cuts} times: bytes sent / size"
    return [
        at_most(what, transferred, _MOST_OF_SIZE, shown=f"{transferred:.3f}"),
        Row(
            what="  its content is what was sent",
            measured="yes" if is_same else "no",
            goal="yes",
            is_met=is_same,
        ),
    ]


def _client(server: FileServer) -> IncomeClient:
    return IncomeClient(server.url, auth=server.oauth2, downloads=POLICY)


async def _alternated(downloads: Sequence[Download], rounds: int) -> list[list[float]]:
    """Return the seconds of each download in each round; every folder is removed at once."""
    seconds: list[list[float]] = [[] for _ in downloads]
    for _ in range(rounds):
        for taken, download in zip(seconds, downloads, strict=True):
            with TemporaryDirectory() as folder:
                began = time.perf_counter()
                await download(Path(folder))
                taken.append(time.perf_counter() - began)
    return seconds


def _speed(what: str, ours: list[float], bare: list[float], *, goal: float | None = None) -> Row:
    ratio = median(theirs / own for own, theirs in zip(ours, bare, strict=True))
    return Row(
        what=what,
        measured=f"{ratio:.2f} ({median(ours):.2f} s, {median(bare):.2f} s)",
        goal="" if goal is None else f">= {goal:g}",
        is_met=None if goal is None else ratio >= goal,
        value=ratio,
        rounds=len(ours),
    )


def _megabytes_a_second(size: int, seconds: list[list[float]]) -> Row:
    return Row(
        what="  MB a second: this client, bare loop, with hash and sync",
        measured=", ".join(f"{size / 1e6 / median(times):,.0f}" for times in seconds),
    )
