"""The settings of a client that are neither its address nor its credentials, by name and type."""

import ssl as tls
from collections.abc import Sequence
from datetime import tzinfo
from typing import TypedDict

from income_client.http.tokens import TokenStore
from income_client.http.transport import BorrowedSession, TraceConfig

from .clock import Clock
from .events import OnEvent
from .settings import DownloadPolicy, RetryPolicy, Timeouts


class ClientOptions(TypedDict, total=False):
    """Keyword arguments of ``IncomeClient``, which says what each is."""

    session: BorrowedSession | None
    timeouts: Timeouts | None
    retry: RetryPolicy | None
    concurrency: int
    max_rate: float | None
    token_store: TokenStore | None
    service_timezone: tzinfo
    downloads: DownloadPolicy | None
    max_response_bytes: int
    user_agent: str | None
    proxy: str | None
    ssl: tls.SSLContext | None
    trace_configs: Sequence[TraceConfig]
    on_event: OnEvent | None
    telemetry: bool
    clock: Clock | None
