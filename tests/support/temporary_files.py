"""Temporary files of downloads as tests want them."""

from pathlib import Path
from typing import Final

from income_client.downloads.temporary_file import TemporaryFile

NAMES_OF_EARLIER_VERSIONS: Final = (
    ".ca978112ca1bbdca.0123456789abcdef.0a1b2c3d.part",
    ".ca978112ca1bbdca.-.0a1b2c3d.part",
    ".ca978112ca1bbdca.IjAxMjMuNDU2LmFiYyI=.0a0b0c0d.0a1b2c3d.part",
    f".ca978112ca1bbdca.{'x' * 136}.0a0b0c0d.0a1b2c3d.part",
)
"""What 0.2 and 0.1 called theirs."""


def left(folder: Path, content: bytes, name: str | None = None) -> Path:
    """Leave a temporary file behind as a killed process does, and return where it is."""
    before = set(folder.iterdir())
    file = TemporaryFile.create(folder)
    file.write(content)
    file._file.close()
    (made,) = set(folder.iterdir()) - before
    return made if name is None else made.rename(folder / name)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files in a folder, by name, or by ``.part`` for temporary ones."""
    return {
        ".part" if one.suffix == ".part" else one.name: one.read_bytes() for one in folder.iterdir()
    }
