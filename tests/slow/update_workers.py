"""Processes of the guide's `update_worker.py` on a NATS server, killed and stopped by a test."""

import asyncio
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from attrs import define, field, frozen
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import StreamConfig

from income_client.engines.relay import UpdateEvent
from tests.support.nats_server import NatsServer, connected
from tests.support.pages import EXAMPLES, commands
from tests.support.processes import ROOT, environment

ATTEMPTS: Final = 3
"""Deliveries of an event before it becomes a dead letter, in these tests."""
_PATIENCE_SECONDS: Final = 30.0


@frozen
class Note:
    """A line that a worker's handler has written."""

    process: int
    word: str
    application_id: str
    event_id: str


@frozen
class Letter:
    """A dead letter."""

    body: bytes
    reason: str
    error: str


@frozen
class Figures:
    """Counts of events of a test, by their outcome."""

    events: int
    handled: int
    lost: int
    twice: int
    dead: int


@define
class Play:
    """A server, its streams, and the workers of a test."""

    server: NatsServer
    folder: Path
    client: Client
    ack_wait: float = 0.8
    """Seconds for which an event is a worker's; longer where it must not pass on a busy machine."""
    concurrency: int = 10
    """Events that a worker handles at a time."""
    published: list[UpdateEvent] = field(factory=list)
    processes: list[asyncio.subprocess.Process] = field(factory=list)

    @property
    def streams(self) -> JetStreamContext:
        return self.client.jetstream(timeout=10)

    async def publish(self, *application_ids: str) -> None:
        """Publish an event for each of these, until the server has it."""
        for application_id in application_ids:
            number = str(len(self.published) + 1)
            event = UpdateEvent(
                id=number, application_id=application_id, updated_at=datetime.now(UTC)
            )
            self.published.append(event)
            await self.send(event.to_json(), {"Nats-Msg-Id": number})

    async def send(self, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Publish a message, until the server has it."""
        while True:
            with suppress(Exception):
                await self.streams.publish("income.updates", body, headers=headers)
                return
            await asyncio.sleep(0.05)

    async def start(self, until: str = "started") -> asyncio.subprocess.Process:
        """Start a worker, and wait for its note of this word."""
        with (self.folder / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-u", "-m", "tests.slow.worker_process"),
                *(str(ATTEMPTS), str(self.ack_wait), str(self.concurrency)),
                cwd=self.folder,
                env=environment(NATS_URL=self.server.url, PYTHONPATH=str(ROOT)),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        await self._until(lambda: process.pid in {note.process for note in self.notes(until)})
        return process

    async def end(self, process: asyncio.subprocess.Process, number: int = signal.SIGTERM) -> int:
        """End a worker by a signal; return its status."""
        process.send_signal(number)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await process.wait()

    def notes(self, *words: str) -> list[Note]:
        """Return what the workers have noted by these words; the ends of handlers by default."""
        with suppress(FileNotFoundError):
            text = (self.folder / "journal").read_text("utf-8")
            lines = (line.split() for line in text.splitlines())
            return [
                Note(int(process), kind, *ids)
                for process, kind, *ids in lines
                if kind in (words or ("end",))
            ]
        return []

    async def letters(self) -> list[Letter]:
        """Return the dead letters."""
        found = []
        info = await self.streams.stream_info("DEAD")
        for number in range(1, info.state.last_seq + 1):
            message = await self.streams.get_msg("DEAD", number)
            error = (message.headers or {})["error"]
            reason = (message.subject or "").removeprefix("income.dead.")
            found.append(Letter(message.data or b"", reason, error))
        return found

    async def noted(self, count: int, word: str = "end") -> None:
        """Wait until the handlers have written so many lines."""
        await self._until(lambda: len(self.notes(word)) >= count)

    async def settled(self) -> Figures:
        """Wait until no event is left, neither waiting nor in hand; return what became of them."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not await self._is_settled():  # noqa: ASYNC110 - the server sets no event
                await asyncio.sleep(0.05)
        handled = Counter(note.event_id for note in self.notes())
        letters = await self.letters()
        bodies = {letter.body for letter in letters}
        buried = {event.id for event in self.published if event.to_json() in bodies}
        return Figures(
            events=len(self.published),
            handled=len(handled),
            lost=len({event.id for event in self.published} - set(handled) - buried),
            twice=sum(count - 1 for count in handled.values()),
            dead=len(letters),
        )

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not condition():  # noqa: ASYNC110 - other processes set no event
                await asyncio.sleep(0.01)

    async def _is_settled(self) -> bool:
        with suppress(Exception):
            found = await self.streams.consumer_info("UPDATES", "incomes")
            return not found.num_pending and not found.num_ack_pending
        return False


@asynccontextmanager
async def playing(server: NatsServer, folder: Path) -> AsyncIterator[Play]:
    """Make the streams of the guide on a server; end the workers afterwards."""
    shutil.copy(EXAMPLES / "update_worker.py", folder)
    async with connected(server, max_reconnect_attempts=-1) as client:
        play = Play(server, folder, client)
        await make_streams(play.streams)
        try:
            yield play
        finally:
            for process in play.processes:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


async def make_streams(streams: JetStreamContext) -> None:
    """Make the streams of the guide's commands, with one replica."""
    for command in commands("nats stream add"):
        found = re.search(r"add (\w+) --subjects '(\S+)'", command)
        assert found is not None
        await streams.add_stream(StreamConfig(name=found[1], subjects=[found[2]]))
