"""Environments of the client: other event loops, eager tasks, other processes, any aiohttp."""

import asyncio
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import uvloop
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor

from income_client import (
    DownloadError,
    IncomeClient,
    IncomeClientError,
    MemoryCheckpointStore,
    NotFoundError,
    Timeouts,
    errors,
)
from income_client.emulator import Emulator
from income_client.engines.relay import UpdateEvent, relay
from income_client.errors import LinkRefusal, PayloadFault
from income_client.events import RequestSent
from income_client.records import Window
from income_client.testing import JumpingClock
from tests.support.clients import BASIC, link_to, pooled
from tests.support.polling import rest
from tests.support.server import ScriptedServer, application, in_turn, reply
from tests.support.service import until
from tests.support.telemetry import collecting
from tests.support.walks import rows_of

# Event loops


def eager_loop() -> asyncio.AbstractEventLoop:
    """Return a loop whose tasks begin before `create_task` returns."""
    loop = asyncio.new_event_loop()
    if sys.version_info >= (3, 12):
        loop.set_task_factory(asyncio.eager_task_factory)
    return loop


LOOPS: Final[list[Callable[[], asyncio.AbstractEventLoop]]] = [uvloop.new_event_loop]
if sys.version_info >= (3, 12):
    LOOPS.append(eager_loop)


async def use_everything(folder: Path) -> None:
    """Walk, fetch, poll, download and relay, with a retry, an error and a cancellation."""
    clock, sent = JumpingClock(), asyncio.Event()
    async with Emulator(40, clock=clock, time_flows=True) as service:
        ids = list(service.world.ids)
        service.faults.add("get_application: 429 retry-after=3, 503, ok x5, cut")
        options: dict[str, Any] = {"clock": clock, "downloads": service.download_policy}
        options["on_event"] = lambda told: sent.set() if isinstance(told, RequestSent) else None
        async with IncomeClient(service.url, auth=service.oauth2, **options) as client:
            walk = client.list_applications()
            assert sorted([row.application_id async for row in walk]) == sorted(ids)
            records = [one async for one in client.fetch_records(ids)]
            assert [record.application_id for record in records] == ids
            assert max(clock.slept) >= 3
            polled = await rest(client.poll(MemoryCheckpointStore(), start="2020-01-01"))
            assert sorted(record.application_id for record in polled) == sorted(ids)
            published: list[str] = []

            async def publish(event: UpdateEvent) -> None:
                published.append(event.application_id)

            poller = client.poll(MemoryCheckpointStore(), start="2020-01-01", once=True)
            await relay(poller, publish)
            assert sorted(published) == sorted(ids)
            files = [file async for file in client.download_all(records[:2], folder)]
            assert files
            assert all(file.size for file in files)
            async with asyncio.timeout(30):
                gone = await asyncio.gather(
                    *(client.get_application("app-gone") for _ in range(20)),
                    return_exceptions=True,
                )
            assert {type(error) for error in gone} == {NotFoundError}
            async for _ in client.fetch_records(ids):
                break
            service.faults.add("get_documents: stall")
            sent.clear()
            waiting = asyncio.create_task(client.get_documents(ids[0]))
            await sent.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("factory", LOOPS)
def test_it_runs_on_other_loops(
    factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """On uvloop and with eager tasks, no result is lost and no task is left (CPython 3.12)."""
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(use_everything(tmp_path))


# Errors in other processes

FACTS: Final[dict[str, Any]] = {
    "call": "get_application",
    "subject": "app-1",
    "retryable": True,
    "status": 503,
    "retry_after": 2.5,
    "request_id": "request-1",
    "attempts": 3,
    "body": b"{}",
}
SECOND: Final = Window(after=7, before=8)
MADE: Final[dict[str, Callable[[type[Any]], IncomeClientError]]] = {
    "ConfigurationError": lambda cls: cls("wrong", argument="auth", detail="short", **FACTS),
    "TransportError": lambda cls: cls("no HTTP", is_foreign=True, **FACTS),
    "DecodeError": lambda cls: cls((PayloadFault("$.a", "missing"),), is_row=True, **FACTS),
    "SaturatedWindowError": lambda cls: cls((SECOND,), rows_of({"app-1": 7})),
    "DownloadError": lambda cls: cls("cut", code="Gone", disk_failed=True, in_place=True),
    "UnsafeLinkError": lambda cls: cls("private", reason=LinkRefusal.HOST, document_id="doc-1"),
    "CallbackRejectedError": lambda cls: cls(503, "full", retry_after=2.5),
}
"""Factories of errors with attributes of their own; other classes take only common ones."""


def public_errors() -> list[type[IncomeClientError]]:
    """Return each class of errors."""
    values = vars(errors).values()
    return [one for one in values if isinstance(one, type) and issubclass(one, IncomeClientError)]


@pytest.mark.parametrize("cls", public_errors())
def test_every_error_survives_a_pickle(cls: type[IncomeClientError]) -> None:
    """Celery, Airflow and multiprocessing send class, text, attributes and notes of an error."""
    made = MADE.get(cls.__name__)
    error = cls("it failed", **FACTS) if made is None else made(cls)
    error.add_note("tried by the nightly job")
    for number in range(pickle.HIGHEST_PROTOCOL + 1):
        copied = pickle.loads(pickle.dumps(error, number))
        assert type(copied) is cls
        assert (str(copied), repr(copied)) == (str(error), repr(error))
        assert copied.args == error.args
        assert vars(copied) == vars(error)


# What the client relies on in aiohttp without being promised it: an upgrade may take it away
# without a sound.


async def test_what_came_before_a_cut_is_kept() -> None:
    """Bytes that lie in a stream that has failed are taken out of it."""
    cut = reply(body=b"0123456789", content_type="text/csv", cut=-4)
    async with pooled(in_turn(cut)) as (pool, server):
        with await pool.get(link_to(server.url), {}, Timeouts(read=5)) as begun:
            await until(lambda: begun._reply.content.exception() is not None)
            assert await begun.read() == b"012345"
            with pytest.raises(DownloadError):
                await begun.read()


async def test_a_session_that_was_instrumented_is_not_instrumented_again() -> None:
    """OpenTelemetry marks its hooks in every session of a process, and borrowed ones have them."""
    instrumentor: Any = AioHttpClientInstrumentor()
    with collecting() as exported:
        instrumentor.instrument()
        try:
            async with (
                ScriptedServer(in_turn(application("app-1"))) as server,
                aiohttp.ClientSession() as session,
                IncomeClient(server.url, auth=BASIC, session=session) as client,
            ):
                await client.get_application("app-1")
        finally:
            instrumentor.uninstrument()
    assert len(exported.named("GET")) == 1
