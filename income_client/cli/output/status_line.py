"""One line of standard error that is drawn over itself; knows terminals, and nothing of polling.

Its cursor stays visible, so that a process that is killed leaves a terminal as it was.
"""

import sys
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from .saying import say
from .screen import Screen

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
