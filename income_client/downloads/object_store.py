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
from collections.abc import AsyncIterable, Awaitable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Protocol, TypeGuard

from income_client.concurrency import run_to_the_end
from income_client.errors import DownloadError

from .destinations import ANOTHER, Present, Published
from .naming import EXTENSIONS, MEDIA_TYPES, FileFacts, NameTemplate, extension_of
from .part_file import HashedFile
from .spool import Digest, SomeSpool, Spool

LONGEST_SINGLE: Final = 8 * 2**20
"""Bytes up to which a file is one request, and in memory while that is under way."""

_PASSING: Final = "GenericError"
"""What obstore calls a fault of the network that its own retries could not mend."""
_CHUNK: Final = 2**20
_MOST_LISTED: Final = 1000
_PART: Final = 5 * 2**20  # the least that S3 takes
_PARTS_AT_ONCE: Final = 3
_SECONDS_TO_ABORT: Final = 10.0
_UNCONDITIONAL: Final = frozenset({"NotImplementedError", "NotSupportedError"})
_WITH_ATTRIBUTES: Final = frozenset({"AzureStore", "GCSStore", "MemoryStore", "S3Store"})


class Store(Protocol):
    """An object store."""

    def head_async(self, path: str) -> Awaitable[Mapping[str, Any]]:
        """Return what is known of an object."""

    def get_async(self, path: str) -> Awaitable[Any]:
        """Begin to read an object."""

    def put_async(
        self,
        path: str,
        file: Any,
        *,
        attributes: Any = None,
        mode: Any = None,
        use_multipart: bool | None = None,
        chunk_size: int = ...,
        max_concurrency: int = ...,
    ) -> Awaitable[Any]:
        """Write an object, all of it or nothing."""

    def list(
        self, prefix: str | None = None, *, offset: str | None = None, chunk_size: int = 50
    ) -> Any:
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

    Raises:
        ConfigurationError: the template needs what is not known of the document.
    """

    def __init__(self, store: Store, template: NameTemplate, facts: FileFacts) -> None:
        self._store = store
        self._name = template.of(facts)

    async def present(self) -> tuple[Present, ...]:
        """See `Place.present`."""
        key: str | None = self._key(self._name.stem)
        if self._name.has_extension:
            keys = [self._key(self._name.named(extension)) for extension in EXTENSIONS]
            key = await self._first_of(keys)
        size = None if key is None else await self._size_of(key)
        return () if key is None or size is None else (Present(key, size),)

    async def hash_of(self, present: Present, algorithm: str) -> str:
        """See `Place.hash_of`."""
        digest = hashlib.new(algorithm, usedforsecurity=False)
        try:
            reply = await self._store.get_async(str(present.path))
            async for chunk in reply.stream(min_chunk_size=_CHUNK):
                await run_to_the_end(partial(digest.update, chunk))
        except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
            raise _store_fault(error) from None
        return digest.hexdigest()

    async def accept(self, present: Present) -> None:
        """See `Place.accept`; who may read objects is set in the store."""

    async def begin(self) -> SomeSpool:
        """See `Place.begin`; nothing is ever left for a later process."""
        return Spool(HashedFile.unnamed)

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,
        overwrite: bool = False,
    ) -> Published:
        """See `Place.publish`."""
        digest = await spool.finish()
        extension = extension_of(content_type, spool.file.head)
        key = self._key(self._name.named(extension))
        knows_types = type(self._store).__name__ in _WITH_ATTRIBUTES
        media_type = MEDIA_TYPES.get(extension) if knows_types else None
        published = await self._published(spool.file, digest, key, media_type, overwrite=overwrite)
        await spool.discard()
        return published

    async def _published(
        self,
        file: HashedFile,
        digest: Digest,
        key: str,
        media_type: str | None,
        *,
        overwrite: bool,
    ) -> Published:
        is_checked = overwrite or digest.size > LONGEST_SINGLE
        may_replace = overwrite
        for _ in range(2):
            if is_checked and await self._is_there(key, digest, overwrite=overwrite):
                return Published(key, was_there=True)
            outcome = await upload(
                self._store, key, file, media_type=media_type, overwrite=may_replace
            )
            if outcome is Uploaded.DONE:
                return Published(key, was_there=False)
            is_checked = True
            may_replace = may_replace or outcome is Uploaded.NO_CONDITION
        raise DownloadError(ANOTHER)

    async def _is_there(self, key: str, digest: Digest, *, overwrite: bool) -> bool:
        """Say whether the same file has the key; raise if another has it and must stay."""
        size = await self._size_of(key)
        if size is None:
            return False
        present = Present(key, size)
        if size == digest.size and await self.hash_of(present, "sha256") == digest.sha256:
            return True
        if not overwrite:
            raise DownloadError(ANOTHER)
        return False

    async def _size_of(self, key: str) -> int | None:
        """Return an object's length in bytes, None if there is none."""
        try:
            return int((await self._store.head_async(key))["size"])
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
            raise _store_fault(error) from None

    async def _first_of(self, keys: Sequence[str]) -> str | None:
        """Return the first of these keys under which an object is found, by one question.

        In a folder with very many objects one may be missed, which costs a download and no more.
        """
        folder = "/".join(self._name.folders) or None
        wanted, found = set(keys), set()
        listed = 0
        try:
            stream: AsyncIterable[Any] = self._store.list(
                folder, offset=self._key(self._name.stem), chunk_size=_MOST_LISTED
            )
            async for objects in stream:
                found |= {one["path"] for one in objects if one["path"] in wanted}
                listed += len(objects)
                if listed >= _MOST_LISTED:
                    break
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
            raise _store_fault(error) from None
        return next((key for key in keys if key in found), None)

    def _key(self, name: str) -> str:
        return "/".join((*self._name.folders, name))


class Uploaded(Enum):
    """What came of an upload that did not fail."""

    DONE = auto()
    TAKEN = auto()
    """Something has the key, and must not be replaced."""
    NO_CONDITION = auto()
    """The store cannot leave an existing object alone; nothing was written."""


class _StoppedError(Exception):
    """The upload was cancelled."""


class _Parts(Iterator[bytes]):
    """The bytes of a file for threads of the store's library, until it is stopped."""

    def __init__(self, file: HashedFile) -> None:
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


async def upload(
    store: Store, key: str, file: HashedFile, *, media_type: str | None, overwrite: bool
) -> Uploaded:
    """Write a file to a store; one longer than `LONGEST_SINGLE` replaces what is there."""
    attributes = None if media_type is None else {"Content-Type": media_type}
    if file.size > LONGEST_SINGLE:
        await _upload_parts(store, key, file, attributes)
        return Uploaded.DONE
    data = await run_to_the_end(lambda: b"".join(file.blocks()))
    mode = "overwrite" if overwrite else "create"
    try:
        # Cancelled, the object is there or is not: it is one request.
        await store.put_async(key, data, attributes=attributes, mode=mode, use_multipart=False)
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        name = type(error).__name__
        if not overwrite and name == "AlreadyExistsError":
            return Uploaded.TAKEN
        if not overwrite and name in _UNCONDITIONAL:
            return Uploaded.NO_CONDITION
        raise _store_fault(error) from None
    return Uploaded.DONE


async def _upload_parts(store: Store, key: str, file: HashedFile, attributes: Any) -> None:
    parts = _Parts(file)
    put = partial(store.put_async, key, parts, attributes=attributes, use_multipart=True)
    running = asyncio.ensure_future(put(chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE))
    try:
        await asyncio.wait((running,))
    except asyncio.CancelledError:
        await _abort(running, parts)
        raise
    error = running.exception()
    if error is not None:
        raise _store_fault(error)


async def _abort(running: asyncio.Future[Any], parts: _Parts) -> None:
    parts.stop()
    try:
        await asyncio.wait((running,), timeout=_SECONDS_TO_ABORT)
    finally:
        if running.done():
            running.cancelled() or running.exception()  # nobody else will look at it
        else:
            running.cancel()


def _store_fault(error: BaseException) -> DownloadError:
    """Return the download error for one of a store, without its text."""
    name = type(error).__name__
    return DownloadError(
        f"the store does not do what it was asked for: {name}", retryable=name == _PASSING
    )
