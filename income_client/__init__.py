"""Asyncio SDK for an income-verification service: nothing lost, nothing leaked."""

from ._version import __version__
from .batches import Batch
from .checkpoints import (
    CheckpointStore,
    MemoryCheckpointStore,
    SQLiteCheckpointStore,
    StoredCheckpoint,
)
from .client import IncomeClient
from .errors import (
    AuthenticationError,
    CheckpointConflictError,
    CheckpointError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    DecodeError,
    IncomeClientError,
    InvalidRequestError,
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
)
from .fetching import Fetcher, FetchFailure
from .paginator import ApplicationPaginator, WalkProgress
from .poller import Poller
from .poller_status import PollerStatus
from .protocol.tokens import StoredToken
from .protocol.wire import register_document_type, to_json
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
from .records.dead_letters import DeadLetter
from .records.documents import (
    ApplicationDocuments,
    ApplicationRecord,
    Document,
    DocumentEntry,
)
from .records.money import AmountPair
from .records.paystub import Paystub, PaystubAddress, PaystubApplicant
from .records.window import Window
from .settings import BasicAuth, OAuth2ClientCredentials, RetryPolicy, Secret, Timeouts
from .token_cache import TokenStore

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
    "AuthenticationError",
    "BasicAuth",
    "Batch",
    "CheckpointConflictError",
    "CheckpointError",
    "CheckpointStore",
    "ClientClosedError",
    "ConfigurationError",
    "ConnectionFailedError",
    "DataSources",
    "DeadLetter",
    "DeadlineExceededError",
    "DecodeError",
    "Document",
    "DocumentEntry",
    "FetchFailure",
    "Fetcher",
    "ImageFile",
    "IncomeCalculation",
    "IncomeClient",
    "IncomeClientError",
    "IncomeSource",
    "InvalidRequestError",
    "MemoryCheckpointStore",
    "NotFoundError",
    "OAuth2ClientCredentials",
    "PayloadFault",
    "Paystub",
    "PaystubAddress",
    "PaystubApplicant",
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
    "SuspectedFraudulent",
    "Timeouts",
    "TokenError",
    "TokenStore",
    "TransportError",
    "UnexpectedResponseError",
    "WalkProgress",
    "Window",
    "YearlyIncome",
    "__version__",
    "register_document_type",
    "to_json",
]
