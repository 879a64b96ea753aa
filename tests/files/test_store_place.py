"""Object stores: an object is whole or absent, and never replaced without a word."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from obstore.store import LocalStore, MemoryStore

from income_client.downloads import object_store
from income_client.downloads.destinations import Existing, Published
from income_client.downloads.naming import NameTemplate
from income_client.downloads.object_store import StorePlace
from income_client.errors import DownloadError
from tests.support.downloads import files_below
from tests.support.places import FACTS, FLAT, LONG, PDF, SORTED, Landed, put

KEY = "app-1/paystub/doc-1-0.pdf"


AnyStore = LocalStore | MemoryStore


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> AnyStore:
    """Return a store with nothing in it."""
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path)


@pytest.fixture(params=["single", "parts"])
def content(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return the content of a file that is uploaded in one request, or in parts."""
    if request.param == "parts":
        monkeypatch.setattr(object_store, "LONGEST_SINGLE", 1000)
        monkeypatch.setattr(object_store, "_PART", 2**17)
    return LONG[:600_000]


class Wrapped:
    """A store in front of another, for faults that those do not have."""

    def __init__(self, store: AnyStore, fault: Exception | None = None) -> None:
        self._store = store
        self.fault = fault
        self.modes: list[object] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_async(self, path: str, file: Any, **options: Any) -> Any:
        """Write an object, or fail where it is to be created only."""
        self.modes.append(options.get("mode"))
        if self.fault is not None and options.get("mode") != "overwrite":
            raise self.fault
        return await self._store.put_async(path, file, **options)


async def read(store: AnyStore, key: str) -> bytes | None:
    """Return an object's content, None where there is none."""
    try:
        return bytes(await (await store.get_async(key)).bytes_async())
    except FileNotFoundError:
        return None


async def test_an_object_is_whole_and_never_replaced_without_a_word(
    store: AnyStore, content: bytes
) -> None:
    """Its key is made like a name in a folder; what is there is compared by content."""
    place = StorePlace(store, SORTED, FACTS)
    assert await place.find_existing() == ()
    assert await put(place, content) == Landed(KEY, was_there=False)
    (existing,) = await place.find_existing()
    assert existing == Existing(KEY, len(content))
    there = await place.match_existing(existing, hashlib.md5(content).hexdigest())
    sha256 = hashlib.sha256(content).hexdigest()
    assert there == Published(KEY, len(content), sha256, was_there=True)
    assert await place.match_existing(existing, hashlib.md5(b"another").hexdigest()) is None
    for overwrite in (False, True):
        again = await put(place, content, overwrite=overwrite)
        assert again == Landed(KEY, was_there=True)
    other = content[:-1] + b"?"
    for one in (other, content + b"?"):
        refused = await put(place, one)
        assert isinstance(refused, DownloadError)
        assert "another file is there already" in str(refused)
        assert await read(store, KEY) == content
    assert await put(place, other, overwrite=True) == Landed(KEY, was_there=False)
    assert await read(store, KEY) == other


async def test_neighbours_are_not_taken_for_it(store: AnyStore) -> None:
    """What begins alike is another file, however it sorts; an empty file is an object too."""
    names = "doc-1", "doc-1.pdf.bak", "doc-10.pdf", "doc-1.d/a.pdf", "doc-0.pdf", "x/doc-1.pdf"
    for key in names:
        await store.put_async(key, b"x")
    place = StorePlace(store, FLAT, FACTS)
    assert await place.find_existing() == ()
    whole = StorePlace(store, NameTemplate.read("{document_id}.pdf"), FACTS)
    assert await whole.find_existing() == ()
    await put(place, PDF)
    for one in (place, whole):
        assert [found.size for found in await one.find_existing()] == [len(PDF)]
    empty = StorePlace(store, SORTED, FACTS)
    assert await put(empty, b"") == Landed(KEY.replace("pdf", "bin"), was_there=False)
    assert await read(store, KEY.replace("pdf", "bin")) == b""


async def test_the_media_type_is_of_our_own_making() -> None:
    store = MemoryStore()
    await put(StorePlace(store, FLAT, FACTS), PDF, content_type="x/evil\r\nX: y")
    assert (await store.get_async("doc-1.pdf")).attributes == {"Content-Type": "application/pdf"}


async def test_without_conditions_a_store_is_looked_at_first() -> None:
    """One that cannot create without replacing is asked what is there, and then told to write."""
    store = MemoryStore()
    wrapped = Wrapped(store, NotImplementedError("S3CRET"))
    place = StorePlace(wrapped, FLAT, FACTS)
    assert await put(place, PDF) == Landed("doc-1.pdf", was_there=False)
    assert wrapped.modes == ["create", "overwrite"]
    assert await put(place, PDF) == Landed("doc-1.pdf", was_there=True)
    assert isinstance(await put(place, PDF + b"?"), DownloadError)
    assert await read(store, "doc-1.pdf") == PDF


async def test_a_fault_of_a_store_is_told_without_its_text(content: bytes) -> None:
    """Its texts show buckets and addresses; its kind is enough."""
    store = MemoryStore()
    for fault in (RuntimeError, OSError, PermissionError):
        outcome = await put(StorePlace(Wrapped(store, fault("S3CRET")), FLAT, FACTS), content)
        assert isinstance(outcome, DownloadError)
        assert str(outcome) == f"the store's operation failed: {fault.__name__}"
        assert (outcome.__cause__, outcome.__context__) == (None, None)
        assert await read(store, "doc-1.pdf") is None


async def test_a_key_that_a_store_refuses_is_a_value(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(b"file")
    place = StorePlace(LocalStore(tmp_path), SORTED, FACTS)
    assert isinstance(await put(place, PDF), DownloadError)
    assert files_below(tmp_path) == {"app-1": b"file"}
