"""Gives processes that download their lives and takes them; knows no service and no file."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.download_worker import Life

_ROOT: Final = Path(__file__).parents[2]
_COMMAND: Final = (sys.executable, "-W", "error", "-m", "tests.support.download_worker")


class Nursery:
    """A process that forks processes that download; none of them outlives the block."""

    _process: Process

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *_COMMAND, stdin=PIPE, stdout=PIPE, cwd=_ROOT
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    def start(self, life: Life) -> None:
        """Begin a life, beside those that go on."""
        self._order(life.order())

    async def word(self) -> str:
        """Return what is said next: "ended" once the lives are over that were to end."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise BrokenPipeError("the process that forks others has ended")
        return line.decode().strip()

    async def kill(self) -> list[str]:
        """End all lives by SIGKILL, and return what else they had said."""
        return await self._rest("kill\n")

    async def wait(self) -> list[str]:
        """Let all lives come to their own ends, and return what else they say."""
        return await self._rest("wait\n")

    async def _rest(self, order: str) -> list[str]:
        self._order(order)
        words = []
        while (word := await self.word()) != "ended":
            words.append(word)
        return words

    def _order(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
