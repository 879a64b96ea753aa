"""Processes that save in a loop and are killed: imported once, forked for every round."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Self

from income_client.checkpoints import SQLiteCheckpointStore
from income_client.errors import CheckpointConflictError, CheckpointError

_SERVE = "from tests.support.store_processes import serve; serve()"


class Savers:
    """Starts processes that work on stores, from one that has imported all they need."""

    def __enter__(self) -> Self:
        self._source = subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        # A saver that a failed test left running ends with its next word.
        self._output.close()
        self._input.close()
        self._source.wait()

    def start(self, path: Path, processes: int, saves: int) -> list[int]:
        """Let processes race to save under one name, and return their ids."""
        self._input.write(f"{processes} {saves} {path}\n")
        self._input.flush()
        return [int(self.line()) for _ in range(processes)]

    def line(self) -> str:
        """Return what came next: the version of a save, "lost", or "end" when all are over."""
        return self._output.readline().strip()

    @property
    def _input(self) -> IO[str]:
        assert self._source.stdin is not None
        return self._source.stdin

    @property
    def _output(self) -> IO[str]:
        assert self._source.stdout is not None
        return self._source.stdout


def serve() -> None:
    """Fork as often as is asked for, and tell when all of a round have ended."""
    for order in sys.stdin:
        processes, saves, path = order.rstrip("\n").split(" ", 2)
        # Nobody speaks before all ids were told, so that none is taken for a version.
        gate, key = os.pipe()
        children = [_fork(path, int(saves), gate, key) for _ in range(int(processes))]
        for child in children:
            _say(child)
        os.close(key)
        os.close(gate)
        for child in children:
            os.waitpid(child, 0)
        _say("end")


def _fork(path: str, saves: int, gate: int, key: int) -> int:
    child = os.fork()
    if child == 0:
        os.close(key)
        os.read(gate, 1)
        try:
            asyncio.run(_save(SQLiteCheckpointStore(path), saves))
        finally:
            os._exit(0)
    return child


async def _save(store: SQLiteCheckpointStore, saves: int) -> None:
    for _ in range(saves):
        version = (await store.load("default")).version
        try:
            _say(await store.save("default", f"text {version + 1}", version=version))
        except CheckpointConflictError:
            _say("lost")
        except CheckpointError as error:
            # Kept out by the others for too long: nothing was saved.
            if not error.retryable:
                raise
            _say("lost")


def _say(word: object) -> None:
    os.write(1, f"{word}\n".encode())
