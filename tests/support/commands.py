"""Every sub-command with something to read, for rules that hold for all of them."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from attrs import frozen

from income_client import DeadLetter
from income_client.records import Window
from income_client.testing import IncomeService

NOON: Final = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - the service's times carry no zone
LETTER: Final = DeadLetter(
    application_id="app-1",
    window=Window(1_000, 1_001),
    reason="gone",
    attempts=1,
    first_tried_at=NOON,
    last_tried_at=NOON,
)
"""What a store holds."""


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
    "completion": lambda _: ("bash",),
}
"""What makes each sub-command read all that there is, or one application."""
WITHOUT_SERVICE: Final = ("completion", "dead-letters", "demo", "guide", "schema")
READING: Final = tuple(name for name in LINES if name not in WITHOUT_SERVICE)
SERVING: Final = ("emulate", "listen", "trigger")
NAMES: Final = (*LINES, *SERVING, "configure", "relay")

_ROWS: Final = (("-o", "json"), ("-o", "csv"), ("-o", "table"), ("-q",))
_FORMS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "application": (("-o", "json", "--show-personal-data"), ("--show-personal-data",)),
    "doctor": (("-o", "json"),),
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
        """How it may end: a service of another day is a finding of doctor, and all is missing."""
        return {"doctor": (0, 1), "audit": (1,)}.get(self.name, (0,))

    def line(self, service: IncomeService) -> tuple[str, ...]:
        """Return the command line."""
        return (self.name, *LINES[self.name](service), *self.more)


FORMS: Final = tuple(Form(name, more) for name in LINES for more in ((), *_FORMS.get(name, ())))
