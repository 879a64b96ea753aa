"""A file in an object store of the caller's, under a name made by a template.

The stores of obstore have the methods that are used here; the library is not imported. Its errors
show buckets, keys and addresses, so only their names are looked at.

A short file is one request, which can ask that nothing be replaced. A long one goes in parts, where
stores offer no such condition. obstore makes a store drop the parts only when the source of the
bytes fails, so a cancelled upload ends by an error of its source.
"""

import asyncio
import hashlib
import sys
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol, TypeGuard

from income_client.concurrency import run_to_the_end
from income_client.errors import DownloadError

from .destinations import ANOTHER, Existing, Published
from .naming import MEDIA_TYPES, FileFacts, NameTemplate, extension_of
from .temporary_file import Spool, TemporaryFile

LONGEST_SINGLE: Final = 8 * 2**20
"""Bytes up to which a file is one request, and in memory while that is under way."""

_PASSING: Final = "GenericError"
"""The name of obstore's error for a network fault that outlasted its own retries."""
_CHUNK: Final = 2**20
_MOST_LISTED: Final = 1000
_PART: Final = 5 * 2**20  # the least that S3 takes
_PARTS_AT_ONCE: Final = 3
_SECONDS_TO_ABORT: Final = 10.0
_EXISTS: Final = "AlreadyExistsError"
_UNCONDITIONAL: Final = frozenset({"NotImplementedError", "NotSupportedError"})
_WITH_ATTRIBUTES: Final = frozenset({"AzureStore", "GCSStore", "MemoryStore", "S3Store"})


class Store(Protocol):
    """An object store."""

    def head_async(self, path: str) -> Awaitable[Mapping[str, Any]]:
        """Return what is known of an object."""

    def get_async(self, path: str) -> Awaitable[Any]:
        """Begin to read an object."""

    def put_async(self, *arguments: Any, **options: Any) -> Awaitable[Any]:
        """Write an object, all of it or nothing."""

    def list(self, *arguments: Any, **options: Any) -> Any:
        """Begin to list objects."""


def is_store(candidate: object) -> TypeGuard[Store]:
    """Say whether an object is a store of obstore."""
    module = sys.modules.get("obstore.store")
    kinds = () if module is None else getattr(module, "ObjectStore", ())
    return isinstance(candidate, kinds)


class StorePlace:
    """A place in an object store; the object appears whole, or not at all.

    The file is on this machine, whole, before its first byte goes there. Two processes that
    upload a long file (more than 8 MiB) under one key at the same time both succeed, and the
    later one's stays. A process that is killed may leave parts there, which a rule of the bucket
    for incomplete uploads removes.
    """

    def __init__(self, store: Store, template: NameTemplate, facts: FileFacts) -> None:
        self._store = store
        self._name = template.of(facts)

    async def find_existing(self) -> tuple[Existing, ...]:
        """See `Place.find_existing`; one at the most."""
        has_extension = self._name.has_extension
        key = await self._first_listed() if has_extension else self._key_of(self._name.stem)
        size = None if key is None else await self._size_of(key)
        return () if key is None or size is None else (Existing(key, size),)

    async def match_existing(self, existing: Existing, md5: str) -> Published | None:
        """See `Place.match_existing`."""
        key = str(existing.path)
        sha256, other = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
        size = await self._read_through(key, sha256, other)
        if other.hexdigest() != md5:
            return None
        return Published(key, size, sha256.hexdigest(), was_there=True)

    def create(self) -> TemporaryFile:
        """See `Place.create`."""
        return TemporaryFile.unnamed()

    async def publish(
        self, spool: Spool, *, content_type: str | None = None, overwrite: bool = False
    ) -> Published:
        """See `Place.publish`."""
        file = await spool.finish(lambda file: file)
        extension = extension_of(content_type, file.head)
        key = self._key_of(self._name.with_extension(extension))
        knows_types = type(self._store).__name__ in _WITH_ATTRIBUTES
        media_type = MEDIA_TYPES.get(extension) if knows_types else None
        attributes = None if media_type is None else {"Content-Type": media_type}
        was_there = await self._upload_file(key, file, attributes, overwrite=overwrite)
        return Published.of(file, key, was_there=was_there)

    async def _upload_file(
        self, key: str, file: TemporaryFile, attributes: Any, *, overwrite: bool
    ) -> bool:
        """Write an object; return True if the same is there, and raise if another must stay."""
        put = partial(self._store.put_async, key, attributes=attributes)
        if file.size > LONGEST_SINGLE:
            if await self._is_there(key, file, overwrite=overwrite):
                return True
            await _put_parts(put, file)
            return False
        data = await run_to_the_end(lambda: b"".join(file.blocks()))
        # Cancelled, the object is there or is not: it is one request.
        put = partial(put, data, use_multipart=False)
        refusal = "" if overwrite else await _create_object(put)
        if refusal is None:
            return False
        if await self._is_there(key, file, overwrite=overwrite):
            return True
        if refusal == _EXISTS:
            raise DownloadError(ANOTHER)  # it is gone again
        with _without_text():
            await put(mode="overwrite")
        return False

    async def _is_there(self, key: str, file: TemporaryFile, *, overwrite: bool) -> bool:
        """Say whether the same file has the key; raise if another has it and must stay."""
        size = await self._size_of(key)
        if size is None:
            return False
        digest = hashlib.sha256()
        if size == file.size:
            await self._read_through(key, digest)
            if digest.hexdigest() == file.sha256:
                return True
        if not overwrite:
            raise DownloadError(ANOTHER)
        return False

    async def _read_through(self, key: str, *digests: "hashlib._Hash") -> int:
        """Read an object through these hashes, and return its size."""
        size = 0
        with _without_text():
            reply = await self._store.get_async(key)
            async for chunk in reply.stream(min_chunk_size=_CHUNK):
                size += len(chunk)
                for digest in digests:
                    await run_to_the_end(partial(digest.update, chunk))
        return size

    async def _size_of(self, key: str) -> int | None:
        """Return an object's length in bytes, None if there is none."""
        with _without_text():
            try:
                return int((await self._store.head_async(key))["size"])
            except FileNotFoundError:
                return None

    async def _first_listed(self) -> str | None:
        """Return the first key that the file can have and an object has, by one question.

        In a folder with very many objects one may be missed, which costs a download and no more.
        """
        keys = [self._key_of(name) for name in self._name.candidates()]
        folder = "/".join(self._name.folders) or None
        found: set[str] = set()
        listed = 0
        with _without_text(), suppress(FileNotFoundError):
            stream: AsyncIterable[Any] = self._store.list(
                folder, offset=self._key_of(self._name.stem), chunk_size=_MOST_LISTED
            )
            async for objects in stream:
                found.update(one["path"] for one in objects)
                listed += len(objects)
                if listed >= _MOST_LISTED:
                    break
        return next((key for key in keys if key in found), None)

    def _key_of(self, name: str) -> str:
        return "/".join((*self._name.folders, name))


async def _create_object(put: Callable[..., Awaitable[Any]]) -> str | None:
    """Write an object unless its key is taken; return the name of the refusal, None if written."""
    with _without_text():
        try:
            await put(mode="create")
        except Exception as error:
            name = type(error).__name__
            if name != _EXISTS and name not in _UNCONDITIONAL:
                raise
            return name
    return None


class _StoppedError(Exception):
    """The upload was cancelled."""


class _Parts(Iterator[bytes]):
    """The bytes of a file for threads of the store's library, until it is stopped."""

    def __init__(self, file: TemporaryFile) -> None:
        self._blocks = file.blocks(_PART)
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


async def _put_parts(put: Callable[..., Awaitable[Any]], file: TemporaryFile) -> None:
    parts = _Parts(file)
    running = asyncio.ensure_future(
        put(parts, use_multipart=True, chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE)
    )
    try:
        await asyncio.wait((running,))
    except asyncio.CancelledError:
        parts.stop()
        try:
            await asyncio.wait((running,), timeout=_SECONDS_TO_ABORT)
        finally:
            if running.done():
                running.cancelled() or running.exception()  # not retrieved elsewhere
            else:
                running.cancel()
        raise
    with _without_text():
        running.result()


@contextmanager
def _without_text() -> Iterator[None]:
    """Raise what a store raises as a `DownloadError` that shows its name alone."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        name = type(error).__name__
        raise DownloadError(
            f"the store's operation failed: {name}", retryable=name == _PASSING
        ) from None
