"""Gives workers their lives and takes them, one at a time; knows no service and no store."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from attrs import frozen

from .chaos_worker import Life

_ROOT: Final = Path(__file__).parents[1]
_PATIENCE_SECONDS: Final = 20.0


@frozen(kw_only=True)
class Lived:
    """How a life went."""

    number: int
    """Which one."""
    words: tuple[str, ...]
    """What the worker said, in order."""
    code: int
    """How its process ended; less than 0 by a signal."""

    @property
    def batches(self) -> int:
        """How many batches it was given."""
        return sum(word.startswith("batch") for word in self.words)

    @property
    def uncommitted(self) -> int | None:
        """The number of the batch that it may not have committed, if there is one."""
        committed = sum(word.startswith("committed") for word in self.words)
        return self.batches if self.batches > committed else None

    @property
    def place(self) -> str:
        """What it was about when it ended."""
        last = self.words[-1].split()[0] if self.words else ""
        return {
            "": "before its first batch",
            "batch": "inside a batch",
            "written": "in a commit",
            "committed": "between batches",
        }[last]


class Nursery:
    """A process that forks workers, until the block is left; none of them outlives it."""

    _process: Process

    def __init__(self) -> None:
        self._words: list[str] = []
        self._number = 0

    async def __aenter__(self) -> Self:
        command = (sys.executable, "-W", "error", "-m", f"{__package__}.chaos_worker")
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, cwd=_ROOT
        )
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def start(self, life: Life) -> None:
        """Begin a life."""
        self._words, self._number = [], life.number
        self._order(life.order())

    async def word(self, seconds: float) -> str | None:
        """Return what the worker says next; None if it says nothing for so long."""
        try:
            async with asyncio.timeout(seconds):
                word = await self._line()
        except TimeoutError:
            return None
        self._words.append(word)
        return word

    async def kill(self) -> Lived:
        """End the life by SIGKILL."""
        return await self._ended("kill\n")

    async def stop(self) -> Lived:
        """End the life by SIGTERM, which the worker heeds in its own way."""
        return await self._ended("stop\n")

    async def _ended(self, order: str) -> Lived:
        self._order(order)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not (word := await self._line()).startswith("ended"):
                self._words.append(word)
        code = int(word.split()[1])
        return Lived(number=self._number, words=tuple(self._words), code=code)

    def _order(self, line: str) -> None:
        if self._process.stdin is None:
            raise BrokenPipeError
        self._process.stdin.write(line.encode())

    async def _line(self) -> str:
        line = b"" if self._process.stdout is None else await self._process.stdout.readline()
        if not line:
            raise BrokenPipeError("the process that forks workers has ended")
        return line.decode().strip()
