"""The guide's `update_worker.py` as a process: it fails as the application's id says.

``python -m tests.slow.worker_process ATTEMPTS ACK_WAIT CONCURRENCY``, in a folder with the
example. The file ``journal`` gets a line for what the handler does.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from income_client import ApplicationRecord, DecodeError, NotFoundError
from income_client.engines import faststream
from income_client.engines.relay import UpdateEvent
from income_client.errors import PayloadFault
from income_client.testing import make_record

_TIMEOUT: Final = 4.0
_PAUSE_SECONDS: Final = 0.02
_failed_once: Final[set[str]] = set()


class _OddError(BaseException):
    pass


async def _succeed(_: UpdateEvent) -> None:
    await asyncio.sleep(0.01)


async def _take_long(_: UpdateEvent) -> None:
    await asyncio.sleep(3 * float(sys.argv[2]))


async def _hang(_: UpdateEvent) -> None:
    await asyncio.Event().wait()


async def _fail(_: UpdateEvent) -> None:
    raise KeyError("invented")


async def _fail_once(event: UpdateEvent) -> None:
    if event.id not in _failed_once:
        _failed_once.add(event.id)
        raise OSError


async def _fail_in_group(event: UpdateEvent) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_fail(event))


async def _cancel(_: UpdateEvent) -> None:
    raise asyncio.CancelledError


async def _fail_oddly(_: UpdateEvent) -> None:
    raise _OddError


async def _find_nothing(_: UpdateEvent) -> None:
    raise NotFoundError("invented", status=404)


async def _read_nothing(_: UpdateEvent) -> None:
    raise DecodeError((PayloadFault("$", "invented"),))


async def _die(_: UpdateEvent) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _exit(_: UpdateEvent) -> None:
    sys.exit("invented")


_ACTIONS: Final[Mapping[str, Callable[[UpdateEvent], Awaitable[None]]]] = {
    "cancels": _cancel,
    "dies": _die,
    "exits": _exit,
    "fails": _fail,
    "gone": _find_nothing,
    "group": _fail_in_group,
    "hangs": _hang,
    "odd": _fail_oddly,
    "ok": _succeed,
    "once": _fail_once,
    "slow": _take_long,
    "unread": _read_nothing,
}
"""Actions before the example's own work, by the first word of an application's id."""


class _Client:
    """Makes records up, in place of `IncomeClient`."""

    async def get_record(self, application_id: str) -> ApplicationRecord:
        return make_record(application_id=application_id)

    @classmethod
    def from_env(cls, **_: float) -> AbstractAsyncContextManager["_Client"]:
        _note("ready", "-", "-")
        return nullcontext(cls())


def _note(*words: str) -> None:
    with Path("journal").open("ab", buffering=0) as journal:
        journal.write(f"{os.getpid()} {' '.join(words)}\n".encode())


def _run(attempts: int, ack_wait: float, concurrency: int) -> None:
    subscribe = faststream.update_subscriber

    def subscribe_for_test(broker: Any, *, durable: str) -> Any:
        decorate = subscribe(
            broker,
            durable=durable,
            attempts=attempts,
            timeout=_TIMEOUT,
            concurrency=concurrency,
            ack_wait=ack_wait,
        )

        def decorate_noted(handle: Callable[[UpdateEvent], Awaitable[None]]) -> Any:
            @wraps(handle)
            async def handle_noted(event: UpdateEvent) -> None:
                _note("begin", event.application_id, event.id)
                await _ACTIONS[event.application_id.partition("-")[0]](event)
                await handle(event)
                _note("end", event.application_id, event.id)

            return decorate(handle_noted)

        return decorate_noted

    changed: Any = faststream
    changed.update_subscriber = subscribe_for_test
    changed._PAUSE_SECONDS = _PAUSE_SECONDS
    program: Any = import_module("update_worker")
    program.IncomeClient = _Client
    program.app.after_startup(lambda: _note("started", "-", "-"))
    asyncio.run(program.app.run())


if __name__ == "__main__":
    _run(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
