"""Asyncio SDK for an income-verification service: nothing lost, nothing leaked."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._version import __version__
    from .audit.auditor import Audit, StaleApplication
    from .checkpoints import (
        CheckpointStore,
        MemoryCheckpointStore,
        SQLiteCheckpointStore,
        StoredCheckpoint,
    )
    from .client import IncomeClient
    from .downloads.many import DownloadFailure, Downloads
    from .errors import (
        AuthenticationError,
        CallbackRejectedError,
        CheckpointConflictError,
        CheckpointError,
        ClientClosedError,
        ConfigurationError,
        ConnectionFailedError,
        DeadlineExceededError,
        DecodeError,
        DownloadError,
        IncomeClientError,
        InvalidRequestError,
        LinkRefusal,
        NotFoundError,
        PayloadFault,
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
    from .events.kinds import (
        CallFinished,
        CheckpointCommitted,
        CheckpointCreated,
        DeadLettered,
        Event,
        FileFinished,
        PageCovered,
        PollFailed,
        PollFinished,
        RecordDelivered,
        RequestAnswered,
        RequestRetried,
        RequestSent,
        TokenRenewed,
        WindowSplit,
    )
    from .exporting.parquet import ParquetTables
    from .exporting.tables import RecordTables, to_arrow
    from .http.tokens import StoredToken, TokenStore
    from .polling.batches import Batch
    from .polling.poller import Poller
    from .polling.status import PollerStatus
    from .receivers.auth import CallbackBasicAuth, CallbackBearerAuth
    from .receivers.certificates import CallbackClientCertificate
    from .receivers.issuer import CallbackTokenIssuer
    from .receivers.networks import CallbackSourceNetworks
    from .records.applications import (
        Address,
        AddressEntry,
        Applicant,
        Application,
        ApplicationPage,
        ApplicationSummary,
        DataSources,
        ImageFile,
        IncomeCalculation,
        IncomeSource,
        SuspectedFraudulent,
        YearlyIncome,
    )
    from .records.callbacks import Callback
    from .records.dead_letters import DeadLetter
    from .records.documents import (
        ApplicationDocuments,
        ApplicationRecord,
        Document,
        DocumentEntry,
        DocumentSource,
        PaystubEntry,
    )
    from .records.files import DownloadedFile, DownloadProgress
    from .records.paystub import AmountPair, Paystub, PaystubAddress, PaystubApplicant
    from .records.window import Window
    from .settings import (
        BasicAuth,
        DownloadPolicy,
        OAuth2ClientCredentials,
        OnEvent,
        RetryPolicy,
        Secret,
        Timeouts,
    )
    from .sync.client import (
        SyncApplicationPaginator,
        SyncBatch,
        SyncIncomeClient,
        SyncIterator,
        SyncPoller,
    )
    from .walk.fetching import Fetcher, FetchFailure, OnError
    from .walk.paginator import ApplicationPaginator, OnSaturated, WalkProgress
    from .wire.codec import from_json, to_json
    from .wire.readers import register_document_type
else:
    from ._lazy import __dir__, __getattr__  # noqa: F401 - what the interpreter asks

__all__ = [
    "Address",
    "AddressEntry",
    "AmountPair",
    "Applicant",
    "Application",
    "ApplicationDocuments",
    "ApplicationPage",
    "ApplicationPaginator",
    "ApplicationRecord",
    "ApplicationSummary",
    "Audit",
    "AuthenticationError",
    "BasicAuth",
    "Batch",
    "CallFinished",
    "Callback",
    "CallbackBasicAuth",
    "CallbackBearerAuth",
    "CallbackClientCertificate",
    "CallbackRejectedError",
    "CallbackSourceNetworks",
    "CallbackTokenIssuer",
    "CheckpointCommitted",
    "CheckpointConflictError",
    "CheckpointCreated",
    "CheckpointError",
    "CheckpointStore",
    "ClientClosedError",
    "ConfigurationError",
    "ConnectionFailedError",
    "DataSources",
    "DeadLetter",
    "DeadLettered",
    "DeadlineExceededError",
    "DecodeError",
    "Document",
    "DocumentEntry",
    "DocumentSource",
    "DownloadError",
    "DownloadFailure",
    "DownloadPolicy",
    "DownloadProgress",
    "DownloadedFile",
    "Downloads",
    "Event",
    "FetchFailure",
    "Fetcher",
    "FileFinished",
    "ImageFile",
    "IncomeCalculation",
    "IncomeClient",
    "IncomeClientError",
    "IncomeSource",
    "InvalidRequestError",
    "LinkRefusal",
    "MemoryCheckpointStore",
    "NotFoundError",
    "OAuth2ClientCredentials",
    "OnError",
    "OnEvent",
    "OnSaturated",
    "PageCovered",
    "ParquetTables",
    "PayloadFault",
    "Paystub",
    "PaystubAddress",
    "PaystubApplicant",
    "PaystubEntry",
    "PermissionDeniedError",
    "PollFailed",
    "PollFinished",
    "Poller",
    "PollerStatus",
    "RateLimitedError",
    "RecordDelivered",
    "RecordTables",
    "RequestAnswered",
    "RequestRetried",
    "RequestSent",
    "ResponseError",
    "RetryPolicy",
    "SQLiteCheckpointStore",
    "SaturatedWindowError",
    "Secret",
    "ServerError",
    "StaleApplication",
    "StoredCheckpoint",
    "StoredToken",
    "SuspectedFraudulent",
    "SyncApplicationPaginator",
    "SyncBatch",
    "SyncIncomeClient",
    "SyncIterator",
    "SyncPoller",
    "Timeouts",
    "TokenError",
    "TokenRenewed",
    "TokenStore",
    "TransportError",
    "UnexpectedResponseError",
    "UnsafeLinkError",
    "WalkProgress",
    "Window",
    "WindowSplit",
    "YearlyIncome",
    "__version__",
    "from_json",
    "register_document_type",
    "to_arrow",
    "to_json",
]
