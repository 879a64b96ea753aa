"""An export from its first question to the file at its place, over as many runs as it takes."""

import asyncio
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Final

from rich.filesize import decimal

from income_client import ConfigurationError, IncomeClient, IncomeClientError
from income_client.cli.options import BEGINNING, MisuseError, read_moment
from income_client.cli.output import counted
from income_client.cli.progress import StatusLine
from income_client.cli.signals import Stoppable

from .end import (
    Format,
    Outcome,
    check_free,
    manifest_beside,
    publish_lines,
    publish_tables,
    was_published,
    write_tables,
)
from .part import Part
from .progress import ExportProgress
from .request import Request, Span
from .run import ExportRun

_BEGINS: Final = "span_begins"
_ENDS: Final = "span_ends"


class ExportJob:
    """What one call of the command does.

    Args:
        client: reads.
        part: what has come, of earlier calls too.
        request: what is wanted.
        target: where it is to be.
        format_: as what.
        line: where it is told.
        stop: says when it is to end early.
    """

    def __init__(
        self,
        client: IncomeClient,
        part: Part,
        request: Request,
        target: Path,
        format_: Format,
        line: StatusLine,
        stop: Stoppable,
    ) -> None:
        self._client = client
        self._part = part
        self._request = request
        self._target = target
        self._format: Format = format_
        self._line = line
        self._stop = stop
        self._began = monotonic()

    async def run(self, concurrency: int, *, allow_missing: bool) -> bool:
        """Go on until the file is at its place, or it is to stop.

        Args:
            concurrency: requests about applications in flight at a time.
            allow_missing: whether it may lack what could not be read.

        Returns:
            Whether the file is there.

        Raises:
            MisuseError: the part is of another export, or the span ends before it begins.
            ConfigurationError: it cannot be put where it is to be.
            IncomeClientError: the service gives nothing more.
            OSError: the disk is full, or fails.
        """
        self._check()
        if was_published(self._part, self._target):
            self._end(f"it was there already, with {counted(self._part.records, 'application')}")
            return True
        self._part.go_on()
        check_free(self._target)
        if self._format == "jsonl":
            check_free(manifest_beside(self._target), is_ours=self._part.has_put)
        if self._part.records:
            records = counted(self._part.records, "application")
            self._line.say(f"going on with {records} of an earlier run")
        span = await self._span()
        if span is None:
            return False
        run = ExportRun(self._client, self._part, self._request, span, self._line, self._stop)
        try:
            await run.run(concurrency)
        except (IncomeClientError, OSError):
            self._line.clear()
            self._line.say(self._kept)
            raise
        self._line.clear()
        if not run.is_whole:
            self._line.say(f"interrupted; {self._kept}")
            return False
        missing = tuple(await asyncio.to_thread(self._part.missing))
        outcome = Outcome(
            request=self._request, span=span, missing=missing, saturated=run.saturated
        )
        self._tell_saturated(outcome)
        if not outcome.is_whole and not allow_missing:
            self._line.say(
                f"not exported, as {_lost(outcome)}; {self._kept}, "
                "or with --allow-missing to do without"
            )
            return False
        return await self._publish(outcome)

    def _check(self) -> None:
        """Make sure that the part is one of the same export.

        Raises:
            MisuseError: it is of another.
        """
        kept = self._part.request
        if kept is None:
            return
        differences = ", ".join(Request.from_text(kept).differences(self._request))
        if differences:
            raise MisuseError(
                f"{self._part.folder} was begun with {differences}: "
                "go on with its arguments, or delete it to begin again"
            )

    async def _span(self) -> Span | None:
        """Return the span, fixed for all runs by the first; None if it is to stop before."""
        ends = _time(self._part.fact(_ENDS))
        if ends is not None:
            return Span(_time(self._part.fact(_BEGINS)), ends)
        present = await self._stop.wait_for(self._client.service_time())
        if present is None:
            return None
        after = _seen_from(present, self._request.updated_after)
        if after == BEGINNING:
            after = None
        before = _seen_from(present, self._request.updated_before)
        span = Span(after, present if before is None else min(before, present))
        if after is not None and after > span.before:
            raise MisuseError(
                f"the span begins at {after.isoformat()}, and ends before, "
                f"at {span.before.isoformat()}; it is {present.isoformat()} at the service"
            )
        facts = {_ENDS: span.before.isoformat()}
        if after is not None:
            facts[_BEGINS] = after.isoformat()
        await asyncio.to_thread(self._part.begin, self._request.text, **facts)
        return span

    async def _publish(self, outcome: Outcome) -> bool:
        part, target = self._part, self._target
        records, size = part.records, part.size
        if self._format == "jsonl":
            await asyncio.to_thread(publish_lines, part, target, outcome)
            what = f"{decimal(size)} of JSON"
        else:
            rows = await self._write_tables(outcome)
            if rows is None:
                self._line.say(f"interrupted; {self._kept}")
                return False
            what = f"{counted(sum(rows.values()), 'row')} in {len(rows)} tables"
            await asyncio.to_thread(publish_tables, part, target)
        but = "" if outcome.is_whole else f", though {_lost(outcome)}"
        self._end(
            f"{counted(records, 'application')} updated from {outcome.span}{but}; "
            f"{what} in {monotonic() - self._began:,.1f} s; the next export "
            f"goes on with --updated-after {outcome.span.next_after.isoformat()}"
        )
        return True

    async def _write_tables(self, outcome: Outcome) -> dict[str, int] | None:
        """Write the tables beside the lines; return how many rows each has, None if stopped."""
        progress = ExportProgress(self._line, "Writing tables")
        total = self._part.records
        try:
            return await asyncio.to_thread(
                write_tables,
                self._part,
                outcome,
                lambda done: progress.show(done, total),
                lambda: self._stop.is_stopped,
            )
        except ConfigurationError:
            self._line.say("--format jsonl, with the same other arguments, loses nothing")
            raise
        except OSError:
            self._line.clear()
            self._line.say(self._kept)
            raise
        finally:
            self._line.clear()

    def _end(self, said: str) -> None:
        """Say what it came to, and let go of the part."""
        self._part.remove()
        self._line.say(said)

    def _tell_saturated(self, outcome: Outcome) -> None:
        for second in outcome.saturated:
            self._line.say(
                f"{second.starts_at.isoformat()}: more applications were updated "
                "in this second than can be asked for"
            )

    @property
    def _kept(self) -> str:
        return (
            f"{self._part.folder} keeps {counted(self._part.records, 'application')}: "
            "run it again with the same arguments to go on"
        )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _seen_from(present: datetime, bound: str | None) -> datetime | None:
    return None if bound is None else read_moment(bound).seen_from(present)


def _lost(outcome: Outcome) -> str:
    parts = []
    if outcome.missing:
        parts.append(f"{counted(len(outcome.missing), 'application')} could not be read")
    if outcome.saturated:
        parts.append(f"{counted(len(outcome.saturated), 'second')} could not be listed whole")
    return " and ".join(parts)
