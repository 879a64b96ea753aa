"""What is asked of an object store of the caller's; knows no library by import.

The stores of obstore have these methods. Their errors show buckets, keys and
addresses, so only the names of the errors are looked at.
"""

import hashlib
import sys
from collections.abc import AsyncIterable, Awaitable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeGuard

from income_client.concurrency import run_to_the_end
from income_client.errors import DownloadError

_PASSING: Final = "GenericError"
"""What obstore calls a fault of the network that its own retries could not mend."""
_CHUNK: Final = 2**20
_MOST_LISTED: Final = 1000


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
    """Say whether an object is a store of obstore, which is not imported for it."""
    module = sys.modules.get("obstore.store")
    kinds = () if module is None else getattr(module, "ObjectStore", ())
    return isinstance(candidate, kinds)


def has_attributes(store: Store) -> bool:
    """Say whether objects of a store have a content type of their own."""
    return type(store).__name__ in {"AzureStore", "GCSStore", "MemoryStore", "S3Store"}


def store_fault(error: Exception) -> DownloadError:
    """Return the error of ours for one of a store, without its text."""
    name = type(error).__name__
    return DownloadError(
        f"the store does not do what it was asked for: {name}", retryable=name == _PASSING
    )


async def size_of(store: Store, key: str) -> int | DownloadError | None:
    """Return an object's length in bytes, None where there is none."""
    try:
        return int((await store.head_async(key))["size"])
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        return store_fault(error)


async def first_of(
    store: Store, folder: str | None, stem: str, keys: Sequence[str]
) -> str | DownloadError | None:
    """Return the first of these keys under which an object is found.

    One question is asked, however many keys there are. In a folder with very
    many objects one may be missed, which costs a download and no more.

    Args:
        store: whose objects.
        folder: the prefix that all of the keys have, None where there is none.
        stem: what all of them begin with.
        keys: the likeliest first.
    """
    found: set[str] = set()
    wanted = set(keys)
    listed = 0
    try:
        stream: AsyncIterable[Any] = store.list(folder, offset=stem, chunk_size=_MOST_LISTED)
        async for objects in stream:
            found |= {one["path"] for one in objects if one["path"] in wanted}
            listed += len(objects)
            if listed >= _MOST_LISTED:
                break
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        return store_fault(error)
    return next((key for key in keys if key in found), None)


async def hash_of(store: Store, key: str, algorithm: str) -> str | DownloadError:
    """Read an object through the hash of this name, and return it in hex."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        reply = await store.get_async(key)
        async for chunk in reply.stream(min_chunk_size=_CHUNK):
            await run_to_the_end(partial(digest.update, chunk))
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        return store_fault(error)
    return digest.hexdigest()
