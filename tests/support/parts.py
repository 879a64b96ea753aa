"""Parts of files as tests want them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from income_client.disk.folders import Folder, open_folder
from income_client.disk.partial_files import create

MARK: Final = '"0123abcd"'


@contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """Lend a folder."""
    with open_folder(path) as folder:
        yield folder


def left(path: Path, content: bytes, *, target: str = "a", mark: str | None = MARK) -> Path:
    """Leave a part behind as a killed process does, and return where it is."""
    before = set(path.iterdir())
    with opened(path) as folder:
        part = create(folder, target, mark)
        part.content.write(content)
        part.content.close()
    (made,) = set(path.iterdir()) - before
    return made


def contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of all files in a folder, by name; the names of parts are cut short."""
    return {
        ".part" if one.suffix == ".part" else one.name: one.read_bytes() for one in path.iterdir()
    }


def clear(path: Path) -> None:
    """Remove all files of a folder."""
    for one in path.iterdir():
        one.unlink()
