"""Arguments and options of several commands: times, spans, ids, types of documents."""

import asyncio
import os
import re
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from attrs import frozen
from cyclopts import ArgumentCollection, Parameter, Token, UnknownOptionError
from cyclopts.types import NonNegativeFloat
from cyclopts.validators import Number

from income_client import ConfigurationError, DecodeError, IncomeClientError
from income_client.system.texts import parse_iso_time, reason_of

from .id_lines import IdLines
from .output import say

if TYPE_CHECKING:
    from income_client import ApplicationDocuments, ApplicationPage, IncomeClient
    from income_client.records import DocumentEntry, Window
    from income_client.walk import ApplicationPaginator


Switch = Annotated[bool, Parameter(negative=(), show_default=False)]
"""An option without a value."""
Seconds = NonNegativeFloat
_WHOLE: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)


def _read_whole(_: Any, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'"{text}" is not a whole number')
    return int(text)


Whole = Annotated[int, Parameter(converter=_read_whole, n_tokens=1, accepts_keys=False)]
"""A whole number, which cyclopts alone would round from a fraction."""
Count = Annotated[Whole, Parameter(metavar="COUNT", validator=Number(gte=1))]
"""A number of at least one."""
MaxRate = Annotated[
    float | None, Parameter(metavar="REQUESTS", validator=Number(gt=0), show_default=False)
]
"""The ``max_rate`` of a command's client."""
TableOrJson = Annotated[
    Literal["table", "json"], Parameter(name=("--output", "-o"), metavar="FORMAT")
]
"""Format of an output without rows."""


# Times

BEGINNING: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
"""The beginning of time."""
_UNITS: Final = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "min": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
_BACK: Final = re.compile(r"(\d{1,8})(s|min|h|d|w)", re.ASCII)
_FRACTION: Final = re.compile(r"\d+[.,]\d+(s|min|m|h|d|w)", re.ASCII)
_MINUTES_OR_MONTHS: Final = re.compile(r"(\d{1,8})[mM]", re.ASCII)
_BEGINNING: Final = "beginning"
_NOW: Final = "now"
_TIMES: Final = "2026-01-31, 2026-01-31T12:00:00, 7d, 12h, now or beginning"


async def present_of(client: "IncomeClient") -> datetime:
    """Return the service's present, in UTC without zone as all times of the command."""
    return (await client.service_time()).replace(tzinfo=None)


@frozen
class Moment:
    """A time as a user typed it; the beginning of time if neither field is set."""

    at: datetime | None = None
    """A time in UTC, without zone."""
    back: timedelta | None = None
    """Duration before the service's present."""

    def seen_from(self, present: datetime) -> datetime:
        """Return the moment as a time; ``present`` matters only for ``back``.

        A span back that reaches before 1970 raises a `ConfigurationError`.
        """
        if self.back is None:
            return BEGINNING if self.at is None else self.at
        if self.back > present - BEGINNING:
            raise ConfigurationError(
                f"{self.text} reaches before 1970, where time begins: "
                f"write {_BEGINNING} for all of it"
            )
        return present - self.back

    @property
    def text(self) -> str:
        """The moment as a user would type it."""
        if self.back is None:
            return _BEGINNING if self.at is None else self.at.isoformat()
        if not self.back:
            return _NOW
        unit = next(name for name, length in _UNITS.items() if not self.back % length)
        return f"{self.back // _UNITS[unit]}{unit}"


NOW: Final = Moment(back=timedelta(0))
"""The service's present."""


def read_moment(text: str) -> Moment:
    """Return the moment of a text, or raise a `ValueError`."""
    if text == _BEGINNING:
        return Moment()
    if text == _NOW:
        return NOW
    if span := _MINUTES_OR_MONTHS.fullmatch(text):
        count = span[1]
        raise ValueError(f"write {count}min for minutes; for months, count days, such as 30d")
    if _FRACTION.fullmatch(text):
        raise ValueError("a span is a whole number, without a fraction: such as 90min for 1.5h")
    try:
        if span := _BACK.fullmatch(text):
            return Moment(back=int(span[1]) * _UNITS[span[2]])
        at = parse_iso_time(text)
        # The service's own times have no zone, and are in UTC for every command.
        return Moment(at=at if at.utcoffset() is None else at.astimezone(UTC).replace(tzinfo=None))
    except (ValueError, OverflowError):
        raise ValueError(f"this must be a time such as {_TIMES}") from None


def _read_moment_option(_: Any, tokens: Sequence[Token]) -> Moment:
    return read_moment(tokens[0].value)


When = Annotated[
    Moment,
    Parameter(
        converter=_read_moment_option,
        n_tokens=1,
        accepts_keys=False,
        metavar="TIME",
        show_default=False,
    ),
]
"""Option with a time."""

_LENGTH: Final = re.compile(r"(\d{1,8})(s|min|h|d|w)?", re.ASCII)


def _read_length(_: Any, tokens: Sequence[Token]) -> float:
    span = _LENGTH.fullmatch(tokens[0].value)
    if not span:
        raise ValueError("this must be a whole number of seconds, or such as 90s, 30min, 1h or 2d")
    return int(span[1]) * _UNITS[span[2] or "s"].total_seconds()


Length = Annotated[
    float,
    Parameter(
        converter=_read_length,
        n_tokens=1,
        accepts_keys=False,
        metavar="DURATION",
        validator=Number(gte=1),
        show_default=False,
    ),
]
"""Option with a duration of a second or more."""


@frozen(kw_only=True)
class Span:
    """Bounds of a walk, as `IncomeClient.list_applications` takes them."""

    after: datetime | None
    before: datetime | None


async def span_between(client: "IncomeClient", after: Moment | None, before: Moment | None) -> Span:
    """Return the span between two moments, by the service's present.

    A span that begins in the future, or ends before it begins, raises a `ConfigurationError`.
    """
    present = BEGINNING
    if after not in (None, Moment()) or (before is not None and before.back is not None):
        present = await present_of(client)
    span = Span(
        after=None if after is None else after.seen_from(present),
        before=None if before is None else before.seen_from(present),
    )
    if span.after is not None and span.after != BEGINNING:
        if span.after > present:
            raise ConfigurationError(
                f"{span.after.isoformat()} is in the future: "
                f"it is {present.isoformat()} at the service"
            )
        if span.before is not None and span.after > span.before:
            raise ConfigurationError("--updated-after is later than --updated-before")
    return span


# Ids of applications

STANDARD_INPUT: Final = "-"
"""Argument that stands for standard input."""
_PIECE: Final = 65536
LONGEST_LINE: Final = 2**27
"""Bytes of the longest line, several times those of an exported record: two replies of 16 MiB."""
BEHIND_OPTIONS: Final[ContextVar[frozenset[str]]] = ContextVar("behind", default=frozenset())
"""The words of the command line behind ``--``, none of which is an option."""


def _read_id(_: Any, tokens: Sequence[Token]) -> str:
    text = _read_argument(tokens)
    if not text:
        raise ValueError("an id must not be empty")
    return text


def _read_file(_: Any, tokens: Sequence[Token]) -> Path:
    return Path(_read_argument(tokens))


def _read_argument(tokens: Sequence[Token]) -> str:
    # Since a hyphen alone is an argument here, unknown options come along.
    (token,) = tokens
    is_option = token.value.startswith("-") and token.value != STANDARD_INPUT
    if is_option and token.value not in BEHIND_OPTIONS.get():
        raise UnknownOptionError(token=token, argument_collection=ArgumentCollection())  # type: ignore[no-untyped-call]
    return token.value


IdArgument = Annotated[
    str,
    Parameter(
        name="APPLICATION_ID",
        allow_leading_hyphen=True,
        converter=_read_id,
        n_tokens=1,
        accepts_keys=False,
    ),
]
"""An id, or a hyphen for the ids on standard input."""
HeldArgument = Annotated[
    Path,
    Parameter(
        name="HELD",
        allow_leading_hyphen=True,
        converter=_read_file,
        n_tokens=1,
        accepts_keys=False,
    ),
]
"""A file or a folder, or a hyphen for standard input."""


class Chosen:
    """The ids of a command's applications, each once, as they are read.

    Args:
        named: ids on the command line, ``-`` for those on standard input.
        changed: a walk over those that changed in a span.
        on_known: called with how many there are so far, and whether these are all.
    """

    def __init__(
        self,
        named: Iterable[str] = (),
        changed: "ApplicationPaginator | None" = None,
        *,
        on_known: Callable[[int, bool], object] = lambda *_: None,
    ) -> None:
        named = tuple(named)
        self._arguments = tuple(dict.fromkeys(entry for entry in named if entry != STANDARD_INPUT))
        self._has_input = STANDARD_INPUT in named
        self._changed = changed
        self._on_known = on_known
        self._seen = set(self._arguments)
        self.malformed: list[DecodeError] = []
        """Rows of the walk that could not be read."""
        self._report_count(is_all=changed is None and not self._has_input)

    @property
    def saturated(self) -> "tuple[Window, ...]":
        """Seconds that hold more changes than can be listed."""
        return () if self._changed is None else self._changed.saturated

    async def ids(self) -> AsyncGenerator[str, None]:
        """Yield the ids; raise `IncomeClientError` for a line of standard input without one."""
        for application_id in self._arguments:
            yield application_id
        if self._has_input:
            if os.isatty(0):
                say("ids are read from this terminal; Ctrl-D ends them")
            async with aclosing(read_ids()) as read:
                async for application_id in read:
                    if self._is_new(application_id):
                        yield application_id
        if self._changed is not None:
            async with aclosing(pages_of(self._changed, self.malformed)) as pages:
                async for page in pages:
                    for row in page.applications:
                        if self._is_new(row.application_id):
                            yield row.application_id
        self._report_count(is_all=True)

    def _is_new(self, application_id: str) -> bool:
        if application_id in self._seen:
            return False
        self._seen.add(application_id)
        self._report_count(is_all=False)
        return True

    def _report_count(self, *, is_all: bool) -> None:
        self._on_known(len(self._seen), is_all)


async def pages_of(
    walk: "ApplicationPaginator", malformed: list[DecodeError]
) -> "AsyncGenerator[ApplicationPage, None]":
    """Yield the pages of a walk; report malformed rows, and add their errors to the list."""
    is_over = False
    while not is_over:
        try:
            async with aclosing(walk.pages()) as pages:
                async for page in pages:
                    yield page
            is_over = True
        except DecodeError as error:
            if not error.is_row:  # a whole page would be asked for again and again
                raise
            malformed.append(error)
            say(str(error))


def overfull(second: "Window") -> str:
    """Return the message about a second with more updates than can be listed."""
    return f"the second {second.starts_at.isoformat()} holds more than can be listed"


async def read_ids(descriptor: int = 0) -> AsyncGenerator[str, None]:
    """Yield the ids in the lines of standard input, in any form that commands write."""
    ids, number = IdLines(), 0
    async with aclosing(read_lines(descriptor)) as lines:
        async for line in lines:
            number += 1
            try:
                application_ids = list(ids.read(line))
            except ValueError:
                raise IncomeClientError(
                    f"line {number:,} of standard input is neither an id of an application nor a "
                    "row that has one; income-client applications -q prints ids"
                ) from None
            for application_id in application_ids:
                yield application_id


async def read_lines(
    descriptor: int = 0, name: str = "standard input"
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an input; a line that is too long raises an `IncomeClientError`."""
    rest = bytearray()
    while piece := await read_input(descriptor):
        rest += piece
        if len(rest) > LONGEST_LINE:
            raise IncomeClientError(f"{name} has a line of over {LONGEST_LINE:,} bytes")
        if b"\n" not in piece:
            continue  # looking through a long line at every piece would take its square
        *lines, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in lines:
            yield line
    yield bytes(rest)


async def read_input(descriptor: int = 0) -> bytes:
    """Return the next bytes of a terminal, a file or a pipe; none at the end."""
    future: Future[bytes] = Future()
    future.set_running_or_notify_cancel()

    def read() -> None:
        try:
            # Past every buffer: the lock of one that is waited for breaks the interpreter's end.
            future.set_result(os.read(descriptor, _PIECE))
        except OSError as error:
            future.set_exception(error)

    # A thread of the loop's own pool would be waited for at the end, even if nothing ever comes.
    threading.Thread(target=read, name="standard input", daemon=True).start()
    try:
        return await asyncio.wrap_future(future)
    except OSError as error:
        raise IncomeClientError(f"standard input cannot be read: {reason_of(error)}") from None


# Types of documents

TypesOption = Annotated[
    tuple[str, ...], Parameter(name="--type", negative=(), show_default=False, metavar="TYPE")
]


class DocumentTypes:
    """Filter of documents by type, which remembers the types that occurred; no type means all."""

    def __init__(self, types: Iterable[str] = ()) -> None:
        self._types = frozenset(types)
        self._occurred: set[str] | None = None

    def chosen(self, documents: "ApplicationDocuments") -> "list[DocumentEntry]":
        """Return an application's documents of the chosen types."""
        self._occurred = (self._occurred or set()) | documents.documents.keys()
        return [
            entry
            for entry in documents.all()
            if not self._types or entry.document_type in self._types
        ]

    @property
    def missing(self) -> str | None:
        """Message about types that no document had; None without such types."""
        missing = ", ".join(sorted(self._types - (self._occurred or set())))
        there = ", ".join(sorted(self._occurred or ())) or "none"
        return f"no document of type {missing}; there are {there}" if missing else None

    @property
    def are_known(self) -> bool:
        """Whether each type has occurred, or is one of the contract.

        Any other may be misspelt. It is not known if no application was read.
        """
        from income_client.records.document_types import DOCUMENT_TYPES

        return self._occurred is None or self._types <= self._occurred | DOCUMENT_TYPES.keys()
