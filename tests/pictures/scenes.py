"""The commands that pictures are taken of, each run on a terminal against invented data."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from rich.text import Text

from income_client.emulator import Emulator, Fault
from tests.cli.entry import Terminal, running
from tests.cli.polling import served
from tests.cli.running import variables
from tests.pictures.terminal_picture import picture_of, screen_of

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
        """What stands on the terminal at last, below what was typed."""
        return Text("\n").join([_PROMPT + Text(self.typed), screen_of(self.shown, _WIDTH)])

    def picture(self, name: str) -> str:
        """Return it as SVG."""
        return picture_of(self.text, _WIDTH, name=name, title="income-client")


Play = Callable[[Path], Awaitable[Scene]]


async def demo(_: Path) -> Scene:
    """Read a whole emulated service."""
    return await _played("demo", ("demo",))


async def poll(folder: Path) -> Scene:
    """Poll a service on which one application cannot be read, and a request fails now and then."""
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(Emulator(400))
        lost = max(service.world.ids, key=service.world.updated_at)
        service.faults.add(
            Fault("status", status=500, times=None, path=f"*/{lost}"),
            Fault("drop", times=2, skip=3, path="*/applications"),
        )
        arguments = ("poll", "--store", str(folder / "polls.db"), "--start", "30d", "--once")
        with (folder / "updates.jsonl").open("wb") as lines:
            return await _played(
                "poll --store polls.db --start 30d --once > updates.jsonl",
                arguments,
                service,
                stdout=lines.fileno(),
            )


async def application(_: Path) -> Scene:
    """Look at an application with two applicants and a document that is suspected."""
    async with Emulator(400) as service:
        one = max(service.world.ids, key=lambda each: _interest(service, each))
        return await _played(f"application {one}", ("application", one), service)


async def doctor(_: Path) -> Scene:
    """Look at everything between here and an emulated service."""
    # A clock that is a summer behind would be all that is to be seen.
    present = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    async with Emulator(400, start=present, time_flows=True) as service:
        return await _played("doctor", ("doctor",), service)


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


def _interest(service: Emulator, one: str) -> tuple[bool, int, int]:
    """Rank an application by how much there is to be seen of it."""
    found = served(service, one)
    calculations = found["income_calculations"].values()
    suspected = any(each["suspected_fraudulent"]["document_ids"] for each in calculations)
    years = sum(len(each["incomes"]) for each in calculations)
    return suspected, len(found["applicants"]), -years


async def _played(
    typed: str, arguments: tuple[str, ...], service: Emulator | None = None, **options: Any
) -> Scene:
    environment: dict[str, Any] = {} if service is None else variables(service)
    with Terminal(_ROWS, _WIDTH) as terminal:
        streams = {"stdout": terminal.device, "stderr": terminal.device}
        with running(*arguments, **streams | environment | options) as process:
            terminal.attend()
            await asyncio.to_thread(process.wait, 50)
            shown = await asyncio.to_thread(terminal.close)
    return Scene(typed=f"income-client {typed}", shown=shown)
