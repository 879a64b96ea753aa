"""The commands in the README's pictures, each run on a terminal against invented data.

``python -m tests.pictures.scenes`` draws the pictures anew.
"""

import re
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from rich.text import Text

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.pictures.terminal_picture import picture_of, screen_of
from tests.support.cli import Cli
from tests.support.served import served
from tests.support.streams import Terminal

FOLDER: Final = Path(__file__).parent
_WIDTH: Final = 84
_ROWS: Final = 60
_PROMPT: Final = Text("$ ", style="bold green")
_FIGURE: Final = re.compile(r"[0-9][0-9.,:/-]*( ?(ms|s|kB|MB|min|h|d)\b)?|0 bytes")
_LINE: Final = re.compile(r"[\u2500-\u259f·.]{2,}|[\u2580-\u259f]")


@frozen(kw_only=True)
class Scene:
    """A command line and what it was to show."""

    typed: str
    """What a person types."""
    shown: str
    """Everything that the terminal got."""

    @property
    def text(self) -> Text:
        """What the terminal shows at last, below what was typed."""
        return Text("\n").join([_PROMPT + Text(self.typed), screen_of(self.shown, _WIDTH)])

    def picture(self, name: str) -> str:
        """Return it as SVG."""
        return picture_of(self.text, _WIDTH, name=name, title="income-client")


Play = Callable[[Path], Scene]


def demo(folder: Path) -> Scene:
    """Read a whole emulated service."""
    return _played("demo", ("demo",), Cli(folder))


def poll(folder: Path) -> Scene:
    """Poll a service on which one application cannot be read, and a request fails now and then."""
    with IncomeService(400) as service:
        lost = max(service.ids, key=lambda each: _updated_at(service, each))
        service.faults.add(
            Fault("status", status=500, times=None, path=f"*/{lost}"),
            Fault("drop", times=2, skip=3, path="*/applications"),
        )
        return _played(
            "poll --store polls.db --start 30d --once > updates.jsonl",
            ("poll", "--store", "polls.db", "--start", "30d", "--once"),
            Cli(folder, service),
            stdout=folder / "updates.jsonl",
        )


def application(folder: Path) -> Scene:
    """Look at an application with two applicants and a document that is suspected."""
    with IncomeService(400) as service:
        one = max(service.ids, key=lambda each: _interest(service, each))
        command = Cli(folder, service)
        return _played(f"application {one}", ("application", one), command)


def doctor(folder: Path) -> Scene:
    """Look at everything between here and an emulated service."""
    # A clock that is a summer behind would be all that is to be seen.
    present = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    with IncomeService(400, start=present, time_flows=True) as service:
        return _played("doctor", ("doctor",), Cli(folder, service))


SCENES: Final[dict[str, Play]] = {
    "application": application,
    "demo": demo,
    "doctor": doctor,
    "poll": poll,
}


def shape_of(text: str) -> str:
    """Return what does not hang on when and how fast it was: words, not figures and bars."""
    # Where lines end hangs on figures too.
    words = " ".join(_LINE.sub("=", _FIGURE.sub("#", text)).split())
    return re.sub(r"([=#] ?)+", "#", words)


def _interest(service: IncomeService, one: str) -> tuple[bool, int, int]:
    """Rank an application by how much there is to be seen of it."""
    found = served(service, one)
    calculations = found["income_calculations"].values()
    suspected = any(each["suspected_fraudulent"]["document_ids"] for each in calculations)
    years = sum(len(each["incomes"]) for each in calculations)
    return suspected, len(found["applicants"]), -years


def _updated_at(service: IncomeService, one: str) -> str:
    moment: str = served(service, one)["last_updated_at"]
    return moment


def _played(typed: str, arguments: tuple[str, ...], cli: Cli, **options: Any) -> Scene:
    shown = cli(*arguments, terminal=Terminal(_ROWS, _WIDTH), **options)
    return Scene(typed=f"income-client {typed}", shown=shown.screen)


if __name__ == "__main__":
    for scene_name in sys.argv[1:] or SCENES:
        with tempfile.TemporaryDirectory() as scratch:
            drawn = SCENES[scene_name](Path(scratch)).picture(scene_name)
        (FOLDER / f"{scene_name}.svg").write_text(drawn, "utf-8")
