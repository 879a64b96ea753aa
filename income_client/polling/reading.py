"""The reads of a poll: pages for their ids, and records with digests that tell versions apart.

Two updates can share a second, so a time does not identify a version; a digest of the content does.
The digest leaves out addresses, since signed ones change with each reply, and it does not depend
on the order of an object's members or of the documents.

A poller needs only the id of a row, so a malformed row does not delay the other applications. A
page with unreadable bounds is an error.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from functools import partial
from operator import itemgetter
from typing import Any, Final, Generic, TypeGuard, TypeVar

import msgspec
from attrs import define, field, frozen

from income_client.errors import (
    ClientClosedError,
    ConfigurationError,
    DecodeError,
    IncomeClientError,
    PayloadFault,
)
from income_client.http import endpoints
from income_client.http.endpoints import (
    EVERY_APPLICATION,
    LARGEST_LIMIT,
    LONGEST_ID,
    ListFilter,
    Request,
    Response,
)
from income_client.http.replies import read_reply, read_rows
from income_client.http.session import SessionManager
from income_client.records.applications import Application, ApplicationPage, ApplicationSummary
from income_client.records.documents import ApplicationDocuments, ApplicationRecord
from income_client.walk.paginator import ask_page, ask_present
from income_client.walk.windows import Answer, Bounds
from income_client.wire.rows import MalformedRow
from income_client.wire.times import Rounding, earlier_second, service_second

T = TypeVar("T")
S = TypeVar("S", Application, ApplicationDocuments)

KEY_BYTES: Final = 6
DIGEST_BYTES: Final = 8
"""Bytes of a digest; 64 bits are enough to tell the versions of one application apart."""
_FULL_KEY: Final = 8
_FULL_DIGEST: Final = 16
"""Bytes of digests before they are cut; checkpoints of version 1 contain the whole."""
_SORTED: Final = msgspec.json.Encoder(decimal_format="number", order="deterministic", enc_hook=str)
"""Encoder that writes equal content as equal bytes; ``enc_hook`` writes unusual numbers as text."""
_ADDRESS: Final = ("http://", "https://")
_NO_ADDRESSES: Final = frozenset(
    {
        "applicants", "application_date", "application_id", "application_reference_id",
        "data_action", "document_id", "extracted_data", "file_ids", "file_reference_ids",
        "income_calculations", "last_updated_at", "updated_at",
    }
)  # fmt: skip
"""Members that contain no addresses of files; an address in extracted data counts as content."""


def read_page(request: Request, response: Response) -> ApplicationPage:
    """Read a page of the list for the ids of its rows (section 2.1)."""
    return read_rows(request, response, keep_extra=False)


def ids_on(page: ApplicationPage) -> tuple[str, ...]:
    """Return the ids on a page, each once, although a malformed row may repeat the id of another.

    An id that is too long for a request is cut to a shorter one, which is also too long.
    """
    rows = (row for row in page.applications if not _is_nameless(row))
    return tuple(dict.fromkeys(_shorten_id(row.application_id) for row in rows))


def nameless_on(page: ApplicationPage) -> list[MalformedRow]:
    """Return the rows of a page without an id that can be read."""
    return [row for row in page.applications if _is_nameless(row)]


def _shorten_id(application_id: str) -> str:
    if len(application_id) <= LONGEST_ID:
        return application_id
    digest = hashlib.blake2b(_encode_text(application_id), digest_size=_FULL_DIGEST).hexdigest()
    return f"{application_id[:LONGEST_ID]}... ({digest})"


def _is_nameless(row: ApplicationSummary) -> TypeGuard[MalformedRow]:
    return isinstance(row, MalformedRow) and not row.has_id


@frozen
class Versioned(Generic[T]):
    """A reply or a record, and the digest of its content, which identifies the version."""

    payload: T
    digest: bytes = field(repr=False)


Outcome = Versioned[ApplicationRecord] | IncomeClientError
"""The record of a listed application, or the error of reading it."""


def _request_for(endpoint: Callable[[str], Request], application_id: str) -> Request:
    """Return a request for a listed id; raise `DecodeError` for an invalid id."""
    try:
        return endpoint(application_id)
    except ConfigurationError as error:
        fault = PayloadFault("$.applications[*].application_id", error.detail)
        raise DecodeError((fault,)) from None


def record_of(
    application: Versioned[Application], documents: Versioned[ApplicationDocuments] | None = None
) -> Versioned[ApplicationRecord]:
    """Combine an application and its documents in a record."""
    record = ApplicationRecord(
        application=application.payload,
        documents=None if documents is None else documents.payload,
    )
    digest = application.digest if documents is None else application.digest + documents.digest
    full = hashlib.blake2b(digest, digest_size=_FULL_DIGEST).digest()
    return Versioned(record, full[:DIGEST_BYTES])


def updated_at(record: ApplicationRecord) -> datetime:
    """Return the latest time of update in a record, in UTC; only a hint."""
    by_type = {} if record.documents is None else record.documents.documents
    times = (document.updated_at for documents in by_type.values() for document in documents)
    return max([record.application.last_updated_at, *times])


def key_of(application_id: str) -> bytes:
    """Return a short hash of an id; a collision costs a redelivery, never a loss."""
    full = hashlib.blake2b(_encode_text(application_id), digest_size=_FULL_KEY).digest()
    return full[:KEY_BYTES]


def read_version(cls: type[S], request: Request, response: Response) -> Versioned[S]:
    """Read a reply as `read_reply` does, and return it with the digest of its content."""
    content: list[bytes] = []
    payload = read_reply(cls, request, response, lambda tree: content.append(canonical(cls, tree)))
    return Versioned(payload, digest_of(payload.application_id, content[0]))


def digest_of(application_id: str, content: bytes) -> bytes:
    """Return the digest of a reply about an application from its `canonical` bytes."""
    digest = hashlib.blake2b(_encode_text(application_id), digest_size=_FULL_DIGEST)
    digest.update(content)
    return digest.digest()


def canonical(cls: type, tree: dict[str, Any]) -> bytes:
    """Return the canonical bytes of a parsed reply; removes addresses from the tree."""
    if cls is not ApplicationDocuments:
        return _SORTED.encode(_without_addresses(tree))
    by_type = tree.pop("documents")
    for documents in by_type.values():
        for document in documents:
            _without_addresses(document)
        ids = [document["document_id"] for document in documents]
        is_clear = len(set(ids)) == len(ids)
        documents.sort(key=itemgetter("document_id") if is_clear else _SORTED.encode)
    return _SORTED.encode({**_without_addresses(tree), "documents": by_type})


def _without_addresses(value: Any) -> Any:
    if isinstance(value, dict):
        value.pop("url", None)
        for name, item in value.items():
            if name not in _NO_ADDRESSES:
                value[name] = _without_addresses(item)
    elif isinstance(value, list):
        return [_without_addresses(item) for item in value]
    elif isinstance(value, str) and value.startswith(_ADDRESS):
        return None
    return value


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@define(kw_only=True)
class PollSource:
    """The calls of one poller: pages of the list, the present, applications."""

    session: SessionManager
    zone: tzinfo
    documents: bool
    pages: bool
    concurrency: int
    list_filter: ListFilter = EVERY_APPLICATION
    service: str | None = None
    """Digest of the service's address and of the account, for checkpoints."""
    limit: int = LARGEST_LIMIT
    """Rows of a full page of the list."""
    batch_size: int = 100
    """Applications that are read together; after a crash, as many may be redelivered."""
    has_answered: bool = field(default=False, init=False)
    """Whether a list call has succeeded, which shows that the credentials work."""

    async def ask_list(self, bounds: Bounds | None, *, limit: int | None = None) -> Answer:
        """Make one list call; without ``bounds``, send none."""
        limit = self.limit if limit is None else limit
        reply = await ask_page(
            self.session, limit, self.zone, bounds, read=read_page, list_filter=self.list_filter
        )
        self.has_answered = True
        return reply

    async def ask_present(self) -> int:
        """Ask for the service's present second: the smaller of echo and `Date`."""
        return (await ask_present(partial(self.ask_list, limit=1))).present

    async def read_records(self, application_ids: Sequence[str]) -> list[Outcome]:
        """Read applications; return the outcome of each, in their order."""
        slots = asyncio.Semaphore(self.concurrency)
        failed: dict[str, IncomeClientError] = {}

        async def call(cls: type, endpoint: Callable[[str], Request], application_id: str) -> Any:
            async with slots:
                if application_id in failed:
                    return None
                try:
                    request = _request_for(endpoint, application_id)
                    return await self.session.call(request, partial(read_version, cls, request))
                except ClientClosedError:
                    raise
                except IncomeClientError as error:
                    failed[application_id] = error
                    return None

        parts: list[tuple[type, Callable[[str], Request]]]
        parts = [(Application, endpoints.get_application)]
        if self.documents:
            get_documents = partial(endpoints.get_documents, pages=self.pages)
            parts.append((ApplicationDocuments, get_documents))
        try:
            async with asyncio.TaskGroup() as group:
                calls = [
                    [
                        group.create_task(call(cls, endpoint, application_id))
                        for cls, endpoint in parts
                    ]
                    for application_id in application_ids
                ]
        except ExceptionGroup as errors:
            failure = errors.exceptions[0]
        else:
            return [
                failed[application_id]
                if application_id in failed
                else record_of(*(task.result() for task in replies))
                for application_id, replies in zip(application_ids, calls, strict=True)
            ]
        # Not in the block above, where its cause would be replaced.
        raise failure

    def earlier_second(self, second: int, seconds: int) -> int:
        """Return the second of the service's frame that was ``seconds`` before another one."""
        return earlier_second(second, seconds, self.zone)

    def second_of(self, moment: datetime) -> int:
        """Return the second of the service's frame in which an aware time lies."""
        return service_second(moment, self.zone, rounding=Rounding.DOWN)

    def last_second_of(self, moment: datetime) -> int:
        """Return the last second in which the list may show an update of an aware time.

        In the hour that the end of summer time repeats, the list does not tell both passes apart.
        """
        return service_second(moment, self.zone, rounding=Rounding.UP)
