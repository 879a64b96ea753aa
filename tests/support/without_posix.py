"""What Windows lacks is taken from this process; then the client is imported and used.

``python -m tests.support.without_posix FOLDER`` says ``done`` if all of it worked.
"""

import asyncio
import errno
import importlib
import multiprocessing.connection
import os
import pkgutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, Final

# These need the missing things themselves, in other ways on Windows.
import aiohttp
import cyclopts
import pyarrow.parquet
import rich.console
import uvicorn

_FOREIGN: Final = (aiohttp, cyclopts, multiprocessing.connection, pyarrow.parquet, rich, uvicorn)
_MODULES: Final = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
_FLAGS: Final = frozenset(
    {"O_APPEND", "O_CREAT", "O_EXCL", "O_RDONLY", "O_RDWR", "O_TRUNC", "O_WRONLY"}
)
_CALLS: Final = (
    "chown", "fchdir", "fchmod", "fchown", "fdatasync", "fork", "getegid", "geteuid", "getgid",
    "getpgid", "getuid", "killpg", "lchown", "mkfifo", "posix_fadvise", "pread", "preadv",
    "pwrite", "pwritev", "readv", "statvfs", "uname", "writev",
)  # fmt: skip
_SIGNALS: Final = frozenset(
    {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}
)
_TAKE_DIR_FD: Final = ("link", "mkdir", "open", "rename", "replace", "stat", "unlink")
_OPEN_FILES: Final = Path("/proc/self/fd")


def restrict() -> None:
    """Take from the standard library what it does not have on Windows."""
    for name in [*_CALLS, *(name for name in dir(os) if _is_flag(name))]:
        delattr(os, name)
    for name in dir(signal):
        if name.startswith("SIG") and name.isupper() and name not in _SIGNALS:
            delattr(signal, name)
    for name in _MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[assignment]
    os.supports_dir_fd = set()
    os.supports_effective_ids = set()
    for name in _TAKE_DIR_FD:
        setattr(os, name, _without_dir_fd(getattr(os, name)))
    os.remove = os.unlink
    os.rename = _replacing_nothing(os.rename)
    for name in ("rename", "replace", "unlink", "remove"):
        setattr(os, name, _refusing_open_files(getattr(os, name)))
    os.open = _refusing_folders(os.open)
    os.scandir = _refusing_descriptors(os.scandir)
    os.fsync = _refusing_readers(os.fsync)  # type: ignore[assignment]


def _is_flag(name: str) -> bool:
    return name.startswith("O_") and name not in _FLAGS


def _without_dir_fd(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def checked(*args: Any, **options: Any) -> Any:
        if any(options.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
            raise NotImplementedError("dir_fd unavailable on this platform")
        return call(*args, **options)

    return checked


def _refusing_open_files(call: Callable[..., Any]) -> Callable[..., Any]:
    """Let no open file be renamed or removed."""

    @wraps(call)
    def checked(path: Any, *args: Any, **options: Any) -> Any:
        found = os.lstat(path)
        if any(os.path.samestat(found, one) for one in _open_files()):
            raise PermissionError(errno.EACCES, "another process uses the file", str(path))
        return call(path, *args, **options)

    return checked


def _replacing_nothing(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def checked(path: Any, target: Any, **options: Any) -> Any:
        if Path(target).exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        return call(path, target, **options)

    return checked


def _open_files() -> Iterator[os.stat_result]:
    for link in _OPEN_FILES.iterdir():
        try:
            found = os.fstat(int(link.name))
        except OSError:  # that of the listing itself
            continue
        if stat.S_ISREG(found.st_mode):
            yield found


def _refusing_folders(call: Callable[..., int]) -> Callable[..., int]:
    @wraps(call)
    def checked(path: Any, *args: Any, **options: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return call(path, *args, **options)

    return checked


def _refusing_descriptors(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def checked(path: Any = ".") -> Any:
        if isinstance(path, int):
            raise TypeError("scandir: path should be string, bytes, os.PathLike or None, not int")
        return call(path)

    return checked


def _refusing_readers(call: Callable[[int], None]) -> Callable[[int], None]:
    """Let nothing be brought to the disk over a descriptor that is for reading only."""

    @wraps(call)
    def checked(descriptor: int) -> None:
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii").splitlines()
        flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
        if int(flags, 8) & 3 == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        call(descriptor)

    return checked


def import_everything() -> None:
    """Import every module, and with it every public name."""
    import income_client  # noqa: PLC0415 - after what is missing was taken away

    for module in pkgutil.walk_packages(income_client.__path__, "income_client."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    for name in income_client.__all__:
        getattr(income_client, name)


async def use(folder: Path) -> None:
    """Walk, poll and download; files are replaced, compared and refused."""
    from income_client import (  # noqa: PLC0415 - as above
        DownloadError,
        IncomeClient,
        SQLiteCheckpointStore,
    )
    from income_client.emulator import Emulator  # noqa: PLC0415 - as above

    async with (
        Emulator(40, file_bytes=400_000) as service,
        IncomeClient(service.url, auth=service.oauth2, downloads=service.download_policy) as client,
    ):
        walked = {row.application_id async for row in client.list_applications()}
        assert walked == set(service.world.ids)
        store = SQLiteCheckpointStore(folder / "checkpoints.sqlite3")
        poller = client.poll(store, start="1970-01-01", settle=0)
        polled = set()
        async for record in poller:
            polled.add(record.application.application_id)
            if polled == walked:
                poller.stop()
        documents = await client.get_documents(service.world.ids[0])
        for was_there in (False, True):
            stream = client.download_all(documents, folder / "files")
            files = [file async for file in stream]
            assert files
            assert {file.was_there for file in files} == {was_there}
        _, document = next(documents.all())
        content = service.content_of(document.document_id)
        path = folder / "slip.pdf"
        path.write_bytes(b"another")
        try:
            await client.download(document, path)
        except DownloadError:
            assert path.read_bytes() == b"another"
        await client.download(document, path, overwrite=True)
        assert path.read_bytes() == content
        await asyncio.gather(*(client.download(document, folder / "twice") for _ in range(2)))
        assert (folder / "twice").read_bytes() == content
        with (folder / "stream").open("wb") as target:
            await client.download(document, target)
        assert (folder / "stream").read_bytes() == content


if __name__ == "__main__":
    restrict()
    import_everything()
    asyncio.run(use(Path(sys.argv[1])))
    assert not list(Path(sys.argv[1]).rglob("*.part"))
    print("done")  # noqa: T201 - it is waited for
