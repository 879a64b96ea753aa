"""The calls that give many things: walks, fetches and polls; makes them and drives none."""

from datetime import tzinfo
from functools import partial
from typing import Literal, overload

from income_client.http.session import SessionManager
from income_client.polling.checkpoint import Checkpoint, is_checkpoint, read_checkpoint
from income_client.polling.cycle import PollSource
from income_client.polling.poller import Poller
from income_client.walk.checkpoint import walk_state
from income_client.walk.paginator import ApplicationPaginator, OnSaturated
from income_client.wire.times import Rounding

from .calls import ServiceCalls, When
from .checkpoints import CheckpointStore
from .checks import check_count
from .clock import Clock
from .errors import ConfigurationError
from .fetching import Applications, Fetcher, FetchFailure, OnError, Part
from .records.applications import Application
from .records.documents import ApplicationDocuments, ApplicationRecord


class ServiceStreams(ServiceCalls):
    """One method for each thing that takes many requests.

    Args:
        session: makes the requests.
        zone: the zone of the service's times that carry none.
        clock: what walks and polls pause by.
    """

    def __init__(self, session: SessionManager, zone: tzinfo, clock: Clock) -> None:
        super().__init__(session, zone)
        self._clock = clock

    def list_applications(
        self,
        updated_after: When | None = None,
        updated_before: When | None = None,
        limit: int = 1000,
        concurrency: int = 4,
        on_saturated: OnSaturated = "raise",
        resume: str | None = None,
    ) -> ApplicationPaginator:
        """Walk every application updated in a span, however many (contract section 4.1).

        Args:
            updated_after: lower bound; None for the beginning of time. A bound is a date
                (midnight in ``service_timezone``), a time (without zone: in that zone), or
                the ISO 8601 text of either; sub-seconds widen the span.
            updated_before: upper bound, likewise; None for the present.
            limit: rows of ONE PAGE, 1 to 1000, and not of the walk, which yields every
                application: a smaller one only costs more requests.
            concurrency: pages in flight at a time; with 1 they come in ascending order.
            on_saturated: what to do about a second that holds more rows than can be
                asked for: "raise" `SaturatedWindowError` after everything else, or
                "report" it in ``paginator.saturated`` and yield its rows.
            resume: ``paginator.checkpoint`` of an earlier walk, which knows its bounds. One
                without ``updated_before`` goes on to the present: after its end, it gives
                what was updated since; the last second or so may come again.

        Returns:
            An asynchronous iterator over the summaries.

        Raises:
            ConfigurationError: an argument cannot be meant.
            CheckpointError: ``resume`` is damaged, or of a newer version.
        """
        after, before = self._span(updated_after, updated_before)
        return ApplicationPaginator(
            self._session,
            walk_state(after, before, resume),
            limit=limit,
            concurrency=concurrency,
            on_saturated=on_saturated,
            clock=self._clock,
            zone=self._zone,
        )

    @overload
    def fetch_records(
        self,
        applications: Applications,
        documents: bool = True,
        pages: bool = False,
        concurrency: int | None = None,
        on_error: Literal["raise"] = "raise",
    ) -> Fetcher[ApplicationRecord]: ...

    @overload
    def fetch_records(
        self,
        applications: Applications,
        documents: bool = True,
        pages: bool = False,
        concurrency: int | None = None,
        *,
        on_error: Literal["yield"],
    ) -> Fetcher[ApplicationRecord | FetchFailure]: ...

    def fetch_records(
        self,
        applications: Applications,
        documents: bool = True,
        pages: bool = False,
        concurrency: int | None = None,
        on_error: OnError = "raise",
    ) -> Fetcher[ApplicationRecord] | Fetcher[ApplicationRecord | FetchFailure]:
        """Read many applications, each with its documents (contract sections 4.2 and 4.3).

        Args:
            applications: ids, summaries or applications, in an iterable or an
                asynchronous one, such as ``list_applications()``.
            documents: whether the documents are read as well.
            pages: whether each document comes with its pages block.
            concurrency: most requests in flight at a time; by default, and at most, as many
                as the client's own.
            on_error: "raise" the first failure in its turn, or "yield" a
                `FetchFailure` in place of the record.

        Returns:
            An asynchronous iterator over the records, in the order of the input.

        Raises:
            ConfigurationError: an argument cannot be meant.
        """
        parts: list[Part] = [self.get_application]
        if documents:
            parts.append(partial(self.get_documents, pages=pages))
        return Fetcher(
            applications,
            parts=tuple(parts),
            assemble=_record,
            concurrency=self._concurrency(concurrency),
            on_error=on_error,
            audience=self._session.audience,
        )

    @overload
    def fetch_documents(
        self,
        applications: Applications,
        pages: bool = False,
        concurrency: int | None = None,
        on_error: Literal["raise"] = "raise",
    ) -> Fetcher[ApplicationDocuments]: ...

    @overload
    def fetch_documents(
        self,
        applications: Applications,
        pages: bool = False,
        concurrency: int | None = None,
        *,
        on_error: Literal["yield"],
    ) -> Fetcher[ApplicationDocuments | FetchFailure]: ...

    def fetch_documents(
        self,
        applications: Applications,
        pages: bool = False,
        concurrency: int | None = None,
        on_error: OnError = "raise",
    ) -> Fetcher[ApplicationDocuments] | Fetcher[ApplicationDocuments | FetchFailure]:
        """Read the documents of many applications (contract section 4.3).

        Args:
            applications: as for ``fetch_records``.
            pages: whether each document comes with its pages block.
            concurrency: most requests in flight at a time; by default, and at most, as many
                as the client's own.
            on_error: as for ``fetch_records``.

        Returns:
            An asynchronous iterator over the replies, in the order of the input.

        Raises:
            ConfigurationError: an argument cannot be meant.
        """
        return Fetcher(
            applications,
            parts=(partial(self.get_documents, pages=pages),),
            assemble=lambda documents: documents,
            concurrency=self._concurrency(concurrency),
            on_error=on_error,
            audience=self._session.audience,
        )

    def poll(
        self,
        checkpoints: CheckpointStore,
        *,
        name: str = "default",
        start: When | None = None,
        interval: float = 30.0,
        settle: float = 5.0,
        lookback: float = 0.0,
        documents: bool = True,
        pages: bool = False,
        concurrency: int | None = None,
        once: bool = False,
    ) -> Poller:
        """Read every application again and again as it is updated (contract sections 4.1 to 4.3).

        What was delivered is known by its content: each version that is read comes
        once, and comes again only after a crash. The service's own clock decides
        how far polling has come, never the local one.

        Failures are retried with growing pauses and shown in ``status``, those of the
        store as well. Wrong credentials (401, or a refused token) end the iteration with
        `AuthenticationError`: at once as long as none of its calls has succeeded, and after
        five minutes of refusals once one has, since identity providers refuse everybody
        while they are deployed. A 403 of the list is retried like any other failure.

        ``settle`` and ``lookback`` have a price. Rows of the list do not say when they
        were updated, so each poll reads every application again that was updated within
        both. At 10 updates a second, ``settle=5`` is 50 applications a poll;
        ``lookback=3600`` is 36,000 more, at two requests each with documents, and
        a checkpoint of 0.7 MB with every batch. ``status.unchanged`` counts them, and a
        warning is logged once they are more than a thousand.

        Args:
            checkpoints: keeps how far it has come, and what could not be read.
            name: under which name; one poller at a time has it, the latest that took it.
            start: where to begin if nothing is kept under the name: a time, or the
                ``checkpoint`` of a batch, which counts whenever it is further than what is
                kept; None for the present.
            interval: seconds from the beginning of one poll to that of the next.
            settle: seconds that the service may take to list an update; so far the
                checkpoint stays behind, and that stretch is read again with each poll.
            lookback: seconds before that stretch that are read again as well; 0 is right
                for a service whose times are in UTC. Where ``service_timezone`` has summer
                time, it must cover the shift (3600) when clocks are set back during a
                stop, or between two polls of a long ``interval``: one poll with it is
                enough. A poller that is running then follows the clock without it.
            documents: whether the documents are read as well.
            pages: whether each document comes with its pages block.
            concurrency: most requests in flight at a time; by default, and at most, as many
                as the client's own.
            once: whether the iterator ends after one poll, which reads all that is new, as
                a job does that is started now and then; if that poll fails, its error is
                raised. A failing store is retried for half a minute or so.

        Returns:
            An asynchronous iterator over the records, or over batches of them.

        Raises:
            ConfigurationError: an argument cannot be meant.
            CheckpointError: ``start`` is a checkpoint that is damaged, or of a newer version.
        """
        source = PollSource(
            session=self._session,
            zone=self._zone,
            documents=documents,
            pages=pages,
            concurrency=self._concurrency(concurrency),
        )
        return Poller(
            source,
            checkpoints,
            name=name,
            start=self._start(start),
            interval=interval,
            settle=settle,
            lookback=lookback,
            once=once,
            clock=self._clock,
            audience=self._session.audience,
        )

    def _concurrency(self, given: int | None) -> int:
        own = self._session.concurrency
        return own if given is None else check_count("concurrency", given)

    def _start(self, start: When | None) -> Checkpoint | int | None:
        if isinstance(start, str) and is_checkpoint(start):
            return read_checkpoint(start)
        try:
            return self._second(start, Rounding.DOWN)
        except ConfigurationError:
            pass
        raise ConfigurationError("start is a time, its ISO 8601 text, or a batch's checkpoint")


def _record(
    application: Application, documents: ApplicationDocuments | None = None
) -> ApplicationRecord:
    return ApplicationRecord(application=application, documents=documents)
