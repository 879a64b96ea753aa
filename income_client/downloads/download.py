"""What a client downloads with; how one file comes is told by its run."""

import asyncio
from typing import Self

from attrs import evolve, frozen

from income_client.clock import Clock
from income_client.errors import ConfigurationError, DownloadError, IncomeClientError
from income_client.events import FileFinished
from income_client.http.retry import Retrier, RetryBudget
from income_client.instrumentation import Instrumentation
from income_client.records.files import DownloadedFile
from income_client.settings import DownloadPolicy, RetryPolicy, Secret, Timeouts

from .address_book import AddressBook
from .http import FilePool
from .run import FileJob, FileRun, Means
from .storage import Storage


@frozen(kw_only=True)
class Downloader:
    """Gets files, one call each."""

    means: Means
    """What all of them share."""
    slots: asyncio.Semaphore
    """As many as files may be on their way."""
    instrumentation: Instrumentation
    """Is told of those that came and those that did not."""

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
        """Make one with connections of its own, for arguments that the session has checked.

        Raises:
            ConfigurationError: the policy is none.
        """
        policy = DownloadPolicy() if policy is None else policy
        if not isinstance(policy, DownloadPolicy):
            raise ConfigurationError("downloads is no DownloadPolicy")
        retry = retry or RetryPolicy()
        pool = FilePool(policy, user_agent=user_agent, proxy=proxy)
        means = Means(
            pool=pool,
            storage=Storage(pool, policy, timeouts or Timeouts()),
            policy=policy,
            # An outage of the storage is no reason to give up on the service.
            retrier=Retrier(retry, RetryBudget(retry.budget), clock),
            book=AddressBook(clock),
            clock=clock,
        )
        return cls(
            means=means, slots=asyncio.Semaphore(concurrency), instrumentation=instrumentation
        )

    def with_options(self, *, timeouts: Timeouts | None, retry: RetryPolicy | None) -> Self:
        """Return one with other limits: same connections, slots, budget and fresh addresses."""
        means = self.means
        storage = Storage(means.pool, means.policy, timeouts) if timeouts else means.storage
        retrier = means.retrier.with_policy(retry) if retry else means.retrier
        return evolve(self, means=evolve(means, storage=storage, retrier=retrier))

    async def aclose(self) -> None:
        """Close the connections; again does nothing."""
        await self.means.pool.aclose()

    async def fetch(self, job: FileJob) -> DownloadedFile | IncomeClientError:
        """Have a file where it is to go, whole.

        Args:
            job: which one, and where.

        Returns:
            The file, or why there is none; raises nothing but cancellation.
        """
        async with self.slots:
            run = FileRun(self.means, job)
            began = self.means.clock.monotonic()
            try:
                outcome = await run.file()
            except BaseException as error:
                self._tell(run, job, error, began)
                raise
            self._tell(run, job, outcome, began)
        if isinstance(outcome, DownloadError):
            outcome.document_id = job.facts.document_id
            outcome.message = f"download({job.facts.document_id}): {outcome.message}"
            outcome.args = (outcome.message,)
            outcome.attempts = run.link.attempts
        return outcome

    def _tell(
        self,
        run: FileRun,
        job: FileJob,
        outcome: DownloadedFile | BaseException,
        began: float,
    ) -> None:
        emit = self.instrumentation.emit
        if emit is None:
            return
        file = outcome if isinstance(outcome, DownloadedFile) else None
        finished = FileFinished(
            application_id=job.facts.application_id,
            document_id=job.facts.document_id,
            size=None if file is None else file.size,
            was_there=file is not None and file.was_there,
            attempts=run.link.attempts,
            seconds=self.means.clock.monotonic() - began,
            error=type(outcome).__name__ if file is None else None,
        )
        emit(finished)
