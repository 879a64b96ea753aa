"""What has come of an export so far, kept beside its place; knows no service and no format.

Lines are on the disk before they are noted: what stands behind the last that is
noted, after a crash, is cut off when the export goes on.
"""

import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from attrs import frozen

from income_client import ConfigurationError

from .notes import Missing, Notes

_LINES: Final = "records.jsonl"
_NOTES: Final = "notes.db"
_BEGUN: Final = "request"
_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_SAFELY: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@frozen(kw_only=True)
class Gain:
    """What has come since the last was kept."""

    lines: Sequence[bytes]
    """Each without its end."""
    application_ids: Sequence[str]
    """Whose lines these are, in their order."""
    missing: Sequence[Missing]
    """What could not be read."""
    checkpoint: str | None
    """Of the walk; None where it has not moved."""


class Part:
    """The folder that holds it, for this process alone; made if it is not there.

    Args:
        folder: where it is.

    Attributes:
        folder: likewise.
        lines: the file of lines.
        size: bytes of the lines that are kept.
        records: how many these are.

    Raises:
        ConfigurationError: it is something else, or damaged, or another process has it.
        OSError: it cannot be had.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: Path = folder / _LINES
        self._is_removed = False
        with suppress(FileExistsError):
            folder.mkdir(_PRIVATE_FOLDER)
        if not _is_ours(folder):
            raise ConfigurationError(f"{folder} is something else than the part of an export")
        for name in (_NOTES, _LINES):
            os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | _SAFELY, _PRIVATE))
        self._notes = Notes(folder / _NOTES)
        try:
            self.size: int = int(self.fact("size") or 0)
            self.records: int = int(self.fact("records") or 0)
            self._descriptor = self._opened()
        except BaseException:
            self._notes.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Of one that never began nothing is worth keeping.
        with suppress(ConfigurationError):
            if not self._is_removed and self.fact(_BEGUN) is None:
                self.remove()
        os.close(self._descriptor)
        self._notes.close()

    @property
    def request(self) -> str | None:
        """What the export was asked to be, as a text; None if it has not begun."""
        return self.fact(_BEGUN)

    def begin(self, request: str, **facts: object) -> None:
        """Note what the export is to be, and whatever else is fixed when it begins."""
        self._notes.add({_BEGUN: request, **facts})

    def fact(self, name: str) -> str | None:
        """Return what is noted under a name, None for nothing."""
        return self._notes.fact(name)

    def note(self, **facts: object) -> None:
        """Note texts and numbers under their names."""
        self._notes.add(facts)

    def known(self, application_ids: Sequence[str]) -> set[str]:
        """Return those of some applications that are there, or noted as missing."""
        return self._notes.known(application_ids)

    def missing(self) -> list[Missing]:
        """Return what could not be read so far."""
        return self._notes.missing()

    def keep(self, gain: Gain) -> None:
        """Keep what has come, all or none, so that it survives a loss of power.

        Raises:
            ConfigurationError: the notes cannot be written.
            OSError: the lines cannot be written.
        """
        written = b"".join(line + b"\n" for line in gain.lines)
        rest = memoryview(written)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        if written:
            os.fsync(self._descriptor)
        size, records = self.size + len(written), self.records + len(gain.lines)
        facts: dict[str, object] = {"size": size, "records": records}
        if gain.checkpoint is not None:
            facts["checkpoint"] = gain.checkpoint
        self._notes.add(facts, gain.application_ids, gain.missing)
        self.size, self.records = size, records

    def remove(self) -> None:
        """Remove the folder with all that is in it, last the notes, which say what it is."""
        self._is_removed = True
        for one in self.folder.iterdir():
            if not one.name.startswith(_NOTES):
                remove(one)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _opened(self) -> int:
        """Open the lines behind the last that is kept, and cut off what stands there."""
        descriptor = os.open(self.lines, os.O_WRONLY | os.O_APPEND | _SAFELY)
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size < self.size:
            os.close(descriptor)
            raise ConfigurationError(f"{self.folder} is damaged: delete it to begin again")
        os.ftruncate(descriptor, self.size)
        return descriptor


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_ours(folder: Path) -> bool:
    """Say whether a folder holds notes, or nothing yet."""
    if not stat.S_ISDIR(folder.lstat().st_mode):
        return False
    return (folder / _NOTES).exists() or not any(folder.iterdir())
