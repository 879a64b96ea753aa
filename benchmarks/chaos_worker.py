"""A poller in a process of its own, which writes down what it is given until it is killed.

Knows its store, its results and where the service is; nothing of what the service
holds. ``python -m benchmarks.chaos_worker`` imports everything once and forks for
each life, which makes a restart cheap; it obeys ``start``, ``kill`` and ``stop``.
"""

import asyncio
import hashlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson
from aiohttp import TraceConfig, TraceRequestStartParams
from attrs import asdict, field, frozen

from income_client import (
    ApplicationRecord,
    Batch,
    IncomeClient,
    OAuth2ClientCredentials,
    Poller,
    SQLiteCheckpointStore,
    to_json,
)

from .fast_clock import FastClock

POLL_HEADER: Final = "x-poll"
"""The header in which a worker numbers its polls."""

_SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGTERM}
_MARK_BYTES: Final = 8


@frozen(kw_only=True)
class Life:
    """What a worker is told before it begins."""

    number: int
    """Counts the lives from 0."""
    url: str
    """Where the service is."""
    client_id: str
    """Who buys tokens there."""
    client_secret: str = field(repr=False)
    """What they are bought with."""
    store: str
    """The file of the checkpoints."""
    results: str
    """The file in which every record is noted before its batch is committed."""
    start: str
    """Where the first life begins, as the service writes a time."""
    speed: float
    """Seconds that pass in one of the machine's."""
    interval: float
    """Seconds from one poll to the next."""
    settle: float
    """Seconds that the checkpoint stays behind."""

    def order(self) -> str:
        """Return the line that begins this life."""
        return f"start {orjson.dumps(asdict(self)).decode()}\n"


def mark(body: bytes) -> str:
    """Return a short text that tells what a reply says, its addresses aside."""
    content = orjson.dumps(_without_urls(orjson.loads(body)), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(content, digest_size=_MARK_BYTES).hexdigest()


def _without_urls(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_urls(part) for name, part in value.items() if name != "url"}
        case list():
            return [_without_urls(part) for part in value]
        case _:
            return value


async def live(life: Life) -> None:
    """Poll until somebody stops it, and tell of every batch where it is with it."""
    store = SQLiteCheckpointStore(life.store)
    auth = OAuth2ClientCredentials(life.client_id, life.client_secret)
    results = os.open(life.results, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    # A killed predecessor may have left half a line.
    os.write(results, b"\n")
    numbering = TraceConfig()
    async with IncomeClient(
        life.url, auth=auth, clock=FastClock(life.speed), trace_configs=[numbering]
    ) as client:
        poller = client.poll(store, start=life.start, interval=life.interval, settle=life.settle)
        numbering.on_request_start.append(_number_by(poller))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, poller.stop)
        number = 0
        async for batch in poller.batches():
            number += 1
            _say(f"batch {number}")
            async with batch:
                await _note(batch, results, f"{life.number} {number}")
                _say(f"written {number}")
            _say(f"committed {number}")
    os.close(results)


def _number_by(poller: Poller) -> Callable[..., Awaitable[None]]:
    """Return what has every request say how many polls were over when it was made."""

    async def number(_: object, __: object, params: TraceRequestStartParams) -> None:
        params.headers[POLL_HEADER] = str(poller.status.polls)

    return number


async def _note(batch: Batch, results: int, where: str) -> None:
    for record in batch:
        application, documents = _marks(record)
        line = f"{where} {record.application_id} {application} {documents}\n"
        os.write(results, line.encode())
        # As any consumer, it lets others go on between two records.
        await asyncio.sleep(0)


def _marks(record: ApplicationRecord) -> tuple[str, str]:
    return mark(to_json(record.application)), mark(to_json(record.documents))


def serve() -> None:
    """Obey the orders on standard input until it ends; leave no process behind."""
    # Failures are part of the play, and nobody's to read.
    logging.getLogger("income_client").addHandler(logging.NullHandler())
    child: int | None = None
    try:
        for order in sys.stdin:
            word, _, rest = order.partition(" ")
            if word == "start":
                child = _born(Life(**orjson.loads(rest)))
            elif child is not None:
                os.kill(child, _SIGNALS[word.strip()])
                _, status = os.waitpid(child, 0)
                child = None
                _say(f"ended {os.waitstatus_to_exitcode(status)}")
    finally:
        if child is not None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _born(life: Life) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(live(life))
            code = 0
        except BaseException:  # noqa: BLE001 - nothing of it may reach the parent's loop
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


if __name__ == "__main__":
    serve()
