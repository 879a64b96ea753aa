"""Programs of the last version run and type-check, or the changelog names the change.

``released/VERSION`` holds them as they were: ``consumer`` (types only) and the examples. The first
change after a new version replaces them; see ``test_the_programs_are_those_of_the_last_version``.
"""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from income_client import __version__, _lazy
from income_client.emulator import Emulator
from tests.slow.callback_processes import free_port
from tests.slow.examples import started
from tests.slow.last_version import (
    IS_RELEASED,
    KEPT,
    LAST_VERSION,
    RELEASED,
    names_under_upgrading,
)
from tests.support.processes import ROOT, environment

CHANGED: Final = (
    *("SpanPart", "part", "split_span", "keep_partial"),
    *("cut_body", "expired_token", "flaky", "outage", "slow", "throttled"),
    *("CheckpointStore", "to_pandas", "to_polars"),
)
"""Public names, and arguments, that were renamed or taken out since. "Upgrading" has each."""
MOVED: Final = frozenset(name for names in _lazy.MOVED.values() for name in names.split())
"""Names that type checkers find only in another package, which "Upgrading" has."""
RUN: Final[Mapping[str, Sequence[str]]] = {
    "follow.py": ("follow.py",),
    "incomes.py": ("incomes.py",),
    "lookup.py": ("lookup.py", "REFERENCE"),
    "pay_slips.py": ("pay_slips.py", "APPLICATION"),
    "test_decision.py": (
        *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("--override-ini=asyncio_default_fixture_loop_scope=function", "test_decision.py"),
    ),
    "wake_on_callback.py": ("wake_on_callback.py",),
}
"""Arguments of the examples that need only the service; the types of all examples are checked."""
VARIABLES: Final = {"CALLBACK_USERNAME": "service", "CALLBACK_PASSWORD": "invented-password"}
"""Variables of the environment that examples read, apart from the service's."""

pytestmark = pytest.mark.timeout(300)


Faults = Mapping[str, list[str]]
"""Complaints of the type checker or the interpreter about programs of the last version, by path."""


def test_the_programs_are_those_of_the_last_version() -> None:
    """The first change after a new version has them replaced by those of that version."""
    assert IS_RELEASED or __version__ == LAST_VERSION, (
        f"the changelog's newest part needs a heading 'Upgrading from {__version__}'"
    )
    kept = [path.name for path in RELEASED.iterdir()]
    folder = KEPT.relative_to(ROOT)
    assert kept == [LAST_VERSION], (
        f"replace the programs of {kept} by those of {LAST_VERSION}: "
        f"git mv tests/slow/released/{kept[0]} {folder}; cp -r tests/examples {folder}; "
        f"cp tests/slow/consumer.py {folder}/consumer; and run {folder}/left/leave.py"
    )
    assert (KEPT / "left" / "leave.py").exists()
    assert list(KEPT.glob("consumer/*.py"))
    assert set(RUN) <= {path.name for path in KEPT.glob("examples/*.py")}


async def test_what_breaks_them_is_named_under_upgrading(tmp_path: Path) -> None:
    """The changelog names each change that a type checker or a run would show."""
    faults = find_untyped()
    typed = [name for name in RUN if f"examples/{name}" not in faults]
    ran = await asyncio.gather(*(run(copied(name, tmp_path / name), name) for name in typed))
    said = [f"{program}: {one}" for program, found in faults.items() for one in found]
    said += [one for one in ran if one]
    about = {name: [one for one in said if re.search(rf"\b{name}\b", one)] for name in CHANGED}
    explained = {one for found in about.values() for one in found}
    explained |= {one for one in said if not MOVED.isdisjoint(re.findall(r"\w+", one))}
    unexplained = [one for one in said if one not in explained]
    assert not unexplained, "name in CHANGED, and under Upgrading in CHANGELOG.md:\n" + "\n".join(
        unexplained
    )
    needless = [name for name, found in about.items() if not found]
    assert not needless, f"nothing of {LAST_VERSION} breaks by {needless}"
    unnamed = {*CHANGED, *_lazy.MOVED} - names_under_upgrading()
    assert not unnamed, f"name under Upgrading: {unnamed}"


def find_untyped() -> Faults:
    """Return what mypy has against the programs; it reads what its last run knew of the rest."""
    paths = (*KEPT.glob("consumer/*.py"), *KEPT.glob("examples/*.py"))
    programs = [str(path.relative_to(ROOT)) for path in sorted(paths)]
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "-O", "json", *programs],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in {0, 1}, ended.stdout + ended.stderr
    found: dict[str, list[str]] = {}
    for complaint in map(json.loads, ended.stdout.splitlines()):
        path, line = ROOT / complaint["file"], complaint["line"]
        if not path.is_relative_to(KEPT):
            continue  # a fault of the package itself, which mypy reports elsewhere
        # Where a name is gone, what comes of it is Any, as no type of the package is.
        if re.match(r'(Expression is of type "[^"]*|Returning )\bAny\b', complaint["message"]):
            continue
        source = path.read_text("utf-8").splitlines()[line - 1].strip()
        text = f"no longer types, line {line}: {complaint['message']}\n    {source}"
        found.setdefault(path.relative_to(KEPT).as_posix(), []).append(text)
    return found


def copied(name: str, folder: Path) -> Path:
    """Copy an example to a folder of its own, with a port that is free."""
    folder.mkdir()
    text = (KEPT / "examples" / name).read_text("utf-8")
    (folder / name).write_text(text.replace("port=9000", f"port={free_port()}"), "utf-8")
    return folder


def has_store(folder: Path) -> bool:
    """Return whether an example has begun to poll."""
    return any(folder.glob("*.db"))


async def run(folder: Path, name: str) -> str:
    """Run an example until it ends, or has a store of what it follows; return what went wrong."""
    async with Emulator(30) as service:
        words = {"REFERENCE": service.world.reference_of(7), "APPLICATION": service.world.ids[7]}
        arguments = [words.get(word, word) for word in RUN[name]]
        process = await started(service, folder, *arguments, **VARIABLES)
        ended = asyncio.create_task(process.communicate())
        while not ended.done() and not has_store(folder):  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.01)
        if not ended.done():
            process.send_signal(signal.SIGTERM)
        output, complaints = await ended
    if process.returncode in {0, -signal.SIGTERM} and not complaints:
        return ""
    return f"{name} no longer runs: {(output + complaints).decode()}"
