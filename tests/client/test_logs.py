"""Logging of any kind stops no poll, call, callback or download."""

import asyncio
import io
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from income_client import (
    IncomeClient,
    MemoryCheckpointStore,
    SyncIncomeClient,
)
from income_client.emulator import Emulator
from income_client.emulator.faults import script
from income_client.receivers import CallbackReceiver, RequestHead
from income_client.system.logs import GuardedLogger
from income_client.testing import JumpingClock
from tests.support.callbacks import AUTHORIZATION, BASIC
from tests.support.clients import HERE
from tests.support.processes import beside

LOGGER: Final = logging.getLogger("income_client")
FIELDS: Final = (
    "status", "error", "failures", "call", "attempt", "attempts", "duration", "request_id", "pause",
    "reason", "peer", "unsaid", "poller", "checkpoint", "reached", "store", "seconds", "lifetime",
    "application_id",
)  # fmt: skip
"""Fields of the package's records, which a program's record factory may set as well."""


# Logging of a program


@contextmanager
def factory_with_fields() -> Iterator[None]:
    """Make records that have fields of the same names, as Python's cookbook shows."""
    with record_factory(lambda record: vars(record).update(dict.fromkeys(FIELDS, "the program's"))):
        yield


@contextmanager
def factory_that_raises() -> Iterator[None]:
    with record_factory(fail):
        yield


@contextmanager
def record_factory(change: Callable[[logging.LogRecord], object]) -> Iterator[None]:
    """Let a function of the program change each record of the package."""
    usual = logging.getLogRecordFactory()

    def make(name: str, *arguments: Any, **options: Any) -> logging.LogRecord:
        record = usual(name, *arguments, **options)
        if name.startswith("income_client"):
            change(record)
        return record

    logging.setLogRecordFactory(make)
    try:
        yield
    finally:
        logging.setLogRecordFactory(usual)


@contextmanager
def handler(**methods: Callable[..., object]) -> Iterator[None]:
    """Add a handler with methods of the program's own."""
    added = type("Handler", (logging.NullHandler,), methods)()
    LOGGER.addHandler(added)
    try:
        yield
    finally:
        LOGGER.removeHandler(added)


@contextmanager
def filter_that_raises() -> Iterator[None]:
    added = logging.NullHandler()
    added.addFilter(fail)
    added.handle = lambda record: bool(added.filter(record))  # type: ignore[method-assign]
    LOGGER.addHandler(added)
    try:
        yield
    finally:
        LOGGER.removeHandler(added)


def fail(*_: object) -> NoReturn:
    raise RuntimeError("of the program's logging")


def cancel(*_: object) -> NoReturn:
    raise asyncio.CancelledError


PROGRAMS: Final[dict[str, Callable[[], Any]]] = {
    "a record factory that sets the same fields": factory_with_fields,
    "a record factory that raises": factory_that_raises,
    "a filter that raises": filter_that_raises,
    "a handler that raises": lambda: handler(handle=fail),
    "a handler that raises CancelledError": lambda: handler(handle=cancel),
}


# What logs


@asynccontextmanager
async def failing_once(faults: str) -> AsyncIterator[tuple[Emulator, IncomeClient]]:
    """Run a service whose first answers are failures, and a client of it."""
    clock = JumpingClock()
    async with (
        Emulator(3, clock=clock) as service,
        IncomeClient(
            service.url,
            auth=service.oauth2,
            downloads=HERE,
            clock=clock,
            on_event=fail,
        ) as client,
    ):
        service.faults.add(*script(faults))
        yield service, client


async def poll(_: Path) -> None:
    """A whole poll fails, and the next one delivers."""
    async with failing_once("list_applications: 503 x4") as (service, client):
        poller = client.poll(MemoryCheckpointStore(), start="2020-01-01", documents=False)
        async with aclosing(poller):
            delivered = {(await anext(poller)).application_id for _ in service.world.ids}
        assert delivered == set(service.world.ids)


async def call(_: Path) -> None:
    """A call is retried, after its token request was."""
    async with failing_once("token: 503 x1; get_application: 503 x1") as (service, client):
        first = service.world.ids[0]
        assert (await client.get_application(first)).application_id == first


async def download(folder: Path) -> None:
    """A download is retried."""
    async with failing_once("file: 503 x1") as (service, client):
        documents = await client.get_documents(service.world.ids[0])
        document = next(entry.document for entry in documents.all())
        assert (await client.download(document, folder / "file")).size


async def answer_callbacks(_: Path) -> None:
    """One callback is refused, another fails in the program's function, a third one succeeds."""
    head = RequestHead(
        method="POST", headers={"Authorization": AUTHORIZATION, "Content-Type": "application/json"}
    )
    body = json.dumps({"event_type": "income_calculations", "application_id": "app-1"}).encode()
    accepting, failing = (CallbackReceiver(function, auth=BASIC) for function in (id, fail))
    assert (await accepting.answer(RequestHead(method="POST", headers={}), body)).status == 401
    assert (await failing.answer(head, body)).status == 503
    assert (await accepting.answer(head, body)).status == 200


async def call_synchronously(_: Path) -> None:
    """A call of the client for code that is not asynchronous is retried."""

    def run() -> None:
        with (
            beside(Emulator(3, seed=5)) as service,
            SyncIncomeClient(service.url, auth=service.basic, clock=JumpingClock()) as client,
        ):
            service.faults.add(*script("get_application: 503 x1"))
            first = service.world.ids[0]
            assert client.get_application(first).application_id == first

    await asyncio.to_thread(run)


USES: Final[tuple[Callable[[Path], Awaitable[None]], ...]] = (
    poll,
    call,
    download,
    answer_callbacks,
    call_synchronously,
)


@pytest.mark.shows_private("file", reason="a downloaded file is what was served")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("use", USES)
async def test_logging_that_raises_disturbs_nothing(
    use: Callable[[Path], Awaitable[None]],
    program: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """``on_event`` raises as well, which is logged too."""
    caplog.set_level(logging.DEBUG, "income_client")
    with PROGRAMS[program]():
        await use(tmp_path)


# One line


def log_line() -> None:
    """Log a line with fields, from this function."""
    GuardedLogger("income_client.tests").warning("%d of %d", 1, 2, extra={"status": 503, "kept": 7})


def test_a_line_names_the_code_that_logged_it(caplog: pytest.LogCaptureFixture) -> None:
    log_line()
    (record,) = caplog.records
    assert (record.getMessage(), record.levelname, record.name) == (
        "1 of 2", "WARNING", "income_client.tests",
    )  # fmt: skip
    assert (record.funcName, record.filename) == ("log_line", "test_logs.py")
    assert (vars(record)["status"], vars(record)["kept"]) == (503, 7)


def test_a_field_of_the_programs_record_factory_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    with factory_with_fields():
        log_line()
    (record,) = caplog.records
    assert (vars(record)["status"], vars(record)["kept"]) == ("the program's", 7)


@pytest.mark.parametrize("is_shown", [True, False])
def test_what_logging_raises_goes_to_standard_error(
    is_shown: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standard handlers do the same, unless ``logging.raiseExceptions`` is False."""
    monkeypatch.setattr(logging, "raiseExceptions", is_shown)
    with handler(handle=fail):
        log_line()
    shown = capsys.readouterr().err
    assert ("RuntimeError: of the program's logging" in shown) is is_shown
    assert bool(shown) is is_shown


def test_a_closed_standard_error_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with handler(handle=fail):
        for stream in (io.StringIO(), None):
            if stream is not None:
                stream.close()
            monkeypatch.setattr(sys, "stderr", stream)
            log_line()


def test_a_line_of_a_level_that_is_off_makes_no_record(caplog: pytest.LogCaptureFixture) -> None:
    logger = GuardedLogger("income_client_tests")
    caplog.set_level(logging.ERROR, "income_client_tests")
    with record_factory(fail):
        logger.warning("not logged")
    assert caplog.records == []


def test_an_interruption_in_a_handler_is_raised() -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with handler(handle=interrupt), pytest.raises(KeyboardInterrupt):
        log_line()
