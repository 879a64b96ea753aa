"""``income-client split``: cuts a period into parts that several machines read."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from income_client import ConfigurationError, IncomeClientError

from .connection import Connection, connect
from .exit_status import ExitStatus
from .options import (
    STANDARD_INPUT,
    Count,
    Moment,
    When,
    read_input,
    span_between,
)
from .output import counted, reason_of, say
from .progress import StatusLine
from .rows import Column, OutputOption, RowWriter

if TYPE_CHECKING:
    from income_client import Event, SpanPart

_COLUMNS: Final = (
    Column("number", "Part", "right", style="cyan"),
    Column("updated_after", "Updated after"),
    Column("updated_before", "Updated before"),
    Column("estimated_applications", "Applications", "right", dropped=1),
    Column("read_last", "Read last", dropped=2),
)


async def split(
    *,
    parts: Annotated[Count, Parameter(show_default=False)],
    updated_after: When | None = None,
    updated_before: When | None = None,
    output: OutputOption = None,
    connection: Connection | None = None,
) -> int:
    """Cut a period into parts that several machines read.

    Each part is a line of JSON, without personal data. Any machine reads it with
    export --part, at any time and in any order. Together the parts are the
    whole period. Their sizes are estimates: take several parts for each machine.

    A period up to the present has one more part, marked "read_last": it holds
    what is updated while the others are read, and is read after all of them.

    Example: income-client split --parts 16 > parts.jsonl

    Args:
        parts: How many parts, 1 to 1000.
        updated_after: Start of the period. Default: the beginning of time.
        updated_before: End of the period. Default: the present.
        output: Format of the output.
        connection: The service.
    """
    from income_client import split_span

    progress = _Progress()
    async with connect(connection, on_event=progress.take) as client:
        span = await span_between(client, updated_after, updated_before)
        try:
            found = await split_span(client, span.after, span.before, parts)
        except ConfigurationError as error:
            raise ConfigurationError(f"--{error.message}") from None
        finally:
            progress.line.stop()
    with RowWriter(_COLUMNS, output) as rows:
        for part in found:
            row = {column.key: getattr(part, column.key) for column in _COLUMNS}
            rows.write(row, part.to_json().encode())
    total = sum(part.estimated_applications for part in found)
    say(f"{counted(len(found), 'part')} of about {counted(total, 'application')} together")
    if len(found) < parts:
        say(f"fewer parts than {parts}: there is no room for more cuts between the applications")
    if found[-1].read_last:
        say(f"read part {found[-1].number} after all others are done")
    return ExitStatus.DONE


class _Progress:
    """Draws how many requests the split has taken."""

    def __init__(self) -> None:
        self.line: StatusLine = StatusLine()
        self._requests = 0

    def take(self, event: "Event") -> None:
        """Count an event of the client."""
        from income_client import RequestAnswered

        if isinstance(event, RequestAnswered):
            self._requests += 1
            self.line.draw([counted(self._requests, "request")])


async def read_part(text: str, *, instead_of: Iterable[Moment | None]) -> "SpanPart":
    """Return the part that an argument means: ``FILE:NUMBER``, ``FILE`` with one line, or ``-``.

    A number counts lines, from 1, as the parts in a file of ``split`` do. ``instead_of`` are
    the bounds that were given besides: there must be none.
    """
    from income_client import SpanPart

    if any(bound is not None for bound in instead_of):
        raise ConfigurationError(
            "--part cannot be combined with --updated-after or --updated-before"
        )
    name, number = _place(text)
    lines = await _lines(name)
    if number is None and len(lines) != 1:
        raise ConfigurationError(
            f"--part {text} has {counted(len(lines), 'line')}: add :NUMBER for one"
        )
    place = 0 if number is None else number - 1
    if not 0 <= place < len(lines):
        raise ConfigurationError(f"--part {text}: there are {counted(len(lines), 'line')}")
    try:
        part = SpanPart.from_json(lines[place])
    except ConfigurationError as error:
        raise ConfigurationError(f"--part {text}: {error.message}") from None
    if part.read_last and part.of > 1:
        say(f"{part}: this finds all updates only if the others were done before it began")
    return part


def moments_of(part: "SpanPart") -> tuple[Moment | None, Moment | None]:
    """Return the bounds of a part as options have them."""
    bounds = (part.updated_after, part.updated_before)
    after, before = (None if one is None else Moment(at=one) for one in bounds)
    return after, before


def name_of(part: "SpanPart") -> str:
    """Return what a file of a part is called: names of one split sort like its parts."""
    return f"part-{part.number:0{len(str(part.of))}}"


def _place(text: str) -> tuple[str, int | None]:
    """Return the name of a file, and the number of a line if one is given."""
    name, _, digits = text.rpartition(":")
    has_number = bool(name) and digits.isascii() and digits.isdecimal()
    if not has_number or Path(text).exists():
        return text, None
    return name, int(digits)


async def _lines(name: str) -> list[bytes]:
    content = b""
    if name == STANDARD_INPUT:
        while piece := await read_input():
            content += piece
    else:
        try:
            content = await asyncio.to_thread(Path(name).read_bytes)
        except OSError as error:
            raise IncomeClientError(f"cannot read {name}: {reason_of(error)}") from None
    return [line for line in content.splitlines() if line.strip()]
