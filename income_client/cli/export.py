"""``income-client export``: applications updated in a period, as one file or as tables."""

import asyncio
import json
import os
import re
import signal
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter
from rich.filesize import decimal

import income_client
from income_client import ConfigurationError, DecodeError, IncomeClientError
from income_client.system.texts import reason_of

from .connection import Connection, is_of_the_account, make_client, read_settings
from .exit_status import ExitStatus
from .export_state import Workspace
from .options import (
    BEGINNING,
    Chosen,
    Count,
    IdArgument,
    MaxRate,
    Moment,
    Seconds,
    Switch,
    When,
    overfull,
    pages_of,
    present_of,
    read_moment,
)
from .output import OutputLines, counted, say, without_addresses
from .progress import Bars
from .signals import Stoppable, StopSignals

if TYPE_CHECKING:
    from income_client import ApplicationRecord, FetchFailure, IncomeClient
    from income_client.records import Window
    from income_client.walk import ApplicationPaginator

_OTHER_FORMATS: Final = frozenset({".arrow", ".csv", ".feather", ".parquet", ".xlsx"})
_WALKERS: Final = 4
"""List calls in flight, beside the requests for records."""
_MOST_LINES: Final = 100
_MOST_BYTES: Final = 8 * 2**20
"""Applications, and bytes of their lines, that a kill can lose at the most."""
_RECORDS_AT_ONCE: Final = 20
"""Records written to tables before progress is drawn and a signal is seen."""
_IN_A_ROW: Final = 20
"""Most failures in a row before the service counts as failed."""
_NEARLY: Final = 0.99
"""Largest share that the progress bar shows before the export is complete."""
_SAY_SECONDS: Final = 60.0
"""Fewest seconds between lines of progress where no terminal shows a bar."""
_OVERLAP: Final = timedelta(seconds=1)
"""Overlap of consecutive periods, since it is unknown whether bounds are inclusive."""
_OBJECT_STORE: Final = re.compile(r"[a-z][a-z0-9]+:/")
"""Beginning of an object store's address; `Path` removes one of the two slashes."""
_LOSSLESS: Final = "--format jsonl, with the same other arguments, loses nothing"


def _check_target(_: object, to: Path) -> None:
    if not to.name:
        raise ValueError("this names no file")


async def export(
    *applications: IdArgument,
    to: Annotated[Path, Parameter(validator=_check_target)],
    updated_after: When | None = None,
    updated_before: When | None = None,
    format_: Annotated[
        Literal["jsonl", "parquet"] | None,
        Parameter(name="--format", metavar="FORMAT", show_default=False),
    ] = None,
    documents: Annotated[bool, Parameter(show_default=False)] = True,
    pages: Switch = False,
    addresses: Switch = False,
    settle: Annotated[Seconds, Parameter(metavar="SECONDS")] = 60.0,
    concurrency: Count = 16,
    max_rate: MaxRate = None,
    allow_missing: Switch = False,
    connection: Connection | None = None,
) -> int:
    """Write every application updated in a period to one file.

    Instead of a period, applications can be chosen by id, or by ids on standard
    input (-, one a line, or JSON from applications and poll).

    JSON lines hold all that the service has. With --format parquet, a folder of
    five tables is written: applications, applicants, income_sources, documents
    and paystub_amounts. A manifest beside the lines, or among the tables, has the
    period and what is missing.

    The file is complete, or not there. Records are kept in a folder beside it,
    PATH.part, until it is complete: to resume after any interruption, run the
    same command again, with the same ids. The period ends --settle seconds before
    the first run began, by the service's time; the summary says where the next
    export begins.
    Applications that cannot be read are retried by the next run. Until then there
    is no file, unless --allow-missing is given.

    The path goes to standard output. Where standard error is no terminal, it has a
    line of progress a minute. The exit status is 0 if the file is there,
    and 1 if something failed or is missing. The file holds borrowers' data, and
    only you can read it.

    Example: income-client export --to june.jsonl --updated-after 2026-06-01
    income-client export - --to some.jsonl < ids.txt

    Args:
        applications: Ids of applications; - reads them from standard input.
        to: File, or for Parquet the folder; nothing may be there yet.
        updated_after: Start of the period, as 2026-06-01 or 7d. Default: the beginning of time.
        updated_before: End of the period. Default, and latest: --settle before the present.
        format_: jsonl for JSON lines, the default, or parquet for five Parquet files
            (needs the extra "parquet").
        documents: Include the documents. Default: --documents.
        pages: Include the pages of each document.
        addresses: Include the signed addresses of files, with which anyone can read them.
        settle: Seconds that the service may take to list an update.
        concurrency: Applications to read at a time.
        max_rate: Most requests a second, retries included. Default: no limit.
        allow_missing: Write the file even if applications could not be read.
        connection: The service.
    """
    if pages and not documents:
        raise ConfigurationError("--pages cannot be combined with --no-documents")
    if applications and (updated_after is not None or updated_before is not None):
        raise ConfigurationError("either APPLICATION_IDs, or --updated-after and --updated-before")
    chosen_format = format_ or "jsonl"
    _check_form(to, chosen_format)
    settings = read_settings(connection)
    request = {
        "service": (settings.account.base_url or "").rstrip("/"),
        "updated_after": None if updated_after in (None, Moment()) else updated_after.text,
        "updated_before": None if updated_before is None else updated_before.text,
        "documents": documents,
        "pages": pages,
        "addresses": addresses,
        "format": chosen_format,
    }
    if applications:
        request["by_id"] = True
    stop = Stoppable()
    requests = concurrency + _WALKERS
    async with make_client(settings, concurrency=requests, max_rate=max_rate) as client:
        signals = StopSignals(stop.stop)
        try:
            with Workspace(to, has_manifest_beside=chosen_format == "jsonl") as workspace:
                job = _Export(client, workspace, request, stop, applications, settle)
                # What is kept fits either format, so another one may be asked for by name.
                free = {"format"} if format_ is not None else set[str]()
                await job.run(free, concurrency, allow_missing=allow_missing)
        except _StoppedError:
            return ExitStatus.of_signal(signals.received or signal.SIGINT)
        except IncomeClientError:
            raise  # a deadline is an OSError too, and no fault of the disk
        except OSError as error:
            raise IncomeClientError(f"cannot write {to}: {reason_of(error)}") from None
        except sqlite3.Error as error:
            reason = getattr(error, "sqlite_errorname", type(error).__name__)
            raise IncomeClientError(f"cannot use {to}.part: {reason}") from None
    OutputLines().write(os.fsencode(to))
    return ExitStatus.DONE


def _check_form(to: Path, chosen_format: str) -> None:
    """Check that this format can be written to this path, before anything is read."""
    if _OBJECT_STORE.match(str(to)):
        raise ConfigurationError(
            f"--to {to}: export writes to a local path; copy the result from there"
        )
    if chosen_format == "parquet":
        _check_pyarrow()
    elif to.suffix.lower() in _OTHER_FORMATS:
        raise ConfigurationError(
            f"--to {to.name}: export writes JSON lines, or a folder of tables with --format parquet"
        )


def _check_pyarrow() -> None:
    """Check that tables can be made, before anything is read."""
    from income_client.exporting import to_arrow

    try:
        to_arrow(())
    except ConfigurationError as error:
        raise IncomeClientError(error.message) from None
    except Exception as error:  # noqa: BLE001 - a library that is broken raises anything
        raise IncomeClientError(
            f"pyarrow is installed and cannot be used ({type(error).__name__}): reinstall it"
        ) from None


class _StoppedError(Exception):
    """A signal has stopped the export."""


class _Export:
    """A run of the command: reads the missing applications, then publishes all."""

    def __init__(
        self,
        client: "IncomeClient",
        workspace: Workspace,
        request: dict[str, Any],
        stop: Stoppable,
        applications: tuple[str, ...],
        settle: float,
    ) -> None:
        self._settle = timedelta(seconds=settle)
        self._client = client
        self._workspace = workspace
        self._request = request
        self._stop = stop
        self._began_at = self._said_at = monotonic()
        self._lines: dict[str, bytes] = {}
        self._missing: dict[str, str] = {}
        self._malformed: list[DecodeError] = []
        """Rows of the list, which the next run asks for again."""
        self._failures_in_a_row = 0
        self._checkpoint: str | None = workspace.fact("checkpoint")
        """Checkpoint of the walk; it covers pages whose applications are stored, or waiting to
        be."""
        self._share: float = workspace.fact("share") or 0.0
        """Share of the span that is read, from 0 to 1, as the progress bar shows it."""
        self._earliest: str | None = workspace.fact("earliest")
        """The earliest date of an application that was listed."""
        self._bars = Bars()
        self._bar = self._bars.add_task("Exporting", total=None if applications else 1.0, count="")
        self._bars.update(self._bar, completed=self._share)
        self._named = 0
        self._chosen = Chosen(applications, on_known=self._expect_chosen) if applications else None
        """Applications chosen by id; None to export the whole span."""

    async def run(self, free: AbstractSet[str], concurrency: int, *, allow_missing: bool) -> None:
        """Write the export to its target; raise an error if that fails.

        A run that resumes may differ from the first one in the ``free`` parts of its request.
        """
        self._check_request(free)
        try:
            if self._workspace.is_published:
                what = f"it was there already, with {self._counted_records}"
            else:
                what = await self._make_export(concurrency, allow_missing=allow_missing)
        except (_StoppedError, IncomeClientError, OSError, sqlite3.Error):
            self._say_kept()
            raise
        self._workspace.remove()
        say(what)

    @property
    def _counted_records(self) -> str:
        return counted(self._workspace.records, "application")

    def _say_kept(self) -> None:
        if self._workspace.fact("request") is not None:
            say(
                f"{self._workspace.folder} keeps {self._counted_records}: "
                "run it again with the same arguments to resume"
            )

    def _check_request(self, free: AbstractSet[str]) -> None:
        text = self._workspace.fact("request")
        begun = self._request if text is None else json.loads(text)
        # An export that an earlier version began says nothing about its format.
        begun.setdefault("format", self._request["format"])
        # An earlier version may have been asked for what this one does not know.
        differences = ", ".join(
            f"{_option(name, begun.get(name))}, and not {_option(name, self._request.get(name))}"
            for name in begun | self._request
            if name not in free and begun.get(name) != self._request.get(name)
        )
        if differences:
            raise ConfigurationError(
                f"{self._workspace.folder} was begun with {differences}: "
                "resume with its arguments, or delete it to begin again"
            )

    async def _make_export(self, concurrency: int, *, allow_missing: bool) -> str:
        """Read and publish; return a summary."""
        workspace = self._workspace
        workspace.resume()
        if workspace.records:
            say(f"resuming with {self._counted_records} of an earlier run")
        if workspace.fact("span") is None:
            await self._begin_span()
        span = json.loads(workspace.fact("span"))
        saturated = await self._read_all(span, concurrency)
        missing = workspace.missing()
        self._check_others(workspace.records + len(missing))
        lost_text = _lost_text(len(missing), len(self._malformed), len(saturated))
        if lost_text and not allow_missing:
            raise IncomeClientError(
                f"not exported, as {lost_text}; --allow-missing exports the rest"
            )
        records, rows = workspace.records, dict[str, int]()
        if self._request["format"] == "parquet":
            rows, misfits = await self._write_tables(allow_missing=allow_missing)
            records -= len(misfits)
            missing |= misfits
            lost_text = _lost_text(len(missing), len(self._malformed), len(saturated))
        manifest = {
            **self._request,
            **span,
            "whole": not lost_text,
            "missing": [
                {"application_id": application_id, "reason": why}
                for application_id, why in (
                    *missing.items(),
                    *((error.subject, str(error)) for error in self._malformed),
                )
            ],
            "saturated_seconds": [second.starts_at.isoformat() for second in saturated],
            "records": records,
        }
        if self._request["format"] == "jsonl":
            workspace.publish_lines(_manifest_json({**manifest, "size": workspace.size}))
            size = f"{decimal(workspace.size)} of JSON"
        else:
            workspace.publish_tables(_manifest_json({**manifest, "rows": rows}))
            size = f"{counted(sum(rows.values()), 'row')} in {len(rows)} tables"
        period = then = ""
        if self._chosen is None:
            begins = span["updated_after"] or "the beginning"
            period = f" updated from {begins} to {span['updated_before']}"
            then = f"; the next export begins with --updated-after {span['next_updated_after']}"
        return (
            f"{self._counted_records}{period}{lost_text and f', though {lost_text}'}; "
            f"{size} in {monotonic() - self._began_at:,.1f} s{then}"
        )

    def _check_others(self, count: int) -> None:
        """Raise an error if the ids differ from those of the run that began the export."""
        if self._chosen is not None and count > self._named:
            others = counted(count - self._named, "application")
            raise ConfigurationError(
                f"{self._workspace.folder} has {others} besides "
                "these: resume with the ids that it was begun with, or delete it to begin again"
            )

    async def _begin_span(self) -> None:
        """Choose the span for this run and all runs that resume it."""
        span: dict[str, str | None] = {
            "updated_after": None,
            "updated_before": None,
            "next_updated_after": None,
        }
        if self._chosen is None:
            span = await self._present_span()
        self._workspace.note(request=json.dumps(self._request), span=json.dumps(span))

    async def _present_span(self) -> dict[str, str | None]:
        """Return the requested period, cut at the service's present minus the settling time."""
        present = await self._stop.wait_for(present_of(self._client))
        if present is None:
            raise _StoppedError
        # What is updated later may not be listed yet.
        settled = max(present - self._settle, BEGINNING)
        settled -= timedelta(microseconds=settled.microsecond)
        after, before = (
            default if text is None else read_moment(text).seen_from(present)
            for text, default in (
                (self._request["updated_after"], BEGINNING),
                (self._request["updated_before"], settled),
            )
        )
        before = min(before, settled)
        if after > before:
            raise ConfigurationError(
                f"the period begins at {after.isoformat()}, and ends before, "
                f"at {before.isoformat()}; it is {present.isoformat()} at the service"
            )
        return {
            "updated_after": None if after == BEGINNING else after.isoformat(),
            "updated_before": before.isoformat(),
            "next_updated_after": (before - _OVERLAP).isoformat(),
        }

    async def _read_all(
        self, span: dict[str, str | None], concurrency: int
    ) -> "tuple[Window, ...]":
        """Read and store the missing applications; return the saturated seconds."""
        try:
            with self._bars:
                await self._read(self._workspace.missing(), concurrency)
                if self._chosen is not None:
                    await self._read(self._missing_among(self._chosen), concurrency)
                    return ()
                return await self._read_span(span, concurrency)
        finally:
            await self._keep_records()

    async def _read_span(
        self, span: dict[str, str | None], concurrency: int
    ) -> "tuple[Window, ...]":
        """Read a span page by page; return the saturated seconds."""
        walk = self._client.list_applications(
            span["updated_after"],
            span["updated_before"],
            concurrency=_WALKERS,
            on_saturated="report",
            resume=self._checkpoint,
        )
        begins, ends = (
            BEGINNING if bound is None else datetime.fromisoformat(bound)
            for bound in (span["updated_after"], span["updated_before"])
        )
        first = ends if self._earliest is None else datetime.fromisoformat(self._earliest)
        async with aclosing(pages_of(walk, self._malformed)) as pages:
            while (page := await self._stop.wait_for(anext(pages, None))) is not None:
                self._move_checkpoint(walk)
                rows = page.applications
                # Nothing is updated before it is applied for: earlier years take no time.
                first = max(begins, min([first, *(row.application_date for row in rows)]))
                if first < ends:
                    remaining = (1 - walk.progress.covered_fraction) * (ends - begins)
                    self._share = max(self._share, min(1 - remaining / (ends - first), _NEARLY))
                    self._earliest = first.isoformat()
                self._bars.update(self._bar, completed=self._share)
                ids = [row.application_id for row in rows]
                await self._read(self._workspace.new(ids), concurrency)
        self._check_not_stopped()
        self._move_checkpoint(walk)
        for second in walk.saturated:
            say(overfull(second))
        return walk.saturated

    def _move_checkpoint(self, walk: "ApplicationPaginator") -> None:
        """Store the walk's checkpoint, which covers all pages before the last one."""
        # One behind a malformed row would hide that from the next run.
        if not self._malformed:
            self._checkpoint = walk.checkpoint

    async def _read(
        self, applications: Iterable[str] | AsyncIterable[str], concurrency: int
    ) -> None:
        """Read applications; store their lines once there are enough."""
        records = self._client.fetch_records(
            applications,
            documents=self._request["documents"],
            pages=self._request["pages"],
            concurrency=concurrency,
            on_error="yield",
        )
        async with aclosing(records):
            while (outcome := await self._stop.wait_for(anext(records, None))) is not None:
                self._take_outcome(outcome)
                self._show_count()
                if self._is_much:
                    await self._keep_records()
        self._check_not_stopped()

    def _check_not_stopped(self) -> None:
        if self._stop.is_stopped:
            raise _StoppedError

    def _show_count(self) -> None:
        if self._bars.disable:  # to count and to draw for nobody would cost each record
            return
        records = self._workspace.records + len(self._lines)
        completed = None if self._chosen is None else records
        self._bars.update(self._bar, completed=completed, count=counted(records, "application"))

    async def _missing_among(self, chosen: Chosen) -> AsyncGenerator[str, None]:
        """Yield the chosen applications that the workspace lacks."""
        async with aclosing(chosen.ids()) as ids:
            async for chosen_id in ids:
                for application_id in self._workspace.new((chosen_id,)):
                    yield application_id

    def _expect_chosen(self, count: int, is_all: bool) -> None:
        """Record the number of ids known so far, or in all."""
        self._named = count
        if is_all:
            self._bars.update(self._bar, total=count)

    def _take_outcome(self, outcome: "ApplicationRecord | FetchFailure") -> None:
        """Add a record or its error; raise an error that is not about one application."""
        match outcome:
            case income_client.ApplicationRecord():
                self._failures_in_a_row = 0
                if (misfit := self._misfit_of(outcome)) is not None:
                    self._miss(outcome.application_id, f"{misfit}; {_LOSSLESS}")
                    return
                record = outcome if self._request["addresses"] else without_addresses(outcome)
                self._lines[outcome.application_id] = income_client.to_json(record)
            case income_client.FetchFailure(application_id, error):
                self._failures_in_a_row += error.retryable
                if is_of_the_account(error) or self._failures_in_a_row >= _IN_A_ROW:
                    raise error
                self._miss(application_id, str(error), is_named=error.subject == application_id)

    def _misfit_of(self, record: "ApplicationRecord") -> str | None:
        """Return the value of a record that does not fit the tables, which are made at the end."""
        if self._request["format"] != "parquet":
            return None
        from income_client.exporting.schema import misfit_of

        return misfit_of(record)

    def _miss(self, application_id: str, reason: str, *, is_named: bool = False) -> None:
        self._missing[application_id] = reason
        say(reason if is_named else f"{application_id}: {reason}")

    @property
    def _is_much(self) -> bool:
        size = sum(map(len, self._lines.values()))
        return len(self._lines) + len(self._missing) >= _MOST_LINES or size >= _MOST_BYTES

    async def _keep_records(self) -> None:
        """Write the pending lines to the disk, so that they survive a kill."""
        await asyncio.to_thread(
            self._workspace.keep,
            self._lines,
            self._missing,
            checkpoint=self._checkpoint,
            share=self._share,
            earliest=self._earliest,
        )
        self._lines, self._missing = {}, {}
        if self._bars.disable and monotonic() - self._said_at >= _SAY_SECONDS:
            self._said_at = monotonic()
            share = "" if self._chosen is not None else f"{self._share:.0%}, "
            say(f"exporting: {share}{self._counted_records}")

    async def _write_tables(self, *, allow_missing: bool) -> tuple[dict[str, int], dict[str, str]]:
        """Write the lines as Parquet files; return the rows by table, and the misfits by id.

        Lines that were kept for another format may have values that do not fit the tables.
        """
        from income_client.exporting import ParquetTables

        misfits: dict[str, str] = {}
        with (
            Bars() as progress,
            self._workspace.lines.open("rb") as lines,
            ParquetTables(self._workspace.empty_tables()) as tables,
        ):
            task = progress.add_task("Writing tables", total=self._workspace.records, count="")
            for number, line in enumerate(lines, start=1):
                record = income_client.from_json(income_client.ApplicationRecord, line)
                try:
                    tables.write(record)
                except ConfigurationError as error:
                    if not allow_missing or (misfit := self._misfit_of(record)) is None:
                        raise IncomeClientError(
                            f"{error.message}; --allow-missing exports the rest, and {_LOSSLESS}"
                        ) from None
                    misfits[record.application_id] = f"{misfit}; {_LOSSLESS}"
                if number % _RECORDS_AT_ONCE == 0:
                    progress.update(task, completed=number)
                    await asyncio.sleep(0)  # lets a signal be seen
                    self._check_not_stopped()
        return tables.rows, misfits


def _manifest_json(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, indent=2).encode() + b"\n"


def _option(name: str, value: Any) -> str:
    option = name.replace("_", "-")
    match value:
        case _ if name == "by_id":
            return "ids of applications" if value else "a period"
        case bool():
            return f"--{option}" if value else f"--no-{option}"
        case None:
            return f"no --{option}"
        case _ if name == "service":
            return f"the service {value}"
        case _:
            return f"--{option} {value}"


def _lost_text(applications: int, rows: int, seconds: int) -> str:
    parts = []
    if applications:
        parts.append(f"{counted(applications, 'application')} could not be read")
    if rows:
        parts.append(f"{counted(rows, 'row')} of the list could not be read")
    if seconds:
        parts.append(f"{counted(seconds, 'second')} could not be listed whole")
    return " and ".join(parts)
