"""Fresh addresses for documents whose old ones have expired; asks once for all of an application.

Knows which documents belong together and what their addresses were last.
Refuses to know what an address looks like.
"""

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

_Key = tuple[str, str]
"""A document's type and id: ids need not be unique among types."""


@define(eq=False)
class _Entry:
    lock: asyncio.Lock = field(factory=asyncio.Lock)
    addresses: Mapping[_Key, Secret | None] = field(factory=dict, repr=False)
    failure: IncomeClientError | None = None
    times_asked: int = 0
    answered_at: float = -math.inf


class AddressBook:
    """What the documents' addresses are by now; one for all downloads of a client.

    The documents of an application are asked for once for all downloads that wait for
    them, with whatever comes of it; the addresses of 256 applications are kept.

    Args:
        clock: says how old an answer is.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    async def fresh(
        self, source: DocumentSource, document_id: str, *, stale: Secret, since: float, ask: Ask
    ) -> Secret | IncomeClientError:
        """Return the address of a document in place of one that is of no use any more.

        Args:
            source: its application and its type.
            document_id: the document.
            stale: its address so far.
            since: an answer from before this moment of the clock is not used any more.
            ask: reads the documents if there is no other answer.

        Returns:
            The address, which may be the very same; or why there is none.
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
            return entry.failure.again()
        if key not in entry.addresses:
            return DownloadError("the application has no such document any more")
        return entry.addresses[key] or DownloadError("the application has several such documents")

    async def _renew(self, entry: _Entry, application_id: str, ask: Ask) -> None:
        try:
            documents = await ask(application_id)
        except IncomeClientError as error:
            entry.failure = error.again()
        else:
            entry.failure = None
            entry.addresses = _addresses(documents)
            entry.answered_at = self._clock.monotonic()
        entry.times_asked += 1

    def _entry(self, application_id: str) -> _Entry:
        entry = self._entries.setdefault(application_id, _Entry())
        self._entries.move_to_end(application_id)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)
        return entry


def _addresses(documents: ApplicationDocuments) -> dict[_Key, Secret | None]:
    """Return the address of each document, None where the service gives two for one."""
    found: dict[_Key, Secret | None] = {}
    for document_type, document in documents.all():
        key, address = (document_type, document.document_id), Secret(document.url)
        found[key] = address if found.get(key, address) == address else None
    return found
