"""Arguments and options that several commands have: times, ids, document types."""

import asyncio
import contextlib
import json
import os
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from attrs import frozen
from cyclopts import ArgumentCollection, Parameter, Token, UnknownOptionError
from cyclopts.validators import Number

from income_client import (
    ApplicationDocuments,
    ApplicationPaginator,
    ConfigurationError,
    DocumentEntry,
    IncomeClient,
    Window,
)

from .output import reason_of


class MisuseError(ConfigurationError):
    """Arguments or settings that cannot be meant, wherever they come from."""


Switch = Annotated[bool, Parameter(negative=(), show_default=False)]
"""An option without a value."""
Seconds = Annotated[float, Parameter(validator=Number(gte=0))]
"""A span of time."""
WholeSeconds = Annotated[int, Parameter(validator=Number(gte=0))]
"""The same where a part of a second has no meaning."""
TableOrJson = Annotated[Literal["table", "json"], Parameter(name=("--output", "-o"))]
"""How one thing is shown, of which there are no rows."""


BEGINNING: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
"""The beginning of time."""

_SECOND: Final = timedelta(seconds=1)


def service_time(when: datetime, *, up: bool = False) -> datetime:
    """Return a time as the service has it: in UTC, without zone, in whole seconds.

    Args:
        when: aware, or in the service's time already.
        up: whether parts of a second become a whole one, or none.
    """
    naive = when if when.utcoffset() is None else when.astimezone(UTC)
    whole = naive.replace(tzinfo=None, microsecond=0)
    return whole + _SECOND if up and naive.microsecond else whole


_BACK: Final = re.compile(r"(\d{1,8})(s|min|m|h|d|w)", re.ASCII)
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_LONGEST_FIRST: Final = sorted(_UNITS.items(), key=lambda unit: -unit[1])
_BEGINNING: Final = "beginning"
_NOW: Final = "now"
_NO_TIME: Final = timedelta(0)


@frozen
class Moment:
    """A time that somebody typed; neither field is set for the beginning of time."""

    at: datetime | None = None
    """A time; the service's own where it carries no zone."""
    back: timedelta | None = None
    """How long before the service's present."""

    def seen_from(self, present: datetime) -> datetime:
        """Return the time that is meant, the beginning of time at the earliest.

        Args:
            present: service time; looked at only where ``back`` is set.
        """
        if self.back is None:
            return BEGINNING if self.at is None else self.at
        try:
            return max(present - self.back, BEGINNING)
        except OverflowError:
            return BEGINNING

    @property
    def text(self) -> str:
        """What one would type for it."""
        if self.back is None:
            return _BEGINNING if self.at is None else self.at.isoformat()
        fitting = (name for name, unit in _LONGEST_FIRST if self.back % unit == _NO_TIME)
        unit = next(fitting)
        return f"{self.back // _UNITS[unit]}{unit}" if self.back else _NOW


NOW: Final = Moment(back=_NO_TIME)
"""The service's present."""


def read_moment(text: str) -> Moment:
    """Return the moment that a text means.

    Args:
        text: ISO 8601, a span such as ``7d`` or ``12h``, ``now`` or ``beginning``.

    Raises:
        ValueError: it is none of these.
    """
    if text == _BEGINNING:
        return Moment()
    if text == _NOW:
        return NOW
    span = _BACK.fullmatch(text)
    try:
        if span is not None:
            return Moment(back=int(span[1]) * _UNITS[span[2]])
        return Moment(at=datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise ValueError(
            "this is no time; 2026-01-31, 2026-01-31T12:00:00, 7d, 12h, now and beginning are"
        ) from None


def _converted(_: Any, tokens: Sequence[Token]) -> Moment:
    return read_moment(tokens[0].value)


When = Annotated[
    Moment,
    Parameter(
        converter=_converted, n_tokens=1, accepts_keys=False, metavar="WHEN", show_default=False
    ),
]
"""An option that takes a time."""


@frozen(kw_only=True)
class Bounds:
    """The bounds of a walk, as `IncomeClient.list_applications` takes them."""

    after: datetime | None
    """Lower bound; None where none is given, which means the beginning of time."""
    before: datetime | None
    """Upper bound; None where none is given, which means the present."""


def ends_before_it_begins(after: Moment | None, before: Moment | None) -> bool:
    """Say whether two bounds cannot be meant together, wherever the service's present is.

    Args:
        after: lower bound, if any.
        before: upper bound, if any.
    """
    if after is None or before is None:
        return False
    if after.back is not None and before.back is not None:
        return after.back < before.back
    if after.at is None or before.at is None:
        return False
    # Where only one of them has a zone, nobody knows before the service is asked.
    has_zones = after.at.utcoffset() is not None, before.at.utcoffset() is not None
    return has_zones[0] == has_zones[1] and after.at > before.at


async def span_between(client: IncomeClient, after: Moment | None, before: Moment | None) -> Bounds:
    """Return the bounds that are meant, by the service's own present.

    Args:
        client: of the service; it is asked for its time where that matters.
        after: lower bound, if any.
        before: upper bound, if any.

    Raises:
        MisuseError: the span begins later than the service's present, or than it ends.
        IncomeClientError: the service does not tell its time.
    """
    present = BEGINNING
    if after not in (None, Moment()) or (before is not None and before.back is not None):
        present = await client.service_time()
    bounds = Bounds(
        after=None if after is None else after.seen_from(present),
        before=None if before is None else before.seen_from(present),
    )
    if bounds.after is not None and bounds.after != BEGINNING:
        begins = service_time(bounds.after)
        if begins > present:
            raise MisuseError(
                f"{begins.isoformat()} is in the future: it is {present.isoformat()} at the service"
            )
        if bounds.before is not None and begins > service_time(bounds.before, up=True):
            raise MisuseError("--updated-after is later than --updated-before")
    return bounds


STANDARD_INPUT: Final = "-"
"""What stands for it on a command line."""

_PIECE: Final = 65536
_AHEAD: Final = 16
_LONGEST_ID: Final = 1000


@frozen
class _Fault:
    """Why there are no more ids."""

    text: str
    """In words, without any content."""


async def read_ids(descriptor: int = 0) -> AsyncIterator[str]:
    """Yield the id in each line: an id alone, or JSON that has one, as ``poll`` writes it.

    Args:
        descriptor: of what to read; standard input unless given.

    Raises:
        ConfigurationError: it cannot be read, or a line has no id.
    """
    # What holds the lines, which may be records of somebody's, is gone when this raises.
    async with contextlib.aclosing(_ids(descriptor)) as ids:
        async for one in ids:
            if isinstance(one, _Fault):
                break
            yield one
        else:
            return
    raise ConfigurationError(one.text)


async def _ids(descriptor: int) -> AsyncGenerator[str | _Fault, None]:
    """Yield the id in each line, or why there are no more."""
    number = 0
    rest = b""
    async with contextlib.aclosing(_pieces(descriptor)) as pieces:
        async for piece in pieces:
            if isinstance(piece, OSError):
                yield _Fault(f"standard input cannot be read: {reason_of(piece)}")
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                number += 1
                if line.strip():
                    yield _id_in(line, number)
    if rest.strip():
        yield _id_in(rest, number + 1)


async def _pieces(descriptor: int) -> AsyncGenerator[bytes | OSError, None]:
    """Yield what comes, as it comes; no more is read ahead than there is use for."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue(_AHEAD)

    def pump() -> None:
        # Past every buffer: the lock of one that is waited for breaks the interpreter's end.
        piece: bytes | OSError = b"..."
        while piece and not isinstance(piece, OSError):
            try:
                piece = os.read(descriptor, _PIECE)
            except OSError as error:
                piece = error
            put = queue.put(piece)
            try:
                asyncio.run_coroutine_threadsafe(put, loop).result()
            except (CancelledError, RuntimeError):  # the loop has ended meanwhile
                put.close()
                return

    # A terminal, a file and a pipe are read alike; whoever never comes is not waited for.
    threading.Thread(target=pump, name="standard input", daemon=True).start()
    while piece := await queue.get():
        yield piece
        if isinstance(piece, OSError):
            return


def _id_in(line: bytes, number: int) -> str | _Fault:
    found = _found(line.strip())
    if found is None:
        return _Fault(f"line {number:,} of standard input has no id of an application")
    return found


def _found(line: bytes) -> str | None:
    if not line.startswith(b"{"):
        try:
            return line.decode() if len(line) <= _LONGEST_ID else None
        except UnicodeDecodeError:
            return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    inner = said.get("application")
    if isinstance(inner, dict):
        said = inner
    found = said.get("application_id")
    return found if isinstance(found, str) and found else None


def _id(_: Any, tokens: Sequence[Token]) -> str:
    # Since a hyphen alone is an argument here, options that nobody knows come along.
    (token,) = tokens
    if token.value.startswith("-") and token.value != STANDARD_INPUT:
        raise UnknownOptionError(token=token, argument_collection=ArgumentCollection())  # type: ignore[no-untyped-call]
    return token.value


_PARAMETER = Parameter(
    name="APPLICATION_ID", allow_leading_hyphen=True, converter=_id, n_tokens=1, accepts_keys=False
)
IdArgument = Annotated[str, _PARAMETER]
"""One of several ids, or a hyphen for those on standard input."""


@frozen(kw_only=True)
class Known:
    """How many applications there are."""

    count: int
    """Those known so far."""
    is_all: bool
    """Whether no more will come."""


def overfull(second: Window) -> str:
    """Say that a second holds more changes than can be asked for."""
    return f"the second {second.starts_at.isoformat()} holds more than can be listed"


class Chosen:
    """Ids, each once, as they become known.

    Args:
        named: what stands on the command line, ``-`` for standard input.
        changed: a walk over those that changed in a span.
        on_known: told how many there are, each time that this changes.
    """

    def __init__(
        self,
        named: Iterable[str] = (),
        changed: ApplicationPaginator | None = None,
        *,
        on_known: Callable[[Known], None],
    ) -> None:
        named = tuple(named)
        self._named = tuple(dict.fromkeys(one for one in named if one != STANDARD_INPUT))
        self._has_input = STANDARD_INPUT in named
        self._changed = changed
        self._on_known = on_known
        self._seen = set(self._named)
        self._tell(is_all=changed is None and not self._has_input)

    @property
    def saturated(self) -> tuple[Window, ...]:
        """Seconds that hold more changes than can be asked for."""
        return () if self._changed is None else self._changed.saturated

    async def ids(self) -> AsyncIterator[str]:
        """Yield them.

        Raises:
            ConfigurationError: standard input is none of ids.
            IncomeClientError: the service does not tell them.
        """
        for one in self._named:
            yield one
        if self._has_input:
            async for one in read_ids():
                if self._is_new(one):
                    yield one
        if self._changed is not None:
            async for row in self._changed:
                if self._is_new(row.application_id):
                    yield row.application_id
        self._tell(is_all=True)

    def _is_new(self, one: str) -> bool:
        if one in self._seen:
            return False
        self._seen.add(one)
        self._tell(is_all=False)
        return True

    def _tell(self, *, is_all: bool) -> None:
        self._on_known(Known(count=len(self._seen), is_all=is_all))


TypesOption = Annotated[tuple[str, ...], Parameter(name="--type", negative=(), show_default=False)]
_OF_THE_CONTRACT: Final = "paystub"


class DocumentTypes:
    """Chooses documents by type.

    Args:
        wanted: the types to choose; every one where this is empty.
    """

    def __init__(self, wanted: Iterable[str] = ()) -> None:
        self._wanted = frozenset(wanted)
        self._found: set[str] | None = None

    def chosen(self, documents: ApplicationDocuments) -> list[DocumentEntry]:
        """Return an application's documents of these types."""
        self._found = (self._found or set()) | documents.documents.keys()
        return [
            entry
            for entry in documents.all()
            if not self._wanted or entry.document_type in self._wanted
        ]

    @property
    def missing(self) -> str | None:
        """The types that no document had, in words; None if there are none."""
        missing = ", ".join(sorted(self._wanted - (self._found or set())))
        there = ", ".join(sorted(self._found or ())) or "none"
        return f"no document of type {missing}; there are {there}" if missing else None

    @property
    def are_known(self) -> bool:
        """Whether each type was found, or is one that the service is known to have.

        Any other may be misspelt. It cannot be known where no application was read.
        """
        if self._found is None:
            return True
        return self._wanted <= self._found | {_OF_THE_CONTRACT}
