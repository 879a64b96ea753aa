"""``income-client export``: everything changed in a span, as lines of JSON or Parquet files."""

import os
import signal
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import ConfigurationError, to_arrow

from .accounts.connecting import Connection, connect, said
from .arguments.moments import Moment, When
from .exports.end import Format, check_before, part_beside
from .exports.job import ExportJob
from .exports.part import Part
from .exports.request import Request, service_time
from .exports.run import WALKERS
from .output.package_warnings import say_warnings
from .output.status_line import StatusLine
from .stopping.signals import StopSignals
from .stopping.stoppable import Stoppable

_FAILED: Final = 1
_MISUSED: Final = 2
_STATUSES: Final = {signal.SIGINT: 130, signal.SIGTERM: 143}

Switch = Annotated[bool, Parameter(negative=(), show_default=False)]


def _place(_: object, to: Path) -> None:
    if not to.name:
        raise ValueError("this names no file")


async def export(
    *,
    to: Annotated[Path, Parameter(validator=_place)],
    updated_after: When | None = None,
    updated_before: When | None = None,
    format_: Annotated[Format, Parameter(name="--format")] = "jsonl",
    documents: bool = True,
    pages: Switch = False,
    concurrency: Annotated[int, Parameter(validator=Number(gte=1))] = 16,
    allow_missing: Switch = False,
    connection: Connection | None = None,
) -> int:
    """Write every application that changed in a span to a file, or to Parquet files.

    Args:
        to: the file, or for Parquet the folder; nothing may be there yet.
        updated_after: where the span begins, such as 2026-06-01 or 7d; the beginning of time
            by default.
        updated_before: where it ends; at the latest the service's present, the default.
        format_: lines of JSON, or five Parquet files (needs the extra "parquet").
        documents: whether the documents are exported too.
        pages: have the pages block in each document.
        concurrency: requests about applications in flight at a time.
        allow_missing: make the file even if applications could not be read.
        connection: where the service is.

    Returns:
        The exit status: 1 for a failure or if something is missing, 2 for
            arguments that cannot be meant, 130 after Ctrl-C, 143 after SIGTERM.
    """
    line = StatusLine()
    say_warnings(line.say)
    if pages and not documents:
        line.say("--pages is about documents, and cannot go with --no-documents")
        return _MISUSED
    if format_ == "parquet":
        to_arrow(())  # what is not installed is said before anything is read
    connection = connection or Connection()
    stop = Stoppable()
    async with connect(connection, concurrency=concurrency + WALKERS) as client:
        request = Request(
            service=_service(connection),
            updated_after=_text(updated_after, up=False),
            updated_before=_text(updated_before, up=True),
            documents=documents,
            pages=pages,
        )
        check_before(to, format_)
        signals = StopSignals(stop.stop)
        try:
            with Part(part_beside(to)) as part:
                job = ExportJob(client, part, request, to, format_, line, stop)
                is_done = await job.run(concurrency, allow_missing=allow_missing)
        except BrokenPipeError:
            raise
        except OSError as error:
            line.say(f"cannot write {to}: {_reason(error)}")
            return _FAILED
    if signals.received is not None and not is_done:
        return _STATUSES[signals.received]
    return 0 if is_done else _FAILED


def _service(connection: Connection) -> str:
    """Return the address that `connect` has found."""
    found = said(connection)
    if isinstance(found, str) or found.account.base_url is None:
        raise ConfigurationError("the address of the service is said nowhere")
    return found.account.base_url.rstrip("/")


def _text(when: Moment | None, *, up: bool) -> str | None:
    if when is None or when == Moment():
        return None
    return when.text if when.at is None else service_time(when.at, up=up).isoformat()


def _reason(error: OSError) -> str:
    return os.strerror(error.errno or 0).lower()
