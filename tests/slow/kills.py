"""Start, kill, start again: processes and servers that end without a word, at any moment.

A process that has imported everything forks a worker for each order, so that a life costs
milliseconds. A worker is a function of keyword arguments, the first of which, ``say``, sends a word
to the test. ``python -m tests.slow.kills MODULE FUNCTION`` is that first process; it calls
``prepare`` of the module, if there is one: `read_once`, where lives read the service.
"""

import asyncio
import fcntl
import json
import os
import signal
import sqlite3
import sys
import traceback
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from attrs import define, field

from income_client import IncomeClient, to_json
from income_client.emulator import Emulator

ROOT: Final = Path(__file__).parents[2]
KILLED: Final = -signal.SIGKILL
_PATIENCE: Final = 60.0
_OUTPUT: Final = os.dup(1) if __name__ == "__main__" else 1
"""Descriptor for words, apart from a worker's standard output."""
_OPERATIONS: Final = (
    *("chmod", "fchmod", "fsync", "ftruncate", "link", "mkdir", "open", "remove", "rename"),
    *("replace", "rmdir", "unlink", "write", "writev"),
)
"""Functions of `os` before which a worker can be killed; locks and SQL statements count, too.

It says ``before`` and the operation then, and ``operations`` with their number if it survives.
"""


def share_of(config: pytest.Config, share: float) -> int:
    """Return how many kills of one kind there are, as a share of all that ``--kills`` asks for."""
    kills: int = config.getoption("kills")
    return max(2, round(kills * share))


# Workers, as a test sees them


@define
class Life:
    """One worker, from its start to its end."""

    number: int
    words: list[str] = field(factory=list)
    """Words that the worker has said so far."""
    code: int | None = None
    """Exit code: 0 for success, `KILLED`, or another one; None while the worker runs."""

    def said(self, beginning: str) -> list[str]:
        """Return its words that begin so."""
        return [word for word in self.words if word.startswith(beginning)]


@define
class Workers:
    """Starts workers of one kind and kills them."""

    process: Process
    lives: list[Life] = field(factory=list)

    def start(self, *, dies_before: int | None = None, **facts: Any) -> Life:
        """Begin a life, which may end before one of its operations on files, counted from 0."""
        life = Life(len(self.lives))
        self.lives.append(life)
        self._order("start", life, json.dumps({"dies_before": dies_before, "facts": facts}))
        return life

    async def live(self, **facts: Any) -> Life:
        """Let a worker come to its end, which must be a good one."""
        life = self.start(**facts)
        await self.wait(life)
        assert life.code == 0, life
        return life

    async def die(self, most: int, fresh: Callable[[], Mapping[str, Any]]) -> AsyncIterator[Life]:
        """Kill workers, each before another of its operations on files, and not more than so many.

        The first and the last one are among them; what is fresh are the facts of each, whose place
        it makes.
        """
        (word,) = (await self.live(dies_before=sys.maxsize, **fresh())).said("operations ")
        last = int(word.split()[1]) - 1
        among = sorted(Random(last).sample(range(1, last), min(most, last + 1) - 2))
        for number in (0, *among, last):
            life = self.start(dies_before=number, **fresh())
            await self.wait(life)
            assert life.code == KILLED
            yield life

    async def word(self, seconds: float = _PATIENCE) -> str:
        """Return what is said next, by whichever worker."""
        async with asyncio.timeout(seconds):
            life, word = await self._read()
        life.words.append(word)
        return word

    async def kill(self, life: Life) -> None:
        await self.wait(life, "kill")
        assert life.code == KILLED, life

    async def wait(self, life: Life, how: str = "wait") -> None:
        """Wait until a life has ended, by itself or, told to ``stop``, by SIGTERM."""
        self._order(how, life)
        async with asyncio.timeout(_PATIENCE):
            while life.code is None:
                other, word = await self._read()
                if word.startswith("ended "):
                    other.code = int(word.split()[1])
                else:
                    other.words.append(word)

    def _order(self, what: str, life: Life, rest: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {life.number} {rest}\n".encode())

    async def _read(self) -> tuple[Life, str]:
        assert self.process.stdout is not None
        line = (await self.process.stdout.readline()).decode().strip()
        if not line:
            raise BrokenPipeError("the process that forks workers has ended")
        number, _, word = line.partition(" ")
        return self.lives[int(number)], word


@asynccontextmanager
async def workers_of(work: Callable[..., object]) -> AsyncIterator[Workers]:
    """Lend what starts workers that run a function of a module; none outlives the block."""
    command = (sys.executable, "-W", "error", "-m", __name__, work.__module__, work.__name__)
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT)
    try:
        yield Workers(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(_PATIENCE):
            await process.wait()


# Workers, as the process that forks them sees them


def read_once() -> None:
    """Read a service, so that no life has to import and to compile what that needs."""

    async def read() -> None:
        async with Emulator(1) as service, IncomeClient(service.url, auth=service.oauth2) as client:
            async for record in client.fetch_records(client.list_applications()):
                to_json(record)

    asyncio.run(read())


def main(module: str, name: str) -> None:
    """Obey the orders on standard input until it ends; leave no process behind."""
    loaded = import_module(module)
    function = getattr(loaded, name)
    getattr(loaded, "prepare", list)()
    children: dict[str, int] = {}
    try:
        for order in sys.stdin:
            what, number, rest = order.rstrip("\n").split(" ", 2)
            if what == "start":
                children[number] = _born(function, number, **json.loads(rest))
                continue
            child = children.pop(number)
            if what != "wait":
                os.kill(child, signal.SIGKILL if what == "kill" else signal.SIGTERM)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            _say(number, f"ended {code}")
    finally:
        for child in children.values():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _born(
    function: Callable[..., object], number: str, dies_before: int | None, facts: dict[str, Any]
) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        say = partial(_say, number)
        seen = [] if dies_before is None else _watch(dies_before, say)
        function(say, **facts)
        if dies_before is not None:
            say(f"operations {len(seen)}")
        code = 0
    except BaseException:  # noqa: BLE001 - nothing of it may reach the parent's loop
        traceback.print_exc()
    finally:
        os._exit(code)


def _watch(dies_before: int, say: Callable[[str], None]) -> list[str]:
    """Note the operations on files from now on, and end this process before one of them."""
    seen: list[str] = []

    def watched(operation: Callable[..., Any]) -> Callable[..., Any]:
        def watch(*arguments: Any, **named: Any) -> Any:
            # Where words and complaints go is not one of the worker's files.
            if not arguments or arguments[0] not in {1, 2, _OUTPUT}:
                if len(seen) == dies_before:
                    say(f"before {operation.__name__} {arguments[0] if arguments else ''}")
                    os.kill(os.getpid(), signal.SIGKILL)
                seen.append(operation.__name__)
            return operation(*arguments, **named)

        return watch

    class Watched(sqlite3.Connection):
        execute = watched(sqlite3.Connection.execute)

    for name in _OPERATIONS:
        setattr(os, name, watched(getattr(os, name)))
    vars(fcntl)["flock"] = watched(fcntl.flock)
    vars(sqlite3)["connect"] = partial(sqlite3.connect, factory=Watched)
    return seen


def _say(number: str, word: str) -> None:
    os.write(_OUTPUT, f"{number} {word}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
