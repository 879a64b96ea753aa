"""The client: one object with every method that reads the service.

What only some programs use (walking, polling, downloads) is imported when it is first used.
"""

from __future__ import annotations

import copy
import os
import ssl as tls
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, tzinfo
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack, overload
from urllib.parse import urlsplit

from ._lazy import answers_other_names, renamed_argument, warn_deprecated_arguments
from .events.instrumentation import Instrumentation, OnEvent
from .http import endpoints
from .http.endpoints import QueryValue, addresses, proxy_address
from .http.replies import read_json, read_reply
from .http.session import open_session
from .http.tokens import TokenStore
from .http.transport import MAX_RESPONSE_BYTES, BorrowedSession, Transport
from .records.applications import Application, ApplicationPage, ApplicationSummary
from .records.documents import (
    ApplicationDocuments,
    ApplicationKey,
    ApplicationRecord,
    Document,
)
from .settings import (
    DEPRECATED_OPTIONS,
    DEPRECATED_POLL_OPTIONS,
    Auth,
    AuthFunction,
    DeprecatedOptions,
    DeprecatedPollOptions,
    DownloadPolicy,
    RetryPolicy,
    Timeouts,
    check_count,
    check_flag,
    check_positive,
    check_type,
    service_digest,
)
from .system.clock import Clock, SystemClock
from .system.frames import strip_frames
from .wire.times import When, check_zone, service_bounds, wire_bounds

if TYPE_CHECKING:
    from .audit.auditor import Audit
    from .audit.held import Held
    from .checkpoints import CheckpointStore
    from .configuration import ClientOptions
    from .downloads.downloader import Downloader
    from .downloads.many import (
        Destination,
        Documents,
        DownloadFailure,
        Downloads,
        Folder,
        Job,
        OneDocument,
        OnProgress,
    )
    from .polling.poller import Poller
    from .records.files import DownloadedFile
    from .telemetry import Telemetry
    from .walk.fetching import Applications, Call, Fetcher, FetchFailure, OnError
    from .walk.paginator import ApplicationPaginator, OnSaturated
else:
    # Stand-ins for those who resolve type hints at run time: the modules take a while to load.
    ApplicationPaginator = Applications = Audit = Call = CheckpointStore = ClientOptions = Any
    Destination = Documents = DownloadFailure = DownloadedFile = Downloader = Any
    FetchFailure = Folder = Held = Job = OnError = OnProgress = OnSaturated = Any
    OneDocument = Poller = Telemetry = Any
    Downloads = Fetcher = AsyncIterator

_OPENTELEMETRY: Final = "opentelemetry"
_LEASE: Final = 15.0
"""Seconds of the lease of a standby that names none."""
FILE_NAMES: Final = "{application_id}/{document_type}/{document_id}-{file}.{ext}"


@answers_other_names
@strip_frames
class IncomeClient:
    """An asynchronous client of the income-verification service.

    Make it by ``IncomeClient.from_env()``, from environment variables, by ``from_config()``, from
    the configuration file, or with the arguments below.

    A client has one pool of connections and one access token: make one per service, and use
    it in one event loop. ``income-client guide contract`` shows the sections of the service's
    contract that docstrings cite.

    Args:
        base_url: the service's address; https, except on loopback.
        auth: `BasicAuth` or `OAuth2ClientCredentials` (contract section 5.1), or a function
            without arguments, plain or asynchronous, that returns one of them: called before
            each token request, for Basic before the first call, and after a refusal; never
            more than once at a time, and within the deadline. A plain one runs in a thread.
            What it raises becomes a `TokenError` that can be retried.
        auth_url: address of the token endpoint's host; ``base_url`` by default.
        session: your aiohttp session, which is never closed. Its connections, trace hooks and
            User-Agent are used, and nothing else of it; files use separate connections.
        timeouts: limits of time for connections and calls.
        retry: when a failed request is retried.
        concurrency: most requests in flight at a time, over all calls of the client; those
            for tokens do not count, and files are counted by themselves.
        max_rate: most requests a second of this client, evenly spaced, retries included;
            those for tokens and files do not count. None for no limit.
        token_store: shares the access token with other processes.
        service_timezone: zone of the service's times without zone; of any library.
        downloads: where document files may come from; they use separate connections.
        proxy: address of an HTTP proxy, for the service and for files; on this machine if
            ``base_url`` is http.
        ssl: replaces the default TLS context.
        keep_error_bodies: whether errors keep up to 4 KiB of the reply in ``body``, which may
            hold a borrower's data; for debugging.
        on_event: called with every `Event` in the event loop: a plain function that does not
            block. An exception from it is logged once and otherwise ignored.
        clock: measures and sleeps; tests pass one that jumps.
        deprecated: arguments of earlier versions, which go in version 0.4.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: Auth | AuthFunction,
        auth_url: str | None = None,
        session: BorrowedSession | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        concurrency: int = 16,
        max_rate: float | None = None,
        token_store: TokenStore | None = None,
        service_timezone: tzinfo = UTC,
        downloads: DownloadPolicy | None = None,
        proxy: str | None = None,
        ssl: tls.SSLContext | None = None,
        keep_error_bodies: bool = False,
        on_event: OnEvent | None = None,
        clock: Clock | None = None,
        **deprecated: Unpack[DeprecatedOptions],
    ) -> None:
        warn_deprecated_arguments(type(self).__name__, deprecated, DEPRECATED_OPTIONS)
        self._zone = check_zone("service_timezone", service_timezone)
        check_type("downloads", downloads, DownloadPolicy)
        has_telemetry = check_flag("telemetry", deprecated.get("telemetry", True))
        user_agent = deprecated.get("user_agent")
        self._clock = clock or SystemClock()
        sealed_proxy = None if proxy is None else proxy_address(proxy)
        self._session = open_session(
            Transport(
                addresses(base_url, auth_url),
                session=session,
                max_response_bytes=deprecated.get("max_response_bytes", MAX_RESPONSE_BYTES),
                user_agent=user_agent,
                proxy=sealed_proxy,
                tls=ssl,
                trace_configs=deprecated.get("trace_configs", ()),
                keep_error_bodies=keep_error_bodies,
            ),
            auth=auth,
            timeouts=timeouts,
            retry=retry,
            concurrency=concurrency,
            max_rate=max_rate,
            token_store=token_store,
            instrumentation=Instrumentation(on_event, find_telemetry if has_telemetry else None),
            clock=self._clock,
        )
        self._host = urlsplit(base_url).netloc
        self._service = service_digest(base_url, auth)
        self._retry = retry
        self._viewed: Self | None = None
        self._downloader: Downloader | None = None
        self._is_closed = False

        def make_downloader() -> Downloader:
            from .downloads.downloader import Downloader

            return Downloader(
                downloads,
                timeouts=timeouts,
                retry=retry,
                concurrency=concurrency,
                user_agent=user_agent,
                proxy=sealed_proxy,
                clock=self._clock,
                instrumentation=self._session.instrumentation,
            )

        self._make_downloader = make_downloader

    @classmethod
    def from_env(cls, **options: Unpack[ClientOptions]) -> Self:
        """Make a client from environment variables, with any other option of the constructor.

        Reads INCOME_BASE_URL, and INCOME_CLIENT_ID with INCOME_CLIENT_SECRET or
        INCOME_USERNAME with INCOME_PASSWORD. In place of a secret,
        INCOME_CLIENT_SECRET_FILE or INCOME_PASSWORD_FILE names the file that holds it, which
        is read again before each token request and after a refusal, as a function given as
        ``auth`` is asked. Reads too, where they are set, INCOME_AUTH_URL,
        INCOME_PROXY and INCOME_CA_FILE, a PEM file of authorities that are trusted besides
        the usual ones, for the service and for files. The command line reads the same.

        Args:
            options: other arguments of the constructor, by name. ``proxy`` and ``ssl``
                replace INCOME_PROXY and INCOME_CA_FILE, and the ``ssl`` of ``downloads``
                replaces the latter for files.

        Raises:
            ConfigurationError: a variable is missing, both kinds of credentials are set, or
                a secret and its file, the file of a secret cannot be read or is empty,
                INCOME_CA_FILE is not a file of certificates, or an option is invalid.
        """
        from .configuration import check_options, from_variables

        check_options("from_env", options)
        return from_variables().make_client(cls, options)

    @classmethod
    def from_config(
        cls,
        profile: str | None = None,
        path: str | os.PathLike[str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """Make a client from the configuration file of the command line, or the environment.

        The file is TOML with the keys base_url, auth_url, client_id and client_secret or
        username and password, proxy and ca_file, at its top level and in tables
        ``[profiles.NAME]``; one with a secret must be the user's own, with mode 0600. In place
        of a secret, client_secret_file or password_file names the file that holds it.

        Address and credentials come from one place: from the profile, if one is named; else
        from the top level of the file at ``path``; else from the environment (as for
        ``from_env``), if it sets any of them; else from the file's top level. What the others
        say of them is not used. A proxy and ca_file that this place leaves out are those of the
        environment, or else of the file's top level.

        Args:
            profile: name of a table below ``profiles``; by default that of INCOME_PROFILE.
            path: the file; by default that of INCOME_CONFIG, or
                ``~/.config/income-client/config.toml``.
            options: other arguments of the constructor, by name, as for ``from_env``.

        Raises:
            ConfigurationError: a setting is missing or invalid, the file cannot be read or
                is open to others, or an option is invalid.
        """
        from .configuration import check_options, from_file

        check_options("from_config", options)
        return from_file(profile, path).make_client(cls, options)

    def with_options(
        self,
        *,
        deadline: float | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
    ) -> Self:
        """Return a view with other limits, on the same connections and the same token.

        Arguments left out stay unchanged, also within ``timeouts``. Closing a view does
        nothing; it ends with the client that it was made from.

        Args:
            deadline: seconds for a whole call, as ``Timeouts(deadline=...)``, over which
                it takes precedence.
            timeouts: replaces the timeouts of the client that it sets.
            retry: replaces that of the client; the retry budget stays shared.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        session = self._session.with_options(timeouts=timeouts, retry=retry)
        if deadline is not None:
            session = session.with_options(timeouts=Timeouts(deadline=deadline))
        view = copy.copy(self)
        view._session = session
        view._retry = retry
        view._viewed = self
        view._downloader = None
        return view

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._host}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that the client opened; a second call does nothing.

        If the event loop in which the client was used has ended, its sockets are closed when
        Python collects them, which may show a `ResourceWarning`: close the client within the
        loop. In a forked child, the connections stay those of the parent.

        Raises:
            ClientClosedError: that event loop is still running elsewhere.
        """
        if self._viewed is not None:
            return
        try:
            await self._session.aclose()
            self._is_closed = True
        finally:
            if self._downloader is not None:
                await self._downloader.aclose()

    # One request each

    async def check(self) -> None:
        """Check address, credentials and the service's replies with one cheap call.

        Call it when a program starts, to fail early instead of in the first call. Reads
        one row of the list (contract section 4.1), and with it the service's time.

        Raises:
            AuthenticationError: the credentials are wrong.
            PermissionDeniedError: the credentials are right, but do not allow reading.
            NotFoundError: nothing is served at ``base_url`` or ``auth_url``.
            IncomeClientError: the request failed after its retries.
        """
        await self.get_application_page(limit=1)

    async def service_time(self) -> datetime:
        """Return the service's present time, for spans such as the last seven days.

        Takes one request as a rule, and a few more if the service cuts windows short.

        Returns:
            The time in ``service_timezone`` (aware), in whole seconds: its difference from
            ``last_updated_at`` is how old a record is.

        Raises:
            UnexpectedResponseError: the service does not say what time it is.
            IncomeClientError: a request failed after its retries.
        """
        from .walk.paginator import read_present

        return await read_present(self._session, self._zone)

    async def get_application_page(
        self,
        updated_after: When | None = None,
        updated_before: When | None = None,
        limit: int | None = None,
        application_reference_id: str | None = None,
    ) -> ApplicationPage:
        """Read one page of the list, just as the service gives it (contract section 4.1).

        A page with ``limit`` rows may hide others; ``list_applications`` finds them all. One
        malformed row makes the page a `DecodeError`, which names the row's place.

        Args:
            updated_after: lower bound, as for ``list_applications``; None leaves it to the
                service.
            updated_before: upper bound, likewise.
            limit: most rows, 1 to 1000; None leaves it to the service, which takes 25.
            application_reference_id: the partner's own reference.

        Raises:
            ConfigurationError: an argument is invalid; nothing was sent.
            IncomeClientError: the request failed after its retries.
        """
        after, before = wire_bounds(updated_after, updated_before, self._zone)
        request = endpoints.list_applications(
            updated_after=after,
            updated_before=before,
            limit=limit,
            list_filter=endpoints.ListFilter(application_reference_id=application_reference_id),
        )
        return await self._session.call(request, partial(read_reply, ApplicationPage, request))

    async def get_application(self, application_id: ApplicationKey) -> Application:
        """Read one application with its income calculations (contract section 4.2).

        Args:
            application_id: as returned when the application was registered; or a summary or a
                record, which has it.

        Raises:
            ConfigurationError: the id is invalid; nothing was sent.
            NotFoundError: the service does not know the application.
            UnexpectedResponseError: the reply is about another application.
            IncomeClientError: the request failed after its retries.
        """
        request = endpoints.get_application(endpoints.application_id_of(application_id))
        return await self._session.call(request, partial(read_reply, Application, request))

    async def get_documents(
        self, application_id: ApplicationKey, pages: bool = False
    ) -> ApplicationDocuments:
        """Read the documents of one application (contract section 4.3).

        Args:
            application_id: as for ``get_application``.
            pages: whether each document comes with its pages block.

        Raises:
            ConfigurationError: the id is invalid; nothing was sent.
            NotFoundError: the service does not know the application.
            UnexpectedResponseError: the reply is about another application.
            IncomeClientError: the request failed after its retries.
        """
        application_id = endpoints.application_id_of(application_id)
        request = endpoints.get_documents(application_id, check_flag("pages", pages))
        read = partial(read_reply, ApplicationDocuments, request)
        return await self._session.call(request, read)

    async def get_record(
        self, application_id: ApplicationKey, documents: bool = True, pages: bool = False
    ) -> ApplicationRecord:
        """Read one application together with its documents (contract sections 4.2 and 4.3).

        Both calls are in flight at once. If one fails, the other is cancelled, and the error is
        raised as it is, not in an `ExceptionGroup`.

        Args:
            application_id: as for ``get_application``.
            documents: whether the documents are read as well.
            pages: whether each document comes with its pages block.

        Raises:
            ConfigurationError: an argument is invalid; nothing was sent.
            NotFoundError: the service does not know the application.
            UnexpectedResponseError: a reply is about another application.
            IncomeClientError: a request failed after its retries.
        """
        application_id = endpoints.application_id_of(application_id)
        records = self.fetch_records([application_id], documents, pages)
        try:
            return await anext(records)
        finally:
            await records.aclose()

    @renamed_argument("application_reference_id", "reference")
    async def find_application(self, reference: str) -> ApplicationSummary | None:
        """Find the application with a reference of the partner's (contract section 4.1).

        Takes one request, and three as a rule if the first finds nothing: bounds that are
        left to the service may hide old applications, and those updated this very second.

        Args:
            reference: the partner's own reference, unique per application.

        Returns:
            Its summary; None if the service lists none.

        Raises:
            ConfigurationError: the reference is invalid; nothing was sent.
            UnexpectedResponseError: the service lists only applications with other
                references, or several with this one.
            IncomeClientError: the request failed after its retries.
        """
        from .walk.paginator import find_by_reference

        return await find_by_reference(self._session, reference, self._zone)

    async def get_json(self, path: str, params: Mapping[str, QueryValue] | None = None) -> Any:
        """Send one GET to a path for which this class has no method, and return the JSON.

        As for every call there are the token, the deadline, retries, limits and events.

        Args:
            path: below ``base_url``, such as ``/v1/income/reports/r-1``: plain and
                percent-encoded, so put an id of yours through
                ``urllib.parse.quote(id, safe="")``. An address is refused.
            params: the query; a value is a str, an int, a bool (sent as true or false), or a
                list of these, which repeats the name. They are quoted here.

        Returns:
            The JSON of the reply. Numbers with a fraction or an exponent are `Decimal` with
            the digits that were sent, which `to_json` writes and ``json.dumps`` refuses. The
            outermost objects cannot be changed, and their repr shows only how many fields they
            have.

        Raises:
            ConfigurationError: an argument is invalid; nothing was sent.
            NotFoundError: nothing is served at ``path``.
            UnexpectedResponseError: the reply is not JSON, such as a page of HTML or a 204, or
                larger than 16 MiB.
            DecodeError: the JSON is not whole, or cannot be read.
            IncomeClientError: the request failed after its retries.
        """
        request = endpoints.get_json(path, params)
        return await self._session.call(request, partial(read_json, request))

    # Many requests

    def list_applications(
        self,
        updated_after: When | None = None,
        updated_before: When | None = None,
        limit: int = 1000,
        concurrency: int = 4,
        on_saturated: OnSaturated = "raise",
        resume: str | None = None,
    ) -> ApplicationPaginator:
        """List every application updated in a span (contract section 4.1).

        Each comes once; one that is updated meanwhile may come twice.

        A malformed row is raised as a `DecodeError` that names it, after the other rows of its
        page: iterate over the same paginator again to continue behind it.

        Args:
            updated_after: lower bound; None for the beginning of time. A bound is a date
                (midnight in ``service_timezone``), a time (without zone: in that zone), or
                the ISO 8601 text of either; sub-seconds widen the span.
            updated_before: upper bound, likewise; None for the present.
            limit: rows of ONE PAGE, 2 to 1000, not of the walk, which yields every
                application: a smaller one only costs more requests.
            concurrency: pages in flight at a time; with 1 they come in ascending order.
            on_saturated: what to do about a second that holds more rows than can be
                listed: "raise" `SaturatedWindowError` after everything else, or
                "report" it in ``paginator.saturated`` and yield its rows.
            resume: ``paginator.checkpoint`` of an earlier walk, which includes its bounds.
                A walk without ``updated_before`` continues to the present; resumed after its
                end, it yields what was updated since, and perhaps the last second again; the
                last page, where the service tells no time.

        Returns:
            An asynchronous iterator over the summaries.

        Raises:
            ConfigurationError: an argument is invalid.
            CheckpointError: ``resume`` is damaged, or of a newer version.
        """
        from .walk.paginator import ApplicationPaginator

        after, before = service_bounds(updated_after, updated_before, self._zone)
        return ApplicationPaginator(
            self._session,
            after,
            before,
            resume,
            limit=limit,
            concurrency=concurrency,
            on_saturated=on_saturated,
            clock=self._clock,
            zone=self._zone,
        )

    async def audit(
        self,
        held: Held,
        *,
        updated_after: When | None = None,
        updated_before: When | None = None,
        settle: float = 60.0,
        margin: float | None = 86_400.0,
        concurrency: int = 4,
    ) -> Audit:
        """Compare the service's list with a program's ids and times (contract section 4.1).

        That nothing is missing is exact. An update is passed over only if it is listed in the same
        window as the time held: ``margin`` says how soon after that time it must lie then.

        Takes as many list calls as a walk over the span, a few more for the present, one for each
        page with a finding, and those for ``margin``. What changes meanwhile is looked at again,
        and is no finding. Ids that are not listed, a thousand at the most, are then read one by
        one: only what the service does not know is reported; those beyond are undecided.

        Args:
            held: ids with the update times held: a mapping, or an iterable of pairs, asynchronous
                or not. The time is the later one of the application's ``last_updated_at`` and
                each document's ``updated_at``, in a form as for ``list_applications``. Of several
                times for one id the latest counts. Read once, after the service was asked for
                its present; a million take about 200 MB.
            updated_after: only what was updated after this must be held; None for everything. An
                id that is not listed is reported only if the time held lies behind it.
            updated_before: the time as of which ``held`` is, if it is of the past: what was
                updated since is not compared. Its very second is, where the service's upper
                bounds are inclusive and its lower ones are not. None for the present.
            settle: seconds before the present in which updates are not compared: longer than an
                update takes to be listed, delivered and stored, so than a poller's ``interval``.
            margin: seconds, at least 1: an update that lies further behind the time held is
                reported for certain, and the audit is not complete where that cannot be proved.
                Takes a list call for each ``margin`` of the span at the most, and at most one for
                each application. None for no such calls: ``Audit.margin`` is then as long as
                windows are, and of a small account hardly anything stale is found.
            concurrency: list calls in flight at a time.

        Returns:
            What is missing, stale, and held but no longer listed.

        Raises:
            ConfigurationError: an argument is invalid, an entry of ``held`` is not an id with a
                time, or ``updated_after`` leaves nothing to compare.
            UnexpectedResponseError: the service does not say what time it is.
            IncomeClientError: a request failed after its retries.
        """
        from .audit.auditor import Auditor

        after, before = service_bounds(updated_after, updated_before, self._zone)
        auditor = Auditor(
            session=self._session,
            zone=self._zone,
            clock=self._clock,
            settle=settle,
            margin=margin,
            concurrency=concurrency,
        )
        return await auditor.run(held, after, before)

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
            applications: ids, summaries or records, in an iterable or an
                asynchronous one, such as ``list_applications()``.
            documents: whether the documents are read as well.
            pages: whether each document comes with its pages block.
            concurrency: most requests in flight at a time; the client's own limit by
                default and at most.
            on_error: "raise" the first failure in input order, or "yield" a
                `FetchFailure` in place of the record.

        Returns:
            An asynchronous iterator over the records, in the order of the input.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        from .walk.fetching import Fetcher, as_record

        calls: list[Call] = [self.get_application]
        check_flag("pages", pages)
        if check_flag("documents", documents):
            calls.append(partial(self.get_documents, pages=pages))
        return Fetcher(
            applications,
            calls=tuple(calls),
            assemble=as_record,
            concurrency=self._checked_concurrency(concurrency),
            on_error=on_error,
            instrumentation=self._session.instrumentation,
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
            concurrency: most requests in flight at a time, as for ``fetch_records``.
            on_error: as for ``fetch_records``.

        Returns:
            An asynchronous iterator over the replies, in the order of the input.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        from .walk.fetching import Fetcher

        return Fetcher(
            applications,
            calls=(partial(self.get_documents, pages=check_flag("pages", pages)),),
            assemble=lambda documents: documents,
            concurrency=self._checked_concurrency(concurrency),
            on_error=on_error,
            instrumentation=self._session.instrumentation,
        )

    @renamed_argument("checkpoints", "store")
    def poll(
        self,
        store: CheckpointStore,
        *,
        name: str = "default",
        start: When | None = None,
        interval: float = 30.0,
        settle: float = 60.0,
        lookback: float = 0.0,
        documents: bool = True,
        pages: bool = False,
        concurrency: int | None = None,
        once: bool = False,
        standby: bool | float = False,
        must_exist: bool = False,
        **deprecated: Unpack[DeprecatedPollOptions],
    ) -> Poller:
        """Read every application again and again as it is updated (contract sections 4.1 to 4.3).

        Each version is recognised by its content: it is delivered once, and again only
        after a crash. The service's clock decides how far polling has come, never the
        local one.

        Failures, including those of the store, are retried with growing pauses and shown in
        ``status``. Wrong credentials (401, or a refused token) end the iteration with
        `AuthenticationError`: at once if no call has succeeded yet, and after five minutes
        of refusals otherwise, since identity providers fail that way while they are deployed.

        An application is read when it is listed, and again once ``settle`` has passed,
        since it may have been updated twice in one second. What was updated within
        ``lookback`` is read at each of these times: at 10 updates a second, ``lookback=3600``
        is 36,000 applications and a checkpoint of 0.7 MB with every batch.
        ``status.unchanged`` counts them, and more than a thousand are logged as a warning.

        Where the store has no checkpoint under the name, polling begins anew: that is logged,
        reported as `CheckpointCreated`, and refused with ``must_exist``.

        Args:
            store: keeps the position, and what could not be read.
            name: key in the store; one poller at a time owns it, see ``standby``.
            start: where the very first poll begins: a time; None for the present, less
                ``settle``. Once the store has a checkpoint under the name, polling continues
                from there and a time given here is ignored. The ``checkpoint`` of a batch may
                be given instead: of that and the store's, the further one counts.
            interval: seconds from the start of one poll to that of the next.
            settle: seconds that the service may take to list an update. An update is delivered
                when it is listed; ``settle`` only says how long it may be listed late and
                still come. The checkpoint stays that far behind. If it is shorter than the
                time between two polls, each poll reads its seconds again.
            lookback: more seconds to read again, 0 unless clocks go back: if
                ``service_timezone`` has summer time and the poller was stopped, or between
                two polls of a long ``interval``, while they did, one poll must read the shift
                again (3600).
            documents: whether the documents are read as well.
            pages: whether each document comes with its pages block.
            concurrency: most requests in flight at a time; the client's own limit by
                default and at most.
            once: whether the iterator ends after one poll, as for a job that is started now
                and then; if that poll fails, its error is raised. A failing store is retried
                for half a minute or so.
            standby: whether to wait while another poller of the name works, and to take over
                once it has ended or has not renewed its lease for 15 seconds, or for as many
                as are given here. The lease is renewed every third of it, also while the
                consumer works on a batch, for ten leases at most. It ends at once with the
                iteration, and with ``aclose()`` for a loop that was left early. Give it to
                every replica, on any number of machines. One that was replaced meanwhile, after
                a pause for example, can store nothing more, and waits for its turn again: a
                loop over records continues with what the other has left, and the commit of a
                batch raises `CheckpointConflictError`. ``wake()`` of any of them reaches the
                one that works, if the store has a bell, as those of this package have. Without
                ``standby``, the newest poller of a name takes it at once, and the one before
                ends with that error.
            must_exist: whether to refuse to begin anew, for every run but the very first: a
                mistyped ``name`` or path of a store is an error then. The store must have a
                checkpoint under the name, whatever ``start`` is.
            deprecated: arguments of earlier versions, which go in version 0.4.

        Returns:
            An asynchronous iterator over the records, or over batches of them.

        Raises:
            ConfigurationError: an argument is invalid, or ``start`` is more than a day later
                than the service's present, which the first poll checks.
            CheckpointError: ``start`` is a checkpoint that is damaged, or of a newer version.
                With ``must_exist`` and no checkpoint in the store, the iteration raises it,
                before it sends anything.
        """
        from .polling.checkpoint import starting_point
        from .polling.poller import Poller
        from .polling.reading import PollSource

        warn_deprecated_arguments("poll", deprecated, DEPRECATED_POLL_OPTIONS)
        lease = deprecated.get("lease", _LEASE)
        if not isinstance(standby, bool):
            lease = check_positive("standby", standby)
        source = PollSource(
            session=self._session,
            zone=self._zone,
            documents=check_flag("documents", documents),
            pages=check_flag("pages", pages),
            concurrency=self._checked_concurrency(concurrency),
            service=self._service,
        )
        return Poller(
            source,
            store,
            name=name,
            start=starting_point(start, self._zone),
            interval=interval,
            settle=settle,
            lookback=lookback,
            once=once,
            standby=standby is not False,
            lease=lease,
            must_exist=must_exist,
        )

    # Document files

    async def download(
        self,
        document: OneDocument,
        destination: Destination,
        file: int = 0,
        *,
        names: str = FILE_NAMES,
        overwrite: bool = False,
        on_progress: OnProgress | None = None,
    ) -> DownloadedFile:
        """Download the file of a document, complete or not at all (contract section 2.3).

        Only addresses that `DownloadPolicy` allows are used, and no credentials are sent.
        A cut connection is resumed, and an expired address is replaced by reading the
        documents again.

        Args:
            document: a document as the service describes it.
            destination: an existing folder or a path that ends with a slash, in which
                ``names`` says where; any other path, which becomes the file; or an open
                binary file.
            file: which of the document's files; the contract gives it one, number 0.
            names: names of files in a folder. Fields: application_id,
                document_type, document_id, file, file_reference_id and ext.
            overwrite: whether another file in its place is replaced, atomically.
            on_progress: called with a `DownloadProgress` now and then.

        Returns:
            The file in its place. An existing file with the same content is left unchanged.

        Raises:
            ConfigurationError: an argument is invalid.
            UnsafeLinkError: the address is not allowed; nothing was sent there.
            DownloadError: the file arrived incomplete, another file is in its place, or
                it could not be written: ``disk_failed`` tells the disk from this file, and
                ``in_place`` whether the file is whole at its place all the same.
            IncomeClientError: the documents could not be read again.
        """
        from .downloads.many import Job, check_one_document

        chosen = check_one_document(document, file)
        job = Job(
            destination,
            names,
            overwrite=overwrite,
            on_progress=on_progress,
            ask=self.get_documents,
        )
        return await self._download_document(job, chosen)

    @overload
    def download_all(
        self,
        documents: Documents,
        directory: Folder,
        concurrency: int = ...,
        *,
        names: str = ...,
        overwrite: bool = ...,
        on_progress: OnProgress | None = ...,
        on_error: Literal["raise"] = ...,
    ) -> Downloads[DownloadedFile]: ...

    @overload
    def download_all(
        self,
        documents: Documents,
        directory: Folder,
        concurrency: int = ...,
        *,
        names: str = ...,
        overwrite: bool = ...,
        on_progress: OnProgress | None = ...,
        on_error: Literal["yield"],
    ) -> Downloads[DownloadedFile | DownloadFailure]: ...

    def download_all(
        self,
        documents: Documents,
        directory: Folder,
        concurrency: int = 8,
        *,
        names: str = FILE_NAMES,
        overwrite: bool = False,
        on_progress: OnProgress | None = None,
        on_error: OnError = "raise",
    ) -> Downloads[DownloadedFile] | Downloads[DownloadedFile | DownloadFailure]:
        """Download the files of many documents to one folder (contract section 2.3).

        Each file is yielded once it is complete, in no special order, and so are those that
        are there already. Expired addresses are replaced by about one request a minute for
        each application, which all downloads of the client share.

        Args:
            documents: documents, replies of `get_documents` or records with documents;
                one, or an iterable of them, asynchronous or not.
            directory: a folder, made if it does not exist.
            concurrency: files in flight at a time, within the client's own limit.
            names: names of files in it, as for `download`.
            overwrite: whether other files in their places are replaced.
            on_progress: called with a `DownloadProgress` now and then.
            on_error: ``"raise"`` the first failure, or ``"yield"`` a `DownloadFailure`; where
                its error has ``disk_failed``, other files fail as well.

        Returns:
            An asynchronous iterator over the files in their places.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        from .downloads.many import Downloads, Job, folder_path

        job = Job(
            folder_path(directory),
            names,
            overwrite=overwrite,
            on_progress=on_progress,
            ask=self.get_documents,
        )
        get = partial(self._download_document, job)
        return Downloads(documents, get, concurrency=concurrency, on_error=on_error)

    # Shared by the methods above

    async def _download_document(self, job: Job, document: Document) -> DownloadedFile:
        return await (await self._opened_downloader()).fetch(job, document)

    async def _opened_downloader(self) -> Downloader:
        """Return the downloader, which the first download makes."""
        if self._downloader is not None:
            return self._downloader
        if self._viewed is not None:
            viewed = await self._viewed._opened_downloader()
            timeouts = self._session.timeouts
            self._downloader = viewed.with_options(timeouts=timeouts, retry=self._retry)
        else:
            self._downloader = self._make_downloader()
            if self._is_closed:
                await self._downloader.aclose()
        return self._downloader

    def _checked_concurrency(self, concurrency: int | None) -> int:
        own = self._session.concurrency
        return own if concurrency is None else check_count("concurrency", concurrency)


def find_telemetry() -> Telemetry | None:
    """Return the listener that reports calls to OpenTelemetry, None if it is not set up."""
    # A program that has set it up has imported it; for all others it costs nothing.
    if _OPENTELEMETRY not in sys.modules:
        return None
    try:
        from .telemetry import Telemetry
    except ImportError:
        return None
    return Telemetry.if_configured()
