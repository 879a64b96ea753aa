"""The address of one file over its life: tried again, and replaced once it is of no use.

Knows when an attempt is worth another one, and with which address. Refuses to
know what an attempt does.
"""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from income_client.clock import Clock
from income_client.errors import IncomeClientError
from income_client.http.retry import Retrier
from income_client.records.documents import DocumentSource
from income_client.settings import DownloadPolicy, Secret

from .address_book import AddressBook, Ask
from .links import Link, read_link
from .naming import FileFacts
from .storage_replies import Outdated
from .transfer import Interrupted

T = TypeVar("T")

_MOST_RENEWALS: Final = 3
_MOST_GUESSES: Final = 1
_FRESH_SECONDS: Final = 60.0
"""How long an answer of the service serves the files whose addresses have expired."""


class LiveLink:
    """Where a file is, by now.

    Args:
        facts: whose file it is.
        address: where it was said to be.
        book: gives fresh addresses.
        ask: reads the application's documents again, for the book.
        clock: says how old an answer is.
        policy: where an address may lead.
        retrier: makes attempts that did not help again, within its policy and budget.

    Attributes:
        attempts: how many were made.
    """

    def __init__(
        self,
        facts: FileFacts,
        address: Secret,
        book: AddressBook,
        ask: Ask,
        *,
        clock: Clock,
        policy: DownloadPolicy,
        retrier: Retrier,
    ) -> None:
        self._facts = facts
        self._address = address
        self._book = book
        self._ask = ask
        self._clock = clock
        self._began = clock.monotonic()
        self._policy = policy
        self._retrier = retrier
        self._renewals = 0
        self.attempts: int = 0

    def refusal(self) -> IncomeClientError | None:
        """Return what stands against using the address, None if nothing does."""
        link = read_link(self._address.reveal(), self._policy)
        return link if isinstance(link, IncomeClientError) else None

    async def persistently(
        self,
        attempt: Callable[[Link], Awaitable[T | Interrupted | Outdated | IncomeClientError]],
    ) -> T | IncomeClientError:
        """Make attempts until one succeeds, or nothing speaks for another.

        One that helped is followed by the next at once, one that may help later by a
        pause, and one whose address is of no use by a fresh address, three times in a
        row at most; once, if nobody said that the address has expired.

        Args:
            attempt: makes one; returns its result or its failure, raises neither.
        """
        link: Link | IncomeClientError = read_link(self._address.reveal(), self._policy)
        while not isinstance(link, IncomeClientError):
            outcome: T | Interrupted | Outdated | IncomeClientError
            try:
                outcome = await self._retrier.run(
                    partial(self._counted, attempt, link), deadline_at=math.inf
                )
            except IncomeClientError as error:
                return error.again()
            if isinstance(outcome, Interrupted):
                self._renewals = 0
            elif isinstance(outcome, Outdated):
                link = await self._renewed(outcome)
            else:
                return outcome
        return link

    async def _counted(self, attempt: Callable[[Link], Awaitable[T]], link: Link) -> T:
        self.attempts += 1
        return await attempt(link)

    async def _renewed(self, outdated: Outdated) -> Link | IncomeClientError:
        facts = self._facts
        most = _MOST_RENEWALS if outdated.has_expired else _MOST_GUESSES
        if facts.application_id is None or facts.document_type is None or self._renewals >= most:
            return outdated.error
        self._renewals += 1
        source = DocumentSource(facts.application_id, facts.document_type)
        # An answer from before this download may be older than the address that it began with,
        # and there is one guess only.
        since = self._clock.monotonic() - _FRESH_SECONDS if outdated.has_expired else self._began
        fresh = await self._book.fresh(
            source, facts.document_id, stale=self._address, since=since, ask=self._ask
        )
        if isinstance(fresh, IncomeClientError):
            return fresh if outdated.has_expired else outdated.error
        if fresh == self._address:
            return outdated.error
        self._address = fresh
        return read_link(fresh.reveal(), self._policy)
