"""Downloads in a process of its own, which says what it is told until it is killed.

``python -m tests.support.download_worker`` imports everything once and forks for each
life, which makes a restart cheap; it obeys ``start``, ``kill`` and ``wait``. Several
lives may be lived at a time. Knows the folder and where the service is, not what
the files are.
"""

import asyncio
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable

from attrs import asdict, frozen

from income_client import DownloadedFile, IncomeClient, IncomeClientError
from income_client.testing import JumpingClock
from tests.support.files import AUTH, NAMES, ON_LOOPBACK, documents_of


@frozen(kw_only=True)
class Life:
    """What a process is told before it begins."""

    url: str
    """Where the service is."""
    number: int = 0
    """How many lives are over; its requests say so, since some outlive it."""
    application_ids: list[str]
    """Whose documents to download."""
    folder: str
    """Where to."""
    concurrency: int = 8
    """Files on their way at a time."""
    dies_before: str | None = None
    """The audit event of a step on the disk, before the first of which it kills itself."""
    longest_file: int | None = None
    """Bytes beyond which the operating system lets it write to no file."""

    def order(self) -> str:
        """Return the line that begins this life."""
        return f"start {json.dumps(asdict(self))}\n"


async def live(life: Life) -> None:
    """Download everything, and tell of each file as it comes."""
    async with IncomeClient(
        life.url,
        auth=AUTH,
        downloads=ON_LOOPBACK,
        clock=JumpingClock(),
        user_agent=f"life/{life.number}",
    ) as client:
        documents = await documents_of(client, life.application_ids)
        if life.dies_before is not None:
            sys.addaudithook(_deadly(life.dies_before))
        downloads = client.download_all(
            documents, life.folder, life.concurrency, names=NAMES, on_error="yield"
        )
        async for file in downloads:
            if isinstance(file, DownloadedFile):
                _say(f"{'same' if file.was_there else 'file'} {file.document_id} {file.sha256}")
            else:
                _say(f"failed {file.document_id} {_reason(file.error)}")
    _say("over")


def _reason(error: IncomeClientError) -> str:
    return str(error).rpartition(": ")[2]


def _deadly(step: str) -> Callable[[str, tuple[object, ...]], None]:
    def hook(event: str, _: tuple[object, ...]) -> None:
        if event == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def serve() -> None:
    """Obey the orders on standard input until it ends; leave no process behind."""
    children: list[int] = []
    try:
        for order in sys.stdin:
            word, _, rest = order.rstrip("\n").partition(" ")
            if word == "start":
                children.append(_born(Life(**json.loads(rest))))
                continue
            while children:
                if word == "kill":
                    os.kill(children[-1], signal.SIGKILL)
                os.waitpid(children[-1], 0)
                children.pop()
            _say("ended")
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _born(life: Life) -> int:
    child = os.fork()
    if child == 0:
        try:
            if life.longest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (life.longest_file,) * 2)
            asyncio.run(live(life))
        except BaseException:  # noqa: BLE001 - nothing of it may reach the parent's loop
            traceback.print_exc()
            _say("broken")
        finally:
            os._exit(0)
    return child


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


if __name__ == "__main__":
    serve()
