"""The files of some applications put into a folder, one noted after the other.

Knows which are there already and what is said of each; leaves the fetching to the client.
"""

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Final

from attrs import frozen

from income_client import (
    AuthenticationError,
    DocumentEntry,
    DownloadedFile,
    DownloadFailure,
    Downloads,
    FetchFailure,
    IncomeClient,
    UnsafeLinkError,
)
from income_client.cli.config import described
from income_client.cli.options import DocumentTypes
from income_client.cli.output import OutputLines, UnwritableError, reason_of
from income_client.cli.signals import Stoppable

from .bars import Bars
from .manifest import FileKey, Manifest, ManifestEntry, noted_at
from .refusals import Refusals
from .tally import Tally

_ONLY_FILE: Final = 0
"""The contract gives a document one file."""


@frozen(kw_only=True)
class Wanted:
    """What somebody wants to have."""

    applications: Iterable[str] | AsyncIterable[str]
    """Ids, each once."""
    types: DocumentTypes
    """Chooses the documents."""
    concurrency: int
    """Files, or replies about documents, on their way at a time."""
    overwrite: bool
    """Whether a file that is there is compared with the service's own, and replaced."""


class DownloadRun:
    """One run: what is still wanted, and what is noted of that which came.

    Args:
        wanted: what to have.
        folder: below which the files go.
        bars: where to tell.
        stop: says when it is to end with what is whole; the rest comes in another run.

    Attributes:
        tally: what became of it so far.
        refusals: the addresses that nothing was sent to.
        types: what chooses the documents, and knows which types were found.
    """

    def __init__(self, wanted: Wanted, folder: Path, bars: Bars, stop: Stoppable) -> None:
        self.tally: Tally = Tally()
        self.refusals: Refusals = Refusals()
        self.types: DocumentTypes = wanted.types
        self._wanted = wanted
        self._folder = folder
        self._bars = bars
        self._lines = OutputLines()
        self._shares: dict[str | None, float] = {}
        self._stop = stop
        self._began = monotonic()

    @property
    def summary(self) -> str:
        """The whole run in a line."""
        return self.tally.told(monotonic() - self._began)

    async def missing(
        self, client: IncomeClient, manifest: Manifest
    ) -> AsyncIterator[DocumentEntry]:
        """Yield the documents that are wanted and whose files are not listed, or gone.

        Raises:
            AuthenticationError: the credentials are wrong, for all other applications too.
        """
        replies = client.fetch_documents(
            self._wanted.applications, concurrency=self._wanted.concurrency, on_error="yield"
        )
        async with aclosing(replies):
            async for reply in replies:
                if isinstance(reply, FetchFailure):
                    if isinstance(reply.error, AuthenticationError):
                        raise reply.error
                    self._tell_unread(reply, described(client, reply.error))
                    continue
                entries = self.types.chosen(reply)
                self._bars.reach(0 if entries else 1)
                self._shares[reply.application_id] = 1 / len(entries) if entries else 0
                for entry in entries:
                    document_type, document = entry
                    key = _key(reply.application_id, document_type, document.document_id)
                    if await self._is_there(key, manifest):
                        self._end(key)
                    else:
                        yield entry

    async def take(
        self, downloads: Downloads[DownloadedFile | DownloadFailure], manifest: Manifest
    ) -> str | None:
        """Note each file as it becomes whole, until there are no more or it is to stop.

        Returns:
            Why it ended early by itself, if it did.

        Raises:
            BrokenPipeError: nobody reads standard output any more.
            IncomeClientError: no further file can be had.
        """
        async with aclosing(downloads):
            while not self._stop.is_stopped:
                outcome = await self._stop.wait_for(anext(downloads, None))
                if outcome is None:
                    break
                if isinstance(outcome, DownloadFailure):
                    self._tell_failed(outcome)
                else:
                    failure = await self._note(outcome, manifest)
                    if failure is not None:
                        return failure
                self._end(_key_of(outcome))
        return None

    async def _is_there(self, key: FileKey, manifest: Manifest) -> bool:
        if self._wanted.overwrite or not await asyncio.to_thread(manifest.is_there, key):
            return False
        self.tally.there += 1
        return True

    async def _note(self, file: DownloadedFile, manifest: Manifest) -> str | None:
        """Write its path and its line, or return why they cannot be written."""
        entry = self._entry(file)
        listed = manifest.find(entry.key)
        self.tally.there += file.was_there
        self.tally.new += not file.was_there
        self.tally.size += 0 if file.was_there else file.size
        if file.was_there and listed is not None and listed.says_the_same_as(entry):
            return None
        with self._bars.out_of_the_way():
            return await asyncio.to_thread(self._write, entry, manifest)

    def _write(self, entry: ManifestEntry, manifest: Manifest) -> str | None:
        # In this order a crash may repeat a path, and never leaves one out.
        try:
            self._lines.write(os.fsencode(self._folder / entry.path))
            self._lines.keep()
        except UnwritableError as error:
            return str(error)
        try:
            manifest.add(entry)
        except OSError as error:
            return f"cannot write to the manifest: {reason_of(error)}"
        return None

    def _entry(self, file: DownloadedFile) -> ManifestEntry:
        path = PurePosixPath(file.path or "").relative_to(self._folder.absolute())
        return ManifestEntry(
            application_id=file.application_id,
            document_type=file.document_type,
            document_id=file.document_id,
            file=file.file,
            path=str(path),
            size=file.size,
            sha256=file.sha256,
            content_type=file.content_type,
            time=noted_at(datetime.now(UTC)),
        )

    def _end(self, key: FileKey) -> None:
        self._bars.end(key)
        self._bars.reach(self._shares.get(key.application_id, 0))
        self._bars.count(self.tally.new + self.tally.there, self.tally.size)

    def _tell_failed(self, failure: DownloadFailure) -> None:
        self.tally.failed += 1
        error = failure.error
        if isinstance(error, UnsafeLinkError) and not self.refusals.is_new(
            error, failure.document_id
        ):
            return
        self._bars.say(_said(str(error), failure.application_id or "", failure.document_id))

    def _tell_unread(self, failure: FetchFailure, message: str) -> None:
        self.tally.unread += 1
        self._bars.reach(1)
        self._bars.say(_said(message, failure.application_id))


def _key(application_id: str | None, document_type: str | None, document_id: str) -> FileKey:
    return FileKey(
        application_id=application_id,
        document_type=document_type,
        document_id=document_id,
        file=_ONLY_FILE,
    )


def _key_of(outcome: DownloadedFile | DownloadFailure) -> FileKey:
    return _key(outcome.application_id, outcome.document_type, outcome.document_id)


def _said(message: str, *ids: str) -> str:
    """Return an error's message with the ids that it does not name itself."""
    return ": ".join([*(one for one in ids if f"({one})" not in message), message])
