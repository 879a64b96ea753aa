"""Progress and the package's log on standard error."""

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from income_client.system.texts import printable

from .output import error_screen, say

_PACKAGE: Final = "income_client"
_DRAW_SECONDS: Final = 0.1


class Bars(Progress):
    """Bars on standard error, where it is a terminal.

    The event loop draws them, so that messages and paths never get in between.

    Attributes:
        is_shared: whether lines of output go to the same terminal.
    """

    def __init__(self, *columns: ProgressColumn, is_wanted: bool = True) -> None:
        screen = error_screen()
        super().__init__(
            *columns,
            console=screen,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not (is_wanted and screen.is_for_progress),
        )
        self.is_shared: bool = not self.disable and sys.stdout.isatty()
        self._next: asyncio.TimerHandle | None = None

    @classmethod
    def get_default_columns(cls) -> tuple[ProgressColumn, ...]:
        """Return the columns of a bar with a count beside it."""
        return (
            TextColumn("{task.description}"),
            BarColumn(bar_width=18),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[count]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )

    def start(self) -> None:
        """Start to draw the bars."""
        super().start()
        if not self.disable:
            self._draw_again()

    def stop(self) -> None:
        """Remove the bars."""
        if self._next is not None:
            self._next.cancel()
        super().stop()

    def _draw_again(self) -> None:
        self.refresh()
        self._next = asyncio.get_running_loop().call_later(_DRAW_SECONDS, self._draw_again)


class StatusLine(Bars):
    """A line of progress, visible from its first drawing on."""

    def __init__(self) -> None:
        self._text = Text()
        super().__init__()

    @property
    def is_drawn(self) -> bool:
        """Whether the line is visible."""
        return self.live.is_started

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the line's parts."""
        yield self._text

    def draw(self, parts: Sequence[Text | str]) -> None:
        """Draw other parts in the line; parts without room at its end are cut."""
        self._text = Text("  ", no_wrap=True, overflow="ellipsis").join(
            part if isinstance(part, Text) else Text(part) for part in parts
        )
        if not self.is_drawn:
            self.start()

    def make_way(self) -> None:
        """Remove the line before standard output writes to the same terminal."""
        if self.is_shared:
            self.stop()

    def leave(self) -> None:
        """End the line with its last content, so that other output appears below."""
        if self.is_drawn:
            self.stop()
            self.console.print(self._text)


class _LogLines(logging.Handler):
    """Prints the package's log: warnings as messages of the command, other records unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.formatter = logging.Formatter(
            "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%H:%M:%S"
        )

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING:
            error_screen().print(Text(printable(self.format(record)), "dim"), soft_wrap=True)
        else:
            say(record.getMessage() + _cause_of(record))


def _cause_of(record: logging.LogRecord) -> str:
    """Return the class and line of a record's error, without its text."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ""
    places = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(places[-1].filename).name}, line {places[-1].lineno}" if places else ""
    return f": {type(error).__name__}{where}"


def show_log(*, is_verbose: bool) -> None:
    """Print the package's warnings; with ``verbose``, print all log records."""
    logger = logging.getLogger(_PACKAGE)
    logger.addHandler(_LogLines())
    logger.setLevel(logging.DEBUG if is_verbose else logging.WARNING)


def filter_log(accepts: Callable[[logging.LogRecord], bool]) -> None:
    """Print only accepted records of the package's log."""
    for handler in logging.getLogger(_PACKAGE).handlers:
        handler.addFilter(accepts)
