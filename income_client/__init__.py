"""Asyncio SDK for an income-verification service: nothing lost, nothing leaked."""

from ._version import __version__
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
    "CheckpointConflictError",
    "CheckpointError",
    "ClientClosedError",
    "ConfigurationError",
    "ConnectionFailedError",
    "DataSources",
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
    "NotFoundError",
    "OAuth2ClientCredentials",
    "PayloadFault",
    "Paystub",
    "PaystubAddress",
    "PaystubApplicant",
    "PermissionDeniedError",
    "RateLimitedError",
    "ResponseError",
    "RetryPolicy",
    "SaturatedWindowError",
    "Secret",
    "ServerError",
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
