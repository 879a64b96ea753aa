"""What a download would cost without this client: loops of bare aiohttp that write what comes."""

import asyncio
import hashlib
import os
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp

Save: TypeAlias = Callable[[aiohttp.ClientSession, str, Path], Coroutine[Any, Any, None]]


async def save(session: aiohttp.ClientSession, url: str, path: Path) -> None:
    """Read a chunk, write a chunk: no hash, no sync, no other name meanwhile."""
    async with session.get(url) as reply:
        with path.open("wb") as file:
            async for chunk in reply.content.iter_any():
                file.write(chunk)


async def save_safely(session: aiohttp.ClientSession, url: str, path: Path) -> None:
    """Do the same with a SHA-256 on the way, and put it in its place once it is on the disk."""
    partial = path.with_suffix(".part")
    digest = hashlib.sha256()
    async with session.get(url) as reply:
        with partial.open("wb") as file:
            async for chunk in reply.content.iter_any():
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    partial.replace(path)


async def save_all(urls: Iterable[str], directory: Path, how: Save, *, concurrency: int) -> None:
    """Save many files, so many at a time."""
    left = deque(enumerate(urls))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work() -> None:
            while left:
                number, url = left.popleft()
                await how(session, url, directory / f"{number}.pdf")

        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(work())
