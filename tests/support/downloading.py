"""``income-client download`` of everything that a service has, into one folder."""

import json
import re
from pathlib import Path
from typing import Any, Final

from income_client.emulator import Fault
from tests.support.emulated import served
from tests.support.processes import Ran

from .application_payloads import paystub
from .cli import Cli

HERE: Final = ("--allow-host", "127.0.0.1")
FILES: Final = "/documents/*"
"""The paths of the host of files."""
_COUNT: Final = re.compile(r"([\d,]+) (new|there|failed)\b")


class Download:
    """Runs the command on a service; `hosts` says where files may come from."""

    def __init__(self, shell: Cli) -> None:
        self.service: Final = shell.service
        self.folder = shell.folder / "files"
        self.hosts: tuple[str, ...] = HERE
        self._shell = shell

    def __call__(self, *arguments: str, **options: Any) -> Ran:
        """Run it: on every application, unless some are named or a span is given."""
        is_chosen = any(one == "-" or one.startswith(("app-", "--updated")) for one in arguments)
        ids = () if is_chosen else self.service.ids
        return self._shell(
            "download", "--to", str(self.folder), *self.hosts, *arguments, *ids, **options
        )

    @property
    def files(self) -> list[Path]:
        """The files in the folder, in the order of their paths, with those not complete yet."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    @property
    def unfinished(self) -> list[Path]:
        """The files that are not complete yet."""
        return list(self.folder.rglob(".*.part"))

    @property
    def file_requests(self) -> int:
        """How often the host of files was asked."""
        return self.service.requests.count("file")

    def serve_one(self, kind: str = "paystub", **changes: Any) -> None:
        """Have each application hold one document: a paystub with other fields."""
        reply = served(self.service, self.service.ids[0], "/documents")
        address = next(iter(reply["documents"].values()))[0]["url"]
        reply["documents"] = {kind: [{**paystub(1), "url": address, **changes}]}
        body = json.dumps(reply, default=float).encode()
        self.service.faults.add(Fault("body", path="*/documents", body=body, times=None))

    def is_whole(self, document_id: str) -> bool:
        """Say whether the file of a document is there, byte for byte."""
        (path,) = self.folder.rglob(f"{document_id}-0.*")
        return path.read_bytes() == self.service.content_of(document_id)


def counts_of(errors: str) -> dict[str, int]:
    """Return how many files the summary says are new, there already, and failed."""
    found = _COUNT.findall(errors.splitlines()[-1])
    return {name: int(count.replace(",", "")) for count, name in found}
