"""Fresh addresses for documents whose old ones have expired; asked once for an application."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from attrs import define, field

from income_client.clock import Clock
from income_client.errors import DownloadError, IncomeClientError
from income_client.records.documents import ApplicationDocuments, DocumentSource
from income_client.settings import Secret

_REMEMBERED: Final = 256

Ask = Callable[[str], Awaitable[ApplicationDocuments]]
"""Reads the documents of an application (contract section 4.3)."""

_DocumentKey = tuple[str, str]
"""A document's type and id: ids need not be unique among types."""


@define(eq=False)
class _KnownAddresses:
    """What the service said last about the documents of one application."""

    lock: asyncio.Lock = field(factory=asyncio.Lock)
    addresses: Mapping[_DocumentKey, Secret | None] = field(factory=dict, repr=False)
    failure: IncomeClientError | None = None
    times_asked: int = 0
    answered_at: float = -math.inf


class AddressBook:
    """Fresh addresses of documents; one book for all downloads of a client.

    The documents of an application are asked for once for all downloads that wait for them, with
    the same result or error; the addresses of 256 applications are kept.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, _KnownAddresses] = OrderedDict()

    async def fresh(
        self, source: DocumentSource, document_id: str, *, stale: Secret, since: float, ask: Ask
    ) -> Secret:
        """Return the address of a document in place of a stale one; it may be the same.

        Args:
            source: its application and its type.
            document_id: the document.
            stale: its address so far.
            since: an answer from before this moment of the clock is not used any more.
            ask: reads the documents if there is no other answer.

        Raises:
            IncomeClientError: the documents cannot be read, or the document is not among them.
        """
        key = (source.document_type, document_id)
        entry = self._entry(source.application_id)
        asked_before = entry.times_asked
        async with entry.lock:
            known = entry.addresses.get(key)
            if known is not None and known != stale and entry.answered_at >= since:
                return known
            if entry.times_asked == asked_before:
                await self._renew(entry, source.application_id, ask)
        if entry.failure is not None:
            raise entry.failure.again()
        if key not in entry.addresses:
            raise DownloadError("the application has no such document any more")
        address = entry.addresses[key]
        if address is None:
            raise DownloadError("the application has several such documents")
        return address

    async def _renew(self, entry: _KnownAddresses, application_id: str, ask: Ask) -> None:
        try:
            documents = await ask(application_id)
        except IncomeClientError as error:
            entry.failure = error.again()
        else:
            entry.failure = None
            entry.addresses = _addresses(documents)
            entry.answered_at = self._clock.monotonic()
        entry.times_asked += 1

    def _entry(self, application_id: str) -> _KnownAddresses:
        entry = self._entries.setdefault(application_id, _KnownAddresses())
        self._entries.move_to_end(application_id)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)
        return entry


def _addresses(documents: ApplicationDocuments) -> dict[_DocumentKey, Secret | None]:
    """Return the address of each document, None where the service gives two for one."""
    found: dict[_DocumentKey, Secret | None] = {}
    for document_type, document in documents.all():
        key, address = (document_type, document.document_id), Secret(document.url)
        found[key] = address if found.get(key, address) == address else None
    return found
