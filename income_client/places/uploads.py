"""How a file gets into an object store, whole or not at all; knows no names and no comparing.

A short file is one request, which can ask that nothing be replaced. A long one
goes in parts, for which stores know no such condition. A store forgets the
parts only if it is told so, and it is told when the source of the bytes fails:
therefore an upload that is cancelled is ended by its source.
"""

import asyncio
import threading
from collections.abc import Iterator
from enum import Enum, auto
from functools import partial
from typing import Any, Final

from income_client.concurrency import run_to_the_end
from income_client.disk.hashed_file import HashedFile
from income_client.errors import DownloadError

from .stores import Store, store_fault

LONGEST_SINGLE: Final = 8 * 2**20
"""Bytes up to which a file is one request, and in memory while that is under way."""

_PART: Final = 5 * 2**20  # the least that S3 takes
_PARTS_AT_ONCE: Final = 3
_SECONDS_TO_ABORT: Final = 10.0
_UNCONDITIONAL: Final = frozenset({"NotImplementedError", "NotSupportedError"})


class Uploaded(Enum):
    """What came of an upload that did not fail."""

    DONE = auto()
    TAKEN = auto()
    """Something has the key, and was not to be replaced."""
    NO_CONDITION = auto()
    """The store does not know how to leave an object alone; nothing was written."""


class _StoppedError(Exception):
    """The upload was cancelled."""


class _Parts(Iterator[bytes]):
    """The bytes of a file for threads of the store's library, until it is stopped."""

    def __init__(self, content: HashedFile) -> None:
        self._blocks = content.blocks(_PART)
        self._lock = threading.Lock()
        self._is_stopped = False

    def __next__(self) -> bytes:
        with self._lock:
            if self._is_stopped:
                raise _StoppedError
            return next(self._blocks)

    def stop(self) -> None:
        """Fail with the next part; once this returns, the file is read no more."""
        with self._lock:
            self._is_stopped = True


async def upload(
    store: Store,
    key: str,
    content: HashedFile,
    *,
    media_type: str | None,
    overwrite: bool,
) -> Uploaded | DownloadError:
    """Write a file to a store.

    Args:
        store: where to.
        key: under which.
        content: what; up to `LONGEST_SINGLE` bytes of it are one request.
        media_type: what to call it, where the store remembers that.
        overwrite: whether to replace what is there; a long file does so anyway.
    """
    attributes = None if media_type is None else {"Content-Type": media_type}
    if content.size > LONGEST_SINGLE:
        return await _in_parts(store, key, content, attributes)
    data = await run_to_the_end(lambda: b"".join(content.blocks()))
    mode = "overwrite" if overwrite else "create"
    try:
        # Cancelled, the object is there or is not: it is one request.
        await store.put_async(key, data, attributes=attributes, mode=mode, use_multipart=False)
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        return _meaning_of(error, overwrite=overwrite)
    return Uploaded.DONE


def _meaning_of(error: Exception, *, overwrite: bool) -> Uploaded | DownloadError:
    name = type(error).__name__
    if not overwrite and name == "AlreadyExistsError":
        return Uploaded.TAKEN
    if not overwrite and name in _UNCONDITIONAL:
        return Uploaded.NO_CONDITION
    return store_fault(error)


async def _in_parts(
    store: Store, key: str, content: HashedFile, attributes: Any
) -> Uploaded | DownloadError:
    parts = _Parts(content)
    put = partial(store.put_async, key, parts, attributes=attributes, use_multipart=True)
    running = asyncio.ensure_future(put(chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE))
    try:
        await asyncio.wait((running,))
    except asyncio.CancelledError:
        await _abort(running, parts)
        raise
    error = running.exception()
    return Uploaded.DONE if error is None else _fault_of(error)


def _fault_of(error: BaseException) -> DownloadError:
    return store_fault(error) if isinstance(error, Exception) else DownloadError("no store")


async def _abort(running: asyncio.Future[Any], parts: _Parts) -> None:
    parts.stop()
    try:
        await asyncio.wait((running,), timeout=_SECONDS_TO_ABORT)
    finally:
        if running.done():
            running.cancelled() or running.exception()  # nobody else will look at it
        else:
            running.cancel()
