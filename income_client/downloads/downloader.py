"""The download of one file: requests until it is complete, with a fresh URL if one expires.

What a reply means is decided by `Transfer`, where an address may lead by `links`, and where the
bytes go by the destination.
"""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from functools import lru_cache, partial
from typing import Final, Self, TypeVar

from income_client.errors import (
    DownloadError,
    IncomeClientError,
    InvalidArgumentError,
    copy_without_traceback,
    name_call,
)
from income_client.events.instrumentation import Instrumentation
from income_client.events.kinds import FileFinished
from income_client.http.retry import Retries, RetryBudget
from income_client.records.documents import ApplicationDocuments, Document
from income_client.records.files import DownloadedFile, DownloadProgress
from income_client.settings import DownloadPolicy, RetryPolicy, Secret, Timeouts
from income_client.system.clock import Clock
from income_client.system.frames import strip_frames

from .destinations import ANOTHER, Existing, Published
from .http import FilePool, FileReply
from .links import Link, read_link, read_redirect
from .many import Ask, Job, facts_of
from .temporary_file import Spool
from .transfer import (
    FIRST_BYTE,
    REDIRECTS,
    WITH_FILE,
    OutdatedError,
    StoredFile,
    Transfer,
    failure_of_reply,
    is_refusal,
    read_stored_file,
)

T = TypeVar("T")

_PROGRESS_BYTES: Final = 2**16
_MD5_ETAG: Final = re.compile(r'"(?P<md5>[0-9a-f]{32})"')
_MOST_RENEWALS: Final = 3
_MOST_GUESSES: Final = 1
_FRESH_SECONDS: Final = 60.0
"""Seconds for which one answer of the service provides fresh URLs for the application's files."""
_REMEMBERED: Final = 256
"""Largest number of applications whose fresh URLs are cached."""


class ProgressError(Exception):
    """An exception of ``on_progress``, which ends the download and is raised to the caller."""

    def __init__(self, raised: Exception) -> None:
        super().__init__()
        self.raised = raised


class Downloader:
    """Downloads files; all downloads of a client and its views share its state, but not limits."""

    def __init__(
        self,
        policy: DownloadPolicy | None,
        *,
        timeouts: Timeouts | None,
        retry: RetryPolicy | None,
        concurrency: int,
        user_agent: str | None,
        proxy: Secret | None,
        clock: Clock,
        instrumentation: Instrumentation,
    ) -> None:
        policy = DownloadPolicy() if policy is None else policy
        if not isinstance(policy, DownloadPolicy):
            raise InvalidArgumentError("downloads must be a DownloadPolicy", argument="downloads")
        self.policy: Final = policy
        self.pool: Final = FilePool(policy, user_agent=user_agent, proxy=proxy)
        self.timeouts: Timeouts = timeouts or Timeouts()
        # Its own budget: an outage of the storage must not stop requests to the service.
        self.retry: RetryPolicy = retry or RetryPolicy()
        self.budget: Final = RetryBudget(self.retry.budget)
        self.fresh: Callable[[str], FreshAddresses] = lru_cache(maxsize=_REMEMBERED)(
            partial(FreshAddresses, clock)
        )
        self.clock: Final = clock
        self._slots = asyncio.Semaphore(concurrency)
        self._instrumentation = instrumentation

    def with_options(self, *, timeouts: Timeouts | None, retry: RetryPolicy | None) -> Self:
        """Return a downloader with other limits, and the same connections, slots and budget."""
        view = copy(self)
        view.timeouts = timeouts or self.timeouts
        view.retry = retry or self.retry
        return view

    async def aclose(self) -> None:
        """Close the connections; a second call does nothing."""
        await self.pool.aclose()

    @strip_frames
    async def fetch(self, job: Job, document: Document) -> DownloadedFile:
        """Download a file."""
        async with self._slots:
            return await self._run_download(_Download(self, job, document))

    async def _run_download(self, download: "_Download") -> DownloadedFile:
        """Run a download, and report how it ended."""
        began = self.clock.monotonic()
        outcome: DownloadedFile | BaseException
        try:
            outcome = await download.run()
        except ProgressError as error:
            outcome = error.raised
        except (Exception, asyncio.CancelledError) as error:
            download.name_document(error)
            self._report_end(download, error, began)
            raise
        self._report_end(download, outcome, began)
        if isinstance(outcome, BaseException):
            # Not in the block above, whose error would become its context.
            raise outcome
        return outcome

    def _report_end(
        self, download: "_Download", outcome: DownloadedFile | BaseException, began: float
    ) -> None:
        emit = self._instrumentation.emit
        if emit is None:
            return
        file = outcome if isinstance(outcome, DownloadedFile) else None
        finished = FileFinished(
            application_id=download.facts.application_id,
            document_id=download.facts.document_id,
            size=None if file is None else file.size,
            was_there=file is not None and file.was_there,
            attempts=download.attempts,
            seconds=self.clock.monotonic() - began,
            error=type(outcome).__name__ if file is None else None,
        )
        emit(finished)


class _Download:
    """A download in progress; every method raises the error that ends the download."""

    _link: Link

    def __init__(self, shared: Downloader, job: Job, document: Document) -> None:
        self.facts = facts_of(document)
        self.attempts = 0
        self._shared = shared
        self._job = job
        self._place = job.place_of(self.facts)
        self._address = document.url
        self._transfer = Transfer(shared.policy)
        self._began = shared.clock.monotonic()
        self._renewals = 0
        self._reported = 0

    def name_document(self, error: BaseException) -> None:
        """Add the document's id to an error."""
        if isinstance(error, DownloadError):
            name_call(error, "download", self.facts.document_id)
            error.attempts = self.attempts

    async def run(self) -> DownloadedFile:
        """Download the file, unless it exists already."""
        # Before anything is made for it.
        self._shared.pool.check()
        self._use_address(self._address)
        existing = await self._place.find_existing()
        if existing:
            same = await self._find_same(existing)
            if same is not None:
                return same
        transfer = self._transfer
        async with Spool(self._place.create) as spool:
            while not transfer.is_whole:
                await self._with_retries(partial(self._request_missing, spool))
            published = await self._place.publish(
                spool, content_type=transfer.content_type, overwrite=self._job.overwrite
            )
            return self._result_of(published, transfer.content_type)

    async def _find_same(self, existing: tuple[Existing, ...]) -> DownloadedFile | None:
        """Return the existing file if it is the same; None if a download is needed to tell."""
        stored = await self._with_retries(self._read_stored_file)
        alike = [candidate for candidate in existing if stored.size in (None, candidate.size)]
        if not alike and not self._job.overwrite:
            raise DownloadError(ANOTHER)
        md5 = _MD5_ETAG.fullmatch(stored.etag or "")
        if md5 is not None:
            for candidate in alike:
                same = await self._place.match_existing(candidate, md5["md5"])
                if same is not None:
                    return self._result_of(same, stored.content_type)
        return None

    async def _read_stored_file(self) -> StoredFile:
        with await self._request_file(FIRST_BYTE) as reply:
            return read_stored_file(reply.status, reply.headers)

    async def _request_missing(self, spool: Spool) -> None:
        """Request the missing bytes once; raise unless another request may follow at once."""
        transfer = self._transfer
        try:
            with await self._request_file(transfer.next_request()) as reply:
                await self._receive_body(reply, spool)
        except IncomeClientError as error:
            transfer.break_off(error)
        else:
            transfer.end_body()

    async def _receive_body(self, reply: FileReply, spool: Spool) -> None:
        now, transfer = self._shared.clock.monotonic, self._transfer
        if transfer.begin_body(reply.status, reply.headers, now()):
            await spool.start_over()
        while True:
            try:
                piece = await reply.read()
            except IncomeClientError:
                self._report_progress()
                raise
            if not piece:
                break
            # Written before it is counted: a connection that is given up for its rate is followed
            # by one that continues behind what was counted.
            await spool.write(piece)
            transfer.count_bytes(len(piece), now())
            if abs(transfer.received - self._reported) >= _PROGRESS_BYTES:
                self._report_progress()
        self._report_progress()

    async def _with_retries(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make attempts until one succeeds.

        An error that may go away is retried by the policy, and an outdated address is replaced:
        three times in a row at most, and once if no reply said that it has expired.
        """
        shared = self._shared
        retries = Retries(shared.retry, shared.budget, shared.clock)
        while True:
            try:
                result = await attempt()
            except OutdatedError as outdated:
                await self._renew_address(outdated)
                # What follows is another address: its failures are counted anew.
                retries = Retries(shared.retry, shared.budget, shared.clock)
                continue
            except IncomeClientError as error:
                pause = retries.pause_after(error)
                if pause is None:
                    raise
            else:
                retries.succeed()
                self._renewals = 0
                return result
            # Not in the block above: the error would keep the reply in memory through the pause.
            await shared.clock.sleep(pause)

    async def _request_file(self, headers: Mapping[str, str]) -> FileReply:
        """Return the reply about the file's bytes, after redirects, each of which is checked."""
        self.attempts += 1
        pool, policy, timeouts = self._shared.pool, self._shared.policy, self._shared.timeouts
        link, hops = self._link, 0
        while hops <= policy.max_redirects:
            try:
                reply = await pool.get(link, headers, timeouts)
            except DownloadError as error:
                if not hops or not error.retryable:
                    raise
                # Not every storage that redirects keeps its connection open.
                reply = await pool.get(link, headers, timeouts)
            if reply.status in WITH_FILE:
                return reply
            with reply:
                if reply.status not in REDIRECTS:
                    text = await reply.error_text() if is_refusal(reply.status) else ""
                    raise failure_of_reply(reply.status, reply.headers, text)
                link = read_redirect(link, reply.headers.get("location"), policy)
            hops += 1
        raise DownloadError("the storage redirects too often")

    def _use_address(self, address: str) -> None:
        """Use a URL for the following requests."""
        if _object_of(address) != _object_of(self._address):
            # An entity tag of another object says nothing about this one.
            self._transfer.start_over()
        self._link = read_link(address, self._shared.policy)
        self._address = address

    async def _renew_address(self, outdated: OutdatedError) -> None:
        """Replace the URL, or raise the error that ends the download."""
        facts = self.facts
        most = _MOST_RENEWALS if outdated.has_expired else _MOST_GUESSES
        if facts.application_id is None or facts.document_type is None or self._renewals >= most:
            raise outdated.error
        self._renewals += 1
        # An answer from before this download may be older than the address that it began with,
        # and there is one guess only.
        now = self._shared.clock.monotonic()
        try:
            fresh = await self._shared.fresh(facts.application_id).get(
                facts.document_type,
                facts.document_id,
                stale=self._address,
                since=now - _FRESH_SECONDS if outdated.has_expired else self._began,
                ask=self._job.ask,
            )
        except IncomeClientError:
            if outdated.has_expired:
                raise
            raise outdated.error from None
        if fresh == self._address:
            raise outdated.error
        self._use_address(fresh)

    def _report_progress(self) -> None:
        self._reported = self._transfer.received
        if self._job.on_progress is None:
            return
        facts = self.facts
        progress = DownloadProgress(
            document_id=facts.document_id,
            application_id=facts.application_id,
            document_type=facts.document_type,
            file=facts.file,
            received=self._transfer.received,
            total=self._transfer.total,
        )
        try:
            self._job.on_progress(progress)
        except Exception as error:  # noqa: BLE001 - raised again outside of this package's frames
            raise ProgressError(error) from None

    def _result_of(self, published: Published, content_type: str | None) -> DownloadedFile:
        facts = self.facts
        return DownloadedFile(
            document_id=facts.document_id,
            application_id=facts.application_id,
            document_type=facts.document_type,
            file=facts.file,
            path=published.path,
            size=published.size,
            sha256=published.sha256,
            content_type=content_type,
            was_there=published.was_there,
        )


def _object_of(address: str) -> str:
    """Return a URL without its signature."""
    return address.partition("?")[0]


class FreshAddresses:
    """Fresh URLs of the documents of one application, in place of expired ones.

    The service is asked once for all downloads that wait, with the same result or error.
    """

    def __init__(self, clock: Clock, application_id: str) -> None:
        self._clock = clock
        self._application_id = application_id
        self._lock = asyncio.Lock()
        self._addresses: Mapping[tuple[str, str], str | None] = {}
        self._failure: IncomeClientError | None = None
        self._times_asked = 0
        self._came_at = -math.inf

    async def get(
        self, document_type: str, document_id: str, *, stale: str, since: float, ask: Ask
    ) -> str:
        """Return a URL in place of a stale one; it may be the same.

        An answer from before the moment ``since`` of the clock is not used any more.
        """
        # Ids need not be unique among types.
        key = (document_type, document_id)
        asked_before = self._times_asked
        async with self._lock:
            cached = self._addresses.get(key)
            if cached is not None and cached != stale and self._came_at >= since:
                return cached
            if self._times_asked == asked_before:
                await self._renew_addresses(ask)
        if self._failure is not None:
            raise copy_without_traceback(self._failure)
        if key not in self._addresses:
            raise DownloadError("the application has no such document any more")
        address = self._addresses[key]
        if address is None:
            raise DownloadError("the application has several such documents")
        return address

    async def _renew_addresses(self, ask: Ask) -> None:
        """Read the application's documents for their URLs."""
        try:
            documents = await ask(self._application_id)
        except IncomeClientError as error:
            self._failure = copy_without_traceback(error)
        else:
            self._failure = None
            self._addresses = _addresses_by_key(documents)
            self._came_at = self._clock.monotonic()
        self._times_asked += 1


def _addresses_by_key(documents: ApplicationDocuments) -> dict[tuple[str, str], str | None]:
    """Return the URL of each document; None where the service lists it with several URLs."""
    addresses: dict[tuple[str, str], str | None] = {}
    for document_type, document in documents.all():
        key = (document_type, document.document_id)
        addresses[key] = document.url if addresses.get(key, document.url) == document.url else None
    return addresses
