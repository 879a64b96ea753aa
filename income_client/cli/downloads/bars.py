"""Progress bars of files under way, the whole below them; knows terminals, and fetches nothing.

Drawn by hand with the cursor visible, so that a process that is killed leaves a
terminal as it was.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Final, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.segment import Segment
from rich.table import Column
from rich.text import Text

from income_client import DownloadProgress
from income_client.cli.options import Known
from income_client.cli.output import Screen, counted, plural, printable
from income_client.cli.progress import DrawingTask, StatusLine

from .manifest import FileKey

_DRAW_SECONDS: Final = 0.1
_BAR_WIDTH: Final = 18
_LABEL_WIDTH: Final = 28
_TO_THE_LEFT: Final = "\r"
_ERASE_THE_REST: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"
_NEARLY: Final = 1e-6
"""Shares of an application add up to one, but for what rounding took."""


class Bars:
    """A bar for each file under way and one for the whole, while the block inside runs.

    Nothing is drawn where `Screen.is_for_progress` says no; what is said is said anywhere.

    Args:
        applications: how many the whole has, unless `expect` says more of it.
        is_wanted: whether to draw at all.
        get_time: tells seconds, for rates.

    Attributes:
        is_shown: whether somebody looks.
    """

    def __init__(
        self,
        applications: int = 0,
        *,
        is_wanted: bool = True,
        get_time: Callable[[], float] = monotonic,
    ) -> None:
        self._line = StatusLine()
        self.is_shown: bool = is_wanted and self._line.is_shown
        # Whoever sees both streams on one terminal would see them on one line.
        self._is_shared = self.is_shown and sys.stdout.isatty()
        self._is_away = False
        self._height = 0
        self._screen = Screen(stderr=True, highlight=False)
        self._tasks: dict[FileKey, TaskID] = {}
        self._files = Progress(
            TextColumn("{task.description}", markup=False, table_column=_column(_LABEL_WIDTH)),
            BarColumn(bar_width=_BAR_WIDTH),
            DownloadColumn(table_column=_column()),
            TransferSpeedColumn(table_column=_column()),
            console=self._screen,
            auto_refresh=False,
            get_time=get_time,
        )
        self._whole = Progress(
            TextColumn("{task.description}", style="bold", table_column=_column(_LABEL_WIDTH)),
            BarColumn(bar_width=_BAR_WIDTH),
            TextColumn("{task.fields[count]}", table_column=_column()),
            TimeElapsedColumn(table_column=_column()),
            console=self._screen,
            auto_refresh=False,
            get_time=get_time,
        )
        self._known = Known(count=applications, is_all=True)
        self._done = 0.0
        self._whole_task = self._whole.add_task("", total=applications, count="")
        self.count(0, 0)

    async def __aenter__(self) -> Self:
        self._drawing = DrawingTask(self._draw_now_and_then())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        error = await self._drawing.end()
        self.clear()
        if exc is None and error is not None:
            raise error

    def move(self, progress: DownloadProgress) -> None:
        """Move the bar of a file, or begin one."""
        if not self.is_shown:
            return
        key = FileKey(
            application_id=progress.application_id,
            document_type=progress.document_type,
            document_id=progress.document_id,
            file=progress.file,
        )
        task = self._tasks.get(key)
        if task is None:
            # What was there from the beginning says nothing about the rate.
            self._tasks[key] = self._files.add_task(
                printable(progress.document_id),
                total=progress.total,
                completed=progress.received,
            )
        else:
            self._files.update(task, total=progress.total, completed=progress.received)

    def end(self, key: FileKey) -> None:
        """Take the bar of a file away, if it has one."""
        task = self._tasks.pop(key, None)
        if task is not None:
            self._files.remove_task(task)

    def expect(self, known: Known) -> None:
        """Have the whole be of as many applications as are known by now."""
        self._known = known
        self._whole.update(self._whole_task, total=known.count)
        self.reach(0.0)

    def reach(self, share: float) -> None:
        """Move the bar of the whole.

        Args:
            share: the part of an application that is done since the last time.
        """
        self._done += share
        done, count = int(self._done + _NEARLY), self._known.count
        known = f"{count:,}{'+' * (not self._known.is_all)}"
        self._whole.update(
            self._whole_task,
            completed=self._done,
            description=f"{done:,} of {known} {plural('application', is_one=known == '1')}",
        )

    def count(self, files: int, size: int) -> None:
        """Show beside the whole what has come.

        Args:
            files: how many are there.
            size: in bytes.
        """
        count = f"{counted(files, 'file')}, {decimal(size)}"
        self._whole.update(self._whole_task, count=count)
        self.reach(0.0)

    def say(self, message: str) -> None:
        """Print a line that stays above the bars, wherever standard error leads.

        Args:
            message: what to say; characters that would act on a terminal are replaced.
        """
        self.clear()
        self._line.say(message)

    @contextmanager
    def out_of_the_way(self) -> Iterator[None]:
        """Leave the terminal to standard output if that is the same one."""
        self._is_away = self._is_shared
        if self._is_shared:
            self.clear()
        try:
            yield
        finally:
            self._is_away = False

    def draw(self) -> None:
        """Show as many bars as there is room for, in place of what is there."""
        if not self.is_shown or self._is_away:
            return
        lines = self._lines()
        text = f"{_ERASE_THE_REST}\n".join(lines)
        self._write(self._to_the_top() + text + _ERASE_BELOW)
        self._height = len(lines)

    def clear(self) -> None:
        """Take the bars away until they are drawn again."""
        if self._height:
            self._write(self._to_the_top() + _ERASE_BELOW)
            self._height = 0

    async def _draw_now_and_then(self) -> None:
        while self.is_shown:
            self.draw()
            await asyncio.sleep(_DRAW_SECONDS)

    def _lines(self) -> list[str]:
        """Return the lines of all bars, one less than the terminal has at the most."""
        room = max(1, self._screen.height - 1)
        # The last column stays free: a cursor behind it would begin a new line.
        width = max(1, self._screen.width - 1)
        with self._screen.capture() as captured:
            self._screen.print(_Cropped(Group(*self._parts(room - 1))), width=width, end="")
        return captured.get().rstrip("\n").split("\n")[-room:]

    def _parts(self, room: int) -> Iterator[RenderableType]:
        tasks = self._files.tasks
        left_out = len(tasks) - room
        if left_out <= 0:
            shown = tasks
        else:
            # One more gives its line to those that have none.
            left_out += 1
            shown = tasks[: max(0, room - 1)]
        if shown:
            yield self._files.make_tasks_table(shown)
        if left_out > 0 and room > 0:
            yield Text(f"and {left_out:,} more", style="dim")
        yield self._whole.make_tasks_table(self._whole.tasks)

    def _to_the_top(self) -> str:
        return _TO_THE_LEFT + (f"\x1b[{self._height - 1}A" if self._height > 1 else "")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class _Cropped:
    """Lines that are no longer than there is room, where a table would have its own way."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self._content, options, pad=False):
            yield from line
            yield Segment.line()


def _column(width: int | None = None) -> Column:
    return Column(width=width, no_wrap=True, overflow="ellipsis")
