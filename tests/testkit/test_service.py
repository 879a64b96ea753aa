"""The service in its own thread, and the fixtures that play it: what a test does to it and sees."""

import asyncio
import gc
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from attrs import evolve

import income_client
from income_client import (
    BasicAuth,
    ClientClosedError,
    ConfigurationError,
    DownloadError,
    DownloadPolicy,
    IncomeClient,
    MemoryCheckpointStore,
    NotFoundError,
    RetryPolicy,
    ServerError,
    SyncIncomeClient,
    UnsafeLinkError,
)
from income_client.emulator import CallbackTarget, Order
from income_client.receivers import Callback, CallbackBasicAuth, CallbackReceiver
from income_client.receivers.aiohttp import routes
from income_client.testing import (
    IncomeService,
    JumpingClock,
    LoopRunner,
    make_application,
    make_document,
    make_record,
)
from income_client.testing.clocks import LoopBoundClock
from income_client.testing.loops import LoopThread

UNREADABLE = make_application(application_date="soon")  # type: ignore[arg-type]
LATER = datetime(2030, 1, 1, tzinfo=UTC)
EMPTY = pytest.mark.income_service(applications=0)


def test_it_runs_without_pytest() -> None:
    """A with statement is enough, and afterwards it says that it is over."""
    with IncomeService(applications=3, records=[make_record()]) as service:
        assert len(service.ids) == 4

        async def read() -> int:
            async with IncomeClient(service.url, auth=service.basic) as client:
                return len([each async for each in client.list_applications()])

        assert asyncio.run(read()) == 4
    with pytest.raises(ConfigurationError, match="does not run; enter it first"):
        service.advance(1)
    with service:
        service.advance(1)


def test_a_service_that_is_never_entered_leaves_nothing_open() -> None:
    """A loop that nobody closed would be a warning, which is an error here."""
    IncomeService(applications=1)
    with pytest.raises(ConfigurationError):
        IncomeService(applications=1, faults="nonsense")
    gc.collect()


async def test_a_thread_does_not_wait_for_itself() -> None:
    """A call from within is refused; a coroutine there can be awaited."""
    with LoopThread() as thread:

        async def within() -> int:
            with pytest.raises(ConfigurationError, match="call it from another one"):
                thread.call(lambda: None)
            return await thread.wait_for(asyncio.sleep(0, 7))

        assert await thread.wait_for(within()) == 7


def test_threads_may_do_everything_at_once(income_service: IncomeService) -> None:
    records = [make_record() for _ in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(income_service.add, records))
        list(pool.map(income_service.touch, income_service.ids[:20]))
        list(pool.map(lambda _: income_service.faults.add("token: 500"), range(40)))
    assert len(income_service.ids) == 140
    assert len(income_service.faults) == 40


@EMPTY
async def test_given_applications_obey_the_rules(
    income_service: IncomeService, income_client: IncomeClient
) -> None:
    """Added applications are found by reference and in pages, whatever their ids contain."""
    records = [income_service.add(make_record()) for _ in range(29)]
    named = {"application_id": 'a "b"/ü%', "application_reference_id": 'R "1"\\'}
    one = make_application(**named)  # type: ignore[arg-type]
    records.append(income_service.add(one))
    assert await income_client.get_application(one.application_id) == one
    found = await income_client.find_application(one.application_reference_id)
    assert found is not None
    assert found.application_id == one.application_id
    assert found.application_date == one.application_date

    walk = [row.application_id async for row in income_client.list_applications(limit=7)]
    assert sorted(walk) == sorted(record.application_id for record in records)


@EMPTY
async def test_files_of_given_documents_are_there(
    income_service: IncomeService, income_client: IncomeClient, tmp_path: Path
) -> None:
    """Addresses of a factory's documents lead to the service; others are served as given."""
    application = make_application()
    elsewhere = make_document("unknown_form", url="https://files.example.com/1")
    given = make_document()
    income_service.add(application, [given, elsewhere])
    documents = await income_client.get_documents(application.application_id, pages=True)
    (slip,) = documents.documents["paystub"]
    assert slip.extracted_data == given.extracted_data
    assert slip.pages == {"count": 1, "items": [{"page_number": 1, "file_id": slip.file_ids[0]}]}
    await income_client.download(slip, tmp_path / "slip.pdf")
    assert (tmp_path / "slip.pdf").read_bytes() == income_service.content_of(slip.document_id)
    (other,) = documents.documents["unknown_form"]
    assert other.url == elsewhere.url


@EMPTY
async def test_every_update_is_delivered(
    income_service: IncomeService, income_client: IncomeClient
) -> None:
    """Each touch and each new version is later than the one before, in whatever haste."""
    store = MemoryCheckpointStore()

    async def polled() -> list[str]:
        poller = income_client.poll(store)
        poller.stop(after_poll=True)
        return [f"{record.last_updated_at:%H:%M:%S}" async for record in poller]

    assert await polled() == []
    record = income_service.add(make_record(), now=True)
    assert await polled() == ["12:00:00"]
    income_service.touch(record.application_id)
    assert await polled() == ["12:00:01"]
    updated = income_service.update(record.application)
    assert updated.documents == record.documents
    assert await polled() == ["12:00:02"]
    assert await polled() == []


OWN: Final[Any] = make_record()


async def test_what_is_removed_is_not_found(
    income_service: IncomeService, income_api: IncomeClient
) -> None:
    """Neither an invented application nor one that was added, which can come again."""
    added = income_service.add(make_record())
    for name in (income_service.ids[0], added.application_id):
        income_service.remove(name)
        with pytest.raises(NotFoundError):
            await income_api.get_application(name)
    assert len([row async for row in income_api.list_applications()]) == 99
    income_service.add(added)
    assert (await income_api.get_application(added.application_id)) == added.application


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda service: service.add(OWN), "of this id already"),
        (lambda service: service.add(OWN, []), "documents are given twice"),
        (lambda service: service.add(make_application(), OWN.documents), "those of another"),
        (lambda service: service.add("app-1"), "an Application or an ApplicationRecord"),
        (lambda service: service.add(UNREADABLE), "holds what JSON cannot carry"),
        (lambda service: service.add(make_application(last_updated_at=LATER)), "give now=True"),
        (
            lambda service: service.update(evolve(OWN.application, application_date="soon")),
            "holds what JSON cannot carry",
        ),
        (lambda service: service.update(make_application()), "no application of this id"),
        (lambda service: service.touch("nobody"), "no application of this id"),
    ],
)
def test_what_cannot_be_served_is_refused(
    income_service: IncomeService, attempt: Callable[[IncomeService], Any], message: str
) -> None:
    # Updated in this very second, so that service time would move on for an update.
    income_service.add(OWN, now=True)
    before = income_service.ids, income_service.now
    with pytest.raises(ConfigurationError, match=message):
        attempt(income_service)
    assert (income_service.ids, income_service.now) == before


async def test_a_callback_comes_to_the_test_s_own_loop(
    income_service: IncomeService, income_clock: JumpingClock
) -> None:
    """The service waits for the receiver, and the test for the service; pauses pass at once."""
    stored: list[str | None] = []
    failures = [OSError("the database is away"), None]

    async def store(callback: Callback) -> None:
        if (failure := failures.pop(0)) is not None:
            raise failure
        stored.append(callback.application_id)

    login = BasicAuth("service", "invented-password")
    receiver = CallbackReceiver(store, auth=CallbackBasicAuth(login.username, login.password))
    app = web.Application()
    app.add_routes(routes(receiver, "/callbacks"))
    record = income_service.add(make_record())
    async with TestServer(app) as server:
        income_service.callbacks = CallbackTarget(str(server.make_url("/callbacks")), auth=login)
        delivery = await income_service.fire_callback(record.application_id)
    assert delivery.attempts == (503, 200)
    assert stored == [record.application_id]
    assert income_clock.slept == []


def test_a_runner_takes_what_can_be_run(
    income_service: IncomeService, income_client: IncomeClient, income_run: LoopRunner
) -> None:
    """Awaitables give their result, asynchronous iterables a list."""
    ids = income_service.ids
    assert income_run(income_client.get_application(ids[0])).application_id == ids[0]
    assert len(income_run(income_client.fetch_records(ids[:5], documents=False))) == 5
    with pytest.raises(ConfigurationError, match="can be awaited"):
        income_run(7)  # type: ignore[call-overload]

    async def within() -> None:
        with pytest.raises(ConfigurationError, match="await this instead"):
            income_run(income_client.get_application("app-1"))

    asyncio.run(within())


@EMPTY
@pytest.mark.income_service(faults="get_application: 500")
async def test_requests_are_told_apart(
    income_service: IncomeService, income_client: IncomeClient, tmp_path: Path
) -> None:
    """By call, by application and by what came of them; no signed address is shown."""
    one, other = (income_service.add(make_record()) for _ in range(2))
    await income_client.get_application(one.application_id)
    documents = await income_client.get_documents(other.application_id)
    requests = income_service.requests
    assert repr(requests[:2]) == "<2 requests: token 200, get_application 500>"
    assert requests.count("get_application", one.application_id) == 2
    assert requests.count("get_application", other.application_id) == 0
    assert len(requests.of("get_documents", other.application_id)) == 1
    assert [each.status for each in requests.failed] == [500]
    assert requests[-1].authorized
    (entry,) = documents.all()
    await income_client.download(entry.document, tmp_path / "slip")
    [row async for row in income_client.list_applications(updated_after="2026-06-30")]
    shown = repr(income_service.requests) + income_service.requests.table()
    assert income_service.requests.count("file") == 1
    assert "updated_after=2026-06-30" in shown
    assert "Signature" not in shown
    with pytest.raises(ConfigurationError, match="did you mean get_application"):
        requests.count("get_aplication")


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=1))
async def test_an_outage_lasts_as_long_as_it_says(
    income_service: IncomeService, income_client: IncomeClient, income_clock: JumpingClock
) -> None:
    """To the fraction of a second, though the service's own present is a whole one."""
    (first, *_) = income_service.ids
    income_clock.advance(0.9)
    income_service.faults.add("any: 503 seconds=0.5")
    income_clock.advance(0.2)
    income_service.advance(0.2)
    with pytest.raises(ServerError):
        await income_client.get_application(first)
    income_clock.advance(0.1)
    await income_client.get_application(first)


# Fixtures and their options


class TestOptions:
    """The fixture's options come first, then those of markers, the closest last."""

    pytestmark = pytest.mark.income_service(applications=5, order="shuffled")

    @pytest.fixture
    def income_service_options(self) -> Mapping[str, Any]:
        """Options of the service for all tests of the class."""
        return {"applications": 9, "seed": 3}

    @pytest.mark.income_service(applications=2)
    def test_the_closest_marker_counts(self, income_service: IncomeService) -> None:
        """The order is the class's, the seed the fixture's."""
        assert len(income_service.ids) == 2
        assert income_service.rules.order is Order.SHUFFLED
        assert "secret-3" in income_service.oauth2.client_secret.reveal()


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=1))
@pytest.mark.income_service(faults="get_application: 503")
async def test_the_client_has_options_too(
    income_service: IncomeService,
    income_api: income_client.IncomeClient,
    income_clock: JumpingClock,
    request: pytest.FixtureRequest,
) -> None:
    """And two names, of which one leaves the package's own name alone in a module."""
    assert request.getfixturevalue("income_client") is income_api
    with pytest.raises(ServerError, match="503"):
        await income_api.get_application(income_service.ids[0])
    assert income_service.requests.count("get_application") == 1
    assert income_clock.slept == []


def test_a_synchronous_client_jumps_over_its_pauses(
    income_service: IncomeService, income_sync: SyncIncomeClient, income_clock: JumpingClock
) -> None:
    income_service.faults.add("get_application: 503 retry-after=3")
    (first, *_) = income_service.ids
    assert income_sync.get_application(first).application_id == first
    assert sum(income_clock.slept) >= 3


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=1))
@pytest.mark.income_service(faults="get_application: 503")
def test_a_synchronous_client_has_the_options_of_the_other(
    income_service: IncomeService, income_sync: SyncIncomeClient
) -> None:
    with pytest.raises(ServerError):
        income_sync.get_application(income_service.ids[0])


# Clients that the code under test makes


@EMPTY
@pytest.mark.usefixtures("income_environment")
async def test_a_client_from_the_environment_jumps_and_reads_files(
    income_service: IncomeService, income_clock: JumpingClock, tmp_path: Path
) -> None:
    record = income_service.add(make_record())
    income_service.faults.add("get_documents: 503 retry-after=3")
    async with IncomeClient.from_env() as client:
        documents = await client.get_documents(record.application_id)
        saved = [file async for file in client.download_all(documents, tmp_path)]
    assert sum(income_clock.slept) >= 3
    assert len(saved) == len(list(documents.all()))


@EMPTY
@pytest.mark.usefixtures("income_environment")
def test_a_synchronous_client_from_the_configuration_jumps_and_reads_files(
    income_service: IncomeService, income_clock: JumpingClock, tmp_path: Path
) -> None:
    record = income_service.add(make_record())
    income_service.faults.add("get_documents: 503 retry-after=3")
    with SyncIncomeClient.from_config() as client:
        documents = client.get_documents(record.application_id)
        saved = list(client.download_all(documents, tmp_path))
    assert sum(income_clock.slept) >= 3
    assert len(saved) == len(list(documents.all()))


@pytest.mark.usefixtures("income_environment")
def test_clients_in_threads_and_in_loops_of_their_own_jump(
    income_service: IncomeService, income_clock: JumpingClock
) -> None:
    async def read(application_id: str) -> str:
        async with IncomeClient.from_env() as client:
            return (await client.get_application(application_id)).application_id

    ids = income_service.ids[:8]
    income_service.faults.add("get_application: 503 retry-after=20 x2")
    with ThreadPoolExecutor(4) as pool, SyncIncomeClient.from_env() as client:
        found = list(pool.map(lambda each: asyncio.run(read(each)), ids))
        shared = list(pool.map(client.get_application, ids))
    assert found == [each.application_id for each in shared] == list(ids)
    assert sum(income_clock.slept) >= 20


@EMPTY
@pytest.mark.usefixtures("income_environment")
async def test_options_of_the_code_under_test_stay(
    income_service: IncomeService, income_clock: JumpingClock, tmp_path: Path
) -> None:
    """The program's own clock is used, and its own limit for the size of a file."""
    own_clock = JumpingClock()
    record = income_service.add(make_record())
    income_service.faults.add("get_documents: 503 retry-after=3")
    async with IncomeClient.from_env(
        clock=own_clock, downloads=DownloadPolicy(max_bytes=1)
    ) as client:
        documents = await client.get_documents(record.application_id)
        with pytest.raises(DownloadError, match="1 byte"):
            await client.download(next(iter(documents.all())).document, tmp_path / "file")
    assert sum(own_clock.slept) >= 3
    assert income_clock.slept == []


@pytest.mark.usefixtures("income_environment")
async def test_clients_of_other_urls_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The files of another local service are refused, as they are outside of tests."""
    with IncomeService(applications=1) as other:
        for name, text in other.environment.items():
            monkeypatch.setenv(name, text)
        async with IncomeClient.from_env() as client:
            documents = await client.get_documents(other.ids[0])
            with pytest.raises(UnsafeLinkError):
                await client.download(next(iter(documents.all())).document, tmp_path / "file")


# Clocks


class User:
    """Something that belongs to an event loop."""

    def __init__(self) -> None:
        self.closed_in: list[asyncio.AbstractEventLoop] = []

    async def aclose(self) -> None:
        """Remember where."""
        await asyncio.sleep(0)
        self.closed_in.append(asyncio.get_running_loop())


async def test_a_clock_can_have_its_most_pauses() -> None:
    clock = JumpingClock()
    clock.most_sleeps = 3
    for _ in range(3):
        await clock.sleep(1)
    with pytest.raises(AssertionError, match="3 pauses"):
        await clock.sleep(1)
    clock.most_sleeps = None
    await clock.sleep(1)
    assert clock.slept == [1] * 4


def test_a_loop_that_lasts_can_be_ended_by_hand() -> None:
    user = User()
    clock = LoopBoundClock(JumpingClock(), user.aclose)
    clock.monotonic()  # binds nobody, as no loop runs
    clock.close()

    async def read() -> None:
        clock.monotonic()

    with asyncio.Runner() as runner:
        runner.run(read())
        clock.close()
        assert user.closed_in == [runner.get_loop()]
    clock.close()
    assert len(user.closed_in) == 1


def test_a_loop_in_another_thread_is_waited_for() -> None:
    """The user is closed when `close` has returned, or what went wrong is raised."""
    user = User()

    async def fail() -> None:
        await user.aclose()
        raise OSError("the connection is away")

    with LoopThread() as thread:
        clock, failing = (LoopBoundClock(JumpingClock(), end) for end in (user.aclose, fail))
        thread.call(clock.monotonic)
        clock.close()
        assert len(user.closed_in) == 1
        thread.call(failing.monotonic)
        with pytest.raises(OSError, match="is away"):
            failing.close()
    assert len(user.closed_in) == 2


async def test_within_its_own_loop_the_user_is_closed_soon() -> None:
    """Waiting there would never end."""
    ended = asyncio.Event()

    async def aclose() -> None:
        ended.set()

    clock = LoopBoundClock(JumpingClock(), aclose)
    clock.monotonic()
    clock.close()
    assert not ended.is_set()
    await ended.wait()


def test_a_client_is_closed_with_its_loop(
    income_service: IncomeService, income_client: IncomeClient
) -> None:

    async def read() -> None:
        await income_client.get_application(income_service.ids[0])

    asyncio.run(read())
    with pytest.raises(ClientClosedError):
        asyncio.run(read())
