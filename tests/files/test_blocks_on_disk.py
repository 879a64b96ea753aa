"""What has come of a file is on the disk soon, so that memory holds little of it."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from attrs import evolve

from tests.support.folders import files_in
from tests.support.server import Reply, Request
from tests.support.storage import storing

HELD = 300_000
"""More bytes than are in memory at a time: two blocks and one piece."""


@pytest.mark.parametrize("count", [350_000, 1_000_000, 4_000_000])
async def test_what_came_is_on_the_disk_while_the_rest_is_waited_for(
    tmp_path: Path, count: int
) -> None:
    """All but the last block of it, in a file that is shorter than 1 MiB as well."""

    def held(_: Request, reply: Reply) -> Reply:
        return evolve(reply, cut=reply.body_at + count, held=True)

    async with storing() as (storage, client):
        content = bytes(range(250)) * 20_000
        document = storage.store("/a", content)
        storage.tricks.append(held)
        task = asyncio.ensure_future(client.download(document, tmp_path / "slip"))
        async with asyncio.timeout(10):
            part = b""
            while len(part) < count - HELD:
                await asyncio.sleep(0)
                part = b"".join(files_in(tmp_path).values())
        assert content.startswith(part)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert files_in(tmp_path) == {}
