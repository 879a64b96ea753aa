"""One document file: connections until it is whole, and a fresh address where the old one expired.

What a reply means is decided by `Transfer`, where an address may lead by the
links, and where the bytes go by the place. Failures travel as values: whoever
raises one holds neither an address nor a byte of the file.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from attrs import field, frozen

from income_client.clock import Clock
from income_client.disk.spool import Digest, SomeSpool
from income_client.errors import DownloadError, IncomeClientError
from income_client.http.retry import Retrier
from income_client.places import Place, Present, Published
from income_client.places.place import ANOTHER
from income_client.records.files import DownloadedFile, DownloadProgress
from income_client.settings import DownloadPolicy, Secret

from .address_book import AddressBook, Ask
from .http import FilePool, FileReply
from .links import Link
from .live_link import LiveLink
from .marks import mark_of, read_mark, subject_of
from .naming import FileFacts
from .storage import Storage
from .storage_replies import (
    FIRST_BYTE,
    Outdated,
    Redirect,
    Refused,
    Told,
    read_other,
    read_told,
)
from .transfer import Body, Interrupted, Transfer, Whole

OnProgress = Callable[[DownloadProgress], object]

_PROGRESS_BYTES: Final = 2**16
_MD5_ETAG: Final = re.compile(r'"(?P<md5>[0-9a-f]{32})"')


class ProgressError(DownloadError):
    """What was to be told of progress raised; ends the download, and is the caller's own.

    Attributes:
        raised: what it raised.
    """

    def __init__(self, raised: Exception) -> None:
        super().__init__("on_progress raised")
        self.raised = raised


@frozen(kw_only=True)
class FileJob:
    """One file to be had."""

    facts: FileFacts
    """Whose it is."""
    address: Secret
    """Where it is, as far as known."""
    place: Place
    """Where it goes."""
    overwrite: bool
    """Whether another file in its place is replaced."""
    keep_partial: bool
    """Whether what came is kept for the next run if it does not come whole."""
    on_progress: OnProgress | None = field(repr=False)
    """Told how far it has come."""
    ask: Ask
    """Reads the documents of its application again."""


@frozen(kw_only=True)
class Means:
    """What it takes to get files."""

    pool: FilePool
    """Connections to where they come from."""
    storage: Storage
    """Makes requests over them."""
    policy: DownloadPolicy
    """Limits of addresses, sizes and rates."""
    retrier: Retrier
    """Makes attempts that do not help again."""
    book: AddressBook
    """Gives fresh addresses."""
    clock: Clock
    """Measures rates."""


class FileRun:
    """One file on its way.

    Args:
        means: what it takes.
        job: which file, and where to.

    Attributes:
        link: its address over its life.
    """

    def __init__(self, means: Means, job: FileJob) -> None:
        self._means = means
        self._job = job
        self._told = 0
        self._subject = ""
        self._is_whole = False
        self.link: LiveLink = LiveLink(
            job.facts,
            job.address,
            means.book,
            job.ask,
            clock=means.clock,
            policy=means.policy,
            retrier=means.retrier,
        )

    async def file(self) -> DownloadedFile | IncomeClientError:
        """Get the file, unless it is there already."""
        # Before anything is made for it.
        refused = self._means.pool.refusal() or self.link.refusal()
        if refused is not None:
            return refused
        present = await self._job.place.present()
        if isinstance(present, DownloadError):
            return present
        if present:
            found = await self._compared(present)
            if found is not None:
                return found
        spool = await self._job.place.begin()
        if isinstance(spool, DownloadError):
            return spool
        async with spool:
            try:
                return await self._filled(spool)
            finally:
                if self._job.keep_partial and not self._is_whole:
                    await spool.keep()

    async def _filled(self, spool: SomeSpool) -> DownloadedFile | IncomeClientError:
        transfer = await self._begun(spool)
        if isinstance(transfer, IncomeClientError):
            return transfer
        if transfer.total is None or transfer.received < transfer.total:
            outcome = await self.link.persistently(partial(self._transfer, transfer, spool))
            if isinstance(outcome, IncomeClientError):
                return outcome
        self._is_whole = True
        placed = await self._job.place.publish(
            spool, content_type=transfer.content_type, overwrite=self._job.overwrite
        )
        if isinstance(placed, DownloadError):
            return placed
        return self._named(placed, spool.digest, transfer.content_type)

    async def _begun(self, spool: SomeSpool) -> Transfer | IncomeClientError:
        """Return what goes on with the part that was left, if it is of this very version."""
        mark = read_mark(spool.mark)
        if mark is None:
            return Transfer(self._means.policy)
        told = await self.link.persistently(self._ask)
        if isinstance(told, IncomeClientError):
            return told
        if mark != mark_of(self._subject, told.size, told.etag) or spool.size > mark.total:
            return Transfer(self._means.policy)
        transfer = Transfer(self._means.policy, size=spool.size, etag=mark.etag, total=mark.total)
        transfer.content_type = told.content_type
        return transfer

    async def _compared(
        self, present: tuple[Present, ...]
    ) -> DownloadedFile | IncomeClientError | None:
        """Return the file that is there if it is the same, None if only its content can tell."""
        told = await self.link.persistently(self._ask)
        if isinstance(told, IncomeClientError):
            return told
        alike = [one for one in present if told.size in (None, one.size)]
        if not alike and not self._job.overwrite:
            return DownloadError(ANOTHER)
        md5 = _MD5_ETAG.fullmatch(told.etag or "")
        for one in alike:
            if md5 is None or md5["md5"] != await one.md5():
                continue
            sha256 = await one.sha256()
            if isinstance(sha256, DownloadError):
                return sha256
            await one.accept()
            there = Published(one.path, was_there=True)
            return self._named(there, Digest(one.size, sha256), told.content_type)
        return None

    async def _ask(self, link: Link) -> Told | Outdated | IncomeClientError:
        self._subject = subject_of(self._job.facts, link)
        return await self._means.storage.visit(link, FIRST_BYTE, _told)

    async def _transfer(
        self, transfer: Transfer, spool: SomeSpool, link: Link
    ) -> Whole | Interrupted | Outdated | IncomeClientError:
        subject = subject_of(self._job.facts, link)
        if subject != self._subject:
            # An entity tag of another object says nothing about this one.
            self._subject = subject
            transfer.forget()
        take = partial(self._take, transfer, spool)
        outcome = await self._means.storage.visit(link, transfer.ask(), take)
        return outcome if isinstance(outcome, Outdated) else transfer.ended(outcome)

    async def _take(
        self, transfer: Transfer, spool: SomeSpool, reply: FileReply
    ) -> Redirect | Refused | IncomeClientError | None:
        """Take in a reply's body; None once it came to its end."""
        clock = self._means.clock
        head = transfer.head(
            reply.status, reply.headers, is_delimited=reply.is_delimited, now=clock.monotonic()
        )
        if not isinstance(head, Body):
            return head
        if head.starts_over:
            mark = mark_of(self._subject, transfer.total, transfer.etag)
            fault = await spool.start_over(None if mark is None else str(mark))
            if fault is not None:
                return fault
        while True:
            piece = await reply.read()
            if not piece or isinstance(piece, IncomeClientError):
                return self._tell(transfer) or piece or None
            fault = transfer.piece(len(piece), clock.monotonic()) or await spool.write(piece)
            if fault is None and abs(transfer.received - self._told) >= _PROGRESS_BYTES:
                fault = self._tell(transfer)
            if fault is not None:
                return fault

    def _tell(self, transfer: Transfer) -> ProgressError | None:
        self._told = transfer.received
        if self._job.on_progress is None:
            return None
        facts = self._job.facts
        progress = DownloadProgress(
            document_id=facts.document_id,
            application_id=facts.application_id,
            document_type=facts.document_type,
            file=facts.file,
            received=transfer.received,
            total=transfer.total,
        )
        try:
            self._job.on_progress(progress)
        except Exception as error:  # noqa: BLE001 - raised again by who holds no byte of a file
            return ProgressError(error)
        return None

    def _named(self, placed: Published, digest: Digest, content_type: str | None) -> DownloadedFile:
        facts = self._job.facts
        return DownloadedFile(
            document_id=facts.document_id,
            application_id=facts.application_id,
            document_type=facts.document_type,
            file=facts.file,
            path=placed.path,
            size=digest.size,
            sha256=digest.sha256,
            content_type=content_type,
            was_there=placed.was_there,
        )


async def _told(reply: FileReply) -> Told | Redirect | Refused | IncomeClientError:
    told = read_told(reply.status, reply.headers)
    return read_other(reply.status, reply.headers) if told is None else told
