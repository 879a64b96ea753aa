"""One document file: requests until it is whole, and a fresh address when its address expired.

What a reply means is decided by `Transfer`, where an address may lead by `links`, and where the
bytes go by the destination.
"""

import asyncio
import hashlib
import io
import math
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias, TypeGuard, TypeVar

from attrs import evolve, field, frozen

from income_client.clock import Clock
from income_client.errors import ConfigurationError, DownloadError, IncomeClientError
from income_client.events import FileFinished
from income_client.http.faults import cleaned
from income_client.http.retry import Retrier, RetryBudget
from income_client.instrumentation import Instrumentation
from income_client.records.documents import DocumentSource
from income_client.records.files import DownloadedFile, DownloadProgress
from income_client.settings import DownloadPolicy, RetryPolicy, Secret, Timeouts, is_plain_function

from .address_book import AddressBook, Ask
from .destinations import (
    ANOTHER,
    BinaryStream,
    FolderPlace,
    PathPlace,
    Place,
    Present,
    Published,
    StreamPlace,
)
from .http import FilePool, FileReply
from .links import Link, read_link, redirected
from .naming import FileFacts, NameTemplate
from .object_store import Store, StorePlace, is_store
from .part_file import FoldersSeen, mark_of, read_mark
from .spool import Digest, SomeSpool
from .transfer import (
    FIRST_BYTE,
    REDIRECTS,
    WITH_FILE,
    OutdatedError,
    StoredFile,
    Transfer,
    failure,
    is_refusal,
    read_stored_file,
    refusal,
)

T = TypeVar("T")

OnProgress = Callable[[DownloadProgress], object]
FolderOrStore: TypeAlias = str | os.PathLike[str] | Store
"""What a caller may name for many files: a path, or a store of obstore."""
Destination: TypeAlias = FolderOrStore | BinaryStream
"""What a caller may name for one: that, or an object with ``write`` for bytes."""

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SEPARATORS: Final = tuple(filter(None, (os.sep, os.altsep)))
_OF_THE_LOOP: Final = ("drain", "get_write_buffer_size")
"""What tells the streams and transports of asyncio, whose ``write`` no thread may call."""
_PROGRESS_BYTES: Final = 2**16
_MD5_ETAG: Final = re.compile(r'"(?P<md5>[0-9a-f]{32})"')
_MOST_RENEWALS: Final = 3
_MOST_GUESSES: Final = 1
_FRESH_SECONDS: Final = 60.0
"""How long an answer of the service serves the files whose addresses have expired."""


class ProgressError(DownloadError):
    """``on_progress`` raised; ends the download, and the caller's own error is raised.

    Attributes:
        raised: what it raised.
    """

    def __init__(self, raised: Exception) -> None:
        super().__init__("on_progress raised")
        self.raised = raised


@frozen(kw_only=True)
class FileJob:
    """One file to download."""

    facts: FileFacts
    """Which one."""
    address: Secret
    """Its address, as far as known."""
    place: Place
    """Where it goes."""
    overwrite: bool
    """Whether another file in its place is replaced."""
    keep_partial: bool
    """Whether an incomplete file is kept for the next run."""
    on_progress: OnProgress | None = field(repr=False)
    """Called with how far it has come."""
    ask: Ask
    """Reads the documents of its application again."""


@frozen(kw_only=True)
class Downloader:
    """Downloads files; what all downloads of a client share."""

    pool: FilePool
    """Connections to where files come from."""
    policy: DownloadPolicy
    """Limits of addresses, sizes and rates."""
    timeouts: Timeouts
    """``connect`` and ``read`` limit each request."""
    retrier: Retrier
    """Repeats attempts without progress."""
    book: "AddressBook"
    """Gives fresh addresses."""
    clock: Clock
    """Measures rates."""
    slots: asyncio.Semaphore
    """As many as files may be downloaded at a time."""
    instrumentation: Instrumentation
    """Gets an event for each file."""

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
        instrumentation: Instrumentation,
    ) -> Self:
        """Make one with its own connections, for arguments that the session has checked."""
        policy = DownloadPolicy() if policy is None else policy
        if not isinstance(policy, DownloadPolicy):
            raise ConfigurationError("downloads must be a DownloadPolicy")
        retry = retry or RetryPolicy()
        return cls(
            pool=FilePool(policy, user_agent=user_agent, proxy=proxy),
            policy=policy,
            timeouts=timeouts or Timeouts(),
            # Its own budget: an outage of the storage is no reason to give up on the service.
            retrier=Retrier(retry, RetryBudget(retry.budget), clock),
            book=AddressBook(clock),
            clock=clock,
            slots=asyncio.Semaphore(concurrency),
            instrumentation=instrumentation,
        )

    def with_options(self, *, timeouts: Timeouts | None, retry: RetryPolicy | None) -> Self:
        """Return one with other limits: same connections, slots, budget and fresh addresses."""
        retrier = self.retrier.with_policy(retry) if retry else self.retrier
        return evolve(self, timeouts=timeouts or self.timeouts, retrier=retrier)

    async def aclose(self) -> None:
        """Close the connections; again does nothing."""
        await self.pool.aclose()

    async def fetch(self, job: FileJob) -> DownloadedFile | IncomeClientError:
        """Download a file; return it, or a clean copy of the error, to be raised by the caller.

        The frames of this package hold addresses and content: no error leaves with them.
        """
        async with self.slots:
            download = _Download(self, job)
            began = self.clock.monotonic()
            try:
                file = await download.file()
            except IncomeClientError as error:
                outcome: DownloadedFile | IncomeClientError = error
                # A copy of ProgressError would lose where the caller's function failed.
                if not isinstance(error, ProgressError):
                    outcome = error.again()
            except asyncio.CancelledError as cancelled:
                self._report(download, cancelled, began)
                raise cancelled.with_traceback(None) from None
            except Exception as bug:  # noqa: BLE001 - raised again
                self._report(download, bug, began)
                raise cleaned(bug) from None
            else:
                outcome = file
            self._report(download, outcome, began)
        if isinstance(outcome, DownloadError):
            outcome.document_id = job.facts.document_id
            outcome.message = f"download({job.facts.document_id}): {outcome.message}"
            outcome.args = (outcome.message,)
            outcome.attempts = download.attempts
        return outcome

    def _report(
        self, download: "_Download", outcome: DownloadedFile | BaseException, began: float
    ) -> None:
        emit = self.instrumentation.emit
        if emit is None:
            return
        file = outcome if isinstance(outcome, DownloadedFile) else None
        finished = FileFinished(
            application_id=download.job.facts.application_id,
            document_id=download.job.facts.document_id,
            size=None if file is None else file.size,
            was_there=file is not None and file.was_there,
            attempts=download.attempts,
            seconds=self.clock.monotonic() - began,
            error=type(outcome).__name__ if file is None else None,
        )
        emit(finished)


class _Download:
    """One file on its way; every method raises what ends the download."""

    def __init__(self, shared: Downloader, job: FileJob) -> None:
        self.job = job
        self.attempts = 0
        self._shared = shared
        self._address = job.address
        self._began = shared.clock.monotonic()
        self._renewals = 0
        self._reported = 0
        self._subject = ""
        self._is_whole = False

    async def file(self) -> DownloadedFile:
        """Get the file, unless it is there already."""
        # Before anything is made for it.
        self._shared.pool.check_open()
        self._link()
        place = self.job.place
        present = await place.present()
        if present:
            found = await self._compared(present)
            if found is not None:
                return found
        async with await place.begin() as spool:
            try:
                return await self._filled(spool)
            finally:
                if self.job.keep_partial and not self._is_whole:
                    await spool.keep()

    async def _filled(self, spool: SomeSpool) -> DownloadedFile:
        transfer = await self._begun(spool)
        if transfer.total is None or transfer.received < transfer.total:
            await self._persistently(partial(self._transfer, transfer, spool))
        self._is_whole = True
        published = await self.job.place.publish(
            spool, content_type=transfer.content_type, overwrite=self.job.overwrite
        )
        return self._downloaded(published, spool.digest, transfer.content_type)

    async def _begun(self, spool: SomeSpool) -> Transfer:
        """Return a transfer that continues the part that was left, if it is of this version."""
        policy = self._shared.policy
        mark = read_mark(spool.mark)
        if mark is None:
            return Transfer(policy)
        stored = await self._persistently(self._stored_file)
        if mark != mark_of(self._subject, stored.size, stored.etag) or spool.size > mark.total:
            return Transfer(policy)
        transfer = Transfer(policy, size=spool.size, etag=mark.etag, total=mark.total)
        transfer.content_type = stored.content_type
        return transfer

    async def _compared(self, present: tuple[Present, ...]) -> DownloadedFile | None:
        """Return the file that is there if it is the same, None if only its content can tell."""
        stored = await self._persistently(self._stored_file)
        alike = [one for one in present if stored.size in (None, one.size)]
        if not alike and not self.job.overwrite:
            raise DownloadError(ANOTHER)
        md5 = _MD5_ETAG.fullmatch(stored.etag or "")
        place = self.job.place
        for one in alike:
            if md5 is None or md5["md5"] != await place.hash_of(one, "md5"):
                continue
            sha256 = await place.hash_of(one, "sha256")
            await place.accept(one)
            there = Published(one.path, was_there=True)
            return self._downloaded(there, Digest(one.size, sha256), stored.content_type)
        return None

    async def _stored_file(self, link: Link) -> StoredFile:
        self._subject = _subject_of(self.job.facts, link)

        async def read(reply: FileReply) -> StoredFile:
            return read_stored_file(reply.status, reply.headers)

        return await self._request(link, FIRST_BYTE, read)

    async def _transfer(self, transfer: Transfer, spool: SomeSpool, link: Link) -> bool | None:
        """Make one request for what is missing; return True once the file is whole, else None."""
        subject = _subject_of(self.job.facts, link)
        if subject != self._subject:
            # An entity tag of another object says nothing about this one.
            self._subject = subject
            transfer.forget()
        ending: IncomeClientError | None = None
        try:
            await self._request(link, transfer.ask(), partial(self._take, transfer, spool))
        except IncomeClientError as error:
            ending = error
        return transfer.ended(ending) or None

    async def _take(self, transfer: Transfer, spool: SomeSpool, reply: FileReply) -> None:
        clock = self._shared.clock
        starts_over = transfer.head(
            reply.status, reply.headers, is_delimited=reply.is_delimited, now=clock.monotonic()
        )
        if starts_over:
            mark = mark_of(self._subject, transfer.total, transfer.etag)
            await spool.start_over(None if mark is None else str(mark))
        while True:
            try:
                piece = await reply.read()
            except IncomeClientError:
                self._report_progress(transfer)
                raise
            if not piece:
                break
            # Written before it is counted: a connection that is given up for its rate is followed
            # by one that continues behind what was counted.
            await spool.write(piece)
            transfer.piece(len(piece), clock.monotonic())
            if abs(transfer.received - self._reported) >= _PROGRESS_BYTES:
                self._report_progress(transfer)
        self._report_progress(transfer)

    async def _persistently(self, attempt: Callable[[Link], Awaitable[T | None]]) -> T:
        """Make attempts until one returns a result; None asks for another one at once.

        An error that may go away is retried by the policy, and an outdated address is replaced:
        three times in a row at most, and once if nobody said that it has expired.
        """
        while True:
            try:
                result = await self._retried(partial(attempt, self._link()))
            except OutdatedError as outdated:
                await self._renew(outdated)
            else:
                if result is not None:
                    return result
                self._renewals = 0

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        async def counted() -> T:
            self.attempts += 1
            return await attempt()

        return await self._shared.retrier.run(counted, deadline_at=math.inf)

    async def _request(
        self,
        link: Link,
        headers: Mapping[str, str],
        take: Callable[[FileReply], Awaitable[T]],
    ) -> T:
        """Make one request, and those that redirects ask for, each checked like the first."""
        shared = self._shared
        hops, is_fresh = 0, True
        while hops <= shared.policy.max_redirects:
            async with AsyncExitStack() as stack:
                try:
                    reply = await stack.enter_async_context(
                        shared.pool.get(link, headers, shared.timeouts)
                    )
                except DownloadError as error:
                    if is_fresh or not error.retryable:
                        raise
                    # Not every storage that redirects keeps its connection open.
                    is_fresh = True
                    continue
                if reply.status in WITH_FILE:
                    return await take(reply)
                if is_refusal(reply.status):
                    raise refusal(reply.status, reply.headers, await reply.error_text())
                if reply.status not in REDIRECTS:
                    raise failure(reply.status, reply.headers)
                location = reply.headers.get("location")
            link = redirected(link, location, shared.policy)
            hops, is_fresh = hops + 1, False
        raise DownloadError("the storage redirects too often")

    def _link(self) -> Link:
        return read_link(self._address.reveal(), self._shared.policy)

    async def _renew(self, outdated: OutdatedError) -> None:
        """Replace the address, or raise what the download ends with."""
        facts = self.job.facts
        most = _MOST_RENEWALS if outdated.has_expired else _MOST_GUESSES
        if facts.application_id is None or facts.document_type is None or self._renewals >= most:
            raise outdated.error
        self._renewals += 1
        # An answer from before this download may be older than the address that it began with,
        # and there is one guess only.
        now = self._shared.clock.monotonic()
        try:
            fresh = await self._shared.book.fresh(
                DocumentSource(facts.application_id, facts.document_type),
                facts.document_id,
                stale=self._address,
                since=now - _FRESH_SECONDS if outdated.has_expired else self._began,
                ask=self.job.ask,
            )
        except IncomeClientError:
            if outdated.has_expired:
                raise
            raise outdated.error from None
        if fresh == self._address:
            raise outdated.error
        self._address = fresh

    def _report_progress(self, transfer: Transfer) -> None:
        self._reported = transfer.received
        if self.job.on_progress is None:
            return
        facts = self.job.facts
        progress = DownloadProgress(
            document_id=facts.document_id,
            application_id=facts.application_id,
            document_type=facts.document_type,
            file=facts.file,
            received=transfer.received,
            total=transfer.total,
        )
        try:
            self.job.on_progress(progress)
        except Exception as error:  # noqa: BLE001 - raised again outside of this package's frames
            raise ProgressError(error) from None

    def _downloaded(
        self, published: Published, digest: Digest, content_type: str | None
    ) -> DownloadedFile:
        facts = self.job.facts
        return DownloadedFile(
            document_id=facts.document_id,
            application_id=facts.application_id,
            document_type=facts.document_type,
            file=facts.file,
            path=published.path,
            size=digest.size,
            sha256=digest.sha256,
            content_type=content_type,
            was_there=published.was_there,
        )


def _subject_of(facts: FileFacts, link: Link) -> str:
    """Return which file is meant, by its document and its address without the signature."""
    address = link.address.partition("?")[0]
    names = (facts.application_id, facts.document_id, str(facts.file), address)
    text = "\n".join(name or "" for name in names)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def place_of(
    destination: object,
    template: NameTemplate,
    facts: FileFacts,
    seen: FoldersSeen | None = None,
) -> Place:
    """Return the place of one file in a destination.

    Args:
        destination: the path of a folder that exists, or one with a separator at
            its end; the path of a file; an object with ``write`` for bytes; or
            a store of obstore.
        template: how the file is called in a folder or a store.
        facts: which file.
        seen: folders whose parts are known, for a run with many files.

    Raises:
        ConfigurationError: the destination is none of these, or the template does not fit.
    """
    if isinstance(destination, str | os.PathLike):
        return _on_disk(os.fspath(destination), template, facts, seen)
    if is_store(destination):
        return StorePlace(destination, template, facts)
    if _is_stream(destination):
        return StreamPlace(destination)
    raise ConfigurationError(
        "a destination must be a path, an object with write() for bytes, or a store of obstore",
    )


def _on_disk(
    path: object, template: NameTemplate, facts: FileFacts, seen: FoldersSeen | None
) -> Place:
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigurationError("a destination's path must be a str or an os.PathLike of str")
    if _ADDRESS.match(path):
        raise ConfigurationError(
            "the destination is an address; a store of obstore is one: obstore.store.from_url(...)"
        )
    try:
        os.fsencode(path)
        is_folder = path.endswith(_SEPARATORS) or Path(path).is_dir()
    except (OSError, UnicodeError):
        is_folder = None
    if is_folder is None:
        raise ConfigurationError("the destination's path is too long, or invalid on this system")
    return FolderPlace(Path(path), template, facts, seen) if is_folder else PathPlace(Path(path))


def _is_stream(candidate: object) -> TypeGuard[BinaryStream]:
    write = getattr(candidate, "write", None)
    if not callable(write):
        return False
    if any(hasattr(candidate, name) for name in _OF_THE_LOOP):
        raise ConfigurationError(
            "the destination belongs to an event loop, and is written to in a thread here;"
            " use io.BytesIO() or a path, and send what is there when it is whole",
        )
    if isinstance(candidate, io.TextIOBase) or hasattr(candidate, "encoding"):
        raise ConfigurationError("the destination is a text file; a document's file is bytes")
    flush = getattr(candidate, "flush", None)
    if not is_plain_function(write) or (callable(flush) and not is_plain_function(flush)):
        raise ConfigurationError(
            "the destination's write() and flush() are called, not awaited: plain functions"
        )
    if getattr(candidate, "closed", False) is True or not _is_writable(candidate):
        raise ConfigurationError("the destination is closed, or cannot be written to")
    return True


def _is_writable(candidate: object) -> bool:
    writable = getattr(candidate, "writable", None)
    return not callable(writable) or bool(writable())
