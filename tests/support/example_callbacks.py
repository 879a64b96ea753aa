"""How the examples of the guide that take callbacks are run, and what must come of each."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from income_client.emulator import Emulator
from tests.support.callback_processes import free_port
from tests.support.examples import RunExample, loaded
from tests.support.pages import commands
from tests.support.processes import COMMAND, ROOT, environment


async def is_loaded(_service: Emulator, path: Path) -> None:
    """The one behind nginx is run by the tests of nginx; here it is only loaded."""
    assert loaded(path).app


async def sends_by_command(folder: Path) -> None:
    """One command takes the callback that another has the third send, with nothing set."""
    user = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    emulate, listen, trigger = (
        commands(f"income-client {name}")[0] for name in ("emulate", "listen", "trigger")
    )
    async with _command(emulate, folder, **user) as emulating:
        await _printed(emulating.stdout, "# Its files")
        async with _command(f"{listen} --port {free_port()}", folder, **user) as listening:
            await _printed(emulating.stderr, "callbacks go to")
            async with _command(trigger, folder, **user) as triggering:
                line, complaints = await triggering.communicate()
                assert (triggering.returncode, complaints) == (0, b"")
            assert listening.stdout is not None
            received = json.loads(await listening.stdout.readline())
    sent = json.loads(line)
    assert sent["attempts"] == [200]
    assert (sent["application_id"], sent["event_type"]) == (
        received["application_id"], received["event_type"],
    )  # fmt: skip


@contextlib.asynccontextmanager
async def _command(
    line: str, folder: Path, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command beside what happens inside; it is killed at the end unless it has ended."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *line.split()[1:],
        cwd=folder,
        env=environment(**more, PYTHONUNBUFFERED="1", PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def _printed(printed: asyncio.StreamReader | None, text: str) -> None:
    """Wait for a line that a command prints."""
    assert printed is not None
    while text not in (line := (await printed.readline()).decode()):
        assert line


RUN: Final[Mapping[str, RunExample]] = {
    "callbacks_nginx.py": is_loaded,
}
