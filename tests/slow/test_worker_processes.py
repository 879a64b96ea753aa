"""Workers as processes that are killed and stopped, beside a real server."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from nats.js import JetStreamContext
from nats.js.api import StreamConfig

from income_client.engines.nats import nats_publisher
from tests.support.event_source import event
from tests.support.nats_server import connected, running_server
from tests.support.processes import ROOT, environment

_PROGRAM: Final = """
import asyncio, os, signal, sys
from income_client.engines.worker import Worker
from income_client.engines.worker_nats import nats_events

async def handle(event):
    print(event.application_id, flush=True)
    if event.application_id == "app-bad":
        os.kill(os.getpid(), signal.SIGKILL)
    if event.application_id == "app-slow":
        await asyncio.sleep(2)
        print("done", flush=True)

source = nats_events(sys.argv[1], durable="incomes", ack_wait=1.0)
asyncio.run(Worker(handle, source, attempts=3).run(until_signal=True))
"""
_SECONDS: Final = 40.0


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[tuple[JetStreamContext, str]]:
    """Run a server with the streams of the guide."""
    for running in running_server(folder):
        async with connected(running) as client:
            js = client.jetstream()
            await js.add_stream(StreamConfig(name="UPDATES", subjects=["income.updates"]))
            await js.add_stream(StreamConfig(name="DEAD", subjects=["income.dead.>"]))
            yield js, running.url


async def started(url: str) -> asyncio.subprocess.Process:
    """Start a worker."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", _PROGRAM, url),
        env=environment(PYTHONPATH=path),
        stdout=subprocess.PIPE,
    )


async def said(process: asyncio.subprocess.Process) -> str:
    """Return the next line of a worker."""
    assert process.stdout is not None
    async with asyncio.timeout(_SECONDS):
        return (await process.stdout.readline()).decode().strip()


async def test_an_event_that_kills_its_workers_becomes_a_dead_letter(tmp_path: Path) -> None:
    """After three lives; the fourth handles the next event."""
    async with server(tmp_path) as (js, url):
        await nats_publisher(js)(event("app-bad", "1"))
        for _ in range(3):
            process = await started(url)
            assert await said(process) == "app-bad"
            assert await process.wait() == -signal.SIGKILL
        process = await started(url)
        await nats_publisher(js)(event("app-good", "2"))
        assert await said(process) == "app-good"
        async with asyncio.timeout(_SECONDS):
            while not (await js.stream_info("DEAD")).state.messages:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        letter = await js.get_msg("DEAD", 1)
        process.terminate()
        assert await process.wait() == 0
    assert letter.subject == "income.dead.failed"
    assert (letter.headers or {})["Dead-Letter-Error"] == "Unfinished"


async def test_a_worker_that_is_terminated_finishes_what_it_has(tmp_path: Path) -> None:
    """And ends with exit status 0; nothing of it comes again."""
    async with server(tmp_path) as (js, url):
        await nats_publisher(js)(event("app-slow", "1"))
        process = await started(url)
        assert await said(process) == "app-slow"
        process.terminate()
        assert await said(process) == "done"
        async with asyncio.timeout(_SECONDS):
            assert await process.wait() == 0
        info = await js.consumer_info("UPDATES", "incomes")
    assert (info.num_pending, info.num_ack_pending) == (0, 0)
