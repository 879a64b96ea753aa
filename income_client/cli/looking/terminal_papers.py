"""Documents on the time line of a terminal; knows no more of them than is shown."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .bars import Axis, Track, TrackKey
from .days import TimeLine
from .terminal_styles import ALARM, GAP, QUIET
from .view import DocumentView

_LONGEST_NAME: Final = 24
_DAYS: Final = 24
_LEAST_TRACK: Final = 10
_MOST_TRACK: Final = 72


def papers(documents: Sequence[DocumentView], width: int) -> Iterator[RenderableType]:
    """Yield the axis, and each document with its days and two lines about it.

    Args:
        documents: what is drawn.
        width: how many cells there are.
    """
    if not documents:
        yield Text("There are none.", style=QUIET)
        return
    line = TimeLine.of(documents)
    name = min(max(cell_len(_name(each)) for each in documents), _LONGEST_NAME)
    track = min(width - name - _DAYS - 2 * GAP, _MOST_TRACK)
    is_stacked = track < _LEAST_TRACK
    if line is not None:
        yield TrackKey()
        yield _stack(Axis(line)) if is_stacked else _row(name, track, "", Axis(line), "")
    for document in documents:
        style = ALARM if document.is_suspected else None
        named = Text(_name(document), style=style or "")
        shown = "" if line is None else Track(document, line, style)
        if not is_stacked:
            yield _row(name, track, named, shown, _days(document))
        else:
            yield _stack(named, shown, _days(document))
        yield Padding(_about(document), (0, 0, 0, GAP))


def _stack(*cells: RenderableType) -> Table:
    grid = Table.grid(expand=True)
    grid.add_column(overflow="fold")
    for each in cells:
        if each:
            grid.add_row(each)
    return grid


def _row(name: int, track: int, *cells: RenderableType) -> Table:
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(overflow="fold", width=name)
    grid.add_column(width=track)
    grid.add_column(overflow="fold", width=_DAYS)
    grid.add_row(*cells)
    return grid


def _name(document: DocumentView) -> str:
    return f"! {document.label}" if document.is_suspected else document.label


def _days(document: DocumentView) -> str:
    if document.period is not None:
        return f"{document.period.first} to {document.period.last}"
    if document.years:
        return f"supports {', '.join(map(str, document.years))}"
    return "supports no amount"


def _about(document: DocumentView) -> Text:
    said = [document.document_id]
    if document.paid is not None:
        said.append(f"paid on {document.paid}")
    said += [f"{fact.name} {fact.value}".strip() for fact in document.facts]
    text = Text(", ".join(said), style=QUIET)
    if document.is_suspected:
        return Text.assemble(("suspected fraudulent", ALARM), ", ", text)
    return text
