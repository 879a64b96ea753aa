"""What the client works with: other event loops, eager tasks, other processes, any aiohttp."""

import asyncio
import inspect
import pickle
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import uvloop
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor

import income_client
from income_client import (
    IncomeClient,
    IncomeClientError,
    LinkRefusal,
    MemoryCheckpointStore,
    NotFoundError,
    PayloadFault,
    RequestSent,
    UnsafeLinkError,
    Window,
)
from income_client.emulator import Emulator
from income_client.engines.relay import UpdateEvent
from income_client.engines.worker import Worker
from income_client.testing import JumpingClock, make_document
from tests.support.clients import BASIC, HERE, hosting
from tests.support.event_source import MemorySource, event
from tests.support.polling import rest
from tests.support.server import ScriptedServer, application, in_turn, reply
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
    handled: list[str] = []

    async def handle(one: UpdateEvent) -> None:
        handled.append(one.id)
        if len(handled) == 2:
            worker.stop()

    worker = Worker(handle, MemorySource(event("app-1", "1"), event("app-2", "2")))
    await worker.run()
    assert sorted(handled) == ["1", "2"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("factory", LOOPS)
def test_it_runs_on_other_loops(
    factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """Nothing is lost, retried or left behind on uvloop, nor with eager tasks (CPython 3.12)."""
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
"""How those are made that have facts of their own; the others have the facts of all."""


def public_errors() -> list[type[IncomeClientError]]:
    """Return each public class of errors."""
    values = (getattr(income_client, name) for name in income_client.__all__)
    return [one for one in values if isinstance(one, type) and issubclass(one, IncomeClientError)]


@pytest.mark.parametrize("cls", public_errors())
def test_every_error_survives_a_pickle(cls: type[IncomeClientError]) -> None:
    """As Celery, Airflow and multiprocessing send it: class, text, attributes and notes."""
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
# without a sound, so each is tested by what it does.


def test_the_names_that_the_watch_on_connections_needs_are_there() -> None:
    """Of requests, of connections and of what reads them."""
    assert inspect.iscoroutinefunction(aiohttp.ClientRequest.send)
    assert list(inspect.signature(aiohttp.ClientRequest.send).parameters) == ["self", "conn"]
    assert "request_class" in inspect.signature(aiohttp.ClientSession).parameters
    assert {"add_callback", "closed", "protocol", "transport"} <= set(dir(Connection))
    assert isinstance(inspect.getattr_static(ResponseHandler, "should_close"), property)
    assert callable(ResponseHandler.exception)


async def test_what_came_before_a_cut_is_kept(tmp_path: Path) -> None:
    """Bytes that lie in a stream that has failed are taken out of it."""
    # The end comes together with the bytes before it.
    begun = reply(body=b"0123456789", content_type="text/csv", ETag='"1"', cut=-4)
    rest = reply(206, b"6789", "text/csv", ETag='"1"', Content_Range="bytes 6-9/10")
    async with hosting(in_turn(begun, rest)) as (client, document, server):
        await client.download(document, tmp_path / "slip")
    assert (tmp_path / "slip").read_bytes() == b"0123456789"
    ranges = [request.headers.get("range") for request in server.requests]
    assert ranges == [None, "bytes=6-"]


@pytest.mark.parametrize(
    "addresses",
    [["169.254.169.254"], ["0.0.0.0", "169.254.169.254"], ["fe80::1", "169.254.169.254", "::"]],
)
async def test_an_address_that_is_refused_passes_through_the_race_of_addresses(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It comes out as what it is, and is not tried again."""

    def look_up(_: object, port: int, *__: object, **___: object) -> list[Any]:
        kind = (socket.SOCK_STREAM, 6, "")
        return [
            (socket.AF_INET6, *kind, (ip, port, 0, 0))
            if ":" in ip
            else (socket.AF_INET, *kind, (ip, port))
            for ip in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    clock = JumpingClock()
    async with IncomeClient(
        "https://service.example", auth=BASIC, downloads=HERE, clock=clock
    ) as client:
        document = make_document(url="https://files.example.com/slip")
        with pytest.raises(UnsafeLinkError) as caught:
            await client.download(document, tmp_path / "slip")
    assert not caught.value.retryable
    assert clock.slept == []


async def test_a_session_that_was_instrumented_is_not_instrumented_again() -> None:
    """OpenTelemetry marks its hooks in every session of a process, and borrowed ones have them."""
    instrumentor: Any = AioHttpClientInstrumentor()
    with collecting() as exported:
        instrumentor.instrument()
        try:
            async with (
                ScriptedServer(in_turn(application("app-1"))) as server,
                aiohttp.ClientSession() as session,
                IncomeClient(server.url, auth=BASIC, session=session, telemetry=False) as client,
            ):
                await client.get_application("app-1")
        finally:
            instrumentor.uninstrument()
    assert len(exported.named("GET")) == 1
