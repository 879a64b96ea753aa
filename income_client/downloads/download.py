"""One document file: connections until it is whole, and a fresh address where the old one expired.

What a reply means is decided by `Transfer`, where an address may lead by the
links, and where the bytes go by the place. Failures travel as values: whoever
raises one holds neither an address nor a byte of the file.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Final, Self

from attrs import evolve, field, frozen

from income_client.clock import Clock
from income_client.disk.spool import Digest, SomeSpool
from income_client.errors import ConfigurationError, DownloadError, IncomeClientError
from income_client.file_transport import FilePool, FileReply
from income_client.places import Place, Present, Published
from income_client.places.place import ANOTHER
from income_client.protocol.file_names import FileFacts
from income_client.protocol.links import Link
from income_client.protocol.storage_replies import (
    FIRST_BYTE,
    Outdated,
    Redirect,
    Refused,
    Told,
    read_other,
    read_told,
)
from income_client.protocol.transfers import Body, Interrupted, Transfer, Whole
from income_client.records.files import DownloadedFile, DownloadProgress
from income_client.retrying import Retrier, RetryBudget
from income_client.settings import DownloadPolicy, RetryPolicy, Secret, Timeouts

from .address_book import AddressBook
from .live_link import LiveLink
from .storage import Storage

OnProgress = Callable[[DownloadProgress], object]

_PROGRESS_BYTES: Final = 2**16
_MD5_ETAG: Final = re.compile(r'"(?P<md5>[0-9a-f]{32})"')


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


@frozen(kw_only=True)
class Downloader:
    """Gets files, one call each.

    Args:
        pool: connections to where they come from.
        storage: makes requests over them.
        policy: limits of addresses, sizes and rates.
        retrier: makes attempts that do not help again.
        slots: as many as files may be on their way.
        clock: measures rates.
    """

    pool: FilePool
    storage: Storage
    policy: DownloadPolicy
    retrier: Retrier
    slots: asyncio.Semaphore
    clock: Clock

    @classmethod
    def make(
        cls,
        policy: DownloadPolicy | None,
        *,
        timeouts: Timeouts | None,
        retry: RetryPolicy | None,
        concurrency: int,
        user_agent: str | None,
        proxy: Secret | None,
        clock: Clock,
    ) -> Self:
        """Make one with connections of its own, for arguments that the session has checked.

        Raises:
            ConfigurationError: the policy is none.
        """
        policy = DownloadPolicy() if policy is None else policy
        if not isinstance(policy, DownloadPolicy):
            raise ConfigurationError("downloads is no DownloadPolicy")
        retry = retry or RetryPolicy()
        pool = FilePool(policy, user_agent=user_agent, proxy=proxy)
        return cls(
            pool=pool,
            storage=Storage(pool, policy, timeouts or Timeouts()),
            policy=policy,
            # An outage of the storage is no reason to give up on the service.
            retrier=Retrier(retry, RetryBudget(retry.budget), clock),
            slots=asyncio.Semaphore(concurrency),
            clock=clock,
        )

    def with_options(self, *, timeouts: Timeouts | None, retry: RetryPolicy | None) -> Self:
        """Return one with other limits: same connections, slots and budget."""
        storage = Storage(self.pool, self.policy, timeouts) if timeouts else self.storage
        retrier = self.retrier.with_policy(retry) if retry else self.retrier
        return evolve(self, storage=storage, retrier=retrier)

    async def aclose(self) -> None:
        """Close the connections; again does nothing."""
        await self.pool.aclose()

    async def fetch(self, job: FileJob, book: AddressBook) -> DownloadedFile | IncomeClientError:
        """Have a file where it is to go, whole.

        Args:
            job: which one, and where.
            book: gives fresh addresses.

        Returns:
            The file, or why there is none; raises nothing but cancellation.
        """
        async with self.slots:
            run = _Run(self, job, book)
            outcome = await run.file()
        if isinstance(outcome, DownloadError):
            outcome.document_id = job.facts.document_id
            outcome.message = f"download({job.facts.document_id}): {outcome.message}"
            outcome.args = (outcome.message,)
            outcome.attempts = run.link.attempts
        return outcome


class _Run:
    """One file on its way."""

    def __init__(self, downloader: Downloader, job: FileJob, book: AddressBook) -> None:
        self._downloader = downloader
        self._job = job
        self._told = 0
        self.link = LiveLink(
            job.facts, job.address, book, policy=downloader.policy, retrier=downloader.retrier
        )

    async def file(self) -> DownloadedFile | IncomeClientError:
        """Get the file, unless it is there already."""
        present = await self._job.place.present()
        if isinstance(present, DownloadError):
            return present
        if present is not None:
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
                if self._job.keep_partial:
                    await spool.keep()

    async def _filled(self, spool: SomeSpool) -> DownloadedFile | IncomeClientError:
        transfer = Transfer(self._downloader.policy, size=spool.size, etag=spool.etag)
        outcome = await self.link.persistently(partial(self._transfer, transfer, spool))
        if isinstance(outcome, IncomeClientError):
            return outcome
        placed = await self._job.place.publish(
            spool, content_type=transfer.content_type, overwrite=self._job.overwrite
        )
        if isinstance(placed, DownloadError):
            return placed
        return self._named(placed, spool.digest, transfer.content_type)

    async def _compared(self, present: Present) -> DownloadedFile | IncomeClientError | None:
        """Return the file that is there if it is the same, None if only its content can tell."""
        told = await self.link.persistently(self._ask)
        if isinstance(told, IncomeClientError):
            return told
        if told.size not in (None, present.size):
            return None if self._job.overwrite else DownloadError(ANOTHER)
        md5 = _MD5_ETAG.fullmatch(told.etag or "")
        if md5 is None or md5["md5"] != await present.md5():
            return None
        sha256 = await present.sha256()
        if isinstance(sha256, DownloadError):
            return sha256
        digest = Digest(present.size, sha256)
        return self._named(Published(present.path, was_there=True), digest, told.content_type)

    async def _ask(self, link: Link) -> Told | Outdated | IncomeClientError:
        return await self._downloader.storage.visit(link, FIRST_BYTE, _told)

    async def _transfer(
        self, transfer: Transfer, spool: SomeSpool, link: Link
    ) -> Whole | Interrupted | Outdated | IncomeClientError:
        take = partial(self._take, transfer, spool)
        outcome = await self._downloader.storage.visit(link, transfer.ask(), take)
        return outcome if isinstance(outcome, Outdated) else transfer.ended(outcome)

    async def _take(
        self, transfer: Transfer, spool: SomeSpool, reply: FileReply
    ) -> Redirect | Refused | IncomeClientError | None:
        """Take in a reply's body; None once it came to its end."""
        clock = self._downloader.clock
        head = transfer.head(
            reply.status, reply.headers, is_delimited=reply.is_delimited, now=clock.monotonic()
        )
        if not isinstance(head, Body):
            return head
        if head.starts_over:
            fault: DownloadError | None = await spool.start_over(transfer.etag)
            if fault is not None:
                return fault
        while True:
            piece = await reply.read()
            if not piece or isinstance(piece, IncomeClientError):
                self._tell(transfer)
                return piece or None
            fault = transfer.piece(len(piece), clock.monotonic()) or await spool.write(piece)
            if fault is not None:
                return fault
            if abs(transfer.received - self._told) >= _PROGRESS_BYTES:
                self._tell(transfer)

    def _tell(self, transfer: Transfer) -> None:
        self._told = transfer.received
        if self._job.on_progress is not None:
            facts = self._job.facts
            self._job.on_progress(
                DownloadProgress(
                    document_id=facts.document_id,
                    application_id=facts.application_id,
                    file=facts.file,
                    received=transfer.received,
                    total=transfer.total,
                )
            )

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
