"""Goes where a download address leads, redirects included; knows not what is fetched there."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from income_client.errors import DownloadError, IncomeClientError
from income_client.settings import DownloadPolicy, Timeouts

from .http import FilePool, FileReply
from .links import Link, redirected
from .storage_replies import Outdated, Redirect, Refused, read_refusal

T = TypeVar("T")


class Storage:
    """Makes requests for files.

    Args:
        pool: its connections.
        policy: where they may lead.
        timeouts: ``connect`` and ``read``.
    """

    def __init__(self, pool: FilePool, policy: DownloadPolicy, timeouts: Timeouts) -> None:
        self._pool = pool
        self._policy = policy
        self._timeouts = timeouts

    async def visit(
        self,
        link: Link,
        headers: Mapping[str, str],
        take: Callable[[FileReply], Awaitable[T | Redirect | Refused | IncomeClientError]],
    ) -> T | Outdated | IncomeClientError:
        """Make one request, and those that redirects ask for, each checked like the first.

        Args:
            link: where to begin.
            headers: further header fields.
            take: reads the reply while its connection is open.

        Returns:
            What ``take`` made, what a refusal means, or why there was no reply.
        """
        hops, is_fresh = 0, True
        while hops <= self._policy.max_redirects:
            async with self._pool.get(link, headers, self._timeouts) as reply:
                if isinstance(reply, IncomeClientError):
                    if is_fresh or not reply.retryable:
                        return reply
                    # Not every storage that sends elsewhere keeps its connection open.
                    is_fresh = True
                    continue
                taken = await take(reply)
                if isinstance(taken, Refused):
                    return read_refusal(reply.status, reply.headers, await reply.error_text())
            if not isinstance(taken, Redirect):
                return taken
            leads_to = redirected(link, taken.location, self._policy)
            if isinstance(leads_to, IncomeClientError):
                return leads_to
            link, hops, is_fresh = leads_to, hops + 1, False
        return DownloadError("the storage redirects too often")
