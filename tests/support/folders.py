"""What is in a folder to which files are downloaded: whole, private, or a hidden part."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from income_client import DownloadedFile
from income_client.downloads.temporary_file import TemporaryFile
from tests.support.downloads import files_below, mode_of


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Lend a folder; in memory where the system has that, since each file is synced."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def check_private(folder: Path) -> None:
    """Check that nobody else may read what is in a folder, parts included."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            assert mode_of(path) & 0o077 == 0


def left_in(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder, all of it private."""
    check_private(folder)
    return files_below(folder)


def left(folder: Path, content: bytes, name: str | None = None) -> Path:
    """Leave a temporary file behind as a killed process does, and return where it is."""
    before = set(folder.iterdir())
    file = TemporaryFile.create(folder)
    file.write(content)
    file._file.close()
    (made,) = set(folder.iterdir()) - before
    return made if name is None else made.rename(folder / name)


@asynccontextmanager
async def watched(path: Path, contents: frozenset[bytes]) -> AsyncIterator[None]:
    """Look at a path with every turn of the loop: what is there is whole and private."""

    def look() -> None:
        with suppress(FileNotFoundError):
            assert path.read_bytes() in contents
            assert mode_of(path) == 0o600
        check_private(path.parent)

    async def watch() -> None:
        while True:
            look()
            await asyncio.sleep(0)

    task = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def check_file(file: DownloadedFile, path: Path, contents: frozenset[bytes]) -> None:
    """Check that a file is what is said of it, and one of these contents."""
    content = path.read_bytes()
    assert content in contents
    assert (file.path, file.size) == (path, len(content))
    assert file.sha256 == hashlib.sha256(content).hexdigest()
    assert mode_of(path) == 0o600
