"""Terminals: colour and motion where a person looks, plain text and silence elsewhere."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from .lines import UnwritableError


class Screen(Console):
    """A console that leaves it to the caller what a closed pipe or a full disk means."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `Console.print` does.

        Raises:
            UnwritableError: standard output takes no more.
        """
        with self._writing():
            super().print(*objects, **options)

    def end_capture(self) -> str:
        """Return what was captured; Rich writes after it, if only nothing.

        Raises:
            UnwritableError: standard output takes no more.
        """
        with self._writing():
            return super().end_capture()

    def on_broken_pipe(self) -> None:
        """Let the error through."""
        raise  # noqa: PLE0704 - called while it is being handled

    @property
    def is_for_progress(self) -> bool:
        """Whether progress is drawn here: on a terminal whose lines no other process writes.

        The reader of a pipe may write to the same terminal, so nothing is drawn beside one.
        """
        is_terminal = self.file.isatty() and not self.is_dumb_terminal
        return is_terminal and _stdout_goes_to_a_file()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.stderr:
                raise
            raise UnwritableError(error) from None


def _stdout_goes_to_a_file() -> bool:
    """Say whether standard output is a terminal, a regular file or the like, and no pipe."""
    mode = os.fstat(sys.stdout.fileno()).st_mode
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)


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
