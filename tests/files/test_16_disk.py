"""Promise 16: whichever call on the disk fails, a place has the whole file or the one before."""

import asyncio
import errno
import fcntl
import hashlib
import os
import sys
import threading
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from income_client import Document, DownloadedFile, DownloadError, IncomeClient
from income_client.downloads import temporary_file
from income_client.downloads.temporary_file import (
    AT_ONCE,
    Spool,
    TemporaryFile,
    remove_abandoned,
)
from income_client.system.disk import (
    check_folder,
    is_open_to_others,
    is_ours,
    lock_descriptor,
    make_folder,
    publish_file,
)
from tests.support.canaries import held_by
from tests.support.disk import FailingDisk, failing_disk
from tests.support.downloads import PDF, files_below, folder_in_memory, left, left_in, storing

OLD: Final = b"an older version"
STEPS: Final = ("write", "fsync", "fdatasync", "link", "rename", "replace")
IN_PLACE: Final = "the file is in its place, but "
MD5: Final = f'"{hashlib.md5(PDF).hexdigest()}"'
"""An entity tag that tells whether a file is the same; any other does not."""
CASES: Final[dict[str, tuple[dict[str, bytes], bool, str]]] = {
    # what is there before, whether that may be replaced, the file's entity tag
    "new": ({}, False, MD5),
    "new, with leave to overwrite": ({}, True, MD5),
    "there already": ({"doc-1.pdf": PDF}, False, MD5),
    "there already, as its content shows": ({"doc-1.pdf": PDF}, False, '"v1"'),
    "another file": ({"doc-1.pdf": OLD}, True, MD5),
    "another kind of file": ({"doc-1.png": OLD}, True, MD5),
}


@pytest.mark.parametrize(
    ("name", "error", "locks"),
    [
        ("new", errno.ENOSPC, True),
        *((name, errno.EPERM, True) for name in CASES),
        *((name, errno.EIO, False) for name in CASES),
    ],
)
async def test_a_disk_may_fail_at_any_call(name: str, error: int, locks: bool) -> None:
    """The file is whole, the old one or absent; no part is left; what the error says is true."""
    before, overwrite, etag = CASES[name]
    number = 0
    async with storing() as (storage, client):
        document = storage.store("/doc-1", PDF, etag=etag)
        while True:
            with folder_in_memory() as folder:
                for there, content in before.items():
                    (folder / there).write_bytes(content)
                    (folder / there).chmod(0o600)
                with failing_disk(folder, number, error, locks=locks) as disk:
                    outcome = await downloaded(client, document, folder, overwrite=overwrite)
                    assert disk.opened == []
                check(outcome, folder, before, disk, has_md5=etag == MD5)
                # With the disk in order, the next run completes it and tidies up.
                last = await downloaded(client, document, folder, overwrite=True)
                assert isinstance(last, DownloadedFile)
                kinds = {name for name in left_in(folder) if name != "doc-1.png"}
                assert kinds == {"doc-1.pdf"}
            if disk.failed is None:
                assert isinstance(outcome, DownloadedFile)
                steps = [call for call in disk.calls if call in STEPS]
                break
            number += 1
    assert number > (8 if before == {"doc-1.pdf": PDF} else 12)
    if before != {"doc-1.pdf": PDF}:
        # All bytes are on the disk before the file has its name, and the name at the end.
        assert steps == ["write", "fsync", "replace" if overwrite else "link", "fsync"]


async def downloaded(
    client: IncomeClient, document: Document, folder: Path, *, overwrite: bool
) -> DownloadedFile | DownloadError:
    """Download the file of a document into a folder; return it, or the error."""
    try:
        return await client.download(
            document, f"{folder}/", names="{document_id}.{ext}", overwrite=overwrite
        )
    except DownloadError as error:
        return error


def check(
    outcome: DownloadedFile | DownloadError,
    folder: Path,
    before: dict[str, bytes],
    disk: FailingDisk,
    *,
    has_md5: bool,
) -> None:
    left = left_in(folder)
    parts = [left.pop(name) for name in list(left) if name.endswith(".part")]
    assert parts == [] or (disk.failed == "unlink" and len(parts) == 1), disk
    if isinstance(outcome, DownloadedFile):
        assert left == {"doc-1.pdf": PDF}
        assert (outcome.path, outcome.size) == (folder / "doc-1.pdf", len(PDF))
        return
    assert left == before or (left == {**before, "doc-1.pdf": PDF} and outcome.in_place)
    assert outcome.in_place is outcome.message.partition(": ")[2].startswith(IN_PLACE)
    if left.get("doc-1.pdf") == PDF and has_md5:
        assert "cannot be kept" not in outcome.message
    assert str(folder) not in held_by(outcome)  # names of files can tell of people
    assert outcome.disk_failed is (disk.error != errno.EPERM)
    assert not outcome.retryable


# Folders and files, with and without what Windows has not


def test_a_link_below_the_folder_is_no_folder(tmp_path: Path) -> None:
    """The link is neither followed nor replaced."""
    (tmp_path / "true").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "true")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name, folder_at in product(("link", "dangling"), (make_folder, check_folder)):
        with pytest.raises(OSError, match="a symbolic link is"):
            folder_at(tmp_path, (name,))
    assert not (tmp_path / "nowhere").exists()


def test_a_lock_keeps_others_out(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    first, second, third = (os.open(tmp_path / "a", os.O_RDWR) for _ in range(3))
    assert lock_descriptor(first, is_shared=True)
    assert lock_descriptor(second, is_shared=True)
    with pytest.raises(BlockingIOError):
        lock_descriptor(third)
    for descriptor in (first, second, third):
        os.close(descriptor)


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_a_file_that_is_published_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool
) -> None:
    """On Windows, which has no such locks, it is renamed, and renaming replaces nothing there."""
    real = Path.rename

    def refusing(path: Path, target: Path) -> Path:
        if target.exists():
            raise FileExistsError
        return real(path, target)

    if not locks:
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setattr(Path, "rename", refusing)
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    publish_file(tmp_path / "a", tmp_path / "place")
    with pytest.raises(FileExistsError):
        publish_file(tmp_path / "b", tmp_path / "place")
    assert (tmp_path / "place").read_text() == "a"
    assert (tmp_path / "a").exists() is locks


def test_where_files_have_no_owners_all_are_ours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows gives every file a mode that would let others in, and every owner the number 0."""
    tmp_path.chmod(0o777)
    assert is_open_to_others(tmp_path.stat())
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    assert not is_ours(tmp_path.stat())
    monkeypatch.delattr(os, "geteuid")
    assert is_ours(tmp_path.stat())
    assert not is_open_to_others(tmp_path.stat())


MISSING = ("fchmod", "geteuid", "posix_fadvise", "pread", "writev")


@pytest.mark.parametrize("size", [10, 3_000_000], ids=["short", "long"])
async def test_files_come_without_locks_owners_and_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A file is put at its place, refused where another one is, or replaces that."""
    other = left(tmp_path, b"of a process that may be at work")
    monkeypatch.setattr(temporary_file, "_AHEAD", 2**20)
    for name in MISSING:
        monkeypatch.delattr(os, name)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    async with storing() as (storage, client):
        document = storage.store("/a", bytes(size))
        await client.download(document, tmp_path / "new")
        (tmp_path / "old").write_bytes(b"another")
        with pytest.raises(DownloadError, match="another file"):
            await client.download(document, tmp_path / "old")
        assert other.exists()
        other.unlink()
        assert files_below(tmp_path) == {"new": bytes(size), "old": b"another"}
        await client.download(document, tmp_path / "old", overwrite=True)
        with (tmp_path / "stream").open("wb") as stream:
            await client.download(document, stream)
    assert files_below(tmp_path) == dict.fromkeys(("new", "old", "stream"), bytes(size))


# Temporary files


NAMES_OF_EARLIER_VERSIONS: Final = (
    ".ca978112ca1bbdca.0123456789abcdef.0a1b2c3d.part",
    ".ca978112ca1bbdca.-.0a1b2c3d.part",
    ".ca978112ca1bbdca.IjAxMjMuNDU2LmFiYyI=.0a0b0c0d.0a1b2c3d.part",
    f".ca978112ca1bbdca.{'x' * 136}.0a0b0c0d.0a1b2c3d.part",
)
"""Names of the temporary files of versions 0.2 and 0.1."""


def tidy(folder: Path) -> None:
    """Remove what killed processes have left in a folder."""
    remove_abandoned(folder, os.listdir(folder))  # noqa: PTH208 - names, as a look gives them


def test_one_that_is_written_to_is_left_alone_within_a_process_too(tmp_path: Path) -> None:
    """Only once nobody has it open is it removed, whether anything was written or not."""
    first, second = TemporaryFile.create(tmp_path), TemporaryFile.create(tmp_path)
    first.write(b"first")
    tidy(tmp_path)
    assert len(os.listdir(tmp_path)) == 2  # noqa: PTH208 - how many is enough
    for file in (first, second):
        file._file.close()
    tidy(tmp_path)
    assert files_below(tmp_path) == {}


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """Files of earlier versions are removed too; names that are no text stop nothing."""
    odd = (b".ca978112ca1bbdca.\xff.part", b".ca978112ca1bbdca.\n\x1b.part")
    for name in (None, *NAMES_OF_EARLIER_VERSIONS, *map(os.fsdecode, odd)):
        left(tmp_path, b"left", name)
    tidy(tmp_path)
    assert files_below(tmp_path) == {}


OTHER_NAMES: Final = (
    *("a.part", ".a.part", ".income-client.part", ".ca978112ca1bbdca.part"),
    "ca978112ca1bbdca.income-client.part",
    ".ca978112ca1bbdcA.income-client.part",
    ".ca978112ca1bbdca.income-client.part.pdf",
    ".ca978112ca1bbdca.income-client.partial",
    os.fsdecode(b".\xff978112ca1bbdca.income-client.part"),
)


def test_what_is_somebody_else_s_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with another name or owner; a link, a folder and a pipe under such a name."""
    for name in OTHER_NAMES:
        left(tmp_path, b"mine", name)
    link, folder_there, pipe = (left(tmp_path, b"x") for _ in range(3))
    for path in (link, folder_there, pipe):
        path.unlink()
    link.symlink_to(tmp_path / "a.part")
    folder_there.mkdir()
    os.mkfifo(pipe, 0o600)
    tidy(tmp_path)
    assert link.is_symlink()
    assert folder_there.is_dir()
    assert pipe.is_fifo()
    assert {(tmp_path / name).read_bytes() for name in OTHER_NAMES} == {b"mine"}
    theirs = left(tmp_path, b"theirs")
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    tidy(tmp_path)
    assert theirs.read_bytes() == b"theirs"


@pytest.mark.parametrize(("is_locked", "times"), [(False, 1), (True, 1), (True, 9)])
def test_a_new_one_that_is_taken_for_abandoned_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_locked: bool, times: int
) -> None:
    """Before its lock, another process may lock or remove it; an endless loop would not help."""
    real = fcntl.flock
    calls: list[int] = []

    def late(descriptor: int, operation: int) -> None:
        calls.append(descriptor)
        if len(calls) <= times:
            if is_locked:
                raise BlockingIOError
            for path in tmp_path.iterdir():
                path.unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    if times > 1:
        with pytest.raises(OSError, match="busy"):
            TemporaryFile.create(tmp_path)
        assert files_below(tmp_path) == {}
        return
    file = TemporaryFile.create(tmp_path)
    file.write(b"content")
    file.publish(tmp_path / "a", overwrite=False)
    assert files_below(tmp_path) == {"a": b"content"}
    assert len(calls) == 2


# Spools


async def test_one_block_is_in_flight_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk slows the writer down; memory holds two blocks, and no thread meets another."""
    gate = threading.Event()
    at_work: list[int] = []
    real = TemporaryFile.write

    def slow(file: TemporaryFile, block: bytes) -> None:
        at_work.append(len(block))
        assert len(at_work) == 1
        gate.wait()
        at_work.clear()
        real(file, block)

    monkeypatch.setattr(TemporaryFile, "write", slow)
    async with Spool(TemporaryFile.unnamed) as spool:
        await spool.write(b"a" * AT_ONCE)  # not waited for
        await spool.write(b"b" * (AT_ONCE - 1))
        blocked = asyncio.ensure_future(spool.write(b"b"))
        await asyncio.sleep(0)
        assert not blocked.done()
        gate.set()
        await blocked
        written = await spool.finish(lambda file: b"".join(file.blocks()))
        assert written == b"a" * AT_ONCE + b"b" * AT_ONCE
