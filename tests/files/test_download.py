"""Files of documents, one or many: each comes whole, at its place, or not at all."""

import asyncio
import hashlib
import os
import re
import tracemalloc
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from income_client import (
    ApplicationDocuments,
    ApplicationRecord,
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    Document,
    DownloadedFile,
    DownloadError,
    DownloadFailure,
    DownloadPolicy,
    IncomeClient,
    RetryPolicy,
    Timeouts,
    from_json,
    to_json,
)
from income_client.downloads.downloader import FreshAddresses
from income_client.downloads.http import FilePool
from income_client.emulator import Fault
from income_client.errors import IncomeClientError, ServerError, UnsafeLinkError
from income_client.http.endpoints import proxy_address
from income_client.records import DocumentEntry, DownloadProgress
from income_client.testing import JumpingClock
from tests.support.clients import (
    HERE,
    body_of,
    fetched,
    hosting,
    link_to,
    open_connections,
    pooled,
)
from tests.support.clocks import pass_time, silence
from tests.support.downloads import Scene, Storage, document_at, files_below, scene, storing
from tests.support.pages import GUIDE
from tests.support.server import Reply, ScriptedServer, in_turn, reply
from tests.support.service import client_tasks, until

ONCE = RetryPolicy(max_attempts=1)
HASTY = Timeouts(connect=10, read=20)


@pytest.fixture
async def play() -> AsyncIterator[Scene]:
    """A service, a client on it, and a clock that jumps."""
    async with scene() as played:
        yield played


async def test_in_a_folder_names_come_from_a_template(tmp_path: Path, play: Scene) -> None:
    """An entry of `all()` is as good as its document, also without a source."""
    document = await play.document()
    assert document.source is not None
    folder = tmp_path / document.source.application_id / document.source.document_type
    first = await play.client.download(document, tmp_path)
    content = play.content(document)
    assert first == DownloadedFile(
        document_id=document.document_id,
        application_id=document.source.application_id,
        document_type=document.source.document_type,
        file=0,
        path=folder / f"{document.document_id}-0.pdf",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        content_type="application/pdf",
        was_there=False,
    )
    assert document.url.partition("?")[2] not in repr(first)
    named = await play.client.download(
        document, f"{tmp_path}/new/", names="{file_reference_id}.{ext}"
    )
    stem = document.file_reference_ids[0].partition(".")[0]
    assert str(named.path).startswith(f"{tmp_path}/new/{stem}")
    bare = evolve(document, source=None)
    entry = DocumentEntry("unknown_form", bare)
    file = await play.client.download(entry, tmp_path, names="{document_type}-{document_id}")
    assert file.path == tmp_path / f"unknown_form-{document.document_id}"
    assert file.application_id is None
    with pytest.raises(ConfigurationError, match="application_id"):
        await play.client.download(bare, tmp_path)
    for impossible in ("x" * 300, "\ud800"):
        with pytest.raises(IncomeClientError):
            await play.client.download(document, tmp_path / impossible)


async def test_a_final_status_has_its_code_and_leaves_nothing(tmp_path: Path, play: Scene) -> None:
    """The error has the storage's code without the rest of its text, and no folder is made."""
    body = b"<Error><Code>InvalidObjectState</Code><Message>secret of a bucket</Message></Error>"
    document = await play.document()
    play.fail("status", status=400, body=body)
    with pytest.raises(DownloadError, match="400 InvalidObjectState") as caught:
        await play.client.download(document, tmp_path)
    assert (caught.value.status, caught.value.code) == (400, "InvalidObjectState")
    assert "secret" not in str(caught.value)
    assert len(play.asked) == 1
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - a folder counts too


@pytest.mark.parametrize("kind", ["reset", "drop", "garbage", "status"])
async def test_what_does_not_help_is_tried_again_within_the_policy(
    tmp_path: Path, kind: str
) -> None:
    """After a pause, as often as the policy says; then it is an error, and nothing is left."""
    async with scene(retry=RetryPolicy(max_attempts=3)) as play:
        document = await play.document()
        play.fail(kind, times=2)
        await play.client.download(document, tmp_path / "slip.pdf")
        assert len(play.clock.slept) == 2
        play.fail(kind, times=None)
        with pytest.raises(DownloadError) as caught:
            await play.client.download(document, tmp_path / "other.pdf")
        assert caught.value.attempts == 3
        assert caught.value.retryable
        assert list(files_below(tmp_path)) == ["slip.pdf"]


async def test_views_have_their_own_limits_and_a_closed_client_none(
    tmp_path: Path, play: Scene
) -> None:
    """`with_options` counts for files too, and a storage that asks for a pause gets it."""
    document = await play.document()
    play.fail("status", status=503, headers={"Retry-After": "9"}, times=2)
    view = play.client.with_options(retry=ONCE)
    with pytest.raises(DownloadError):
        await view.download(document, tmp_path / "slip.pdf")
    assert (len(play.asked), play.clock.slept) == (1, [])
    await play.client.download(document, tmp_path / "slip.pdf")
    assert (len(play.asked), play.clock.slept) == (3, [9])
    await play.client.aclose()
    with pytest.raises(ClientClosedError):
        await play.client.download(document, tmp_path / "other.pdf")


async def test_progress_begins_at_what_is_there_and_ends_at_the_total(tmp_path: Path) -> None:
    reported: list[DownloadProgress] = []
    async with scene({"file_bytes": 500_000}) as play:
        document = await play.document()
        play.fail("cut", keep=200_000)
        await play.client.download(document, tmp_path / "slip.pdf", on_progress=reported.append)
    places = [progress.received for progress in reported]
    assert places == sorted(places)
    assert 200_000 in places
    assert (places[-1], reported[-1].total) == (500_000, 500_000)


# Storages that misbehave


async def dripping(drop: bytes) -> AsyncIterator[bytes]:
    """Give the same bytes, a second after each other, for ever."""
    while True:
        yield drop
        pass_time(1)
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("begun", "drip"),
    [
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"x"),
        (b"", b""),
    ],
    ids=["provisional replies", "fields", "a chunk", "nothing"],
)
async def test_a_reply_that_never_begins_is_given_up(
    tmp_path: Path, begun: bytes, drip: bytes
) -> None:
    """The beginning of a reply and of a chunk has its time, whatever drips meanwhile."""
    answer = in_turn(Reply(raw=begun, slow=partial(dripping, drip)))
    async with hosting(answer, retry=ONCE, timeouts=HASTY) as (client, document, _):
        with pytest.raises(DownloadError):
            await client.download(document, tmp_path / "slip")


async def test_an_error_that_does_not_end_is_read_as_far_as_it_comes(tmp_path: Path) -> None:
    """The beginning of the body says that the address has expired."""
    text = b"<Code>ExpiredToken</Code>"
    answer = in_turn(reply(400, text, Content_Length="999", slow=partial(silence, 2)))
    async with scene(downloads=HERE, retry=ONCE) as play, ScriptedServer(answer) as server:
        fresh = await play.document()
        document = evolve(fresh, url=f"{server.url}/a")
        await play.client.download(document, tmp_path / "slip")
        assert play.renewals == 1
        assert files_below(tmp_path) == {"slip": play.content(document)}


async def test_a_storage_that_sends_on_and_hangs_up_is_followed(tmp_path: Path) -> None:
    """The connection over which a redirect came may be of no use any more."""
    elsewhere = Reply(status=307, headers={"Location": "/b"}, closed=True)
    answer = in_turn(elsewhere, Reply(body=b"file"))
    async with hosting(answer, retry=ONCE) as (client, document, _):
        await client.download(document, tmp_path / "slip")
        assert files_below(tmp_path) == {"slip": b"file"}


# Fresh addresses: asked for once for all downloads of a client


MANY = 16


def expired(storage: Storage, count: int) -> list[Document]:
    """Store files whose documents have expired addresses, and have the service tell fresh ones."""
    storage.expired.add("old")
    documents = []
    for number in range(count):
        path = f"/doc-{number}"
        storage.store(path, b"content of %d" % number)
        storage.tell(path[1:], storage.address(path, "new"))
        documents.append(document_at(storage.address(path, "old"), path[1:]))
    return documents


def check(folder: Path, count: int) -> None:
    expected = {f"doc-{number}": b"content of %d" % number for number in range(count)}
    assert files_below(folder) == expected


async def download(client: IncomeClient, document: Document, folder: Path) -> None:
    await client.download(document, folder / document.document_id)


async def test_parallel_downloads_of_an_application_ask_once(tmp_path: Path) -> None:
    """However many find their addresses expired, in whichever order; views share the answer."""
    async with storing() as (storage, client):
        documents = expired(storage, MANY)
        users = (client, client.with_options(retry=RetryPolicy(max_attempts=1))) * (MANY // 2)
        pairs = zip(users, documents, strict=True)
        await asyncio.gather(*(download(user, one, tmp_path) for user, one in pairs))
        assert len(storage.api_asked) == 1
    check(tmp_path, MANY)


@pytest.mark.parametrize("cancelled", [1, MANY // 2])
async def test_who_is_cancelled_while_it_asks_harms_nobody(tmp_path: Path, cancelled: int) -> None:
    """Another waiting download then makes the request."""
    async with storing() as (storage, client):
        documents = expired(storage, MANY)
        tasks = [asyncio.ensure_future(download(client, one, tmp_path)) for one in documents]
        while not storage.api_asked:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)
        for task in tasks[:cancelled]:
            task.cancel()
        await asyncio.gather(*tasks[cancelled:])
        await asyncio.wait(tasks)
        assert len(storage.api_asked) <= 2
    assert files_below(tmp_path).keys() >= {one.document_id for one in documents[cancelled:]}


async def test_a_file_that_is_gone_is_not_looked_for_at_an_older_address(tmp_path: Path) -> None:
    """One guess is made where no storage speaks of expiry, so it is made with a new answer."""
    clock = JumpingClock()
    async with storing(clock=clock) as (storage, client):
        for number in range(2):
            storage.store(f"/doc-{number}", b"moved")
        storage.tell("doc-0", storage.address("/doc-0"))
        storage.tell("doc-1", storage.address("/gone-too"))
        await download(client, document_at(storage.address("/gone"), "doc-0"), tmp_path)
        clock.advance(1)
        storage.documents.clear()
        storage.tell("doc-1", storage.address("/doc-1"))
        await download(client, document_at(storage.address("/gone"), "doc-1"), tmp_path)
        assert len(storage.api_asked) == 2
    assert files_below(tmp_path) == {"doc-0": b"moved", "doc-1": b"moved"}


async def test_a_failure_to_renew_is_shared_by_those_who_wait() -> None:
    times = 0

    async def asked(_: str) -> ApplicationDocuments:
        nonlocal times
        times += 1
        await asyncio.sleep(0)
        raise ServerError("get_documents: 500", status=500)

    addresses = FreshAddresses(JumpingClock(), "app-1")
    fresh = partial(addresses.get, "unknown_form", stale="old", since=0, ask=asked)
    found = await asyncio.gather(
        *(fresh(f"doc-{number}") for number in range(5)), return_exceptions=True
    )
    assert times == 1
    assert all(isinstance(one, ServerError) for one in found)
    with pytest.raises(ServerError):
        await fresh("doc-1")
    assert times == 2


async def test_addresses_that_never_are_fresh_are_given_up(tmp_path: Path) -> None:
    """Expired addresses are renewed three times at most; without a source there is no renewal."""
    async with scene({"url_age": 3600}) as play:
        document = await play.document()
        play.service.advance(1)
        with pytest.raises(DownloadError, match="403"):
            await play.client.download(document, tmp_path / "slip.pdf")
        assert len(play.asked) <= 4
        assert 1 <= play.renewals <= 3
        play.service.requests.clear()
        with pytest.raises(DownloadError, match="403"):
            await play.client.download(evolve(document, source=None), tmp_path / "slip.pdf")
        assert play.renewals == 0


async def test_an_expired_address_of_a_document_from_json_is_renewed(
    tmp_path: Path, play: Scene
) -> None:
    """As one that was pickled: its JSON names the application, and the type of its data."""
    document = await play.document()
    stored = from_json(Document, to_json(document))
    assert (stored, stored.source) == (document, document.source)
    play.service.advance(1000)
    file = await play.client.download(stored, tmp_path / "slip.pdf")
    assert (play.renewals, file.application_id) == (1, play.service.world.ids[0])


async def test_credentials_that_are_refused_meanwhile_are_told(tmp_path: Path, play: Scene) -> None:
    document = await play.document()
    play.service.advance(1000)
    play.service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
    with pytest.raises(AuthenticationError):
        await play.client.download(document, tmp_path / "slip.pdf")


# What is asked of a storage, byte by byte, and how a body comes


WAITS = Timeouts(read=5)
STAYS_OUT = DownloadPolicy(allowed_hosts=["localhost:*", "*.example.com:*"], require_https=False)
AWKWARD = (
    "/a%2Fb/%7Ename/c+d%20e?X-Amz-Signature=%2F%7E+%20%27&empty=&key",
    "/a?b??c=?/&d=/e",
    "//double//slash/",
    "/a/../b/./c",
    "/a;b=c,d:e@f!$&'()*",
    "/%E2%82%AC%zz%",
    '/"<>[]^`{|}?"<>[]^`{|}',
    "/?a=b",
)


async def test_a_request_is_the_address_and_five_fields() -> None:
    more = {"Range": "bytes=5-", "If-Range": '"tag"'}
    async with pooled(in_turn(reply(body=b"whole")), user_agent="test/1") as (pool, server):
        for target in AWKWARD:
            with await pool.get(link_to(server.url, target), more, WAITS) as found:
                assert await body_of(found) == b"whole"
    for target, request in zip(AWKWARD, server.requests, strict=True):
        lines = request.head.decode().removesuffix("\r\n\r\n").split("\r\n")
        assert lines[0] == f"GET {target} HTTP/1.1"
        assert sorted(lines[1:]) == [
            "Accept-Encoding: identity",
            "Accept: */*",
            f"Host: 127.0.0.1:{server.port}",
            'If-Range: "tag"',
            "Range: bytes=5-",
            "User-Agent: test/1",
        ]


async def test_a_proxy_may_be_anywhere() -> None:
    """The caller chooses the proxy; it gets the request without the service's credentials."""
    async with ScriptedServer(in_turn(reply(body=b"whole"))) as server:
        proxy = proxy_address(f"http://user:word@127.0.0.1:{server.port}")
        pool = FilePool(STAYS_OUT, proxy=proxy)
        assert await fetched(pool, "http://files.example.com", "/a%2Fb?c=%7E") == b"whole"
        refused = await fetched(pool, "http://localhost:1")
        await pool.aclose()
    (head,) = (request.head for request in server.requests)
    assert head.startswith(b"GET http://files.example.com/a%2Fb?c=%7E HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic " in head
    assert b"\r\nAuthorization" not in head
    assert isinstance(refused, UnsafeLinkError)


# Bodies


ERRORS = (
    (reply(403, b"<Code>AccessDenied</Code>"), "<Code>AccessDenied</Code>"),
    (reply(403, b"\xff" + b"x" * 2000), "\ufffd" + "x" * 999),
    (reply(403, b"x" * 100, cut=-1), "x" * 99),
    (reply(403, b"x" * 100, cut=-1, held=True), "x" * 99),
)


async def test_the_text_of_an_error_is_bounded() -> None:
    async with pooled(in_turn(*(out for out, _ in ERRORS))) as (pool, server):
        for out, text in ERRORS:
            with await pool.get(link_to(server.url), {}, WAITS) as found:
                reading = asyncio.create_task(found.error_text(limit=1000, seconds=60))
                while out.held and not reading.done():
                    await asyncio.sleep(0)
                    pass_time(6)
                assert await reading == text


async def test_memory_does_not_grow_with_the_file() -> None:
    piece = b"x" * 2**20

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(32):
            yield piece

    head = Reply(headers={"Content-Length": f"{32 * 2**20}"}, slow=pieces, held=True)
    async with pooled(in_turn(head)) as (pool, server):
        size = 0
        with await pool.get(link_to(server.url), {}, WAITS) as found:
            tracemalloc.start()
            while read := await found.read():
                size += len(read)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert size == 32 * 2**20
    assert peak < 8 * 2**20


async def test_leaving_early_closes_the_connection() -> None:
    """The rest of a body is not waited for, and never taken for the next reply."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 50_000

    head = Reply(headers={"Content-Length": "1000000000000"}, slow=endless)
    async with pooled(in_turn(head, head, reply(body=b"next"))) as (pool, server):
        for reads_some in (False, True):
            with await pool.get(link_to(server.url), {}, WAITS) as found:
                assert not reads_some or await found.read()
            assert open_connections(pool) == 0
            await until(lambda: not server.connections)
        assert await fetched(pool, server.url, "/more") == b"next"


# Many files: whatever has documents is taken, bounded, and what fails is reported


async def shapes(play: Scene) -> dict[str, Any]:
    """Return the documents of one application in every form in which they can be given."""
    client, application_id = play.client, play.service.world.ids[0]
    documents = await client.get_documents(application_id)
    application = await client.get_application(application_id)
    record = ApplicationRecord(application=application, documents=documents)
    entries = list(documents.all())

    async def slowly() -> AsyncIterator[DocumentEntry]:
        for entry in entries:
            await asyncio.sleep(0)
            yield entry

    return {
        "a reply": documents,
        "a record": record,
        "entries": entries,
        "an iterator": iter([entry.document for entry in entries]),
        "replies": [documents],
        "a document": entries[0].document,
        "an entry": entries[0],
        "an asynchronous iterator": slowly(),
        "fetched replies": client.fetch_documents([application_id]),
        "fetched records": client.fetch_records([application_id]),
    }


async def test_whatever_has_documents_is_taken(tmp_path: Path, play: Scene) -> None:
    application_id = play.service.world.ids[0]
    documents = await play.client.get_documents(application_id)
    wanted = [document.document_id for _, document in documents.all()]
    for name, given in (await shapes(play)).items():
        files = [file async for file in play.client.download_all(given, tmp_path / name)]
        ids = wanted[:1] if name in ("a document", "an entry") else wanted
        assert sorted(file.document_id for file in files) == sorted(ids), name
        assert len(files_below(tmp_path / name)) == len(ids)
        assert all(file.application_id == application_id for file in files)


async def test_no_more_than_asked_for_are_on_their_way(tmp_path: Path) -> None:
    """Neither beyond `concurrency` nor beyond the client's own limit."""
    for limit, concurrency in ((16, 3), (2, 8)):
        begun: set[str] = set()
        most = 0
        async with scene({"file_bytes": 100_000}, concurrency=limit) as play:

            def report(progress: DownloadProgress, begun: set[str] = begun) -> None:
                nonlocal most
                begun.add(progress.document_id)
                if progress.received == progress.total:
                    most = max(most, len(begun))
                    begun.discard(progress.document_id)

            documents = await play.documents(20)
            folder = tmp_path / str(limit)
            stream = play.client.download_all(documents, folder, concurrency, on_progress=report)
            assert len([file async for file in stream]) == 20
        assert 1 <= most <= min(limit, concurrency)


async def test_a_failure_is_raised_and_ends_the_rest_or_is_yielded(
    tmp_path: Path, play: Scene
) -> None:
    """Once it is raised nothing is under way, and no part is left; else the others come."""
    documents = await play.documents(20)
    play.fail("status", status=400, skip=5)
    with pytest.raises(DownloadError):
        async for _ in play.client.download_all(documents, tmp_path / "a"):
            pass
    assert client_tasks() == set()
    whole = {play.content(document) for document in documents}
    assert set(files_below(tmp_path / "a").values()) <= whole
    play.service.faults.clear()
    play.fail("status", status=400, times=2, skip=3)
    found: list[DownloadedFile | DownloadFailure] = [
        one
        async for one in play.client.download_all(documents[:10], tmp_path / "b", on_error="yield")
    ]
    failures = [one for one in found if isinstance(one, DownloadFailure)]
    assert (len(found), len(failures)) == (10, 2)
    assert all(isinstance(failure.error, DownloadError) for failure in failures)
    assert len(files_below(tmp_path / "b")) == 8


async def test_a_name_that_cannot_be_made_or_is_taken_is_a_failure_of_its_document(
    tmp_path: Path, play: Scene
) -> None:
    """Two documents with one name leave the first file in place."""
    documents = await play.documents(3)
    documents[1] = evolve(documents[1], source=None)
    stream = play.client.download_all(documents, tmp_path / "a", on_error="yield")
    failures = [one async for one in stream if isinstance(one, DownloadFailure)]
    assert [failure.document_id for failure in failures] == [documents[1].document_id]
    same = [evolve(one, file_reference_ids=("slip",)) for one in documents[::2]]
    names = "{file_reference_id}"
    stream = play.client.download_all(same, tmp_path / "b", names=names, on_error="yield")
    found = [one async for one in stream]
    (failure,) = [one for one in found if isinstance(one, DownloadFailure)]
    assert "no two share a name" in str(failure.error)
    assert list(files_below(tmp_path / "b")) == ["slip"]


async def test_the_template_of_the_guide_gives_each_file_a_name(
    tmp_path: Path, play: Scene
) -> None:
    """Partners' names for files, such as the kind and day of a document, come again."""
    found = re.search(r'as `names=`, such as `"([^"]+)"`', (GUIDE / "files.md").read_text("utf-8"))
    assert found is not None
    documents = [
        evolve(document, file_reference_ids=("slip.pdf",)) for document in await play.documents(3)
    ]
    files = [file async for file in play.client.download_all(documents, tmp_path, names=found[1])]
    assert len({file.path for file in files}) == 3


async def test_what_a_callback_raises_comes_out(tmp_path: Path, play: Scene) -> None:
    """An exception of a callback is the caller's, and no failure of a file."""

    def failing(_: DownloadProgress) -> None:
        raise ZeroDivisionError

    documents = await play.documents(3)
    for on_error in ("raise", "yield"):
        options: dict[str, Any] = {"on_progress": failing, "on_error": on_error}
        with pytest.raises(ZeroDivisionError):
            await anext(play.client.download_all(documents, tmp_path, **options))
        assert files_below(tmp_path) == {}


async def test_documents_must_be_meant(tmp_path: Path, play: Scene) -> None:
    """A record that was read without its documents is refused too: that it has none is a guess."""
    wrong: list[Any] = [None, 7, "doc-1", b"", ["doc-1"], [None]]
    for documents in wrong:
        with pytest.raises(ConfigurationError, match="documents are"):
            await anext(play.client.download_all(documents, tmp_path))
    assert play.service.requests == []
    records = play.client.fetch_records(play.service.world.ids[:1], documents=False)
    with pytest.raises(ConfigurationError, match="without its documents"):
        await anext(play.client.download_all(records, tmp_path))
