"""``income-client emulate`` with a target for callbacks, and ``trigger`` beside it."""

import asyncio
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import field, frozen

from tests.cli.entry import run, start


@frozen
class Emulating:
    """An emulator in a process of its own."""

    process: "subprocess.Popen[str]"
    """It."""
    lines: list[str] = field(factory=list)
    """What it printed at its start."""

    @property
    def variables(self) -> dict[str, str]:
        """What it exports, as a shell would read it."""
        assignments = [shlex.split(line)[1] for line in self.lines if line.startswith("export ")]
        return dict(one.split("=", 1) for one in assignments)

    async def trigger(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Have it fire."""
        return await asyncio.to_thread(run, "trigger", *arguments, **self.variables)


@contextmanager
def emulating(*arguments: str, **variables: Any) -> Iterator[Emulating]:
    """Run an emulator beside what happens inside."""
    process = start("emulate", "--applications", "20", *arguments, **variables)
    assert process.stdout is not None
    lines: list[str] = []
    try:
        while not lines or not lines[-1].startswith("# Its files: "):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        yield Emulating(process, lines)
    finally:
        process.kill()
        process.communicate()
