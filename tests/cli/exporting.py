"""``income-client export`` against an emulated service in the test's own process."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from attrs import frozen

from income_client.emulator import Fault
from tests.cli.polling import reads
from tests.cli.running import ServiceCommand, ended, until


@frozen
class Command(ServiceCommand):
    """The command on one service and one place."""

    target: Path
    """Where to."""

    def line(self, *arguments: str) -> tuple[str, ...]:
        """Return the command line with some arguments."""
        return ("export", "--to", str(self.target), *arguments)

    async def stopped(
        self, *arguments: str, by: signal.Signals = signal.SIGKILL
    ) -> "subprocess.CompletedProcess[str]":
        """Run it until some lines are kept, while the service goes silent, and send it a signal."""
        before = reads(self.service)
        self.service.faults.add(Fault("stall", skip=270, times=None, path="*/app-*"))
        with self.started(*arguments) as process:
            await until(lambda: reads(self.service) - before > 130 and self.kept() > 0)
            process.send_signal(by)
            output, errors = await ended(process)
        self.service.faults.clear()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    @property
    def part(self) -> Path:
        """Where what has come is kept."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def lines(self) -> list[Any]:
        """The lines of the file."""
        return [json.loads(line) for line in self.target.read_bytes().splitlines()]

    @property
    def ids(self) -> list[str]:
        """The applications of the file, in its order."""
        return [line["application"]["application_id"] for line in self.lines]

    @property
    def manifest(self) -> Any:
        """What is said beside the file."""
        path = self.target.with_name(f"{self.target.name}.manifest.json")
        return json.loads(path.read_text("utf-8"))

    @property
    def left(self) -> set[str]:
        """The names beside the target, itself included."""
        return {path.name for path in self.target.parent.iterdir()}

    def kept(self) -> int:
        """Return how many bytes of lines are in the part so far."""
        path = self.part / "records.jsonl"
        return path.stat().st_size if path.exists() else 0
