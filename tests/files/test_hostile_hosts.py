"""Hostile storages: no cut is whole, nothing lasts for ever, nobody else's file comes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from income_client import (
    ApplicationDocuments,
    DownloadError,
    DownloadProgress,
    RetryPolicy,
    Timeouts,
)
from income_client.downloads.downloader import FreshAddresses
from income_client.errors import IncomeClientError, ServerError
from income_client.testing import JumpingClock
from tests.support.clients import HERE, hosting
from tests.support.downloads import files_below, scene
from tests.support.loop_time import pass_time
from tests.support.server import Reply, ScriptedServer, in_turn, reply

ONCE = RetryPolicy(max_attempts=1)
HASTY = Timeouts(connect=10, read=20)


async def dripping(drop: bytes) -> AsyncIterator[bytes]:
    """Give the same bytes, a second after each other, for ever."""
    while True:
        yield drop
        pass_time(1)
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "fields",
    [
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding: chunked\x0b",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Content-Length: 8\r\nContent-Length: 9",
        "Content-Length: 8\r\nContent-Range: bytes 0-7/500",
        "Content-Length: 8\r\nContent-Type: multipart/byteranges; boundary=x",
        "Connection: close",
    ],
)
async def test_a_body_without_a_certain_end_is_refused(tmp_path: Path, fields: str) -> None:
    """Whatever a reader of headers could take for an end."""
    head = f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode("latin-1")
    answer = in_turn(Reply(raw=head + b"4\r\nhalf\r\n", closed=True))
    async with hosting(answer, retry=ONCE) as (client, document, _):
        with pytest.raises(DownloadError):
            await client.download(document, tmp_path / "slip")
        assert files_below(tmp_path) == {}


@pytest.mark.parametrize(
    "drip",
    [b"HTTP/1.1 102 Processing\r\n\r\n", b"X-A: b\r\n", b""],
    ids=["provisional replies", "fields", "nothing"],
)
async def test_a_reply_that_never_begins_is_given_up(tmp_path: Path, drip: bytes) -> None:
    """The beginning of a reply has its time, whatever drips meanwhile."""
    begun = b"HTTP/1.1 200 OK\r\n" if drip.startswith(b"X") else b""
    answer = in_turn(Reply(raw=begun, slow=partial(dripping, drip)))
    async with hosting(answer, retry=ONCE, timeouts=HASTY) as (client, document, _):
        with pytest.raises(DownloadError, match="too long"):
            await client.download(document, tmp_path / "slip")


async def test_a_chunk_that_never_begins_is_given_up(tmp_path: Path) -> None:
    """What is no content counts as nothing."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;"
    answer = in_turn(Reply(raw=head, slow=partial(dripping, b"x")))
    async with hosting(answer, retry=ONCE, timeouts=HASTY) as (client, document, _):
        with pytest.raises(DownloadError):
            await client.download(document, tmp_path / "slip")


async def test_an_error_that_does_not_end_is_read_as_far_as_it_comes(tmp_path: Path) -> None:
    """Its beginning says that the address has expired."""
    answer = in_turn(reply(400, b"<Code>ExpiredToken</Code>", Content_Length="999", held=True))
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


async def test_an_id_under_two_types_has_two_addresses() -> None:
    """And one under one type twice has none that could be trusted."""
    async with scene() as play:
        one = await play.client.get_documents(play.service.world.ids[0])
        ((_, first), (_, second), *_) = one.all()
        twin = evolve(second, document_id=first.document_id)

        async def asked(_: str) -> ApplicationDocuments:
            return evolve(
                one, documents={"unknown_form": (first,), "w3": (twin,), "both": (first, twin)}
            )

        addresses = FreshAddresses(JumpingClock(), "app-1")
        for document_type, address in (
            ("unknown_form", first.url),
            ("w3", twin.url),
            ("both", None),
        ):
            fresh = addresses.get(document_type, first.document_id, stale="old", since=0, ask=asked)
            if address is None:
                with pytest.raises(DownloadError, match="several"):
                    await fresh
            else:
                assert await fresh == address


async def test_a_failure_to_renew_is_shared_by_those_who_wait() -> None:
    """The service in trouble is asked once for them, not once for each."""
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


@pytest.mark.parametrize("path", ["x" * 300, "\ud800"])
async def test_an_impossible_path_is_an_error(tmp_path: Path, path: str) -> None:
    """As an error of ours, from one end or the other."""
    async with scene() as play:
        document = await play.document()
        with pytest.raises(IncomeClientError):
            await play.client.download(document, tmp_path / path)


def failing(_: DownloadProgress) -> None:
    """Raise."""
    raise ZeroDivisionError


@pytest.mark.parametrize("on_error", ["raise", "yield"])
async def test_what_a_callback_raises_comes_out(tmp_path: Path, on_error: Any) -> None:
    """It is the caller's own error, and no failure of a file."""
    callback: Callable[[DownloadProgress], None] = failing
    async with scene() as play:
        documents = await play.documents(3)
        with pytest.raises(ZeroDivisionError):
            async for _ in play.client.download_all(
                documents, tmp_path, on_progress=callback, on_error=on_error
            ):
                pass
        assert files_below(tmp_path) == {}
