"""Promise 16, of processes that are killed: files are whole or absent, and downloads resume."""

import asyncio
import stat
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

import pytest
from attrs import evolve

from tests.support.folders import files_in
from tests.support.storage import Asked, Reply, Storage, Trick, serving

_ROOT: Final = Path(__file__).parents[2]
_COMMAND: Final = (sys.executable, "-W", "error", "-m", "tests.support.file_process")
LOST: Final = 300_000
"""More bytes than a process that is killed has taken and not written: two blocks, one piece."""


@asynccontextmanager
async def downloading(storage: Storage, folder: Path) -> AsyncIterator[Process]:
    """Run a process that downloads, and kill it in the end."""
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, storage.url, str(folder), cwd=_ROOT, stdout=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def finish(storage: Storage, folder: Path) -> None:
    """Run a process to its end."""
    async with downloading(storage, folder) as process:
        output, _ = await process.communicate()
        assert output == b"over\n"


def held_after(count: int) -> Trick:
    """Give so many bytes of a body, and stand still."""

    def trick(_: Asked, reply: Reply) -> Reply:
        head = len(bytes(reply)) - len(reply.body)
        return evolve(reply, cut=head + min(count, len(reply.body)), is_held=True)

    return trick


def sizes_in(folder: Path) -> dict[str, int]:
    """Return the sizes of the files in a folder, and check that they are private."""
    sizes = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        facts = path.lstat()
        assert stat.S_IMODE(facts.st_mode) == 0o600
        sizes[path.name] = facts.st_size
    return sizes


async def until_there_are(count: int, folder: Path) -> None:
    """Wait until files hold so many bytes together."""
    async with asyncio.timeout(20):
        while sum(sizes_in(folder).values()) < count:  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0)


@pytest.mark.parametrize("count", [LOST + 50_000, 900_000, 5_000_000])
async def test_a_process_that_was_killed_is_succeeded_by_the_next(
    tmp_path: Path, count: int
) -> None:
    """What it had got is not fetched again, but for its last bytes, in a short file as well."""
    async with serving() as storage:
        content = Random(1).randbytes(count + 100_000)
        storage.store("/slip", content)
        storage.tell("slip", storage.address("/slip"))
        storage.tricks.append(held_after(count))
        async with downloading(storage, tmp_path):
            await until_there_are(count - LOST, tmp_path)
        (name,) = sizes_in(tmp_path)
        assert name.startswith(".")
        await finish(storage, tmp_path)
        *_, last = storage.asked
        first = int(last.headers["range"].removeprefix("bytes=").rstrip("-"))
        assert count - LOST <= first <= count
    assert files_in(tmp_path) == {"slip": content}


async def test_a_process_that_is_killed_at_any_byte_leaves_no_half_file(tmp_path: Path) -> None:
    """What has a name is whole, whatever was on its way; in the end all is there, and no part."""
    chance = Random(7)
    contents = {f"doc-{number}": chance.randbytes(chance.randrange(600_000)) for number in range(5)}
    async with serving() as storage:
        for name, content in contents.items():
            storage.store(f"/{name}", content)
            storage.tell(name, storage.address(f"/{name}"))
        for _ in range(3):
            count = chance.randrange(400_000)
            storage.tricks.clear()
            storage.tricks.extend(held_after(count) for _ in range(20))
            before = len(storage.asked)
            async with downloading(storage, tmp_path):
                async with asyncio.timeout(20):
                    while len(storage.asked) == before:  # noqa: ASYNC110 - as above
                        await asyncio.sleep(0)
                for _ in range(chance.randrange(3000)):
                    await asyncio.sleep(0)
            for name, content in files_in(tmp_path).items():
                assert name.startswith(".") or content == contents[name]
        storage.tricks.clear()
        await finish(storage, tmp_path)
        assert sizes_in(tmp_path).keys() == contents.keys()
    assert files_in(tmp_path) == contents
