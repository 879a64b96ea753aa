"""Which place a destination means, and what means none."""

import asyncio
import io
import socket
import sys
import tempfile
from pathlib import Path, PurePosixPath

import pytest
from obstore.store import LocalStore, MemoryStore

from income_client.downloads.destinations import StreamPlace
from income_client.downloads.many import places_in
from income_client.downloads.object_store import StorePlace
from income_client.errors import ConfigurationError
from tests.support.places import FACTS, FLAT, PDF, Landed, put


async def test_a_path_is_a_folder_or_a_file(tmp_path: Path) -> None:
    """A folder exists, or ends with a separator; any other path is that of a file."""
    (tmp_path / "old").mkdir()
    for folder in ("old", "new/"):
        where = await put(places_in(f"{tmp_path}/{folder}", FLAT)(FACTS), PDF)
        assert where == Landed(tmp_path / folder / "doc-1.pdf", was_there=False)
    for path in (str(tmp_path / "a"), tmp_path / "b", PurePosixPath(tmp_path / "c")):
        assert await put(places_in(path, FLAT)(FACTS), PDF) == Landed(Path(path), was_there=False)


def test_a_binary_stream_is_one_to_be_written_to() -> None:
    """Anything with write() for bytes will do."""

    class Mine:
        def write(self, data: bytes) -> None:
            """Take bytes."""

    with tempfile.NamedTemporaryFile() as file:
        for stream in (io.BytesIO(), Mine(), file):
            assert isinstance(places_in(stream, FLAT)(FACTS), StreamPlace)


@pytest.mark.parametrize("store", [MemoryStore(), LocalStore()])
def test_a_store_is_told_by_its_type(store: object) -> None:
    """Those of obstore are known as such."""
    assert isinstance(places_in(store, FLAT)(FACTS), StorePlace)


def test_obstore_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody has imported it, nothing can be a store of it."""
    monkeypatch.delitem(sys.modules, "obstore.store")
    with pytest.raises(ConfigurationError):
        places_in(MemoryStore(), FLAT)(FACTS)
    assert "obstore.store" not in sys.modules


def test_a_stream_that_cannot_take_a_file_is_refused(tmp_path: Path) -> None:
    """Text files, closed ones, ones for reading and asynchronous ones are told apart at once."""

    class Awaited:
        async def write(self, data: bytes) -> None:
            """Take bytes, later."""

    closed = io.BytesIO()
    closed.close()
    path = tmp_path / "a"
    path.touch()
    with path.open("rb") as reading, path.open("w") as text:
        for stream in (io.StringIO(), text, closed, reading, Awaited()):
            with pytest.raises(ConfigurationError):
                places_in(stream, FLAT)(FACTS)
    with tempfile.NamedTemporaryFile("w") as wrapped, pytest.raises(ConfigurationError):
        places_in(wrapped, FLAT)(FACTS)


async def test_a_stream_of_the_event_loop_is_refused() -> None:
    """No thread may write to it; what to use instead is said."""
    near, far = socket.socketpair()
    with far:
        _, writer = await asyncio.open_connection(sock=near)
        for stream in (writer, writer.transport):
            with pytest.raises(ConfigurationError, match=r"use io\.BytesIO\(\) or a path"):
                places_in(stream, FLAT)(FACTS)
        writer.close()
        await writer.wait_closed()
