"""An export that has all its lines put at its place, whole or not at all; reads no service."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from attrs import asdict, frozen

from income_client import ApplicationRecord, ConfigurationError, ParquetTables, Window, from_json
from income_client.cli.private_files import put, sync, write

from .notes import Missing
from .part import Part, remove
from .request import Request, Span

Format = Literal["jsonl", "parquet"]
Tell = Callable[[int], None]
"""Takes how many records are done."""

_TABLES: Final = "tables"
_MANIFEST: Final = "manifest.json"


@frozen(kw_only=True)
class Outcome:
    """What an export came to, as it says itself."""

    request: Request
    """What it was asked to be."""
    span: Span
    """What it is of."""
    missing: tuple[Missing, ...]
    """What could not be read."""
    saturated: tuple[Window, ...]
    """Seconds that hold more applications than can be asked for."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.missing and not self.saturated

    def manifest(self, **more: object) -> bytes:
        """Return it as JSON, further members behind."""
        said: dict[str, Any] = {
            "service": self.request.service,
            "updated_after": self.span.after and self.span.after.isoformat(),
            "updated_before": self.span.before.isoformat(),
            "next_updated_after": self.span.next_after.isoformat(),
            "documents": self.request.documents,
            "pages": self.request.pages,
            "addresses": self.request.addresses,
            "whole": self.is_whole,
            "missing": [asdict(one) for one in self.missing],
            "saturated_seconds": [one.starts_at.isoformat() for one in self.saturated],
            **more,
        }
        return json.dumps(said, indent=2).encode() + b"\n"


def manifest_beside(target: Path) -> Path:
    """Return where the manifest of a file of lines stands."""
    return target.with_name(f"{target.name}.{_MANIFEST}")


def part_beside(target: Path) -> Path:
    """Return where the part of what is to be at a place stands."""
    return target.with_name(f"{target.name}.part")


def publish_lines(part: Part, target: Path, outcome: Outcome) -> None:
    """Put the lines at their place, and the manifest beside them.

    Raises:
        ConfigurationError: the notes cannot be kept.
        OSError: they cannot be put there, or something is there.
    """
    manifest = outcome.manifest(format="jsonl", records=part.records, size=part.size)
    write(part.folder / _MANIFEST, manifest)
    check_free(manifest_beside(target), is_ours=part.has_put)
    # Noted first, so that after a crash the next run knows it again and may replace it.
    part.note_put(manifest)
    (part.folder / _MANIFEST).replace(manifest_beside(target))
    part.note_published(_identity(part.lines))
    put(part.lines, target)
    sync(target.parent)


def write_tables(
    part: Part, outcome: Outcome, tell: Tell, is_stopped: Callable[[], bool]
) -> dict[str, int] | None:
    """Write the lines as Parquet files with a manifest among them, in the part.

    Args:
        part: holds the lines.
        outcome: what the manifest says.
        tell: is told how far it is.
        is_stopped: whether it is to end without a result.

    Returns:
        How many rows each has; None if it was to end.

    Raises:
        ConfigurationError: a record holds what a column cannot hold exactly.
        OSError: they cannot be written.
    """
    for left in part.folder.iterdir():
        if left.name.lstrip(".").startswith(_TABLES):
            remove(left)
    folder = _tables(part)
    with suppress(_Stopped), ParquetTables(folder) as tables:
        for record in _records(part, tell):
            if is_stopped():
                raise _Stopped
            tables.write(record)
    if not folder.exists():
        return None
    rows = tables.rows
    write(folder / _MANIFEST, outcome.manifest(format="parquet", records=part.records, rows=rows))
    sync(folder)
    return rows


def publish_tables(part: Part, target: Path) -> None:
    """Put the tables that were written at their place.

    Args:
        part: holds them.
        target: the folder to be.

    Raises:
        ConfigurationError: the notes cannot be kept.
        OSError: they cannot be put there, or something is there.
    """
    folder = _tables(part)
    part.note_published(_identity(folder))
    if is_there(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    folder.rename(target)
    sync(target.parent)


def was_published(part: Part, target: Path) -> bool:
    """Say whether what is at a place is this very export, put there before a crash."""
    published = part.published
    if published is None or not is_there(target):
        return False
    # A file system may number its devices anew when it is mounted again.
    return published == _identity(target) or (
        is_there(part.lines) and os.path.samestat(part.lines.lstat(), target.lstat())
    )


def places_of(target: Path, format_: Format) -> tuple[Path, ...]:
    """Return where an export puts something: its file, and the manifest beside lines."""
    return (target, manifest_beside(target)) if format_ == "jsonl" else (target,)


def check_free(*places: Path, is_ours: Callable[[bytes], bool] = lambda _: False) -> None:
    """Make sure that nothing would be replaced.

    Args:
        *places: where something is to be put.
        is_ours: says of a file's content whether an earlier run of this export has put it there.

    Raises:
        ConfigurationError: something is there.
        OSError: there can be nothing, such as under a name that is too long.
    """
    for place in places:
        if is_there(place) and not (place.is_file() and is_ours(place.read_bytes())):
            raise ConfigurationError(f"{place} exists already, and is not overwritten")


def is_there(place: Path) -> bool:
    """Say whether there is anything at a place, a link to nowhere too.

    Raises:
        OSError: that cannot be known, or there can be nothing.
    """
    try:
        place.lstat()
    except FileNotFoundError:
        return False
    return True


class _Stopped(Exception):  # noqa: N818 - no fault, and caught here
    """It was to end."""


def _records(part: Part, tell: Tell) -> Iterator[ApplicationRecord]:
    with part.lines.open("rb") as lines:
        for count, line in enumerate(lines):
            tell(count)
            yield from_json(ApplicationRecord, line)


def _identity(path: Path) -> str:
    facts = path.lstat()
    return f"{facts.st_dev}:{facts.st_ino}"


def _tables(part: Part) -> Path:
    return part.folder / _TABLES
