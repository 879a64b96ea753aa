"""``income-client export``: applications updated in a period, as one file or as tables."""

import asyncio
import json
import os
import signal
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter
from rich.filesize import decimal

import income_client
from income_client import ConfigurationError, DecodeError, IncomeClientError
from income_client.texts import reason_of

from .connection import Connection, is_of_the_account, made_ready
from .exit_status import ExitStatus
from .export_state import Workspace
from .options import (
    BEGINNING,
    Chosen,
    Count,
    IdArgument,
    Moment,
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
    from income_client import (
        ApplicationPaginator,
        ApplicationRecord,
        FetchFailure,
        IncomeClient,
        Window,
    )

_OTHER_FORMATS: Final = frozenset({".arrow", ".csv", ".feather", ".parquet", ".xlsx"})
_WALKERS: Final = 4
"""List calls in flight, beside the requests about applications."""
_PAGES_AHEAD: Final = 20
"""Pages that are listed before their applications are read."""
_MOST_LINES: Final = 100
_MOST_BYTES: Final = 8 * 2**20
"""Applications, and bytes of their lines, that a kill can lose at the most."""
_IN_A_ROW: Final = 20
"""Failures in a row that may pass: so many are not about the applications."""
_NEARLY: Final = 0.99
"""As far as the bar gets before all is done."""
_LATE: Final = timedelta(seconds=5)
"""How long the service may take to list an update: spans that follow each other overlap by it."""


def _check_target(_: object, to: Path) -> None:
    if not to.name:
        raise ValueError("this names no file")


async def export(
    *applications: IdArgument,
    to: Annotated[Path, Parameter(validator=_check_target)],
    updated_after: When | None = None,
    updated_before: When | None = None,
    format_: Annotated[
        Literal["jsonl", "parquet"], Parameter(name="--format", metavar="FORMAT")
    ] = "jsonl",
    documents: Annotated[bool, Parameter(show_default=False)] = True,
    pages: Switch = False,
    addresses: Switch = False,
    concurrency: Count = 16,
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
    same command again, with the same ids. The period ends when the first run
    began, by the service's time; the summary says where the next export begins.
    Applications that cannot be read are retried by the next run. Until then there
    is no file, unless --allow-missing is given.

    The path goes to standard output. The exit status is 0 if the file is there,
    and 1 if something failed or is missing. The file holds borrowers' data, and
    only you can read it.

    Example: income-client export --to june.jsonl --updated-after 2026-06-01
    income-client export - --to some.jsonl < ids.txt

    Args:
        applications: Ids of applications; - reads them from standard input.
        to: File, or for Parquet the folder; nothing may be there yet.
        updated_after: Start of the period, as 2026-06-01 or 7d. Default: the beginning of time.
        updated_before: End of the period. Default, and latest: the present.
        format_: JSON lines, or five Parquet files (needs the extra "parquet").
        documents: Include the documents. Default: --documents.
        pages: Include the pages of each document.
        addresses: Include the signed addresses of files, with which anyone can read them.
        concurrency: Applications to read at a time.
        allow_missing: Write the file even if applications could not be read.
        connection: The service.
    """
    if pages and not documents:
        raise ConfigurationError("--pages cannot be combined with --no-documents")
    if applications and (updated_after is not None or updated_before is not None):
        raise ConfigurationError("either APPLICATION_IDs, or --updated-after and --updated-before")
    if format_ == "parquet":
        _check_pyarrow()
    elif to.suffix.lower() in _OTHER_FORMATS:
        raise ConfigurationError(
            f"--to {to.name}: export writes JSON lines, or a folder of tables with --format parquet"
        )
    ready = made_ready(connection)
    request = {
        "service": (ready.configuration.account.base_url or "").rstrip("/"),
        "updated_after": None if updated_after in (None, Moment()) else updated_after.text,
        "updated_before": None if updated_before is None else updated_before.text,
        "documents": documents,
        "pages": pages,
        "addresses": addresses,
    }
    if applications:
        request["by_id"] = True
    stop = Stoppable()
    async with ready.client(concurrency=concurrency + _WALKERS) as client:
        signals = StopSignals(stop.stop)
        try:
            with Workspace(to, has_manifest_beside=format_ == "jsonl") as kept:
                job = _Export(client, kept, request, stop, applications)
                await job.run(format_, concurrency, allow_missing=allow_missing)
        except _StoppedError:
            return ExitStatus.of_signal(signals.received or signal.SIGINT)
        except OSError as error:
            raise IncomeClientError(f"cannot write {to}: {reason_of(error)}")
        except sqlite3.Error as error:
            reason = getattr(error, "sqlite_errorname", type(error).__name__)
            raise IncomeClientError(f"cannot use {to}.part: {reason}")
    OutputLines().write(os.fsencode(to))
    return ExitStatus.DONE


def _check_pyarrow() -> None:
    """Find out whether tables can be made before anything is read."""
    try:
        income_client.to_arrow(())
    except ConfigurationError as error:
        raise IncomeClientError(error.message)
    except Exception as error:  # noqa: BLE001 - a library that is broken raises anything
        raise IncomeClientError(
            f"pyarrow is installed and cannot be used ({type(error).__name__}): reinstall it"
        )


_Pages = asyncio.Queue[tuple[list[str], str | None] | None]
"""The ids on each page, with the walk's checkpoint before it if it counts; None after the last."""


class _StoppedError(Exception):
    """A signal has come."""


class _Export:
    """One run of the command: reads what the workspace does not have, and publishes it all."""

    def __init__(
        self,
        client: "IncomeClient",
        workspace: Workspace,
        request: dict[str, Any],
        stop: Stoppable,
        applications: tuple[str, ...],
    ) -> None:
        self._client = client
        self._workspace = workspace
        self._request = request
        self._stop = stop
        self._began_at = monotonic()
        self._lines: dict[str, bytes] = {}
        self._missing: dict[str, str] = {}
        self._malformed: list[DecodeError] = []
        """Rows of the list, which the next run asks for again."""
        self._asked_for = self._taken = self._failures_in_a_row = 0
        self._checkpoint: str | None = workspace.fact("checkpoint")
        self._checkpoints: deque[tuple[int, str]] = deque()
        """Of the walk, each valid once so many applications are taken."""
        self._share_of_one = 0.0
        """How much of the whole an application is, as far as it is known."""
        self._named = 0
        self._chosen = Chosen(applications, on_known=self._expect_chosen) if applications else None
        """Those chosen by id; None for all of a span."""

    async def run(self, format_: str, concurrency: int, *, allow_missing: bool) -> None:
        """Put the export at its place; raise what keeps it from being there."""
        self._check_request()
        try:
            if self._workspace.is_published:
                what = f"it was there already, with {self._counted_records}"
            else:
                what = await self._make_export(format_, concurrency, allow_missing=allow_missing)
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

    def _check_request(self) -> None:
        text = self._workspace.fact("request")
        begun = self._request if text is None else json.loads(text)
        # An earlier version may have been asked for what this one does not know.
        differences = ", ".join(
            f"{_option(name, begun.get(name))}, and not {_option(name, self._request.get(name))}"
            for name in begun | self._request
            if begun.get(name) != self._request.get(name)
        )
        if differences:
            raise ConfigurationError(
                f"{self._workspace.folder} was begun with {differences}: "
                "resume with its arguments, or delete it to begin again"
            )

    async def _make_export(self, format_: str, concurrency: int, *, allow_missing: bool) -> str:
        """Read, publish, and return in words what has been exported."""
        workspace = self._workspace
        workspace.resume()
        if workspace.records:
            say(f"resuming with {self._counted_records} of an earlier run")
        if workspace.fact("span") is None:
            await self._begin_span()
        span = json.loads(workspace.fact("span"))
        saturated = await self._read_span(span, concurrency)
        missing = workspace.missing()
        self._check_others(workspace.records + len(missing))
        lost = _lost_text(len(missing), len(self._malformed), len(saturated))
        if lost and not allow_missing:
            raise IncomeClientError(f"not exported, as {lost}; --allow-missing exports the rest")
        manifest = {
            **self._request,
            **span,
            "whole": not lost,
            "missing": [
                {"application_id": one, "reason": why}
                for one, why in (
                    *missing.items(),
                    *((error.subject, str(error)) for error in self._malformed),
                )
            ],
            "saturated_seconds": [second.starts_at.isoformat() for second in saturated],
            "format": format_,
            "records": workspace.records,
        }
        if format_ == "jsonl":
            workspace.publish_lines(_manifest_json({**manifest, "size": workspace.size}))
            size = f"{decimal(workspace.size)} of JSON"
        else:
            rows = await self._write_tables()
            workspace.publish_tables(_manifest_json({**manifest, "rows": rows}))
            size = f"{counted(sum(rows.values()), 'row')} in {len(rows)} tables"
        period = then = ""
        if self._chosen is None:
            begins = span["updated_after"] or "the beginning"
            period = f" updated from {begins} to {span['updated_before']}"
            then = f"; the next export begins with --updated-after {span['next_updated_after']}"
        return (
            f"{self._counted_records}{period}{lost and f', though {lost}'}; "
            f"{size} in {monotonic() - self._began_at:,.1f} s{then}"
        )

    def _check_others(self, count: int) -> None:
        """Refuse ids that are not all of those that an earlier run was given."""
        if self._chosen is not None and count > self._named:
            others = counted(count - self._named, "application")
            raise ConfigurationError(
                f"{self._workspace.folder} has {others} besides "
                "these: resume with the ids that it was begun with, or delete it to begin again"
            )

    async def _begin_span(self) -> None:
        """Fix the span for this run and all that resume it."""
        span: dict[str, str | None] = {
            "updated_after": None,
            "updated_before": None,
            "next_updated_after": None,
        }
        if self._chosen is None:
            span = await self._present_span()
        self._workspace.note(request=json.dumps(self._request), span=json.dumps(span))

    async def _present_span(self) -> dict[str, str | None]:
        """Return the span as the service's present makes it."""
        present = await self._stop.wait_for(present_of(self._client))
        if present is None:
            raise _StoppedError
        after, before = (
            default if text is None else read_moment(text).seen_from(present)
            for text, default in (
                (self._request["updated_after"], BEGINNING),
                (self._request["updated_before"], present),
            )
        )
        before = min(before, present)
        if after > before:
            raise ConfigurationError(
                f"the period begins at {after.isoformat()}, and ends before, "
                f"at {before.isoformat()}; it is {present.isoformat()} at the service"
            )
        return {
            "updated_after": None if after == BEGINNING else after.isoformat(),
            "updated_before": before.isoformat(),
            "next_updated_after": (before - _LATE).isoformat(),
        }

    async def _read_span(
        self, span: dict[str, str | None], concurrency: int
    ) -> "tuple[Window, ...]":
        """Read and keep what the workspace lacks; return the seconds that cannot be listed."""
        if self._chosen is not None:
            await self._fetch_records(self._missing_among(self._chosen), concurrency)
            return ()
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
        await self._fetch_records(self._listed_ids(walk, begins, ends), concurrency)
        for second in walk.saturated:
            say(overfull(second))
        return walk.saturated

    async def _fetch_records(self, found: AsyncGenerator[str, None], concurrency: int) -> None:
        """Read and keep what could not be read before, and these applications."""
        records = self._client.fetch_records(
            self._ids_to_read(found),
            documents=self._request["documents"],
            pages=self._request["pages"],
            concurrency=concurrency,
            on_error="yield",
        )
        with Bars() as progress:
            task = progress.add_task("Exporting", total=1.0, count="")
            done = 0.0
            try:
                async with aclosing(records):
                    while (one := await self._stop.wait_for(anext(records, None))) is not None:
                        self._take_outcome(one)
                        if self._is_much:
                            await self._keep_records()
                        records_now = self._workspace.records + len(self._lines)
                        done = max(done, min(records_now * self._share_of_one, _NEARLY))
                        count = counted(records_now, "application")
                        progress.update(task, completed=done, count=count)
            finally:
                await self._keep_records()
        if self._stop.is_stopped:
            raise _StoppedError

    async def _ids_to_read(self, found: AsyncGenerator[str, None]) -> AsyncIterator[str]:
        """Yield what is to be read: first what could not be before, then what is found."""
        for one in self._workspace.missing():
            self._asked_for += 1
            yield one
        async with aclosing(found):
            async for one in found:
                self._asked_for += 1
                yield one

    async def _missing_among(self, chosen: Chosen) -> AsyncGenerator[str, None]:
        """Yield those of the chosen applications that the workspace lacks."""
        async with aclosing(chosen.ids()) as ids:
            async for chosen_id in ids:
                for one in self._workspace.new((chosen_id,)):
                    yield one

    def _expect_chosen(self, count: int, is_all: bool) -> None:
        """Take how many applications are chosen by id, so far or in all."""
        self._named = count
        self._share_of_one = 1 / max(1, count) if is_all else 0.0

    async def _listed_ids(
        self, walk: "ApplicationPaginator", begins: datetime, ends: datetime
    ) -> AsyncGenerator[str, None]:
        """Yield what the walk finds and the workspace lacks; note its checkpoints."""
        pages: _Pages = asyncio.Queue(_PAGES_AHEAD)
        task = asyncio.create_task(self._list_ahead(walk, begins, ends, pages))
        try:
            while (found := await pages.get()) is not None:
                page, checkpoint = found
                if checkpoint is not None:
                    self._checkpoints.append((self._asked_for, checkpoint))
                for one in self._workspace.new(page):
                    yield one
            await task
        finally:
            task.cancel()
            await asyncio.wait((task,))
        if not self._malformed:
            self._checkpoints.append((self._asked_for, walk.checkpoint))

    async def _list_ahead(
        self, walk: "ApplicationPaginator", begins: datetime, ends: datetime, to: "_Pages"
    ) -> None:
        """List ahead of what is read, as narrow windows need many calls."""
        first, listed = ends, self._workspace.records
        try:
            async with aclosing(pages_of(walk, self._malformed)) as pages:
                async for page in pages:
                    # Nothing was updated before it was applied for: the years before do not count.
                    first = min([first, *(row.application_date for row in page.applications)])
                    first = max(begins, first)
                    if first < ends and listed:
                        left = (1 - walk.progress.covered_fraction) * (ends - begins)
                        self._share_of_one = max(0.0, 1 - left / (ends - first)) / listed
                    listed += len(page.applications)
                    ids = [row.application_id for row in page.applications]
                    # A checkpoint behind a malformed row would hide it from the next run.
                    await to.put((ids, None if self._malformed else walk.checkpoint))
        except Exception:
            await to.put(None)
            raise
        self._share_of_one = 1 / max(1, listed)
        await to.put(None)

    def _take_outcome(self, outcome: "ApplicationRecord | FetchFailure") -> None:
        """Take a record, or the error that kept it from being read; raise errors of other kinds."""
        match outcome:
            case income_client.ApplicationRecord():
                self._failures_in_a_row = 0
                record = outcome if self._request["addresses"] else without_addresses(outcome)
                self._lines[outcome.application_id] = income_client.to_json(record)
            case income_client.FetchFailure(application_id, error):
                self._failures_in_a_row += error.retryable
                if is_of_the_account(error) or self._failures_in_a_row >= _IN_A_ROW:
                    raise error
                reason = str(error)
                self._missing[application_id] = reason
                is_named = error.subject == application_id
                say(reason if is_named else f"{application_id}: {reason}")
        self._taken += 1

    @property
    def _is_much(self) -> bool:
        size = sum(map(len, self._lines.values()))
        return len(self._lines) + len(self._missing) >= _MOST_LINES or size >= _MOST_BYTES

    async def _keep_records(self) -> None:
        """Have what was taken survive a kill."""
        while self._checkpoints and self._checkpoints[0][0] <= self._taken:
            self._checkpoint = self._checkpoints.popleft()[1]
        await asyncio.to_thread(self._workspace.keep, self._lines, self._missing, self._checkpoint)
        self._lines, self._missing = {}, {}

    async def _write_tables(self) -> dict[str, int]:
        """Write the lines as Parquet files there, and return how many rows each has."""
        try:
            with (
                Bars() as progress,
                self._workspace.lines.open("rb") as lines,
                income_client.ParquetTables(self._workspace.empty_tables()) as tables,
            ):
                task = progress.add_task("Writing tables", total=self._workspace.records, count="")
                for line in lines:
                    tables.write(income_client.from_json(income_client.ApplicationRecord, line))
                    progress.advance(task)
                    await asyncio.sleep(0)  # lets a signal be seen
                    if self._stop.is_stopped:
                        raise _StoppedError
        except ConfigurationError as error:
            raise IncomeClientError(
                f"{error.message}; --format jsonl, with the same other arguments, loses nothing"
            )
        return tables.rows


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
