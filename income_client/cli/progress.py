"""Progress on standard error, where it is a terminal, and the package's log."""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from .output import error_screen, printable, say

_PACKAGE: Final = "income_client"
_DRAWN_A_SECOND: Final = 10


class StatusLine:
    """One line that shows how far a command is; nothing where progress is not drawn."""

    def __init__(self) -> None:
        self._screen = error_screen()
        self.is_shown: bool = self._screen.is_for_progress
        # On the same terminal, a line of output would end up in the middle of this one.
        self._is_shared = self.is_shown and sys.stdout.isatty()
        self._text = Text()
        self._live: Live | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether it is there at the moment."""
        return self._live is not None

    def draw(self, parts: Sequence[Text | str]) -> None:
        """Show these parts in place of what is there; what has no room at the end is cut."""
        if not self.is_shown:
            return
        self._text = Text("  ", no_wrap=True, overflow="ellipsis").join(
            part if isinstance(part, Text) else Text(part) for part in parts
        )
        if self._live is not None:
            self._live.update(self._text)
            return
        self._live = Live(
            self._text,
            console=self._screen,
            transient=True,
            refresh_per_second=_DRAWN_A_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def clear(self) -> None:
        """Take the line away until it is drawn again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def make_way(self) -> None:
        """Take the line away if standard output is about to write to the same terminal."""
        if self._is_shared:
            self.clear()

    def leave(self) -> None:
        """End the line with what it shows last; what comes next is below it."""
        if self._live is not None:
            self.clear()
            self._screen.print(self._text)


class Stage:
    """One progress bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def reach(self, completed: float, count: str) -> None:
        """Move the bar, in units of the stage's total, and say a count beside it."""
        self._progress.update(self._task, completed=completed, count=count)


class Stages(Progress):
    """Progress bars, one after the other; nothing where progress is not drawn."""

    def __init__(self) -> None:
        screen = error_screen()
        super().__init__(
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=18),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[count]:<31}"),
            TimeElapsedColumn(),
            console=screen,
            disable=not screen.is_for_progress,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    @contextmanager
    def stage(self, name: str, total: float) -> Iterator[Stage]:
        """Show a bar for what happens inside."""
        task = self.add_task(name, total=total, count="")
        yield Stage(self, task)
        self.stop_task(task)


class _LogLines(logging.Handler):
    """Prints what the package logs: warnings as messages of the command, the rest as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.formatter = logging.Formatter(
            "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%H:%M:%S"
        )

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING:
            error_screen().print(Text(printable(self.format(record)), "dim"), soft_wrap=True)
        else:
            say(record.getMessage())


def show_log(*, is_verbose: bool) -> None:
    """Print the package's warnings from now on; if verbose, all that it logs."""
    logger = logging.getLogger(_PACKAGE)
    logger.addHandler(_LogLines())
    logger.setLevel(logging.DEBUG if is_verbose else logging.WARNING)


def filter_log(accepts: Callable[[logging.LogRecord], bool]) -> None:
    """Print only what is accepted of the package's log from now on."""
    for handler in logging.getLogger(_PACKAGE).handlers:
        handler.addFilter(accepts)
