"""Files in folders and at paths: where they land, what they replace, what they leave."""

import asyncio
import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from income_client.downloads.destinations import DiskPlace, Existing, Place, Published
from income_client.downloads.temporary_file import TemporaryFile
from income_client.errors import ConfigurationError
from tests.support.cancelled import CancelledAt
from tests.support.places import FACTS, FLAT, LONG, PDF, SORTED, Landed, put, refusal_of, tree
from tests.support.temporary_files import left

WHERE = "app-1/paystub/doc-1-0.pdf"


def mode(path: Path) -> int:
    """Return the permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def names(path: Path) -> set[str]:
    """Return the names in a folder."""
    return {one.name for one in path.iterdir()}


def descriptors() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def written(path: Path) -> tuple[int, ...]:
    """Return which file it is, and when it was written or changed last; reading counts not."""
    facts = path.stat()
    return facts.st_ino, facts.st_mode, facts.st_mtime_ns, facts.st_ctime_ns


def place_at(path: Path, kind: str) -> Place:
    """Return a place of this kind for the file ``doc-1.pdf`` in a folder."""
    return (
        DiskPlace.below(path, FLAT, FACTS) if kind == "folder" else DiskPlace.at(path / "doc-1.pdf")
    )


@pytest.mark.parametrize("umask", [0o000, 0o077])
async def test_a_file_lands_below_its_folder(tmp_path: Path, umask: int) -> None:
    """Folders are made, all is private whatever the umask says, the bytes give the extension."""
    before = os.umask(umask)
    try:
        published = await put(DiskPlace.below(tmp_path / "new" / "er", SORTED, FACTS), PDF)
    finally:
        os.umask(before)
    top = tmp_path / "new" / "er"
    assert published == Landed(top / WHERE, was_there=False)
    assert tree(tmp_path / "new") == {f"er/{WHERE}": PDF}
    assert mode(top / WHERE) == 0o600
    folders = [tmp_path / "new", top, top / "app-1", top / "app-1" / "paystub"]
    assert {mode(one) for one in folders} == {0o700}


@pytest.mark.parametrize(
    ("content_type", "content", "name"),
    [
        ("image/png", PDF, "doc-1.png"),
        ("application/octet-stream", PDF, "doc-1.pdf"),
        (None, b"?", "doc-1.bin"),
        ("../../x", b"", "doc-1.bin"),
    ],
)
async def test_its_extension_is_of_our_own_making(
    tmp_path: Path, content_type: str | None, content: bytes, name: str
) -> None:
    """A media type chooses from our table, and is never part of a name."""
    place = DiskPlace.below(tmp_path, FLAT, FACTS)
    await put(place, content, content_type=content_type)
    assert tree(tmp_path) == {name: content}
    (existing,) = await place.find_existing()
    assert existing == Existing(tmp_path / name, len(content))
    there = await place.match_existing(existing, hashlib.md5(content).hexdigest())
    sha256 = hashlib.sha256(content).hexdigest()
    assert there == Published(tmp_path / name, len(content), sha256, was_there=True)
    assert await place.match_existing(existing, hashlib.md5(b"another").hexdigest()) is None


async def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    """No extension is added, no folder is made, and its mode is private."""
    path = tmp_path / "any name.x"
    assert await put(DiskPlace.at(path), PDF) == Landed(path, was_there=False)
    assert tree(tmp_path) == {"any name.x": PDF}
    assert mode(path) == 0o600
    missing = DiskPlace.at(tmp_path / "missing" / "a")
    assert str(await put(missing, PDF)).endswith("no such file or directory")
    assert "no such file" in str(await refusal_of(missing))


@pytest.mark.parametrize("path", ["", ".", "..", "/", "a/.."])
def test_a_path_names_a_file(path: str) -> None:
    """What can only be a folder is refused."""
    with pytest.raises(ConfigurationError):
        DiskPlace.at(Path(path))


async def test_a_relative_path_is_fixed_when_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change of the working directory does not move a place."""
    monkeypatch.chdir(tmp_path)
    places = DiskPlace.at(Path("a")), DiskPlace.below(Path(), FLAT, FACTS)
    monkeypatch.chdir("/")
    for place in places:
        await put(place, PDF)
    assert tree(tmp_path) == {"a": PDF, "doc-1.pdf": PDF}


async def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    """What the caller names is the caller's."""
    (tmp_path / "true").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "true")
    await put(DiskPlace.below(tmp_path / "link", FLAT, FACTS), PDF)
    assert tree(tmp_path / "true") == {"doc-1.pdf": PDF}


@pytest.mark.parametrize("kind", ["folder", "path"])
async def test_what_a_killed_process_left_in_the_folder_is_removed(
    tmp_path: Path, kind: str
) -> None:
    """With the first look, whichever file it was of; a process at work keeps its own."""
    for number in range(3):
        left(tmp_path, LONG[: 70_000 * number])
    at_work = TemporaryFile.create(tmp_path)
    at_work.write(b"at work")
    place = place_at(tmp_path, kind)
    assert await place.find_existing() == ()
    assert list(tree(tmp_path).values()) == [b"at work"]
    at_work.publish(tmp_path / "other", overwrite=False)
    assert await put(place, LONG) == Landed(tmp_path / "doc-1.pdf", was_there=False)
    assert tree(tmp_path) == {"doc-1.pdf": LONG, "other": b"at work"}


@pytest.mark.parametrize("kind", ["folder", "path"])
async def test_cancelled_at_any_await_the_file_is_whole_or_absent(
    tmp_path: Path, kind: str
) -> None:
    """Nothing else is left."""
    await put(place_at(tmp_path, kind), PDF)
    before = descriptors()
    for number in range(1000):
        folder = tmp_path / str(number)
        folder.mkdir()
        attempt = CancelledAt(put(place_at(folder, kind), LONG), number)
        with suppress(asyncio.CancelledError):
            await attempt
        assert descriptors() == before
        found = tree(folder)
        assert found.pop("doc-1.pdf", LONG) == LONG
        assert found == {}
        if not attempt.is_cancelled:
            break
    assert not attempt.is_cancelled
    assert (folder / "doc-1.pdf").exists()
    assert number > 3
