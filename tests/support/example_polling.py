"""How the examples of the guide that poll are run, and what must come of each.

The poller's pauses are real here and long. A process that is started again polls at
once, so each of these lives is one poll.
"""

import asyncio
import contextlib
import json
import re
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from income_client import DeadLetter, SQLiteCheckpointStore, Window
from income_client.emulator import Emulator, Fault
from income_client.records.window import EPOCH
from tests.support.examples import RunExample, python, started, until, variables
from tests.support.processes import COMMAND, ROOT, environment

_LINE: Final = re.compile(r"(app-[0-9a-f]{10}) [0-9-]{10} [0-9:]{8}\+00:00")


@contextlib.asynccontextmanager
async def alive(
    service: Emulator, path: Path, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run an example beside what happens inside; it is killed at the end unless it ended."""
    process = await started(service, path.parent, path.name, **more)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def ended(process: asyncio.subprocess.Process) -> list[str]:
    """Have a process end as a service manager does, and return the rest of its lines."""
    process.terminate()
    output, complaints = await process.communicate()
    assert (process.returncode, complaints.decode()) == (0, "")
    return output.decode().splitlines()


async def lines_of(process: asyncio.subprocess.Process, count: int) -> list[str]:
    """Return the next lines that it prints."""
    assert process.stdout is not None
    return [(await process.stdout.readline()).decode().rstrip("\n") for _ in range(count)]


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Return what a query finds in an SQLite file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


async def begun(store: Path) -> None:
    """Wait until a poller that begins with the present has stored which one that is."""

    def has_begun() -> bool:
        with contextlib.suppress(sqlite3.OperationalError):  # the file is there before its tables
            return store.exists() and bool(rows(store, "SELECT * FROM checkpoints"))
        return False

    await until(has_begun)


def updated(service: Emulator, numbers: range) -> list[str]:
    """Update applications after what was polled before, and return their ids in order."""
    service.advance(60)
    for number in numbers:
        service.touch(service.world.ids[number])
    service.advance(60)
    return sorted(service.world.ids[number] for number in numbers)


async def polls_once(service: Emulator, path: Path) -> None:
    """Each run prints what changed since the last; after a restored backup, since the backup."""
    store, backup = path.parent / "nightly.db", path.parent / "backup.db"
    everything = await python(service, path.parent, path.name)
    assert ids_in(everything) == sorted(service.world.ids)
    assert await python(service, path.parent, path.name) == []
    shutil.copy(store, backup)
    first = updated(service, range(3, 6))
    assert ids_in(await python(service, path.parent, path.name)) == first
    second = updated(service, range(6, 8))
    shutil.copy(backup, store)
    again = await python(service, path.parent, path.name)
    assert ids_in(again) == sorted(first + second)


async def polls_by_command(service: Emulator, folder: Path, shown: str) -> None:
    """The command writes each application with its documents, and nothing twice."""
    # With what the text below it names, since a test wants it to end.
    whole = shown.replace(" >> ", " --once >> ")
    for _ in range(2):
        assert await _shell(service, folder, whole) == []
    written = (folder / shown.rpartition(" ")[2]).read_text("utf-8").splitlines()
    records = [json.loads(line) for line in written]
    ids = [record["application"]["application_id"] for record in records]
    assert sorted(ids) == sorted(service.world.ids)
    assert all(record["documents"] for record in records)


def ids_in(lines: Iterable[str]) -> list[str]:
    """Return the ids in lines that hold an id and a time each."""
    matches = [_LINE.fullmatch(line) for line in lines]
    assert all(matches), lines
    return sorted(match[1] for match in matches if match)


async def _shell(service: Emulator, folder: Path, line: str) -> list[str]:
    """Have a shell run a line in a folder, and return what it printed."""
    line = line.replace("income-client", shlex.join(COMMAND), 1)
    process = await asyncio.create_subprocess_shell(
        line,
        cwd=folder,
        env=environment(**variables(service), PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return output.decode().splitlines()


async def forgets(service: Emulator, path: Path) -> None:
    """What is gone is forgotten; what fails otherwise, and a second, stay dead letters."""
    store, broken = SQLiteCheckpointStore(path.parent / "nightly.db"), service.world.ids[0]
    fault = Fault("status", status=403, path=f"/v1/income/applications/{broken}", times=None)
    service.faults.add(fault)
    letters = [
        DeadLetter(
            application_id=application_id,
            window=Window(1, 2),
            reason="not read",
            attempts=2,
            first_tried_at=EPOCH,
            last_tried_at=EPOCH,
        )
        for application_id in ("app-gone", broken, None)
    ]
    await store.save("default", "{}", version=0, dead_letters=letters)
    assert await python(service, path.parent, path.name) == ["app-gone"]
    assert {letter.application_id for letter in await store.dead_letters("default")} == {
        broken,
        None,
    }


RUN: Final[Mapping[str, RunExample]] = {
    "forget_deleted.py": forgets,
    "nightly.py": polls_once,
}
