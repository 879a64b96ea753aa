"""The sub-commands: all with something to read, and those that tests run in many ways."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from unittest import mock

from attrs import frozen

from income_client import BasicAuth, DeadLetter, OAuth2ClientCredentials
from income_client.emulator import CallbackDelivery, CallbackTarget, Fault
from income_client.polling.checkpoint import Checkpoint
from income_client.records import Window
from income_client.testing import IncomeService
from tests.cli.application_payloads import paystub
from tests.support.cli import Cli, Running, when
from tests.support.emulated import served
from tests.support.processes import Process, Ran

NOON: Final = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - the service's times carry no zone
LETTER: Final = DeadLetter(
    application_id="app-1",
    window=Window(1_000, 1_001),
    reason="gone",
    attempts=1,
    first_tried_at=NOON,
    last_tried_at=NOON,
)
"""Dead letter in the store of tests."""
POLLED: Final = Checkpoint(since=0, reached=1_000)
"""Checkpoint in the store that is asked for its status."""


LINES: Final[dict[str, Callable[[IncomeService], tuple[str, ...]]]] = {
    "audit": lambda _: ("held.csv", "--settle", "0"),
    "application": lambda service: (service.ids[0],),
    "applications": lambda _: ("--updated-after", "beginning"),
    "dead-letters": lambda _: ("--store", "dead.db"),
    "demo": lambda _: ("--applications", "40"),
    "doctor": lambda _: (),
    "documents": lambda service: service.ids,
    "download": lambda service: ("--to", "files", "--allow-host", "127.0.0.1", *service.ids),
    "export": lambda _: ("--to", "all"),
    "get": lambda _: ("/v1/income/applications", "--param", "updated_after=2000-01-01T00:00:00"),
    "guide": lambda _: ("polling",),
    "poll": lambda _: ("--store", "polls.db", "--start", "beginning", "--once"),
    "schema": lambda _: ("postgres",),
    "status": lambda _: ("--store", "polled.db"),
    "completion": lambda _: ("bash",),
}
"""Arguments with which each sub-command reads everything, or one application."""
WITHOUT_SERVICE: Final = ("completion", "dead-letters", "demo", "guide", "schema", "status")
READING: Final = tuple(name for name in LINES if name not in WITHOUT_SERVICE)
SERVING: Final = ("emulate", "listen", "trigger")
NAMES: Final = (*LINES, *SERVING, "configure", "relay")

_ROWS: Final = (("-o", "json"), ("-o", "csv"), ("-o", "table"), ("-q",))
_FORMS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "application": (("-o", "json", "--show-personal-data"), ("--show-personal-data",)),
    "doctor": (("-o", "json"),),
    "status": (("-o", "json"),),
    **dict.fromkeys(("applications", "audit", "dead-letters", "documents"), _ROWS),
}


@frozen
class Form:
    """A sub-command, and what gives its output another form."""

    name: str
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.name, *self.more))

    @property
    def statuses(self) -> tuple[int, ...]:
        """Possible exit statuses: doctor warns of the service's clock, audit misses all ids."""
        return {"doctor": (0, 1), "audit": (1,)}.get(self.name, (0,))

    def line(self, service: IncomeService) -> tuple[str, ...]:
        """Return the command line."""
        return (self.name, *LINES[self.name](service), *self.more)


FORMS: Final = tuple(Form(name, more) for name in LINES for more in ((), *_FORMS.get(name, ())))


BASIC: Final = BasicAuth("partner", "invented-password")
OAUTH2: Final = OAuth2ClientCredentials("callback-client", "invented-secret-of-32-characters!")
BASIC_VARIABLES: Final = {
    "INCOME_CALLBACK_USERNAME": BASIC.username,
    "INCOME_CALLBACK_PASSWORD": BASIC.password.reveal(),
}
OAUTH2_VARIABLES: Final = {
    "INCOME_CALLBACK_CLIENT_ID": OAUTH2.client_id,
    "INCOME_CALLBACK_CLIENT_SECRET": OAUTH2.client_secret.reveal(),
}
_ADDRESS: Final = re.compile(r"(https?://\S+)\r?\n")

Talking = Running | Process
"""A command that prints."""


class Listening:
    """The command while it listens at a URL, and a service that sends callbacks there."""

    def __init__(self, running: Talking, service: IncomeService) -> None:
        self.running: Final = running
        self._service = service
        found = _ADDRESS.search(
            running.stderr.wait_until(lambda: bool(_ADDRESS.search(running.stderr.text)))
        )
        assert found is not None
        self.url: Final = found[1]

    def target(self, **options: Any) -> CallbackTarget:
        """Return what leads a service here, with Basic credentials and without pauses."""
        usual: dict[str, Any] = {"auth": BASIC, "pauses": ()}
        return CallbackTarget(self.url, **usual | options)

    def fire(
        self,
        application_id: str | None = None,
        *,
        target: CallbackTarget | None = None,
        **options: Any,
    ) -> CallbackDelivery:
        """Make the service send a callback, and return its delivery."""
        fired = self._service.fire_callback(
            application_id, target=target or self.target(), **options
        )
        return asyncio.run(fired)

    def lines(self, count: int) -> list[Any]:
        """Return the lines that were written, once there are so many."""
        return [json.loads(line) for line in self.running.stdout.wait_for_lines(count)]


class Listen:
    """Runs the command beside a service that sends callbacks."""

    def __init__(self, cli: Cli, service: IncomeService) -> None:
        self._cli = cli
        self._service = service

    def __call__(
        self,
        visit: Callable[["Listening"], object],
        *arguments: str,
        env: Mapping[str, str] = BASIC_VARIABLES,
        **options: Any,
    ) -> Ran:
        """Run it beside a visit, and end it by SIGTERM unless the visit did."""

        def during(running: Running) -> None:
            visit(Listening(running, self._service))
            if not running.has_ended:
                running.terminate()

        return self._cli("listen", "--port", "0", *arguments, env=env, during=during, **options)

    def attempts(
        self,
        *arguments: str,
        target: Callable[["Listening"], CallbackTarget] = Listening.target,
        env: Mapping[str, str] = BASIC_VARIABLES,
        **fired: Any,
    ) -> tuple[int | str, ...]:
        """Run it for one callback, and return what its attempts were answered with."""
        deliveries: list[CallbackDelivery] = []
        self(lambda it: deliveries.append(it.fire(target=target(it), **fired)), *arguments, env=env)
        return deliveries[0].attempts


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
        """Number of requests to the host of files."""
        return self.service.requests.count("file")

    def serve_one(self, kind: str = "paystub", **changes: Any) -> None:
        """Give each application a single document: a paystub with other fields."""
        reply = served(self.service, self.service.ids[0], "/documents")
        address = next(iter(reply["documents"].values()))[0]["url"]
        reply["documents"] = {kind: [{**paystub(1), "url": address, **changes}]}
        body = json.dumps(reply, default=float).encode()
        self.service.faults.add(Fault("body", path="*/documents", body=body, times=None))

    def is_whole(self, document_id: str) -> bool:
        """Return whether the file of a document exists, byte for byte."""
        (path,) = self.folder.rglob(f"{document_id}-0.*")
        return path.read_bytes() == self.service.content_of(document_id)


def counts_of(errors: str) -> dict[str, int]:
    """Return how many files the summary says are new, there already, and failed."""
    found = _COUNT.findall(errors.splitlines()[-1])
    return {name: int(count.replace(",", "")) for count, name in found}


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
        """Folder of the unfinished export."""
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
        """Content of the manifest beside the exported file."""
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
