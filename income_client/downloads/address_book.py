"""Fresh addresses for documents whose old ones have expired; asks once for all of an application.

Knows which documents belong together and what their addresses were last.
Refuses to know what an address looks like.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from attrs import define, field

from income_client.errors import DownloadError, IncomeClientError
from income_client.records.documents import ApplicationDocuments
from income_client.settings import Secret

_REMEMBERED: Final = 256


@define(eq=False)
class _Entry:
    lock: asyncio.Lock = field(factory=asyncio.Lock)
    addresses: Mapping[str, Secret] = field(factory=dict, repr=False)


class AddressBook:
    """What the documents' addresses are by now.

    The documents of an application are asked for once, however many of its
    addresses have expired meanwhile; of 256 applications the addresses are kept.

    Args:
        ask: reads the documents of an application (contract section 4.3).
    """

    def __init__(self, ask: Callable[[str], Awaitable[ApplicationDocuments]]) -> None:
        self._ask = ask
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    async def fresh(
        self, application_id: str, document_id: str, *, stale: Secret
    ) -> Secret | IncomeClientError:
        """Return the address of a document in place of one that is of no use any more.

        Args:
            application_id: the application that it belongs to.
            document_id: the document.
            stale: its address so far.

        Returns:
            The address, which may be the very same; or why there is none.
        """
        entry = self._entry(application_id)
        async with entry.lock:
            known = entry.addresses.get(document_id)
            if known is not None and known != stale:
                return known
            failure = await self._renew(entry, application_id)
        if failure is not None:
            return failure
        found = entry.addresses.get(document_id)
        return found or DownloadError("the application has no such document any more")

    async def _renew(self, entry: _Entry, application_id: str) -> IncomeClientError | None:
        try:
            documents = await self._ask(application_id)
        except IncomeClientError as error:
            # Its frames are of no interest to who asked for a file.
            return error.with_traceback(None)
        entry.addresses = {
            document.document_id: Secret(document.url) for _, document in documents.all()
        }
        return None

    def _entry(self, application_id: str) -> _Entry:
        entry = self._entries.setdefault(application_id, _Entry())
        self._entries.move_to_end(application_id)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)
        return entry
