"""The client without await: the same methods, and the same promises, for every thread."""

import asyncio
import gc
import inspect
import runpy
import signal
import sqlite3
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self, get_overloads

import asyncpg
import pytest

from income_client import (
    ApplicationRecord,
    Batch,
    CheckpointStore,
    ClientClosedError,
    ConfigurationError,
    DownloadPolicy,
    FetchFailure,
    IncomeClient,
    MemoryCheckpointStore,
    NotFoundError,
    PermissionDeniedError,
    Poller,
    RateLimitedError,
    SQLiteCheckpointStore,
    SyncIncomeClient,
)
from income_client.downloads import Downloads
from income_client.emulator import Emulator, Fault
from income_client.engines.nats import NatsCheckpointStore, NatsTokenStore
from income_client.engines.postgres import PostgresCheckpointStore, PostgresTokenStore
from income_client.exporting import to_arrow
from income_client.sync import SyncApplicationPaginator, SyncBatch, SyncIterator, SyncPoller, portal
from income_client.sync import client as sync_client
from income_client.sync.client import WORDS
from income_client.testing import JumpingClock
from income_client.walk import ApplicationPaginator, Fetcher
from tests.support.canaries import held_by, private_in
from tests.support.clients import OAUTH
from tests.support.listing import BASE, text_of
from tests.support.pages import EXAMPLES
from tests.support.polling import poll_sizes
from tests.support.processes import beside, until
from tests.support.server import EMPTY_PAGE, SILENT, ScriptedServer, in_turn, reply, token_rules

HERE: Final = DownloadPolicy(
    allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
)
SHARED: Final = {
    ApplicationPaginator: SyncApplicationPaginator,
    Poller: SyncPoller,
    Batch: SyncBatch,
    Fetcher: SyncIterator,
    Downloads: SyncIterator,
}
"""Return types of the methods of the two clients."""
LEFT_OUT: Final = {"transaction"}
"""A connection of asyncpg belongs to an event loop."""


def our_threads() -> list[threading.Thread]:
    """Return the threads of clients."""
    return [one for one in threading.enumerate() if one.name == "income_client"]


@contextmanager
def emulated(applications: int = 12, **options: Any) -> Iterator[tuple[Emulator, SyncIncomeClient]]:
    """Run a service in another thread, and a client of it; afterwards its thread has ended."""
    usual: dict[str, Any] = {"clock": JumpingClock(), "downloads": HERE}
    with beside(Emulator(applications, seed=5)) as service:
        with SyncIncomeClient(service.url, auth=service.oauth2, **usual | options) as client:
            yield service, client
        assert our_threads() == []


@contextmanager
def scripted(answer: Any, **options: Any) -> Iterator[tuple[ScriptedServer, SyncIncomeClient]]:
    """Run a scripted server in another thread, and a client of it whose clock jumps."""
    usual: dict[str, Any] = {"auth": OAUTH, "clock": JumpingClock()}
    with (
        beside(ScriptedServer(token_rules(answer))) as server,
        SyncIncomeClient(server.url, **usual | options) as client,
    ):
        yield server, client


def tasks_of(client: SyncIncomeClient) -> int:
    """Return how many tasks are in the client's loop, the one that asks aside."""
    return client._portal.ask(lambda: len(asyncio.all_tasks())) - 1


# The same methods


def plain_name(name: str) -> str:
    """Return what a method of the asynchronous client is called here."""
    return "close" if name == "aclose" else name


def plain_type(annotation: Any) -> str:
    """Return what is returned here in place of a type there."""
    text = str(annotation)
    for there, here in SHARED.items():
        text = text.replace(f"{there.__name__}[", f"{here.__name__}[")
        text = here.__name__ if text == there.__name__ else text
    return text.replace("SyncSync", "Sync")


def shape(function: Any, returns: Callable[[Any], str] = str) -> tuple[list[str], str]:
    """Return the arguments of a function as they are written, and what it returns."""
    found = inspect.signature(function)
    # Some modules keep annotations as texts.
    arguments = [str(one).replace("'", "") for one in found.parameters.values()]
    return arguments, returns(found.return_annotation)


def public(owner: type) -> dict[str, Any]:
    """Return what a class and those that it is made from offer."""
    found = {name: inspect.getattr_static(owner, name) for name in dir(owner)}
    return {plain_name(name): one for name, one in found.items() if not name.startswith("_")}


def test_the_methods_are_those_of_the_asynchronous_client() -> None:
    """Names, arguments, types, overloads and docstrings: a method is nowhere forgotten."""
    there, here = public(IncomeClient), public(SyncIncomeClient)
    assert here.keys() == there.keys()
    for name in there.keys() - {"close", "from_env", "from_config"}:
        assert shape(here[name]) == shape(there[name], plain_type), name
        overloads = [shape(one, plain_type) for one in get_overloads(there[name])]
        assert [shape(one) for one in get_overloads(here[name])] == overloads, name
        assert here[name].__qualname__ == f"SyncIncomeClient.{name}"
    for name in ("from_env", "from_config"):
        given, taken = (shape(getattr(one, name)) for one in (IncomeClient, SyncIncomeClient))
        assert str(given).replace("ClientOptions", "SyncClientOptions") == str(taken)
    for name in there.keys() - {"close"}:
        text = inspect.getdoc(there[name]) or ""
        for word, own in WORDS:
            text = text.replace(word, own)
        assert inspect.getdoc(here[name]) == text, name


@pytest.mark.parametrize(("there", "here"), SHARED.items(), ids=lambda one: str(one.__name__))
def test_what_they_return_has_the_same_methods(there: type, here: type) -> None:
    """With the same arguments; only what an event loop would be needed for is left out."""
    names = public(there).keys() - LEFT_OUT
    assert names == public(here).keys()
    for name in names:
        if callable(public(there)[name]):
            assert shape(public(here)[name])[0] == shape(public(there)[name])[0], name


# Promises


def ids_of(rows: Any) -> list[str]:
    """Return the ids of what is iterated over."""
    return [row.application_id for row in rows]


def test_a_walk_resumes_without_loss_and_leaves_nothing() -> None:
    """Promise 6: rows that the consumer has not come back after are yielded again."""
    found: list[str] = []
    with emulated(40) as (service, client):
        resume = None
        for stop in (0, 1, 9, 13):
            walk = client.list_applications(limit=7, resume=resume)
            found += ids_of(row for row, _ in zip(walk, range(stop), strict=False))
            resume = walk.checkpoint
            walk.close()
        assert not set(found) >= set(service.world.ids)
        rest = client.list_applications(limit=7, resume=resume)
        found += ids_of(rest)
        assert (rest.saturated, rest.progress.covered_fraction) == ((), 1.0)
        assert tasks_of(client) == 0
    assert set(found) == set(service.world.ids)
    assert rest.checkpoint  # which the end of the client does not take away


def test_every_version_is_delivered_whatever_ends_a_consumer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Promise 8: what was not committed comes again, and what was does not."""
    store: CheckpointStore = MemoryCheckpointStore()
    options: dict[str, Any] = {"start": "1970-01-01", "settle": 0, "once": True}
    with emulated() as (service, client), poll_sizes(batch=3):
        everything = sorted(service.world.ids)
        broken = client.poll(store, documents=False, **options)
        taken: list[ApplicationRecord] = []
        with pytest.raises(KeyError):  # noqa: PT012 - the loop is the point
            for batch in broken.batches():
                with batch:
                    taken += batch
                    if len(taken) == 6:
                        raise KeyError("of the consumer")
        assert batch.has_failed
        kept = ids_of(taken[:3])
        # One that leaves its loop over records has not committed what it had in hand.
        left = client.poll(store, documents=False, **options)
        again = next(left)
        assert again.application_id == taken[3].application_id
        left.close()
        rest = ids_of(client.poll(store, documents=False, **options))
        assert sorted(kept + rest) == everything
        assert ids_of(client.poll(store, documents=False, **options)) == []
        for batch in client.poll(store, name="skipping", documents=False, **options).batches():
            if batch.number % 2 == 0:
                with batch:
                    pass
        (line,) = caplog.records
        assert line.getMessage().startswith("poller 'skipping': the block of batch 1 was not")
        service.touch(everything[0])
        service.advance(60)
        (batch,) = client.poll(store, documents=False, **options).batches()
        assert (ids_of(batch), batch.number) == ([everything[0]], 1)
        assert len(batch.delivery_ids) == len(batch) == 1
        batch.commit()


def test_a_poller_is_stopped_woken_and_looked_at_by_other_threads() -> None:
    """Promise 11: it ends after what is in hand, and nothing of it is left."""
    found: list[str] = []

    def follow(poller: SyncPoller) -> None:
        for record in poller:
            found.append(record.application_id)  # noqa: PERF401 - as they come

    with emulated(clock=None) as (service, client):
        poller = client.poll(MemoryCheckpointStore(), documents=False, settle=0, standby=True)
        assert poller.wake()  # nobody polls yet, so the store is asked
        with ThreadPoolExecutor(1) as threads:
            following = threads.submit(follow, poller)
            until(lambda: poller.status.polls == 1)
            service.advance(60)
            service.touch(service.world.ids[3])
            service.advance(60)
            assert poller.wake()
            until(lambda: found)
            poller.stop()
            following.result()
        assert found == [service.world.ids[3]]
        assert not poller.wake()
        until(lambda: tasks_of(client) == 0)
        with closing(client.poll(MemoryCheckpointStore())) as unused:
            unused.stop(after_poll=True)
        assert repr(unused) == "<SyncPoller 'default', 0 polls>"


def test_calls_are_retried_and_fail_as_those_of_the_asynchronous_client() -> None:
    """Promise 13: pauses, attempts and errors are the same, and views share the token."""
    busy = reply(429, Retry_After="7")
    answer = in_turn(reply(503), busy, EMPTY_PAGE, reply(403, b"c4n4ry-body"), busy)
    with scripted(answer) as (server, client):
        assert client.get_application_page().applications == ()
        assert len(server.calls) == 3
        with pytest.raises(PermissionDeniedError) as refused:
            client.check()
        assert refused.value.attempts == 1
        with client.with_options(deadline=5) as view, pytest.raises(RateLimitedError) as limited:
            view.check()
        assert limited.value.retry_after == 7.0
        with pytest.raises(RateLimitedError):
            view.check()  # closing a view does nothing
        assert server.token_requests == 1
        assert repr(view) == f"<SyncIncomeClient of {server.url.removeprefix('http://')}>"


def test_files_are_whole_and_what_fails_is_yielded(tmp_path: Path) -> None:
    """Promise 16: one thing is made from another, in the loop and in the thread that asks."""
    with emulated() as (service, client):
        asked = threading.get_ident()
        threads = set()

        def chosen() -> Iterator[str]:
            for row in client.list_applications():
                threads.add(threading.get_ident())
                yield client.get_application(row.application_id).application_id

        gone = service.world.ids[2]
        service.faults.add(Fault("status", status=404, path=f"*/{gone}", times=None))
        with pytest.raises(NotFoundError):
            list(client.fetch_records(chosen()))
        assert threads == {asked}
        records = list(client.fetch_records(service.world.ids, on_error="yield"))
        (failure,) = [one for one in records if isinstance(one, FetchFailure)]
        assert failure.application_id == gone
        service.faults.clear()
        walk = client.list_applications()
        files = list(client.download_all(client.fetch_records(walk), tmp_path))
        replies = list(client.fetch_documents(iter(service.world.ids), concurrency=2))
        documents = [one for reply in replies for _, one in reply.all()]
        assert len(files) == len(documents)
        assert all(Path(str(file.path)).stat().st_size == file.size for file in files)
        assert client.download(documents[0], tmp_path).path in {file.path for file in files}
        assert client.find_application(service.world.reference_of(1)) is not None
        assert client.get_json(f"/v1/income/applications/{gone}")["application_id"] == gone
        assert client.service_time().tzinfo is not None
        held = ((row.application_id, "2026-07-01") for row in client.list_applications())
        assert client.audit(held).held == len(service.world.ids)


# Threads


def test_many_threads_share_one_loop_one_pool_and_one_token() -> None:
    """Each has its own walk, and one walk has one consumer."""
    with emulated() as (service, client), ThreadPoolExecutor(8) as threads:
        walks = threads.map(lambda _: ids_of(client.list_applications(limit=4)), range(8))
        assert all(sorted(walk) == sorted(service.world.ids) for walk in walks)
        calls = threads.map(client.get_application, service.world.ids * 4)
        assert ids_of(calls) == list(service.world.ids * 4)
        assert sum(request.name == "token" for request in service.requests) == 1
        service.faults.add(Fault("stall", path="/v1/*"))
        shared = client.fetch_records(service.world.ids)
        waiting = threads.submit(next, shared)
        until(lambda: tasks_of(client) > 1)
        with pytest.raises(ConfigurationError, match="one consumer"):
            next(shared)
        shared.close()
        with pytest.raises(ClientClosedError):
            waiting.result()
        assert tasks_of(client) == 0


@pytest.mark.parametrize("what", ["call", "walk", "fetch", "poll"])
def test_ctrl_c_ends_the_call_in_flight_and_leaves_nothing(what: str) -> None:
    """The client works after it, and a walk and a poller continue without loss."""

    def interrupt(_: object) -> Any:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)
        return SILENT

    with scripted(in_turn(interrupt, EMPTY_PAGE)) as (server, client):
        walk = client.list_applications(text_of(BASE))
        poller = client.poll(MemoryCheckpointStore(), once=True)
        begun: dict[str, Callable[[], object]] = {
            "call": client.check,
            "walk": lambda: next(walk),
            "fetch": lambda: next(client.fetch_records(iter(["a"]))),
            "poll": lambda: next(poller),
        }
        with pytest.raises(KeyboardInterrupt) as interrupted:
            begun[what]()
        assert private_in(held_by(interrupted.value)) is None
        assert tasks_of(client) == 0
        until(lambda: not server.connections)
        assert list(walk) == []
        assert list(poller) == []


def test_leaving_a_loop_ends_its_requests_in_whichever_thread_it_is_collected() -> None:
    """By a break, an error of the consumer's, or the collector."""
    with emulated(40) as (service, client), poll_sizes(page=5):
        for row in client.list_applications(limit=5):
            assert row.application_id
            break
        until(lambda: tasks_of(client) == 0)
        service.faults.add(Fault("stall", path="*/documents", times=None))
        with pytest.raises(KeyError):  # noqa: PT012 - the loop is the point
            for record in client.fetch_records(iter(service.world.ids), documents=False):
                raise KeyError(record.application_id)
        kept = [client.fetch_records(service.world.ids, documents=False)]
        next(kept[0])
        kept.append(kept)  # type: ignore[arg-type]
        lost = weakref.ref(kept[0])
        del kept

        def is_collected() -> bool:
            """Collect in another thread, again if a collection that ran meanwhile prevented it."""
            threads.submit(gc.collect).result()
            return lost() is None

        with ThreadPoolExecutor(1) as threads:
            until(is_collected)
        until(lambda: tasks_of(client) == 0)


def test_a_process_that_was_replaced_cannot_write_over_newer_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old process of a deployment has a batch in its block while the new one polls."""
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "own_database.py"))
    with emulated(3) as (service, client), closing(sqlite3.connect("incomes.db")) as database:
        monkeypatch.setattr(SyncIncomeClient, "from_env", lambda: nullcontext(client))
        database.executescript(example["SCHEMA"])
        store = SQLiteCheckpointStore("polls.db")
        batch = next(client.poll(store, start="2026-01-01", once=True).batches())

        def commit_late() -> None:
            with batch, database:
                service.advance(60)
                service.touch(batch.records[0].application_id)
                service.advance(60)
                example["main"]()
                newer.extend(database.execute("SELECT * FROM incomes, place"))
                example["write"](database, batch)

        newer: list[tuple[str, ...]] = []
        with pytest.raises(RuntimeError, match="later batch"):
            commit_late()
        assert len(newer) == 3
        assert database.execute("SELECT * FROM incomes, place").fetchall() == newer
        service.touch(newer[1][0])
        service.advance(60)
        example["main"]()
        rows = dict(database.execute("SELECT application_id, updated_at FROM incomes"))
        listed = {row.application_id: row for row in client.fetch_records(list(rows))}
        assert rows == {key: str(row.last_updated_at) for key, row in listed.items()}


class Query:
    """Items that one thread alone can read, as those of a QuerySet of Django's.

    Read asynchronously, the query is made in another thread, whose transaction has none of them.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = list(items)
        self._thread = threading.get_ident()

    def __iter__(self) -> Iterator[Any]:
        assert threading.get_ident() == self._thread
        return iter(self._items)

    async def __aiter__(self) -> AsyncIterator[Any]:
        no_items: list[Any] = []
        for item in no_items:
            yield item


def test_what_iterates_both_ways_is_read_in_the_thread_that_waits(tmp_path: Path) -> None:
    with emulated(6) as (_, client):
        ids = [row.application_id for row in client.list_applications()]
        entries = list(next(client.fetch_documents(ids)).all())
        records = list(client.fetch_records(Query(ids)))
        assert [record.application_id for record in records] == ids
        assert [one.application_id for one in client.fetch_documents(Query(ids))] == ids
        assert len(list(client.download_all(Query(entries), tmp_path))) == len(entries)
        report = client.audit(Query((one.application_id, one.last_updated_at) for one in records))
        assert (report.held, report.missing) == (6, ())
    assert to_arrow(Query(records)).applications.num_rows == 6


# Signals


class Signals:
    """Calls a handler where CPython does: as the n-th function of ours begins, or one in C ends.

    Garbage is not collected meanwhile: what a finalizer raises interrupts nothing.
    """

    def __init__(self, step: int, handler: Callable[[], object]) -> None:
        self._left = step
        self._handler = handler

    @property
    def has_come(self) -> bool:
        """Whether there were as many steps."""
        return self._left < 0

    def __enter__(self) -> Self:
        gc.disable()
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        ours = file in {portal.__file__, sync_client.__file__, asyncio.base_events.__file__}
        if not ours or event not in {"call", "c_call", "c_return"}:
            return
        self._left -= 1
        if self._left < 0:
            sys.setprofile(None)
            self._handler()


def interrupt() -> None:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def test_ctrl_c_just_before_a_wait_ends_it() -> None:
    """The system interrupts no wait that has not begun, nor that of another thread."""

    def interrupt_here(_: object) -> Any:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return SILENT

    with scripted(in_turn(interrupt_here, EMPTY_PAGE)) as (_, client):
        with pytest.raises(KeyboardInterrupt):
            client.check()
        client.check()


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
def test_ctrl_c_at_any_step_of_a_call_ends_it_and_leaves_nothing(is_first: bool) -> None:
    """Neither a wait that never ends, nor a loop, a thread or a coroutine that nobody ends."""
    ended: list[int] = []

    async def at_end() -> None:
        ended.append(1)

    async def work() -> int:
        await asyncio.sleep(0)
        return 5

    for step in count():
        used = portal.Portal(at_end)
        if not is_first:
            used.run(work)
        with Signals(step, interrupt) as signals, suppress(KeyboardInterrupt):
            assert used.run(work) == 5
        assert used.run(work) == 5
        loop = used._slot["thread"]
        assert loop is not None
        assert loop._calls == set()
        assert used.ask(lambda: len(asyncio.all_tasks())) == 1
        used.close()
        until(lambda: not our_threads())
        if not signals.has_come:
            break
    assert len(ended) == step + 1
    assert step > 20


def test_closing_again_while_it_ends_waits_for_that() -> None:
    """A program's end closes again after an interrupted ``close``."""
    begun, released = threading.Event(), threading.Event()
    ended: list[int] = []

    async def at_end() -> None:
        begun.set()
        await asyncio.to_thread(released.wait)
        ended.append(1)

    async def work() -> None:
        pass

    used = portal.Portal(at_end)
    used.run(work)
    loop = used._slot["thread"]
    assert loop is not None
    loop.stop()
    assert begun.wait(20)
    loop.stop()
    loop._submit(released.set)
    used.close()
    assert ended == [1]


def test_closing_again_after_ctrl_c_waits_for_the_end() -> None:
    """Ctrl-C leaves the loop to end by itself; the next ``close`` returns once it has."""
    begun, released = threading.Event(), threading.Event()
    ended: list[int] = []
    main = threading.get_ident()

    async def at_end() -> None:
        begun.set()
        await asyncio.to_thread(released.wait)
        ended.append(1)

    async def work() -> None:
        pass

    def interrupt_closing() -> None:
        begun.wait(20)
        signal.pthread_kill(main, signal.SIGINT)

    used = portal.Portal(at_end)
    used.run(work)
    threading.Thread(target=interrupt_closing).start()
    with pytest.raises(KeyboardInterrupt):
        used.close()
    second = threading.Thread(target=used.close)
    second.start()
    assert ended == []
    released.set()
    second.join(20)
    assert ended == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_closing_returns_where_the_end_of_the_loop_fails() -> None:
    """An error at the end is the thread's own; nobody waits for ever."""

    async def at_end() -> None:
        raise RuntimeError

    async def work() -> int:
        return 5

    used = portal.Portal(at_end)
    assert used.run(work) == 5
    thread = used._slot["thread"]
    assert thread is not None
    close = thread._loop.close

    def close_and_fail() -> None:
        close()
        raise OSError

    thread._loop.close = close_and_fail  # type: ignore[method-assign]
    used.close()
    assert used.is_closed
    until(lambda: not our_threads())


def test_a_handler_may_use_the_client_at_any_step_of_a_call() -> None:
    """Also of the first one, which starts the thread; both find the same loop."""

    async def at_end() -> None:
        pass

    async def work() -> int:
        return 5

    for step in count():
        used = portal.Portal(at_end)
        found: list[object] = []
        with Signals(step, lambda p=used, f=found: f.append((p.ask(int), p.run(work)))) as signals:  # type: ignore[misc]
            assert used.run(work) == 5
        assert found == [(0, 5)] * signals.has_come
        until(lambda: len(our_threads()) == 1)
        used.close()
        until(lambda: not our_threads())
        if not signals.has_come:
            break
    assert step > 20


@pytest.mark.parametrize("what", ["rows", "pages", "poll", "batches"])
def test_ctrl_c_at_any_step_of_an_iteration_loses_nothing(what: str) -> None:
    """A walk yields no row twice; an uncommitted batch is delivered again."""
    with emulated(40) as (service, client), poll_sizes(batch=3):
        walk = client.list_applications(limit=7)
        options: dict[str, Any] = {"start": "1970-01-01", "settle": 0, "once": True}
        poller = client.poll(MemoryCheckpointStore(), documents=False, **options)
        begun: dict[str, Callable[[], Iterator[Any]]] = {
            "rows": lambda: walk,
            "pages": walk.pages,
            "poll": lambda: poller,
            "batches": poller.batches,
        }
        found: list[Any] = []
        step, is_over = 0, False
        while not is_over:
            step += 1
            with Signals(step, interrupt), suppress(KeyboardInterrupt):
                for one in begun[what]():
                    with one if what == "batches" else nullcontext():
                        found.append(one)
                is_over = True
    if what == "pages":
        found = [row for page in found for row in page.applications]
    elif what == "batches":
        found = [record for batch in found for record in batch]
    assert set(ids_of(found)) == set(service.world.ids)
    if what in {"rows", "pages"}:
        assert len(found) == len(service.world.ids)
    assert step > 20


def test_ctrl_c_before_the_block_of_a_batch_delivers_it_again() -> None:
    """To whoever goes on with the same loop, although the block is known to be entered."""
    with emulated(4) as (service, client):
        for step in count(1):
            options: dict[str, Any] = {"start": "1970-01-01", "settle": 0, "once": True}
            poller = client.poll(MemoryCheckpointStore(), documents=False, **options)
            batches = poller.batches()
            found: list[ApplicationRecord] = []
            batch = next(batches)
            with Signals(step, interrupt) as signals, suppress(KeyboardInterrupt), batch:
                sys.setprofile(None)
                found += batch
            for batch in batches:
                with batch:
                    found += batch
            assert sorted(ids_of(found)) == sorted(service.world.ids)
            if not signals.has_come:
                break
        assert step > 10


# Beginning and end


def test_closing_ends_calls_of_other_threads_and_a_dropped_client_ends_by_itself() -> None:
    """The calls raise the error of a closed client.

    Values that need no loop can still be read.
    """
    with scripted(in_turn(EMPTY_PAGE, SILENT)) as (server, client):
        walk = client.list_applications()
        poller = client.poll(MemoryCheckpointStore())
        with ThreadPoolExecutor(2) as threads:
            client.check()
            waiting: list[Future[Any]] = [
                threads.submit(client.check),
                threads.submit(next, poller),
            ]
            until(lambda: len(server.calls) == 3)
            client.close()
            client.close()
            for one in waiting:
                assert isinstance(one.exception(), ClientClosedError)
        for late in (client.check, lambda: next(walk), lambda: next(poller)):
            with pytest.raises(ClientClosedError, match="closed"):
                late()
        assert walk.checkpoint
        assert walk.progress.requests == 0
        poller.stop()
        poller.close()
        assert not poller.wake()
        dropped = SyncIncomeClient(server.url, auth=OAUTH, clock=JumpingClock())
        rows = dropped.list_applications()
        assert our_threads() == []
        del dropped
        server.answer = token_rules()
        assert list(rows) == []
        (left,) = our_threads()
        del rows
        gc.collect()
        left.join(20)
        assert not left.is_alive()


async def test_a_thread_with_a_loop_of_its_own_may_call() -> None:
    """A notebook's thread has a loop and may call; hooks of the client may not."""
    refused: list[Exception] = []

    def call(_: object) -> None:
        try:
            client.check()
        except ConfigurationError as error:
            refused.append(error)

    with emulated(on_event=call) as (service, client):
        assert ids_of(client.list_applications())
        assert asyncio.get_running_loop().is_running()
    assert refused
    assert all("cannot wait for itself" in str(one) for one in refused)
    assert service.requests


# Errors


def test_errors_show_nothing_of_what_was_passed_through_threads() -> None:
    """Neither in a frame nor as a cause; the context is what the caller handles."""
    own = KeyError("of the caller")
    handled = ValueError("handled by the caller")

    def failing() -> Iterator[str]:
        yield "a"
        raise own

    with scripted(in_turn(reply(404, b"c4n4ry-body"))) as (server, client):
        calls: tuple[Callable[[], object], ...] = (
            lambda: client.get_application("a"),
            client.check,
            lambda: next(client.list_applications()),
            lambda: next(client.list_applications().pages()),
            lambda: next(client.fetch_records(["a"])),
            lambda: list(client.fetch_records(failing(), on_error="yield")),
            lambda: client.get_json("/private/../x"),
        )
        for call in calls:
            try:
                raise handled
            except ValueError:
                with pytest.raises(Exception) as caught:  # noqa: PT011 - of any class
                    call()
            error = caught.value
            assert private_in(held_by(error)) is None
            assert error.__cause__ is None
            assert error.__context__ in {None, handled}
        assert server.requests


async def test_stores_and_sessions_on_connections_of_the_callers_are_refused() -> None:
    """The connections belong to another event loop, in PostgreSQL and NATS alike."""
    kv: Any = None
    pool = asyncpg.create_pool("postgresql:///lending")
    make: Any = partial(SyncIncomeClient, "https://service.example", auth=OAUTH)
    stores = (PostgresCheckpointStore(pool), NatsCheckpointStore(kv))
    tokens = (PostgresTokenStore(pool), NatsTokenStore(kv))
    with make() as client:
        for argument, said, refuse in (
            *(("store", " uses conn", partial(client.poll, store)) for store in stores),
            *(("token_store", " uses conn", partial(make, token_store=store)) for store in tokens),
            ("session", "opens its own", partial(make, session=None)),
        ):
            with pytest.raises(ConfigurationError, match=said) as caught:
                refuse()
            assert caught.value.argument == argument


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_green_threads_are_refused_at_the_first_call(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a loop runs in the callers' own thread, where it would break all that follows."""

    def start_green(*_: object) -> int:
        raise AssertionError("a green thread was started")

    with beside(Emulator(1)) as service:
        client = SyncIncomeClient(service.url, auth=service.basic)
        with monkeypatch.context() as patched:
            start_green.__module__ = f"{library}.thread"
            patched.setattr("_thread.start_new_thread", start_green)
            for _ in range(2):
                with pytest.raises(ConfigurationError, match=f"{library} has replaced the threads"):
                    client.get_application_page()
        assert len(client.get_application_page().applications) == 1
        client.close()
