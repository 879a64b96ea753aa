"""Run as a script: use a client, then fail where no module or file can be opened any more.

Arguments: an application's id, and what to do: "call", "walk", "records", "poll" or "download"
without modules, or "descriptors". Each line of standard input asks for another failure; each line
of standard output says what came of it.
"""

import asyncio
import resource
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

from income_client import (
    DownloadPolicy,
    IncomeClient,
    IncomeClientError,
    MemoryCheckpointStore,
    RetryPolicy,
    SQLiteCheckpointStore,
    Timeouts,
)
from income_client.events import Event, PollFailed

QUICK: Final = RetryPolicy(max_attempts=2, base_delay=0.001, throttled_delay=0.001)
"""Retries that take no time."""
SHORT: Final = Timeouts(connect=5, read=0.3, deadline=5)
"""Limits under which a service that sends nothing fails soon."""
OF_THIS_MACHINE: Final = DownloadPolicy(
    allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
)


class NothingInstalled(MetaPathFinder):
    """Finds no module, as after a deploy that has replaced the installed packages."""

    asked: Final[list[str]] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse to look for a module."""
        self.asked.append(fullname)
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Work:
    """The calls of a client in one of these programs."""

    def __init__(self, client: IncomeClient, application_id: str, folder: Path) -> None:
        self._client = client
        self._id = application_id
        self._folder = folder
        self._store = SQLiteCheckpointStore(folder / "polls.db")
        self._times = 0

    async def call(self) -> None:
        """Read an application."""
        await self._client.get_application(self._id)

    async def walk(self) -> None:
        """Read the whole list."""
        async for _ in self._client.list_applications():
            pass

    async def records(self) -> None:
        """Read a record."""
        async for _ in self._client.fetch_records([self._id]):
            pass

    async def poll(self) -> None:
        """Poll once, under a name of its own each time."""
        self._times += 1
        name = f"poller-{self._times}"
        async for _ in self._client.poll(self._store, name=name, start="2020-01-01", once=True):
            pass

    async def download(self) -> None:
        """Download the files of an application."""
        documents = await self._client.get_documents(self._id)
        for document in documents.all():
            self._times += 1
            await self._client.download(document, self._folder / str(self._times))


async def fail_without_modules(work: Callable[[], Awaitable[None]]) -> None:
    """Work once, then once for each line that is read, with no module that can be imported."""
    await work()
    sys.meta_path.insert(0, NothingInstalled())
    say("ready")
    while sys.stdin.readline():
        NothingInstalled.asked.clear()
        try:
            await work()
            outcome = "fine"
        except IncomeClientError:
            outcome = "IncomeClientError"
        except Exception as error:  # noqa: BLE001 - shown, and the test fails
            outcome = type(error).__name__
        say(f"{outcome} {NothingInstalled.asked}")


async def poll_without_descriptors(options: dict[str, object]) -> None:
    """Poll; once a line was read, let no file or connection be opened until two polls failed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    failures = []

    def watch(event: Event) -> None:
        if isinstance(event, PollFailed):
            failures.append(event)
            if len(failures) == 2:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    async with IncomeClient.from_env(on_event=watch, **options) as client:  # type: ignore[arg-type]
        poller = client.poll(MemoryCheckpointStore(), start="2020-01-01", interval=0.05)
        async for batch in poller.batches():
            async with batch:
                say(f"{len(batch)} records, {min(len(failures), 2)} failures")
            if not failures:
                await asyncio.to_thread(sys.stdin.readline)
                resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))


async def main(application_id: str, what: str) -> None:
    """Do what is asked for."""
    options: dict[str, object] = {"retry": QUICK, "timeouts": SHORT, "downloads": OF_THIS_MACHINE}
    if what == "descriptors":
        await poll_without_descriptors(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        async with IncomeClient.from_env(**options) as client:  # type: ignore[arg-type]
            await fail_without_modules(getattr(Work(client, application_id, Path(folder)), what))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
