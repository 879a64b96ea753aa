"""What part of a window a page answers for, judged by the window that the service echoed.

An echo that differs from what was asked is believed. A service may cut a long
window short at either end, keep nothing older than some day, or know no later
bound than its present: it then applies less than was asked, and the rest is
asked for again. Where it keeps one bound and leaves nothing of the window, it
has no more to give for it. An echo that fits none of this answers another
question, and nothing can be concluded from its page.
"""

from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from income_client.errors import UnexpectedResponseError
from income_client.records.window import EPOCH, Window

from .questions import Bounds

_SECOND: Final = timedelta(seconds=1)


@frozen
class Settled:
    """A window after its page."""

    covered: Window
    """The part that the page answers for; may be empty."""
    left: tuple[Window, ...]
    """The parts that must be asked for again; some may be empty."""


def second_of(moment: datetime) -> int:
    """Return the whole second of a time without zone."""
    return (moment - EPOCH) // _SECOND


def echoed_window(after: datetime, before: datetime) -> Window:
    """Return the echoed bounds in seconds, a fraction never making the window wider."""
    return Window(-((EPOCH - after) // _SECOND), second_of(before))


def believe(window: Window, bounds: Bounds, echo: Window) -> Settled:
    """Return what a page that was not full settles.

    Args:
        window: the seconds asked about.
        bounds: the bounds sent for them.
        echo: the bounds that the service says it applied.

    Raises:
        UnexpectedResponseError: the page answers another question.
    """
    if not window:
        return Settled(window, ())
    kept_after = echo.after <= bounds.after
    kept_before = bounds.before is None or echo.before >= bounds.before
    # Whatever the bounds mean, the seconds strictly between them are answered for.
    start = window.after if kept_after else max(window.after, echo.after + 1)
    end = window.before if kept_before else min(window.before, echo.before)
    if start < end:
        left = (Window(window.after, start), Window(end, window.before))
        return Settled(Window(start, end), left)
    # Nothing of the window is kept: it is too old, or the present lies before it.
    is_end_as_asked = bounds.before is None or echo.before in (bounds.before, echo.after)
    is_raised = echo.after > bounds.after and is_end_as_asked
    is_lowered = echo.after == bounds.after and echo.before >= bounds.after
    if not (is_raised or is_lowered):
        raise UnexpectedResponseError(f"asked for {window}, the service answered for {echo}")
    edge = echo.before if kept_after else echo.after
    if window.after < edge < window.before:
        left = (Window(window.after, edge), Window(edge, window.before))
        return Settled(Window(edge, edge), left)
    return Settled(window, ())
