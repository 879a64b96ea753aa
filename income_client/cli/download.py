"""``income-client download``: saves the files of documents in a folder."""

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from rich.console import RenderableType
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.table import Column
from rich.text import Text

import income_client
from income_client import (
    ConfigurationError,
    DownloadError,
    DownloadPolicy,
    IncomeClientError,
    UnsafeLinkError,
)
from income_client.errors import LinkRefusal
from income_client.system.disk import check_folder, make_folder
from income_client.system.hosts import read_host_pattern
from income_client.system.texts import printable, reason_of

from .connection import Connection, connect, described, is_of_the_account
from .exit_status import ExitStatus
from .options import (
    Chosen,
    Count,
    DocumentTypes,
    IdArgument,
    MaxRate,
    Moment,
    Switch,
    TypesOption,
    When,
    overfull,
    span_between,
)
from .output import OutputLines, counted, say
from .progress import Bars
from .rows import QuietOption
from .signals import Stoppable, StopSignals

if TYPE_CHECKING:
    from income_client import DownloadedFile, DownloadFailure, IncomeClient
    from income_client.records import DocumentEntry, DownloadProgress

_SERVICE_CONCURRENCY: Final = 16
_FileKey = tuple[str | None, str | None, str]
"""Application id, document type and document id: ids may repeat among types."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_ALLOWED_BY: Final = {
    LinkRefusal.PLAIN_HTTP: "files come over http from this machine only: --allow-host 127.0.0.1",
    LinkRefusal.HOST: "files come from another host if --allow-host names it",
    LinkRefusal.PRIVATE_NETWORK: "files come from private networks with --allow-private-networks",
    LinkRefusal.THIS_MACHINE: "files come from this machine with --allow-host 127.0.0.1",
}
"""Options that allow what a policy refuses."""


def _check_folder(_: Any, to: Path) -> None:
    if to.parts and _SCHEME.fullmatch(to.parts[0]):
        raise ValueError("this is an address, and --to is a folder of this machine")


async def download(
    *applications: IdArgument,
    to: Annotated[Path, Parameter(validator=_check_folder)],
    updated_after: When | None = None,
    updated_before: When | None = None,
    type_: TypesOption = (),
    names: Annotated[
        str, Parameter(metavar="TEMPLATE")
    ] = "{application_id}/{document_type}/{document_id}-{file}.{ext}",
    concurrency: Count = 8,
    max_rate: MaxRate = None,
    overwrite: Switch = False,
    allow_host: Annotated[
        tuple[str, ...],
        Parameter(negative=(), show_default=False, metavar="HOST"),
    ] = (),
    allow_private_networks: Switch = False,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """Download the files of documents into a folder.

    Select applications by id, by ids on standard input (-, one a line, or JSON from
    applications and poll), or by update time.

    The path of each file goes to standard output once the file is complete, also
    if it was there already. Run the same command again to resume: a file that is
    there is compared with the service's, which takes one short request, and is not
    downloaded again. Nothing is left of an incomplete file.

    A failure does not stop the other files, unless the disk is full, read-only or
    failing. The exit status is 0 if all files are there, and 1 if something failed or
    no document has a type that was asked for (paystub may be missing).

    Example: income-client download app-000001 app-000002 --to files --type paystub
    income-client applications -q | income-client download - --to files

    Args:
        applications: Ids of applications; - reads them from standard input.
        to: Folder for the files; made if there is none.
        updated_after: Instead of ids: applications updated after this time, as 7d or 2026-01-31.
        updated_before: The same, before this time.
        type_: Only documents of this type, such as paystub. May be repeated.
        names: Template of the names of files. Fields: application_id, document_type, document_id,
            file, file_reference_id and ext.
        concurrency: Downloads at a time.
        max_rate: Most requests a second to the service, retries included. Default: no limit.
        overwrite: Replace files that are there and differ.
        allow_host: Another host that files may come from, as name, *.domain, address or with
            :port. May be repeated. One that names this machine (localhost, 127.0.0.1, [::1]) also
            allows http and private networks, for any host allowed.
        allow_private_networks: Allow these hosts to be in private networks.
        quiet: Show neither progress nor summary, only failures.
        connection: The service.
    """
    _check_choice(applications, updated_after, updated_before)
    async with connect(
        connection,
        downloads=_download_policy(allow_host, allow_private_networks=allow_private_networks),
        concurrency=max(_SERVICE_CONCURRENCY, concurrency),
        max_rate=max_rate,
    ) as client:
        try:
            # Only for its checks, before a folder is made: nothing begins until it is iterated.
            client.download_all((), to, names=names)
        except ConfigurationError as error:
            raise ConfigurationError(f"--names: {error.message}") from None
        changed = None
        if not applications:
            span = await span_between(client, updated_after, updated_before)
            changed = client.list_applications(span.after, span.before, on_saturated="report")
        try:
            check_folder(make_folder(to))
        except OSError as error:
            raise IncomeClientError(f"cannot use the folder {to}: {reason_of(error)}") from None
        stop = Stoppable()
        signals = StopSignals(stop.stop)
        with _Bars(is_wanted=not quiet) as bars:
            chosen = Chosen(applications, changed, on_known=bars.expect)
            run = _Run(client, to, bars, chosen, DocumentTypes(type_))
            files = client.download_all(
                run.documents(concurrency),
                to,
                concurrency,
                names=names,
                overwrite=overwrite,
                on_progress=bars.move,
                on_error="yield",
            )
            async with aclosing(files):
                while not run.disk_failed:
                    outcome = await stop.wait_for(anext(files, None))
                    if outcome is None:
                        break
                    await run.report(outcome)
    is_cut_short = stop.is_stopped or run.disk_failed
    run.say_what_failed(is_cut_short=is_cut_short)
    if not quiet:
        why = "interrupted" if stop.is_stopped else "stopped by the disk"
        say(run.summary + f"; {why}, run it again to resume" * is_cut_short)
    if signals.received is not None:
        return ExitStatus.of_signal(signals.received)
    return ExitStatus.DONE if run.is_complete else ExitStatus.FAILED


def _check_choice(
    applications: tuple[str, ...], after: Moment | None, before: Moment | None
) -> None:
    has_span = after is not None or before is not None
    if has_span and applications:
        raise ConfigurationError("either APPLICATION_IDs, or --updated-after and --updated-before")
    if not has_span and not applications:
        raise ConfigurationError(
            "name one APPLICATION_ID or more, - for standard input, or a span: --updated-after"
        )


def _download_policy(hosts: tuple[str, ...], *, allow_private_networks: bool) -> DownloadPolicy:
    try:
        # Requests to this machine never leave it, so plain http exposes nothing.
        is_local = any(read_host_pattern(host).is_this_machine for host in hosts)
        return DownloadPolicy(
            allowed_hosts=(*DownloadPolicy().allowed_hosts, *hosts),
            require_https=not is_local,
            allow_private_networks=is_local or allow_private_networks,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"--allow-host: {error.detail}") from None


class _Run:
    """The documents of a run, and the outcomes of their files."""

    def __init__(
        self,
        client: "IncomeClient",
        folder: Path,
        bars: "_Bars",
        chosen: Chosen,
        types: DocumentTypes,
    ) -> None:
        self._client = client
        self._folder = folder
        self._bars = bars
        self._chosen = chosen
        self._types = types
        self._lines = OutputLines()
        self._began_at = monotonic()
        self._to_come: Counter[str | None] = Counter()
        """Number of unfinished files of each application."""
        self._new = self._there = self._failed = self._unread = self._size = 0
        self.disk_failed: bool = False
        """Whether the disk failed, so that every further file would fail too."""
        self._refused: Counter[str] = Counter()
        self._refusals: dict[LinkRefusal, None] = {}

    @property
    def is_complete(self) -> bool:
        """Whether nothing failed, and the service has each type."""
        is_failed = self._failed or self._unread or self._chosen.saturated or self._chosen.malformed
        return not is_failed and self._types.are_known

    @property
    def summary(self) -> str:
        """Summary of the run in one line."""
        count = self._new + self._there + self._failed
        unread = f", {counted(self._unread, 'application')} not read" if self._unread else ""
        return (
            f"{counted(count, 'file')}, {self._new:,} new, {self._there:,} there already, "
            f"{self._failed:,} failed{unread}, "
            f"{decimal(self._size)} in {monotonic() - self._began_at:,.1f} s"
        )

    async def documents(self, concurrency: int) -> "AsyncIterator[DocumentEntry]":
        """Yield the documents of the chosen applications and types; report unread applications."""
        replies = self._client.fetch_documents(
            self._chosen.ids(), concurrency=concurrency, on_error="yield"
        )
        async with aclosing(replies):
            async for reply in replies:
                if isinstance(reply, income_client.FetchFailure):
                    if is_of_the_account(reply.error):
                        raise reply.error  # it is the same for all others
                    self._unread += 1
                    self._bars.end_application()
                    text = described(self._client, reply.error)
                    say(_with_ids(text, reply.error.subject, (reply.application_id,)))
                    continue
                entries = self._types.chosen(reply)
                if not entries:
                    self._bars.end_application()
                    continue
                self._to_come[reply.application_id] = len(entries)
                for entry in entries:
                    yield entry

    async def report(self, outcome: "DownloadedFile | DownloadFailure") -> None:
        """Print the path of a complete file, or the reason of a failure."""
        if isinstance(outcome, income_client.DownloadFailure):
            self._failed += 1
            self._say_failed(outcome)
        else:
            self._there += outcome.was_there
            self._new += not outcome.was_there
            self._size += 0 if outcome.was_there else outcome.size
            # As the user wrote the folder, such as relative to the current one.
            path = self._folder / outcome.path.relative_to(self._folder.absolute())
            if not self._bars.print_path(path):
                # In a thread, since a reader of standard output may be slow.
                await asyncio.to_thread(self._lines.write, os.fsencode(path))
        self._end_file(outcome)

    def say_what_failed(self, *, is_cut_short: bool) -> None:
        """Report failures that no single file has reported."""
        for window in self._chosen.saturated:
            say(overfull(window))
        if self._types.missing is not None and not is_cut_short:
            say(self._types.missing)
        for kind, count in self._refused.items():
            if count > 1:
                say(f"the same of {counted(count - 1, 'more file')}: {kind}")
        for reason in self._refusals:
            if reason in _ALLOWED_BY:
                say(_ALLOWED_BY[reason])

    def _end_file(self, outcome: "DownloadedFile | DownloadFailure") -> None:
        self._bars.end(_key_of(outcome))
        self._to_come[outcome.application_id] -= 1
        if self._to_come[outcome.application_id] <= 0:
            del self._to_come[outcome.application_id]
            self._bars.end_application()
        self._bars.count(self._new + self._there, self._size)

    def _say_failed(self, failure: "DownloadFailure") -> None:
        error = failure.error
        self.disk_failed = isinstance(error, DownloadError) and error.disk_failed
        if isinstance(error, UnsafeLinkError):
            kind = error.detail  # which names the host
            self._refused[kind] += 1
            self._refusals[error.reason] = None
            if self._refused[kind] > 1:
                return
        ids = (failure.application_id, failure.document_id)
        say(_with_ids(str(error), error.subject, ids))


class _Bars(Bars):
    """A bar for each file in progress, and one for all applications."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._all = Progress(
            TextColumn("{task.completed:,.0f} of {task.description}"),
            BarColumn(bar_width=18),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            auto_refresh=False,
        )
        self._task = self._all.add_task("", count="")
        super().__init__(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(max_width=28, no_wrap=True, overflow="ellipsis"),
            ),
            BarColumn(bar_width=18),
            DownloadColumn(),
            TransferSpeedColumn(),
            is_wanted=is_wanted,
        )
        self._by_key: dict[_FileKey, TaskID] = {}

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars from top to bottom."""
        yield self._all
        yield from super().get_renderables()

    def stop(self) -> None:
        """Remove all bars."""
        # What is drawn last is drawn whole, even if it is higher than the terminal.
        for key in list(self._by_key):
            self.end(key)
        super().stop()

    def expect(self, count: int, is_all: bool) -> None:
        """Set the length of the applications' bar to the number known so far."""
        text = counted(count, "application") if is_all else f"{count:,}+ applications"
        self._all.update(self._task, total=count, description=text)

    def end_application(self) -> None:
        """Count an application as done."""
        self._all.advance(self._task)

    def count(self, files: int, size: int) -> None:
        """Show the number of complete files and of received bytes."""
        self._all.update(self._task, count=f"{counted(files, 'file')}, {decimal(size)}")

    def move(self, progress: "DownloadProgress") -> None:
        """Update the bar of a file, or add one."""
        key = _key_of(progress)
        if key not in self._by_key:
            # What was there from the beginning says nothing about the rate.
            self._by_key[key] = self.add_task(
                printable(progress.document_id), completed=progress.received
            )
        self.update(self._by_key[key], total=progress.total, completed=progress.received)

    def end(self, key: _FileKey) -> None:
        """Remove the bar of a file, if it has one."""
        if key in self._by_key:
            self.remove_task(self._by_key.pop(key))

    def print_path(self, path: Path) -> bool:
        """Print a path above the bars if standard output leads to the same terminal."""
        if self.is_shared:
            self.console.print(Text(str(path)), soft_wrap=True)
        return self.is_shared


def _key_of(file: "DownloadedFile | DownloadFailure | DownloadProgress") -> _FileKey:
    return file.application_id, file.document_type, file.document_id


def _with_ids(text: str, subject: str | None, ids: Iterable[str | None]) -> str:
    """Return a message with the ids that it is about."""
    return ": ".join([*(other for other in ids if other and other != subject), text])
