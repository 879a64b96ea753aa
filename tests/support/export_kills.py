"""Kills ``export`` before each of its operations on files in turn, and runs it again after each."""

import json
import os
import shutil
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any, Final

from income_client import ApplicationRecord, from_json, to_arrow
from income_client.cli import main as run

_KILLED: Final = 99
_OPERATIONS: Final = (
    *("chmod", "fchmod", "fsync", "ftruncate", "link", "mkdir", "open", "remove", "rename"),
    *("replace", "rmdir", "unlink", "write"),
)


def main() -> None:
    """Print a line of JSON for each operation: what it was, and what the next run came to."""
    target, *arguments = sys.argv[1:]
    line = ["export", "--to", target, *arguments]
    # Loaded once, and not by each child anew.
    to_arrow(())
    _silently("export", "--help")
    for number in count():
        told = Path(f"{target}.told")
        killed = _in_child(line, number, told)
        again = _in_child(line, None, told) if killed == _KILLED else killed
        facts = {"operation": told.read_text(), "killed": killed, "again": again}
        sys.stdout.write(json.dumps({**facts, **_found(Path(target))}) + "\n")
        sys.stdout.flush()
        if killed != _KILLED:
            return
        _clear(Path(target).parent)


def _silently(*line: str) -> int:
    """Run a command that nobody hears, and return its status."""
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    sys.argv = ["income-client", *line]
    try:
        run()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
    return 0


def _in_child(line: list[str], number: int | None, told: Path) -> int:
    child = os.fork()
    if child == 0:
        if number is not None:
            _kill_before(number, Path(line[2]).parent, told)
        os._exit(_silently(*line))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _kill_before(number: int, folder: Path, told: Path) -> None:
    """End the process before an operation, counted from 0 in those within a folder."""
    told.write_text("")
    seen = 0

    def watch(owner: Any, name: str) -> None:
        operation = getattr(owner, name)

        def watched(first: Any, *rest: Any, **named: Any) -> Any:
            nonlocal seen
            is_elsewhere = first in {1, 2} or (
                isinstance(first, str | os.PathLike) and not str(first).startswith(str(folder))
            )
            if is_elsewhere:
                return operation(first, *rest, **named)
            if seen == number:
                original_write(original_open(told, os.O_WRONLY), f"{name} {first}".encode())
                os._exit(_KILLED)
            seen += 1
            return operation(first, *rest, **named)

        setattr(owner, name, watched)

    original_open, original_write = os.open, os.write
    for name in _OPERATIONS:
        watch(os, name)


def _found(target: Path) -> dict[str, object]:
    ids: list[Any] = []
    if target.is_file():
        lines = target.read_bytes().splitlines()
        records = [from_json(ApplicationRecord, line) for line in lines]
        ids = [record.application.application_id for record in records]
    elif target.is_dir():
        import pyarrow.parquet as pq  # noqa: PLC0415 - for tables alone

        ids = pq.read_table(target / "applications.parquet")["application_id"].to_pylist()
    left = sorted(path.name for path in target.parent.iterdir() if path.name.endswith(".part"))
    return {"ids": sorted(ids), "is_once": set(Counter(ids).values()) <= {1}, "left": left}


def _clear(folder: Path) -> None:
    for one in folder.iterdir():
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink()


if __name__ == "__main__":
    main()
