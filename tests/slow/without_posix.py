"""Import and use of the client in a process without the functions that Windows lacks.

``python -m tests.slow.without_posix FOLDER`` says ``done`` if all of it worked.
"""

import asyncio
import contextlib
import errno
import importlib
import multiprocessing.connection
import os
import pkgutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
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
    flags = [name for name in dir(os) if name.startswith("O_") and name not in _FLAGS]
    for name in [*_CALLS, *flags]:
        delattr(os, name)
    for name in dir(signal):
        if name.startswith("SIG") and name.isupper() and name not in _SIGNALS:
            delattr(signal, name)
    for name in _MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[assignment]
    os.supports_dir_fd = set()
    os.supports_effective_ids = set()
    _refuse(_TAKE_DIR_FD, _folder_descriptors)
    os.remove = os.unlink
    _refuse(("rename",), _existing_target)
    _refuse(("rename", "replace", "unlink", "remove"), _open_file)
    _refuse(("open",), _folder)
    _refuse(("scandir",), _descriptor)
    _refuse(("fsync",), _reader)


def _refuse(names: Iterable[str], check: Callable[..., None]) -> None:
    """Make functions of `os` fail as a check of their arguments does."""
    for name in names:
        setattr(os, name, _checked(getattr(os, name), check))


def _checked(call: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    @wraps(call)
    def checked(*args: Any, **options: Any) -> Any:
        check(*args, **options)
        return call(*args, **options)

    return checked


def _folder_descriptors(*_: Any, **options: Any) -> None:
    if any(options.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
        raise NotImplementedError("dir_fd unavailable on this platform")


def _open_file(path: Any, *_: Any, **__: Any) -> None:
    """Let no open file be renamed or removed."""
    found, opened = os.lstat(path), list[os.stat_result]()
    for link in _OPEN_FILES.iterdir():
        with contextlib.suppress(OSError):  # of the listing itself
            opened.append(os.fstat(int(link.name)))
    if any(stat.S_ISREG(one.st_mode) and os.path.samestat(found, one) for one in opened):
        raise PermissionError(errno.EACCES, "another process uses the file", str(path))


def _existing_target(_: Any, target: Any, **__: Any) -> None:
    if Path(target).exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _folder(path: Any, *_: Any, **__: Any) -> None:
    if Path(path).is_dir():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _descriptor(path: Any = ".") -> None:
    if isinstance(path, int):
        raise TypeError("scandir: path should be string, bytes, os.PathLike or None, not int")


def _reader(descriptor: int) -> None:
    """Let nothing be brought to the disk over a descriptor that is for reading only."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii").splitlines()
    flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
    if int(flags, 8) & 3 == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


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
        path = folder / "slip.pdf"
        path.write_bytes(b"another")
        with contextlib.suppress(DownloadError):
            await client.download(document, path)
        assert path.read_bytes() == b"another"
        await client.download(document, path, overwrite=True)
        await asyncio.gather(*(client.download(document, folder / "twice") for _ in range(2)))
        for one in (path, folder / "twice"):
            assert one.read_bytes() == service.content_of(document.document_id)


if __name__ == "__main__":
    restrict()
    import_everything()
    asyncio.run(use(Path(sys.argv[1])))
    assert not list(Path(sys.argv[1]).rglob("*.part"))
    print("done")  # noqa: T201 - it is waited for
