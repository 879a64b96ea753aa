"""Progress on standard error, and the package's warnings beside it."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from .output import Screen, say


class DrawingTask:
    """Draws from now on, until it is ended.

    Args:
        drawing: draws for as long as it is let.
    """

    def __init__(self, drawing: Coroutine[object, object, None]) -> None:
        self._task = asyncio.create_task(drawing)

    async def end(self) -> BaseException | None:
        """End it.

        Returns:
            What it had failed with before, if it had.
        """
        self._task.cancel()
        await asyncio.wait((self._task,))
        return None if self._task.cancelled() else self._task.exception()


_TO_THE_LEFT: Final = "\r"
_ERASE_THE_REST: Final = "\x1b[K"
_GAP: Final = "  "


class StatusLine:
    """The last line of a terminal; nothing where `Screen.is_for_progress` says no.

    Attributes:
        is_drawn: whether it stands there.
        is_shown: whether it is drawn at all.
    """

    def __init__(self) -> None:
        self.is_drawn: bool = False
        self._screen = Screen(stderr=True, highlight=False)
        self.is_shown: bool = self._screen.is_for_progress
        # Whoever sees both streams on one terminal would see them on one line.
        self._is_shared = self.is_shown and sys.stdout.isatty()

    def draw(self, parts: Sequence[Text]) -> None:
        """Show as many parts as the terminal has room for, in place of what is there.

        Args:
            parts: what matters most comes first, and is cut rather than left out.
        """
        if not self.is_shown:
            return
        # The last column stays free: a cursor behind it would begin a new line.
        width = max(1, self._screen.width - 1)
        with self._screen.capture() as captured:
            text = _fitting(parts, width)
            self._screen.print(text, end="", no_wrap=True, overflow="crop", width=width)
        self._write(_TO_THE_LEFT + captured.get() + _ERASE_THE_REST)
        self.is_drawn = True

    def clear(self) -> None:
        """Take the line away until it is drawn again."""
        if self.is_drawn:
            self._write(_TO_THE_LEFT + _ERASE_THE_REST)
            self.is_drawn = False

    def make_way(self) -> None:
        """Take the line away if standard output is about to write where it stands."""
        if self._is_shared:
            self.clear()

    def leave(self) -> None:
        """End the line, so that whatever comes next stands below it."""
        if self.is_drawn:
            self._write("\n")
            self.is_drawn = False

    def say(self, message: str) -> None:
        """Print a line that stays, wherever standard error leads.

        Args:
            message: what to say; characters that would act on a terminal are replaced.
        """
        self.clear()
        say(message)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _fitting(parts: Sequence[Text], width: int) -> Text:
    text = parts[0].copy()
    for part in parts[1:]:
        if len(text) + len(_GAP) + len(part) > width:
            break
        text.append(_GAP).append_text(part)
    return text


_PACKAGE: Final = "income_client"


class _Sayer(logging.Handler):
    def __init__(self, say: Callable[[str], None], besides: frozenset[str]) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self._besides = besides

    def emit(self, record: logging.LogRecord) -> None:
        if record.name not in self._besides:
            self._say(record.getMessage())


def say_warnings(say: Callable[[str], None], *besides: str) -> None:
    """Say each warning of the package from now on, until the process ends.

    Args:
        say: prints a line.
        besides: names of loggers whose warnings somebody else says in more detail.
    """
    logging.getLogger(_PACKAGE).addHandler(_Sayer(say, frozenset(besides)))


class Stage:
    """One progress bar.

    Args:
        progress: draws it.
        task: its number there.
    """

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def reach(self, completed: float, count: str) -> None:
        """Move the bar.

        Args:
            completed: how far, in units of the stage's total.
            count: what to say beside it.
        """
        self._progress.update(self._task, completed=completed, count=count)


class Stages:
    """Progress bars on standard error, one after the other; see `Screen.is_for_progress`."""

    def __init__(self) -> None:
        screen = Screen(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=18),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[count]:<31}"),
            TimeElapsedColumn(),
            console=screen,
            disable=not screen.is_for_progress,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    @contextmanager
    def stage(self, name: str, total: float) -> Iterator[Stage]:
        """Show a bar for what happens inside.

        Args:
            name: what that is, in a few words.
            total: how much of it there is, in any unit.
        """
        task = self._progress.add_task(name, total=total, count="")
        yield Stage(self._progress, task)
        self._progress.stop_task(task)
