"""What has come of an export so far, kept beside its place; knows no service and no format.

Lines are on the disk before they are noted: what stands behind the last that is
noted, after a crash, is cut off when the export goes on. Once it is noted that
they are put at their place, the file may be there too, and is not touched.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from attrs import field, frozen

from income_client import ConfigurationError

from .notes import Missing, Notes
from .own_files import check_private, claim_folder, open_own, part_names

_LINES: Final = "records.jsonl"
_COPY: Final = "records.jsonl.copy"
_NOTES: Final = "notes.db"
_BESIDE_NOTES: Final = tuple(f"{_NOTES}-{end}" for end in ("journal", "wal", "shm"))
_BEGUN: Final = "request"
_PUBLISHED: Final = "published"
_MANIFESTS: Final = "manifests"


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
    facts: Mapping[str, object] = field(factory=dict[str, object])
    """Texts and numbers to be noted beside, by name."""


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
        self._descriptor: int | None = None
        claim_folder(folder)
        if not _is_part(folder):
            raise ConfigurationError(f"{folder} is something else than the part of an export")
        check_private(folder)
        for name in _BESIDE_NOTES:
            with suppress(FileNotFoundError):
                os.close(open_own(folder / name, os.O_RDONLY))
        os.close(open_own(folder / _NOTES, os.O_WRONLY | os.O_CREAT))
        self._notes = Notes(folder / _NOTES)
        try:
            self.size: int = int(self.fact("size") or 0)
            self.records: int = int(self.fact("records") or 0)
            if self.published is None:
                self._open()
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
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._notes.close()

    @property
    def request(self) -> str | None:
        """What the export was asked to be, as a text; None if it has not begun."""
        return self.fact(_BEGUN)

    @property
    def published(self) -> str | None:
        """What was put at its place, as whoever did that noted it; None before.

        While it is noted nothing is written to the lines, which may be that.
        """
        return self.fact(_PUBLISHED) or None

    def note_published(self, identity: str) -> None:
        """Note what is about to be put at its place."""
        self.note(**{_PUBLISHED: identity})

    def note_put(self, manifest: bytes) -> None:
        """Note a manifest that is about to be put beside the place of the lines."""
        self.note(**{_MANIFESTS: f"{self.fact(_MANIFESTS) or ''} {sha256(manifest).hexdigest()}"})

    def has_put(self, manifest: bytes) -> bool:
        """Say whether a manifest was noted by `note_put`."""
        return sha256(manifest).hexdigest() in (self.fact(_MANIFESTS) or "").split()

    def go_on(self) -> None:
        """Take it up again although it was put at its place, as it is there no more.

        Lines with a second name are copied, and lines that were removed are read again.

        Raises:
            ConfigurationError: the notes cannot be written, or others own the lines.
            OSError: the lines cannot be opened or copied.
        """
        if self._descriptor is not None:
            return
        if not self.lines.exists() or self.lines.stat().st_size < self.size:
            # The last run was about to remove all of it.
            self._notes.clear()
            self.size = self.records = 0
            self.lines.unlink(missing_ok=True)
        else:
            self.note(**{_PUBLISHED: ""})
        self._open()

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
        if self._descriptor is None:
            raise ConfigurationError(f"{self.folder} was put at its place already")
        written = b"".join(line + b"\n" for line in gain.lines)
        rest = memoryview(written)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        if written:
            os.fsync(self._descriptor)
        size, records = self.size + len(written), self.records + len(gain.lines)
        facts: dict[str, object] = {**gain.facts, "size": size, "records": records}
        if gain.checkpoint is not None:
            facts["checkpoint"] = gain.checkpoint
        self._notes.add(facts, gain.application_ids, gain.missing)
        self.size, self.records = size, records

    def remove(self) -> None:
        """Remove the folder with all that is in it, last the notes, which say what it is.

        What cannot be removed is left to the next run.
        """
        self._is_removed = True
        with suppress(OSError):
            for one in self.folder.iterdir():
                if not one.name.startswith(_NOTES):
                    remove(one)
            for name in (*_BESIDE_NOTES, _NOTES):
                remove(self.folder / name)
            self.folder.rmdir()

    def _open(self) -> None:
        """Open the lines behind the last that is kept, and cut off what stands there."""
        part_names(self.lines, self.folder / _COPY)
        descriptor = open_own(self.lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            self._cut(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _cut(self, descriptor: int) -> None:
        if os.fstat(descriptor).st_size < self.size:
            raise ConfigurationError(f"{self.folder} is damaged: delete it to begin again")
        os.ftruncate(descriptor, self.size)


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_part(folder: Path) -> bool:
    """Say whether a folder holds notes, or nothing but what is left of such."""
    names = [one.name for one in folder.iterdir()]
    return _NOTES in names or all(name in _BESIDE_NOTES for name in names)
