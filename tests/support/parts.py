"""Parts of files as tests want them."""

from pathlib import Path
from typing import Final

from income_client.downloads.part_file import create

VERSION: Final = "0123456789abcdef"


def left(path: Path, content: bytes, *, target: str = "a", version: str | None = VERSION) -> Path:
    """Leave a part behind as a killed process does, and return where it is."""
    before = set(path.iterdir())
    part = create(path, target, version)
    part.write(content)
    part.close()
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
