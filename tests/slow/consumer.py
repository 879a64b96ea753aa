# pyright: strict
"""A lender's code, with the types that it meets; type checkers read it, nobody runs it.

What the other tests cannot hold is here: which overload is meant, how an outcome is narrowed, and
classes and functions of the lender's own that stand for one of the package's. That nothing is left
untyped is seen elsewhere, and a field's type is its declaration.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, assert_type

import pyarrow as pa
from aiohttp import web
from attrs import frozen
from faststream.nats import NatsBroker

import income_client as ic
from income_client import emulator, receivers, testing
from income_client.downloads import Downloads
from income_client.engines.faststream import update_subscriber
from income_client.engines.relay import Payload, UpdateEvent, relay
from income_client.events import (
    CheckpointCommitted,
    CheckpointCreated,
    DeadLettered,
    Event,
    OnEvent,
    PageCovered,
    PollFailed,
    PollFinished,
    WindowSplit,
)
from income_client.exporting import ParquetTables, RecordTables, to_arrow
from income_client.receivers.aiohttp import routes
from income_client.receivers.aiohttp_server import serving
from income_client.receivers.asgi import Receiver
from income_client.records import DownloadProgress, Window
from income_client.walk import Fetcher, OnError, OnSaturated


class Tokens:
    """A token store."""

    def __init__(self) -> None:
        self._token: ic.StoredToken | None = None

    async def load(self) -> ic.StoredToken | None:
        return self._token

    async def save(self, token: ic.StoredToken) -> None:
        self._token = token


class Checkpoints(ic.CheckpointStore):
    """A checkpoint store."""

    async def load(self, name: str) -> ic.StoredCheckpoint:
        return ic.StoredCheckpoint(checkpoint=None, version=0)

    async def save(
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[ic.DeadLetter] = (),
        resolved: Sequence[str] = (),
        replaces: str | None = None,
    ) -> int:
        return version + 1

    async def dead_letters(self, name: str) -> tuple[ic.DeadLetter, ...]:
        return ()


@frozen
class InventedForm:
    """A type of document."""

    wages: Decimal


async def read_credentials() -> ic.OAuth2ClientCredentials:
    return ic.OAuth2ClientCredentials("id", "word")


def makes_clients() -> list[ic.IncomeClient]:
    """Credentials and hooks may be functions, and methods of something else."""
    heard: list[Event] = []
    hook: OnEvent = heard.append
    store: ic.TokenStore = Tokens()
    basic = ic.IncomeClient("https://a.example", auth=ic.BasicAuth("user", "word"), max_rate=200)
    return [
        basic.with_options(deadline=5),
        ic.IncomeClient("https://a.example", auth=read_credentials, on_event=hears),
        ic.IncomeClient("https://a.example", auth=lambda: ic.BasicAuth("user", "word")),
        ic.IncomeClient.from_env(token_store=store, max_rate=None, on_event=hook),
    ]


async def reads(client: ic.IncomeClient) -> None:
    async with client as opened:
        assert_type(opened, ic.IncomeClient)
    page = await client.get_application_page("2026-01-01", date(2026, 6, 30), limit=25)
    assert_type(page.applications, tuple[ic.ApplicationSummary, ...])
    assert_type(await client.find_application("loan-17"), ic.ApplicationSummary | None)
    assert_type(await client.get_application("app-1"), ic.Application)
    assert_type(await client.get_record("app-1", documents=False), ic.ApplicationRecord)
    assert_type(await client.get_documents("app-1", pages=True), ic.ApplicationDocuments)
    assert_type(await client.get_json("/v1/reports", {"limit": 1, "kind": ["w2", "1099"]}), Any)
    walk = client.list_applications(on_saturated="report")
    async for summary in walk:
        assert_type(summary, ic.ApplicationSummary)
    async for each in walk.pages():
        assert_type(each, ic.ApplicationPage)
    assert_type(walk.saturated, tuple[Window, ...])
    assert_type(walk.checkpoint, str)


async def fetches(client: ic.IncomeClient, on_saturated: OnSaturated, on_error: OnError) -> None:
    """The type of what comes depends on what is done about errors."""
    records = client.fetch_records(client.list_applications(on_saturated=on_saturated))
    async for record in assert_type(records, Fetcher[ic.ApplicationRecord]):
        assert_type(record.documents, ic.ApplicationDocuments | None)
    async for outcome in client.fetch_records(["app-1"], on_error="yield"):
        match outcome:
            case ic.FetchFailure(application_id, error):
                assert_type((application_id, error), tuple[str, ic.IncomeClientError])
            case _:
                assert_type(outcome, ic.ApplicationRecord)
    async for either in client.fetch_records(["app-1"], on_error=on_error):
        assert_type(either, ic.ApplicationRecord | ic.FetchFailure)
    async for documents in client.fetch_documents(["app-1", "app-2"]):
        assert_type(documents, ic.ApplicationDocuments)
    async for reply in client.fetch_documents(["app-1"], on_error="yield"):
        assert_type(reply, ic.ApplicationDocuments | ic.FetchFailure)


def waits(client: ic.SyncIncomeClient, document: ic.Document) -> None:
    """Without await, the types are the same."""
    with client as opened:
        assert_type(opened.with_options(deadline=5), ic.SyncIncomeClient)
    assert_type(client.get_documents("a", pages=True), ic.ApplicationDocuments)
    assert_type(client.download(document, "slips/", overwrite=True), ic.DownloadedFile)
    assert_type(client.list_applications("2026-01-01").checkpoint, str)
    assert_type(next(client.list_applications().pages()), ic.ApplicationPage)
    assert_type(next(client.fetch_records(client.list_applications())), ic.ApplicationRecord)
    failing = client.fetch_documents(["a"], on_error="yield")
    assert_type(next(failing), ic.ApplicationDocuments | ic.FetchFailure)
    assert_type(next(client.download_all([document], "slips")), ic.DownloadedFile)
    poller = client.poll(ic.MemoryCheckpointStore(), once=True)
    assert_type(next(poller), ic.ApplicationRecord)
    for batch in poller.batches():
        with batch as entered:
            assert_type(entered.records, tuple[ic.ApplicationRecord, ...])


def reads_documents(documents: ic.ApplicationDocuments) -> None:
    """A class that was registered is one more case."""
    ic.register_document_type("invented_form", InventedForm)
    for _, document in documents.all():
        match document.extracted_data:
            case ic.Paystub() as slip:
                assert_type(slip.net_pay.current, Decimal | None)
            case InventedForm() as form:
                assert_type(form.wages, Decimal)
            case _:
                continue


async def polls(client: ic.IncomeClient) -> None:
    stores: list[ic.CheckpointStore] = [
        Checkpoints(), ic.MemoryCheckpointStore(), ic.SQLiteCheckpointStore("polls.db"),
    ]  # fmt: skip
    poller = client.poll(stores[0], start="2026-01-01")
    async for record in poller:
        assert_type(record, ic.ApplicationRecord)
    async for batch in poller.batches():
        async with batch:
            assert_type([one.application_id for one in batch], list[str])
    for letter in await stores[2].dead_letters("nightly"):
        store = ic.MemoryCheckpointStore()
        assert_type(await store.forget("nightly", [letter.key]), tuple[str, ...])


async def downloads(client: ic.IncomeClient, document: ic.Document) -> None:
    def show(progress: DownloadProgress) -> None:
        assert_type(progress.total, int | None)

    for target in (Path("files"), "files"):
        one = await client.download(document, target, on_progress=show)
        assert_type(one.path.name, str | Any)
    await client.download(document, BytesIO())
    many = client.download_all([document], "files")
    assert_type(many, Downloads[ic.DownloadedFile])
    async for outcome in client.download_all([document], "files", on_error="yield"):
        match outcome:
            case ic.DownloadFailure(document_id, application_id, document_type, error):
                assert_type((document_id, application_id), tuple[str, str | None])
                assert_type((document_type, error), tuple[str | None, ic.IncomeClientError])
            case _:
                assert_type(outcome, ic.DownloadedFile)


def hears(event: Event) -> None:
    match event:
        case WindowSplit(window=window) | PageCovered(window=window):
            assert_type(window, Window)
        case PollFinished(lag=lag) | PollFailed(lag=lag):
            assert_type(lag, float | None)
        case CheckpointCreated(reached=reached) | CheckpointCommitted(reached=reached):
            assert_type(reached, int)
        case DeadLettered(letter=letter):
            assert_type(letter, ic.DeadLetter)
        case _:
            pass


async def takes_callbacks(poller: ic.Poller, headers: Mapping[str, str], body: bytes) -> None:
    """A handler and a judge of tokens may wait, or not."""

    async def heard(callback: receivers.Callback) -> None:
        assert_type(callback.application_id, str | None)

    async def believed(token: str) -> bool:
        return token != ""

    issuer = receivers.CallbackTokenIssuer("client", ic.Secret("s" * 32))
    basic = receivers.CallbackBasicAuth(
        "service", "password", also=[ic.BasicAuth("service", "old")]
    )
    networks = receivers.CallbackSourceNetworks(["198.51.100.0/24"], is_enough=False)
    receivers.CallbackReceiver(heard, auth=[basic, networks])
    receivers.CallbackReceiver(print, auth=receivers.CallbackBearerAuth(verify=believed))
    receiver = receivers.CallbackReceiver(poller.wake, auth=issuer.auth)
    head = receivers.RequestHead(method="POST", headers=headers, peer=receivers.UNIX_PEER)
    assert_type(await receiver.answer(head, body), receivers.Answer)
    app = web.Application()
    app.add_routes(routes(receiver, "/callbacks"))
    Receiver(receiver, is_peer_true=True)
    context = receivers.callback_ssl_context("server.pem", "server.key", None)
    served = [*routes(receiver, "/callbacks"), *routes(issuer, "/token")]
    async with serving(served, host="127.0.0.1", port=0, ssl=context) as url:
        assert_type(url, str)


async def works(poller: ic.Poller, payload: Payload) -> None:
    async def handle(event: UpdateEvent) -> str:
        return event.application_id

    subscriber = update_subscriber(NatsBroker(), durable="incomes", timeout=30)
    assert_type(subscriber(handle), Callable[..., Awaitable[object]])
    await relay(poller, handle, payload=payload)


def makes_tables(records: list[ic.ApplicationRecord], folder: Path) -> None:
    assert_type(ic.from_json(ic.ApplicationRecord, ic.to_json(records[0])), ic.ApplicationRecord)
    assert_type(to_arrow(records), RecordTables[pa.Table])
    with ParquetTables(folder) as parquet:
        assert_type(parquet.rows, dict[str, int])


async def plays() -> None:
    async with emulator.Emulator(200, callbacks=emulator.CallbackTarget("http://a")) as service:
        assert_type(service.touch(service.world.ids[0]), int)
        await service.fire_callback(update=True)
    async with emulator.RemoteEmulator("http://a", "control-token") as remote:
        assert_type(await remote.touch("app-1"), emulator.EmulatedApplication)
        assert_type((await remote.state()).rules, emulator.ServiceRules)
        assert_type(await remote.requests(after=1), list[emulator.JournalEntry])
        assert_type(await remote.fire_callback(update=True), emulator.CallbackDelivery)
    request = emulator.HttpRequest(method="GET", path="/v1/income/applications")
    assert_type(emulator.respond(emulator.Service(service.world), request), emulator.HttpReply)
    rules = emulator.ServiceRules(order=emulator.Order.SHUFFLED, future="refuse")
    listed = emulator.list_reply(service.world, rules, after=0, before=None, limit=1000)
    assert_type(listed, emulator.ListReply | emulator.Refused)


async def tests(
    income_service: testing.IncomeService,
    income_client: ic.IncomeClient,
    income_run: testing.LoopRunner,
) -> None:
    """Without ``async``, a test gets results and lists from ``income_run``."""
    assert_type(income_run(income_client.get_application("app-1")), ic.Application)
    assert_type(income_run(income_client.list_applications()), list[ic.ApplicationSummary])
    income_service.faults.add("get_application: 500, ok", testing.script("any: cut"))
    assert_type(income_service.content_of("doc-1"), bytes)
    assert_type(income_service.add(testing.make_record(paystubs=3), now=True), ic.ApplicationRecord)
    assert_type(
        testing.make_document("paystub", extracted_data=testing.make_paystub()), ic.Document
    )
    assert_type(testing.make_application(applicants=[testing.make_applicant()]), ic.Application)
    await testing.check_checkpoint_store(Checkpoints)
