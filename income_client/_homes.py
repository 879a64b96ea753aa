"""Where each public name lives, so that it is imported when it is first asked for.

``import income_client`` then costs next to nothing: a program pays for what it
uses, and a test run that only finds the pytest plug-in pays for none of it.
"""

import sys
from importlib import import_module
from typing import Any, Final

_PACKAGE: Final = __name__.rpartition(".")[0]

NAMES: Final = {
    "_version": ("__version__",),
    "batches": ("Batch",),
    "checkpoints": (
        "CheckpointStore",
        "MemoryCheckpointStore",
        "SQLiteCheckpointStore",
        "StoredCheckpoint",
    ),
    "client": ("IncomeClient",),
    "downloads.stream": (
        "DownloadFailure",
        "Downloads",
    ),
    "errors": (
        "AuthenticationError",
        "CallbackRejectedError",
        "CheckpointConflictError",
        "CheckpointError",
        "ClientClosedError",
        "ConfigurationError",
        "ConnectionFailedError",
        "DeadlineExceededError",
        "DecodeError",
        "DownloadError",
        "IncomeClientError",
        "InvalidRequestError",
        "NotFoundError",
        "PayloadFault",
        "PermissionDeniedError",
        "RateLimitedError",
        "ResponseError",
        "SaturatedWindowError",
        "ServerError",
        "TokenError",
        "TransportError",
        "UnexpectedResponseError",
        "UnsafeLinkError",
    ),
    "events": (
        "CallFinished",
        "CheckpointCommitted",
        "DeadLettered",
        "Event",
        "FileFinished",
        "OnEvent",
        "PageCovered",
        "PollFailed",
        "PollFinished",
        "RecordDelivered",
        "RequestAnswered",
        "RequestRetried",
        "RequestSent",
        "TokenRenewed",
        "WindowSplit",
    ),
    "exporting.json_text": ("from_json",),
    "exporting.parquet_tables": ("ParquetTables",),
    "exporting.tables": (
        "RecordTables",
        "to_arrow",
        "to_pandas",
        "to_polars",
    ),
    "fetching": (
        "Fetcher",
        "FetchFailure",
    ),
    "paginator": (
        "ApplicationPaginator",
        "WalkProgress",
    ),
    "poller": ("Poller",),
    "poller_status": ("PollerStatus",),
    "protocol.callbacks.basic": ("CallbackBasicAuth",),
    "protocol.callbacks.bearer": ("CallbackBearerAuth",),
    "protocol.callbacks.certificates": ("CallbackClientCertificate",),
    "protocol.callbacks.issuer": ("CallbackTokenIssuer",),
    "protocol.callbacks.networks": ("CallbackSourceNetworks",),
    "protocol.tokens": ("StoredToken",),
    "protocol.wire": (
        "register_document_type",
        "to_json",
    ),
    "records.applications": (
        "Address",
        "AddressEntry",
        "Applicant",
        "Application",
        "ApplicationPage",
        "ApplicationSummary",
        "DataSources",
        "ImageFile",
        "IncomeCalculation",
        "IncomeSource",
        "SuspectedFraudulent",
        "YearlyIncome",
    ),
    "records.callbacks": ("Callback",),
    "records.dead_letters": ("DeadLetter",),
    "records.documents": (
        "ApplicationDocuments",
        "ApplicationRecord",
        "Document",
        "DocumentEntry",
        "DocumentSource",
    ),
    "records.files": (
        "DownloadedFile",
        "DownloadProgress",
    ),
    "records.money": ("AmountPair",),
    "records.paystub": (
        "Paystub",
        "PaystubAddress",
        "PaystubApplicant",
    ),
    "records.window": ("Window",),
    "settings": (
        "BasicAuth",
        "DownloadPolicy",
        "OAuth2ClientCredentials",
        "RetryPolicy",
        "Secret",
        "Timeouts",
    ),
    "token_cache": ("TokenStore",),
}
"""The modules, and what each gives."""

_HOMES: Final = {name: module for module, names in NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name; it stands in the package from then on.

    Raises:
        AttributeError: there is no such name.
    """
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
    found = getattr(import_module(f".{home}", _PACKAGE), name)
    setattr(sys.modules[_PACKAGE], name, found)
    return found


def __dir__() -> list[str]:
    """Return the public names, and the modules imported so far."""
    return sorted({*vars(sys.modules[_PACKAGE]), *_HOMES})
