"""Promise 16: a downloaded file is whole and private, or absent; it resumes after a cut."""

import asyncio
import io
import os
import stat
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve, frozen
from hypothesis import example, given
from hypothesis import strategies as st

from income_client import DownloadError, RetryPolicy, UnsafeLinkError
from tests.support.clients import hosting
from tests.support.disk import no_room_above
from tests.support.downloads import (
    EXPIRED,
    File,
    Storage,
    Trick,
    check_file,
    document_at,
    files_below,
    folder_in_memory,
    left,
    left_in,
    mode_of,
    serving,
    storing,
    watched,
)
from tests.support.server import Reply, Request, in_turn

ONCE = RetryPolicy(max_attempts=1)
CONTENT = bytes(range(256)) * 3
LONG = b"0123456789abcdef" * 200_000


# Scripts of a storage that cuts replies, changes its file and refuses


PATH: Final = "/slip"
STATUSES: Final = ("500", "503", "416", "404", "304", "204")
SIZES: Final = (5000, 700, 150_000, 5000, 2, 0)


@frozen
class Script:
    """The replies of a storage, one by one; after them it is honest."""

    versions: tuple[File, ...]
    """Content of the file, and the contents that it changes to."""
    acts: Sequence[tuple[str, float]]
    """Name of the fault of each reply, with a figure for it."""
    max_attempts: int

    @property
    def contents(self) -> frozenset[bytes]:
        """Contents that may be at the destination in the end."""
        return frozenset(version.content for version in self.versions)

    def play(self, storage: Storage) -> None:
        """Let a storage play the events, each change of the file with the next version."""
        storage.files[PATH], *later = self.versions
        versions = iter(later)

        def act(name: str, figure: float, request: Request, reply: Reply) -> Reply:
            match name:
                case "change":
                    storage.files[PATH] = next(versions, storage.files[PATH])
                    return storage.honest(request)
                case "expire":
                    storage.expired.add(request.target.partition("X-Signature=")[2])
                    return storage.honest(request)
                case "ignore If-Range":
                    return _part_of(next(versions, storage.files[PATH]), request, reply)
                case _ if name in ACTS:
                    return ACTS[name](reply, figure)
                case status:
                    return Reply(status=int(status))

        storage.tricks.extend(partial(act, *one) for one in self.acts)


def script(*names: str) -> Script:
    """Make a script of acts, each in the middle of a reply, on two versions of one length."""
    acts = tuple((name, 0.5) for name in names)
    return Script(_versions(('"%d"', [5000, 5000])), acts, 3)


def scripts() -> st.SearchStrategy[Script]:
    """Make scripts up; most cut the first body, since all else matters only then."""
    etags = st.sampled_from(['"%d"', '"%d"', '"%d"', '"%d"', 'W/"%d"', None])
    sizes = st.lists(st.sampled_from(SIZES), min_size=1, max_size=3)
    cuts = st.tuples(st.just("cut body"), st.floats(0.1, 0.9))
    names = [*ACTS, *STATUSES, *("change", "expire", "ignore If-Range", "400") * 3]
    others = st.tuples(st.sampled_from(names), st.floats(0, 1))
    return st.builds(
        Script,
        st.tuples(etags, sizes).map(_versions),
        st.lists(st.one_of(cuts, cuts, others), min_size=1, max_size=6),
        st.sampled_from([1, 3, 8]),
    )


def _versions(drawn: tuple[str | None, list[int]]) -> tuple[File, ...]:
    etag, sizes = drawn
    return tuple(
        File(_content(number, size), etag % number if etag else None)
        for number, size in enumerate(sizes)
    )


def _content(number: int, size: int) -> bytes:
    """Return bytes that tell of which version they are, and of which place in it."""
    cycle = bytes((place + 50 * number) % 251 for place in range(251))
    return (cycle * (size // 251 + 1))[:size]


def _part_of(file: File, request: Request, reply: Reply) -> Reply:
    """Go on with another version, as a storage does that does not know If-Range."""
    wanted = request.headers.get("range")
    if wanted is None or "if-range" not in request.headers:
        return reply
    first = int(wanted.removeprefix("bytes=").partition("-")[0])
    part, total = file.content[first:], len(file.content)
    place = f"bytes {first}-{total - 1}/{total}"
    return Reply(status=206, headers={"ETag": file.etag, "Content-Range": place}, body=part)


def _cut(reply: Reply, figure: float) -> Reply:
    return evolve(reply, cut=int(figure * len(bytes(reply))), reset=int(figure * 1000) % 2 == 1)


def _cut_body(reply: Reply, figure: float) -> Reply:
    return evolve(reply, cut=reply.body_at + int(figure * len(reply.body)))


def chunked(reply: Reply, size: int = 64) -> Reply:
    """Send the body in chunks, its length untold."""
    pieces = [reply.body[at : at + size] for at in range(0, len(reply.body), size)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    headers = {**reply.headers, "Content-Length": None, "Transfer-Encoding": "chunked"}
    return evolve(reply, headers=headers, body=body)


ACTS: Final[dict[str, Callable[[Reply, float], Reply]]] = {
    "cut": _cut,
    "cut body": _cut_body,
    "chunk": lambda reply, figure: chunked(reply),
    "chunk and cut": lambda reply, figure: _cut(chunked(reply), figure),
}
"""Faults of an honest reply, by name; a figure from 0 to 1 says where or how."""


# Whole or absent


@given(scripts())
@example(script("cut body", "change"))
@example(script("cut body", "ignore If-Range"))
@example(script("cut body", "400"))
@example(script("cut body", "change", "400"))
async def test_whatever_a_storage_does_a_file_is_one_whole_version_or_absent(
    played: Script,
) -> None:
    """Cut and changed replies never mix bytes; an incomplete file is discarded."""
    policy = RetryPolicy(max_attempts=played.max_attempts)
    async with storing(retry=policy) as (storage, client):
        with folder_in_memory() as folder:
            path = folder / "slip"
            storage.tell("slip", storage.address(PATH, "s2"))
            document = document_at(storage.address(PATH), "slip")
            played.play(storage)
            async with watched(path, played.contents):
                try:
                    file = await client.download(document, path)
                except DownloadError:
                    assert left_in(folder) == {}
                else:
                    check_file(file, path, played.contents)
                storage.tricks.clear()
                storage.expired.clear()
                final = storage.files[PATH].content
                file = await client.download(document, path, overwrite=True)
            check_file(file, path, frozenset({final}))
            assert left_in(folder) == {"slip": final}


@pytest.mark.parametrize("framing", ["measured", "chunked"])
async def test_a_reply_that_is_cut_at_any_byte_leaves_nothing(tmp_path: Path, framing: str) -> None:
    """Cut in its head, at each byte of its body or of a chunk frame, a reply makes no file."""
    async with storing(retry=ONCE) as (storage, client):
        document = storage.store("/a", CONTENT[:20])
        honest = storage.honest(Request(head=b"GET /a?X-Signature=s1 HTTP/1.1\r\n\r\n"))
        reply = chunked(honest, 8) if framing == "chunked" else honest
        head = reply.body_at - 10
        for cut in (*range(0, head, 10), *range(head, len(bytes(reply)))):
            storage.tricks.extend([lambda *_, cut=cut: evolve(reply, cut=cut)] * 5)
            with suppress(DownloadError):
                await client.download(document, tmp_path / "slip")
                assert cut > len(bytes(reply)) - len(b"\r\n\r\n")
                (tmp_path / "slip").unlink()
            assert storage.tricks
            storage.tricks.clear()
            assert files_below(tmp_path) == {}


NO_WHOLE_FILES = (
    "Content-Length: 8\r\nContent-Encoding: gzip",
    "Content-Length: 8\r\nContent-Encoding: identity, br",
    "Content-Length: 8\r\nContent-Encoding: aws-chunked,GZIP",
    "Content-Length: 8\r\nContent-Encoding: xz",
    "Content-Length: 9",
    "Content-Length: +8",
    "Content-Length: 8, 8",
    "Content-Length: 8\r\nContent-Length: 9",
    'Content-Length: 8\r\nETag: "1"\r\nETag: "1"',
    "Content-Length: 8\r\nContent-Encoding: identity\r\nContent-Encoding: gzip",
    "Content-Length: 8\r\nLocation: /a\r\nLocation: /b",
    "Content-Length: 8\r\nContent-Range: bytes 0-7/500",
    "Content-Length: 8\r\nContent-Type: multipart/byteranges; boundary=x",
    "Transfer-Encoding: identity\r\nConnection: close",
    "Transfer-Encoding: gzip",
    "Content-Length: 8\r\nTransfer-Encoding: gzip",
    "Transfer-Encoding: \x0bchunked",
    "Transfer-Encoding: chunked\x0b",
    "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Connection: close",
)


NO_CODINGS = ("UTF-8", "base64", "binary", "none", "aws-chunked", "identity, aws-chunked", "")


@pytest.mark.parametrize("coding", NO_CODINGS)
async def test_a_content_encoding_that_is_none_changes_nothing(coding: str, tmp_path: Path) -> None:
    """Programs store objects with such names beside the plain bytes."""
    head = f"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nContent-Encoding: {coding}\r\n\r\n"
    plain = Reply(raw=head.encode() + b"the file", closed=True)
    async with hosting(in_turn(plain), retry=ONCE) as (client, document, _):
        await client.download(document, tmp_path / "slip")
    assert (tmp_path / "slip").read_bytes() == b"the file"


async def test_a_body_that_may_not_be_the_whole_file_is_refused(tmp_path: Path) -> None:
    async with hosting(in_turn(Reply()), retry=ONCE) as (client, document, server):
        for fields in NO_WHOLE_FILES:
            head = f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode("latin-1")
            server.answer = in_turn(Reply(raw=head + b"4\r\nhalf\r\n"[:8], closed=True))
            with pytest.raises(DownloadError):
                await client.download(document, tmp_path / "slip")
        assert len(server.requests) >= len(NO_WHOLE_FILES)
    assert files_below(tmp_path) == {}


def open_files() -> int:
    """Return how many regular files this process has open, those without a name included."""
    count = 0
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            count += stat.S_ISREG(one.stat().st_mode)
    return count


def content_of(target: Path | io.BytesIO) -> bytes | None:
    """Return what is in the place of a file; None for nothing."""
    with suppress(FileNotFoundError):
        match target:
            case Path():
                return (target / "doc-1" if target.is_dir() else target).read_bytes()
            case io.BytesIO():
                return target.getvalue() or None
    return None


class CancelledAt:
    """Awaits a coroutine, and cancels it once, if it gets so far: awaits are counted from 0."""

    def __init__(self, work: Coroutine[Any, Any, Any], number: int) -> None:
        self._work = work
        self._number = number
        self.is_cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        seen = 0
        thrown: BaseException | None = None
        try:
            while True:
                waits = self._work.send(None) if thrown is None else self._work.throw(thrown)
                thrown = None
                seen += 1
                if seen == self._number + 1:
                    self.is_cancelled = True
                    if waits is not None:
                        waits.cancel()
                        yield  # what else waits for it hears of that first, as with a task
                    thrown = asyncio.CancelledError()
                    continue
                try:
                    yield waits
                except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                    thrown = error
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("kind", ["path", "folder", "stream"])
async def test_cancelled_at_any_await_a_file_is_whole_or_absent(tmp_path: Path, kind: str) -> None:
    """Neither a task nor a descriptor remains, nor anything of an incomplete file."""
    content = LONG[:800_000]
    tasks = asyncio.all_tasks()
    async with storing() as (storage, client):
        document = storage.store("/doc-1", content)
        before = open_files()
        for number in range(1000):
            folder = tmp_path / str(number)
            folder.mkdir()
            places: dict[str, Path | io.BytesIO] = {
                "path": folder / "doc-1",
                "folder": folder,
                "stream": io.BytesIO(),
            }
            place = places[kind]
            storage.tricks.append(lambda _, reply: evolve(reply, cut=300_000))
            work = client.download(document, place, names="{document_id}")
            attempt = CancelledAt(work, number)
            with suppress(asyncio.CancelledError):
                await attempt
            found = content_of(place)
            assert found in (None, content)
            if isinstance(place, Path):
                assert len(left_in(folder)) == (found is not None)
            assert open_files() == before
            storage.tricks.clear()
            if not attempt.is_cancelled:
                break
        assert found == content
        assert number > 10
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks


async def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A full disk is a permanent error; with space again, the next call succeeds."""
    async with storing() as (storage, client):
        document = storage.store("/a", LONG)
        with no_room_above(1_000_000), pytest.raises(DownloadError) as caught:
            await client.download(document, tmp_path / "slip")
        assert str(caught.value) == "download(a): the file cannot be kept: file too large"
        assert not caught.value.retryable
        assert left_in(tmp_path) == {}
        await client.download(document, tmp_path / "slip")
    assert left_in(tmp_path) == {"slip": LONG}


@pytest.mark.parametrize("umask", [0o000, 0o277])
async def test_a_file_is_private_to_its_owner(tmp_path: Path, umask: int) -> None:
    """The mode is 0600 for any umask, and for any mode of a file that is replaced or kept."""
    names = {"same": CONTENT, "another": b"another"}
    for name, content in names.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o666)
    async with storing() as (storage, client):
        document = storage.store("/a", CONTENT)
        before = os.umask(umask)
        try:
            for name in (*names, "new"):
                await client.download(document, tmp_path / name, overwrite=name == "another")
        finally:
            os.umask(before)
    assert left_in(tmp_path) == dict.fromkeys((*names, "new"), CONTENT)
    assert {mode_of(tmp_path / name) for name in (*names, "new")} == {0o600}


# Resumed


def shortened(count: int, **settings: Any) -> Trick:
    """Cut a reply after this many bytes of its body."""
    return lambda _, reply: evolve(reply, cut=reply.body_at + count, **settings)


def ranges(storage: Storage) -> list[str | None]:
    return [asked.headers.get("range") for asked in storage.asked]


@pytest.mark.parametrize("etag", ['"v1"', 'W/"v1"', "v1", None])
async def test_a_cut_file_is_resumed_with_the_version_that_it_began_with(
    tmp_path: Path, etag: str | None
) -> None:
    """Each byte comes once.

    Without a strong ETag the file may be another version, and comes anew.
    """
    async with storing() as (storage, client):
        document = storage.store("/a", LONG, etag=etag)
        storage.tricks.extend(shortened(200_000) for _ in range(2 if etag == '"v1"' else 1))
        await client.download(document, tmp_path / "slip")
        tags = [asked.headers.get("if-range") for asked in storage.asked]
        if etag == '"v1"':
            assert ranges(storage) == [None, "bytes=200000-", "bytes=400000-"]
            assert tags == [None, etag, etag]
        else:
            assert ranges(storage) == tags == [None, None]
    assert left_in(tmp_path) == {"slip": LONG}


async def test_after_a_kill_the_next_run_begins_anew_and_tidies_up(tmp_path: Path) -> None:
    """Parts that killed processes left are not resumed but removed, whichever file they were of."""
    for number in range(3):
        left(tmp_path, LONG[: 1_000_000 * number])
    async with storing() as (storage, client):
        await client.download(storage.store("/a", LONG), tmp_path / "slip")
        assert ranges(storage) == [None]
    assert left_in(tmp_path) == {"slip": LONG}


# Fresh addresses


async def test_an_expired_address_is_replaced_by_that_of_the_same_document(tmp_path: Path) -> None:
    """The document is matched by type and id, not by its position or URL."""
    async with storing() as (storage, client):
        for name in ("a", "b", "c"):
            storage.store(f"/{name}", name.encode() * 1000)
            storage.tell(name, storage.address(f"/{name}"))
        documents = [document for _, document in (await client.get_documents("app-1")).all()]
        storage.expired.add("s1")
        storage.documents.clear()
        storage.tell("b", storage.address("/wrong", "s2"), "1099")
        for name in ("c", "b", "a"):
            storage.store(f"/moved-{name}", name.encode() * 1000)
            storage.tell(name, storage.address(f"/moved-{name}", "s2"))
        for document in documents:
            await client.download(document, tmp_path / document.document_id)
    assert left_in(tmp_path) == {name: name.encode() * 1000 for name in ("a", "b", "c")}


async def test_addresses_that_expire_after_each_cut_are_replaced_each_time(tmp_path: Path) -> None:
    """Addresses that brought some bytes are not counted as refused in a row."""
    cut = shortened(200_000)
    async with storing() as (storage, client):
        document = storage.store("/a", LONG)

        def expiring(request: Request, reply: Reply) -> Reply:
            number = len(storage.expired) + 1
            storage.expired.add(f"s{number}")
            storage.documents.clear()
            storage.tell("a", storage.address("/a", f"s{number + 1}"))
            return cut(request, reply)

        for _ in range(6):
            storage.tricks.extend((expiring, lambda _, refused: refused))
        await client.download(document, tmp_path / "slip")
        assert len(storage.api_asked) == len(storage.expired) == 6
        assert storage.asked[-1].headers["range"] == "bytes=1200000-"
    assert left_in(tmp_path) == {"slip": LONG}


async def test_a_fresh_address_of_another_object_starts_over(tmp_path: Path) -> None:
    """An ETag distinguishes versions of one object, and not objects."""
    async with storing() as (storage, client):
        document = storage.store("/a", LONG)
        storage.store("/b", LONG[::-1])
        storage.tell("a", storage.address("/b", "s2"))
        storage.tricks.append(shortened(200_000))
        storage.tricks.append(lambda _, __: EXPIRED)
        await client.download(document, tmp_path / "slip")
        assert ranges(storage) == [None, "bytes=200000-", None]
    assert left_in(tmp_path) == {"slip": LONG[::-1]}


@pytest.mark.parametrize("fresh", ["the same", "none", "two"])
async def test_an_address_without_a_fresh_one_in_its_place_is_an_error(
    tmp_path: Path, fresh: str
) -> None:
    """The old URL is not retried for ever, and none is chosen at random."""
    async with storing() as (storage, client):
        document = storage.store("/a", CONTENT)
        storage.store("/b", LONG)
        storage.expired.add("s1")
        paths = {"the same": [("/a", "s1")], "none": [], "two": [("/a", "s2"), ("/b", "s2")]}
        for path, signature in paths[fresh]:
            storage.tell("a", storage.address(path, signature))
        with pytest.raises(DownloadError):
            await client.download(document, tmp_path / "slip")
        assert len(storage.asked) == 1
        assert left_in(tmp_path) == {}


async def test_a_fresh_address_is_checked_like_the_first_one(tmp_path: Path) -> None:
    """Nothing is sent to a fresh URL that the policy does not allow."""
    async with storing() as (storage, client), serving() as other:
        document = storage.store("/a", CONTENT)
        other.store("/a", CONTENT)
        storage.expired.add("s1")
        storage.tell("a", other.address("/a", "s2"))
        with pytest.raises(UnsafeLinkError):
            await client.download(document, tmp_path / "slip")
        assert (len(storage.asked), other.asked) == (1, [])
    assert left_in(tmp_path) == {}
