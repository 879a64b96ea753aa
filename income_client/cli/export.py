"""``income-client export``: everything changed in a span, as lines of JSON or Parquet files."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import ConfigurationError, to_arrow

from .config import Connection, made_ready
from .exit_status import ExitStatus
from .exports.end import Format, check_free, is_there, part_beside, places_of
from .exports.job import ExportJob
from .exports.part import Part
from .exports.request import Request
from .exports.run import WALKERS
from .options import MisuseError, Moment, Switch, When, ends_before_it_begins, service_time
from .output import OutputLines, reason_of
from .progress import StatusLine, say_warnings
from .signals import Stoppable, StopSignals


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
    addresses: Switch = False,
    concurrency: Annotated[int, Parameter(validator=Number(gte=1))] = 16,
    allow_missing: Switch = False,
    connection: Connection | None = None,
) -> int:
    """Write every application that changed in a span to one file.

    Lines of JSON hold all that the service says; with --format parquet a folder of
    five tables to be joined (see the README): applications, applicants,
    income_sources, documents and paystub_amounts. A manifest beside the lines, or
    among the tables, tells the span and what is missing.

    The file is whole at its place, or not there. What has come is kept in a folder
    beside it, PATH.part: run the same command again, after whatever ended it, and
    it goes on. The span ends at the service's present when the first run began, and
    stays; what is updated after that belongs to the next export, and the summary
    says where that begins. What could not be read is said and tried again by the
    next run; the file is not made without it unless you say --allow-missing.

    The path goes to standard output, all else to standard error. The exit status is
    0 if the file is there, 1 if something failed or is missing, 4 if the
    credentials are refused, 130 after Ctrl-C and 143 after SIGTERM. Address and
    credentials come from the environment or a file, as for poll. The file holds
    borrowers' data, so that only you may read it, and no addresses of files unless
    --addresses is given.

    Example: income-client export --to june.jsonl --updated-after 2026-06-01

    Args:
        to: the file, or for Parquet the folder; nothing may be there yet.
        updated_after: where the span begins, such as 2026-06-01 or 7d; the beginning of time
            by default.
        updated_before: where it ends; at the latest the service's present, the default.
        format_: lines of JSON, or five Parquet files (needs the extra "parquet").
        documents: whether the documents are exported too.
        pages: have the pages block in each document.
        addresses: keep the addresses of files: who has one can read the file until it expires.
        concurrency: requests about applications in flight at a time.
        allow_missing: make the file even if applications could not be read.
        connection: where the service is.

    Returns:
        The exit status: 1 for a failure or if something is missing, 2 for
            arguments that cannot be meant, 130 after Ctrl-C, 143 after SIGTERM.
    """
    line = StatusLine()
    say_warnings(line.say)
    misuse = _contradiction(updated_after, updated_before, documents=documents, pages=pages)
    fault = misuse or (_unready() if format_ == "parquet" else None)
    if fault is not None:
        line.say(fault)
        return ExitStatus.FAILED if misuse is None else ExitStatus.MISUSED
    found = made_ready(connection)
    request = Request(
        service=(found.configuration.account.base_url or "").rstrip("/"),
        updated_after=None if updated_after == Moment() else _text(updated_after, up=False),
        updated_before=_text(updated_before, up=True),
        documents=documents,
        pages=pages,
        addresses=addresses,
    )
    stop = Stoppable()
    async with found.client(concurrency=concurrency + WALKERS) as client:
        signals = StopSignals(stop.stop)
        try:
            if not is_there(part_beside(to)):
                check_free(*places_of(to, format_))
            with Part(part_beside(to)) as part:
                job = ExportJob(client, part, request, to, format_, line, stop)
                is_done = await job.run(concurrency, allow_missing=allow_missing)
        except OSError as error:
            line.say(f"cannot write {to}: {reason_of(error)}")
            return ExitStatus.FAILED
        except MisuseError:
            raise
        except ConfigurationError as error:
            # Of the place or the data, and not of what the command was told.
            line.say(str(error))
            return ExitStatus.FAILED
    if is_done:
        _tell_path(to)
        return ExitStatus.DONE
    if signals.received is not None:
        return ExitStatus.of_signal(signals.received)
    return ExitStatus.FAILED


def _contradiction(
    after: Moment | None, before: Moment | None, *, documents: bool, pages: bool
) -> str | None:
    if pages and not documents:
        return "--pages is about documents, and cannot be combined with --no-documents"
    if ends_before_it_begins(after, before):
        return "--updated-after is later than --updated-before"
    return None


def _unready() -> str | None:
    """Say why no tables can be made, before anything is read."""
    try:
        to_arrow(())
    except ConfigurationError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a library that is broken raises anything
        reason = type(error).__name__
        return f"pyarrow is installed and cannot be used ({reason}): install it anew"
    return None


def _text(when: Moment | None, *, up: bool) -> str | None:
    if when is None:
        return None
    return when.text if when.at is None else service_time(when.at, up=up).isoformat()


def _tell_path(path: Path) -> None:
    """Say where the file is, which is whole by now whatever becomes of that.

    Raises:
        BrokenPipeError: nobody reads any more.
        UnwritableError: standard output takes no more.
    """
    OutputLines().write(os.fsencode(path))
