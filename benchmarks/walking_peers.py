"""How others walk such a list, each as it would be with any number of questions in flight.

They are given what the real ones have to find out: windows that do not overlap,
bounds whose meaning is known, and the span. What a page tells them is whether it
is full. None of them would notice a second with more rows than a page.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import define, evolve

from income_client.records.window import Window

_DAY: Final = 86_400
_MONTH: Final = 30 * _DAY

IsFull: TypeAlias = Callable[[Window], bool]


class Bisection:
    """Asks for windows in turn, and for the halves of each that comes back full."""

    def __init__(self, windows: Iterable[Window], is_full: IsFull) -> None:
        self._to_ask = list(windows)[::-1]
        self._is_full = is_full

    def next(self) -> Window | None:
        """Return the next window to ask for, None before a page comes."""
        return self._to_ask.pop() if self._to_ask else None

    def receive(self, window: Window) -> None:
        """Take the page of a window."""
        if self._is_full(window):
            middle = (window.after + window.before) // 2
            self._to_ask += (Window(middle, window.before), Window(window.after, middle))


@define
class _Lane:
    rest: Window
    width: int


class HalveAndDouble:
    """Steps of 30 days, halved when a page is full and doubled again after each that is not.

    With several in flight each walks a month of its own, and takes the next one then.
    """

    def __init__(self, parts: Iterable[Window], is_full: IsFull) -> None:
        self._free = [_Lane(part, _MONTH) for part in parts][::-1]
        self._asked: dict[Window, _Lane] = {}
        self._is_full = is_full

    def next(self) -> Window | None:
        """Return the next window to ask for, None before a page comes."""
        if not self._free:
            return None
        lane = self._free.pop()
        window = evolve(lane.rest, before=min(lane.rest.after + lane.width, lane.rest.before))
        self._asked[window] = lane
        return window

    def receive(self, window: Window) -> None:
        """Take the page of a window."""
        lane = self._asked.pop(window)
        if self._is_full(window):
            lane.width = max(1, lane.width // 2)
        else:
            lane.rest = Window(window.before, lane.rest.before)
            lane.width = min(2 * lane.width, _MONTH)
        if lane.rest:
            self._free.append(lane)


Peer: TypeAlias = Bisection | HalveAndDouble


def fixed_days(span: Window, is_full: IsFull, in_flight: int) -> Peer:
    """Walk day by day, and bisect the days that are full."""
    del in_flight
    return Bisection(_steps(span, _DAY), is_full)


def halve_and_double(span: Window, is_full: IsFull, in_flight: int) -> Peer:
    """Walk with a width that halves on a full page and doubles otherwise."""
    return HalveAndDouble([span] if in_flight == 1 else _steps(span, _MONTH), is_full)


def top_down(span: Window, is_full: IsFull, in_flight: int) -> Peer:
    """Ask for everything, and bisect what is full."""
    del in_flight
    return Bisection([span], is_full)


PEERS: Final[Mapping[str, Callable[[Window, IsFull, int], Peer]]] = MappingProxyType(
    {
        "fixed days, bisected": fixed_days,
        "halve and double": halve_and_double,
        "top-down bisection": top_down,
    }
)
"""Every peer by the name that the table knows it by."""


def _steps(span: Window, width: int) -> list[Window]:
    starts = range(span.after, span.before, width)
    return [Window(start, min(start + width, span.before)) for start in starts]
