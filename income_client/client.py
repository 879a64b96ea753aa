"""What people call: one object that reads the service."""

import copy
import ssl as tls
from collections.abc import Sequence
from datetime import UTC, tzinfo
from types import TracebackType
from typing import Self, Unpack

from attrs import evolve

from income_client.downloads.downloader import Downloader
from income_client.http.endpoints import proxy_address
from income_client.http.session import Auth, SessionManager
from income_client.http.tokens import TokenStore
from income_client.http.transport import BorrowedSession, TraceConfig

from .clock import Clock, SystemClock
from .environment import read_environment
from .errors import ConfigurationError
from .events import OnEvent
from .files import DocumentFiles
from .options import ClientOptions
from .settings import DownloadPolicy, RetryPolicy, Timeouts


class IncomeClient(DocumentFiles):
    """An asynchronous client of the income-verification service.

    One client holds one pool of connections and one access token, and is made
    once for each service. It belongs to the event loop in which it is first used.

    Args:
        base_url: the service's address; https, except to this machine itself.
        auth: `BasicAuth` or `OAuth2ClientCredentials` (contract section 5.1).
        auth_url: address of the token endpoint's host; that of ``base_url`` by default.
        session: an aiohttp session of the caller's, used and never closed.
        timeouts: how long things may take.
        retry: when a failed request is made again.
        concurrency: most requests in flight at a time, over all calls of the client.
        max_rate: most requests a second, evenly spaced, of this client alone; None for no
            limit of our own.
        token_store: shares the access token with other processes.
        service_timezone: the zone of the service's times that carry none.
        downloads: where document files may come from; they have connections of their own.
        max_response_bytes: longest reply that is read.
        user_agent: in place of the package's own.
        proxy: address of an HTTP proxy; on this machine if ``base_url`` is http.
        ssl: a TLS context in place of the default one.
        trace_configs: aiohttp trace hooks for a session made here.
        on_event: called with every `Event` while it happens, in the event loop: a plain
            function that does not block. What it raises is logged once and breaks nothing.
        telemetry: whether OpenTelemetry is told of calls, where the program has set it up
            by the time of the first call.
        clock: measures and sleeps; tests put in one that jumps.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: Auth,
        auth_url: str | None = None,
        session: BorrowedSession | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        concurrency: int = 16,
        max_rate: float | None = None,
        token_store: TokenStore | None = None,
        service_timezone: tzinfo = UTC,
        downloads: DownloadPolicy | None = None,
        max_response_bytes: int = 64 * 2**20,
        user_agent: str | None = None,
        proxy: str | None = None,
        ssl: tls.SSLContext | None = None,
        trace_configs: Sequence[TraceConfig] = (),
        on_event: OnEvent | None = None,
        telemetry: bool = True,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(service_timezone, tzinfo):
            raise ConfigurationError("service_timezone is no tzinfo")
        clock = clock or SystemClock()
        self._owns_session = True
        try:
            session_manager = SessionManager(
                base_url,
                auth=auth,
                auth_url=auth_url,
                session=session,
                timeouts=timeouts,
                retry=retry,
                concurrency=concurrency,
                max_rate=max_rate,
                token_store=token_store,
                max_response_bytes=max_response_bytes,
                user_agent=user_agent,
                proxy=proxy,
                ssl=ssl,
                trace_configs=trace_configs,
                on_event=on_event,
                telemetry=telemetry,
                clock=clock,
            )
            downloader = Downloader.make(
                downloads,
                timeouts=timeouts,
                retry=retry,
                concurrency=concurrency,
                user_agent=user_agent,
                proxy=None if proxy is None else proxy_address(proxy),
                clock=clock,
                audience=session_manager.audience,
            )
        finally:
            del base_url, auth_url, auth, proxy  # may hold secrets, and a frame here may raise
        super().__init__(session_manager, service_timezone, clock, downloader)

    @classmethod
    def from_env(cls, **options: Unpack[ClientOptions]) -> Self:
        """Make a client from environment variables, with any other option of the constructor.

        Reads INCOME_BASE_URL, and INCOME_CLIENT_ID with INCOME_CLIENT_SECRET or
        INCOME_USERNAME with INCOME_PASSWORD; and, where they are set, INCOME_AUTH_URL,
        INCOME_PROXY and INCOME_CA_FILE, a PEM file of authorities that are trusted besides
        the usual ones, for the service and for files. The command line reads the same.

        Args:
            options: the constructor's other arguments, by their names. ``proxy`` and ``ssl``
                count in place of INCOME_PROXY and INCOME_CA_FILE, and the ``ssl`` of
                ``downloads`` in place of the latter for files.

        Raises:
            ConfigurationError: a variable is missing, both kinds of credentials are set,
                INCOME_CA_FILE is not a file of certificates, or an option is invalid.
        """
        found = read_environment()
        try:
            if "ssl" not in options and (context := found.tls()) is not None:
                options["ssl"] = context
                downloads: object = options.get("downloads") or DownloadPolicy()
                if isinstance(downloads, DownloadPolicy) and downloads.ssl is None:
                    options["downloads"] = evolve(downloads, ssl=context)
            if "proxy" not in options and found.proxy is not None:
                options["proxy"] = found.proxy.reveal()
            base_url, auth, auth_url = found.base_url, found.auth, found.auth_url
            del found
            return cls(base_url, auth=auth, auth_url=auth_url, **options)
        finally:
            # Addresses may hold passwords by mistake, and a frame below may raise.
            del options
            base_url = auth_url = ""

    def with_options(
        self,
        *,
        deadline: float | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
    ) -> Self:
        """Return a view with other limits, on the same connections and the same token.

        What is not given stays as it is, also within ``timeouts``. Closing a view does
        nothing; it ends with the client that it was made of.

        Args:
            deadline: seconds for a whole call, as ``Timeouts(deadline=...)``, over which
                it takes precedence.
            timeouts: in place of this client's.
            retry: in place of this client's; the retry budget stays shared.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        session = self._session.with_options(timeouts=timeouts, retry=retry)
        if deadline is not None:
            session = session.with_options(timeouts=Timeouts(deadline=deadline))
        view = copy.copy(self)
        view._session = session  # noqa: SLF001 - a Self
        view._downloader = self._downloader.with_options(timeouts=session.timeouts, retry=retry)  # noqa: SLF001 - a Self
        view._owns_session = False  # noqa: SLF001 - a Self
        return view

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
        """Close the connections that were opened here; again does nothing."""
        if self._owns_session:
            try:
                await self._session.aclose()
            finally:
                await self._downloader.aclose()
