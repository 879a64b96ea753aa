"""Asyncio SDK for an income-verification service: nothing lost, nothing leaked."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._version import __version__
    from .checkpoints import (
        CheckpointStore,
        MemoryCheckpointStore,
        SQLiteCheckpointStore,
        StoredCheckpoint,
    )
    from .client import IncomeClient
    from .downloads.many import DownloadFailure
    from .errors import (
        AuthenticationError,
        CheckpointConflictError,
        CheckpointError,
        ClientClosedError,
        ConfigurationError,
        ConnectionFailedError,
        DeadlineExceededError,
        DecodeError,
        DownloadError,
        IncomeClientError,
        InvalidArgumentError,
        InvalidRequestError,
        NotFoundError,
        PermissionDeniedError,
        RateLimitedError,
        ResponseError,
        SaturatedWindowError,
        ServerError,
        TokenError,
        TransportError,
        UnexpectedResponseError,
        UnsafeLinkError,
    )
    from .http.tokens import StoredToken, TokenStore
    from .polling.batches import Batch
    from .polling.poller import Poller
    from .polling.status import PollerStatus
    from .records.applications import (
        Application,
        ApplicationPage,
        ApplicationSummary,
        IncomeCalculation,
    )
    from .records.dead_letters import DeadLetter
    from .records.documents import ApplicationDocuments, ApplicationRecord, Document
    from .records.files import DownloadedFile
    from .records.paystub import Paystub
    from .settings import (
        BasicAuth,
        DownloadPolicy,
        OAuth2ClientCredentials,
        RetryPolicy,
        Secret,
        Timeouts,
    )
    from .sync.client import SyncIncomeClient
    from .walk.fetching import FetchFailure
    from .wire.codec import from_json, to_json
    from .wire.readers import register_document_type
else:
    from ._lazy import __dir__, __getattr__  # noqa: F401 - what the interpreter asks

__all__ = [
    "Application",
    "ApplicationDocuments",
    "ApplicationPage",
    "ApplicationRecord",
    "ApplicationSummary",
    "AuthenticationError",
    "BasicAuth",
    "Batch",
    "CheckpointConflictError",
    "CheckpointError",
    "CheckpointStore",
    "ClientClosedError",
    "ConfigurationError",
    "ConnectionFailedError",
    "DeadLetter",
    "DeadlineExceededError",
    "DecodeError",
    "Document",
    "DownloadError",
    "DownloadFailure",
    "DownloadPolicy",
    "DownloadedFile",
    "FetchFailure",
    "IncomeCalculation",
    "IncomeClient",
    "IncomeClientError",
    "InvalidArgumentError",
    "InvalidRequestError",
    "MemoryCheckpointStore",
    "NotFoundError",
    "OAuth2ClientCredentials",
    "Paystub",
    "PermissionDeniedError",
    "Poller",
    "PollerStatus",
    "RateLimitedError",
    "ResponseError",
    "RetryPolicy",
    "SQLiteCheckpointStore",
    "SaturatedWindowError",
    "Secret",
    "ServerError",
    "StoredCheckpoint",
    "StoredToken",
    "SyncIncomeClient",
    "Timeouts",
    "TokenError",
    "TokenStore",
    "TransportError",
    "UnexpectedResponseError",
    "UnsafeLinkError",
    "__version__",
    "from_json",
    "register_document_type",
    "to_json",
]
