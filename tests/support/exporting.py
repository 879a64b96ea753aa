"""``income-client export`` of a service to one place."""

import json
from pathlib import Path
from typing import Any, Final
from unittest import mock

from income_client.emulator import Fault
from tests.support.processes import Ran

from .cli import Cli, when


class Export:
    """Runs the command.

    Attributes:
        service: what it reads.
        target: where to; in a folder that has nothing else in it.
    """

    def __init__(self, shell: Cli) -> None:
        folder = shell.folder / "exports"
        folder.mkdir()
        self.service: Final = shell.service
        self.target = folder / "all"
        self._shell = shell

    def __call__(self, *arguments: str, **options: Any) -> Ran:
        """Run it."""
        return self._shell("export", "--to", str(self.target), *arguments, **options)

    def interrupted(self, *arguments: str, by: str = "terminate") -> Ran:
        """Run it until some lines are kept and the service goes silent; stop it."""
        before = self._reads()
        self.service.faults.add(Fault("stall", skip=54, times=None, path="*/app-*"))
        stop = when(lambda: self._reads() - before > 26 and self.kept, by)
        with mock.patch("income_client.cli.export._MOST_LINES", 20):
            ran = self(*arguments, during=stop)
        self.service.faults.clear()
        return ran

    @property
    def part(self) -> Path:
        """Where what has come is kept."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def kept(self) -> list[str]:
        """The applications that are kept in the part, in lines that are whole by now."""
        path = self.part / "records.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return list(map(_id_in, lines))

    @property
    def lines(self) -> list[Any]:
        """The lines of the file."""
        return [json.loads(line) for line in self.target.read_bytes().splitlines()]

    @property
    def ids(self) -> list[str]:
        """The applications of the file, sorted."""
        return sorted(map(_id_in, self.target.read_bytes().splitlines()))

    @property
    def manifest(self) -> Any:
        """What is said beside the file."""
        path = self.target.with_name(f"{self.target.name}.manifest.json")
        return json.loads(path.read_text("utf-8"))

    @property
    def left(self) -> set[str]:
        """The names beside the target, itself included."""
        return {path.name for path in self.target.parent.iterdir()}

    def _reads(self) -> int:
        return self.service.requests.count("get_application")


def _id_in(line: bytes) -> str:
    application_id: str = json.loads(line)["application"]["application_id"]
    return application_id
