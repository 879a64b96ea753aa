"""Where each public name is defined, so that it is imported when it is first asked for.

``import income_client`` then costs next to nothing: a program pays for what it uses, and a
test run that only finds the pytest plug-in pays for none of it.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

NAMES: Final = {
    "_version": "__version__",
    "audit.auditor": "Audit StaleApplication",
    "checkpoints": "CheckpointStore MemoryCheckpointStore SQLiteCheckpointStore StoredCheckpoint",
    "client": "IncomeClient",
    "downloads.many": "DownloadFailure Downloads",
    "errors": """
        AuthenticationError CallbackRejectedError CheckpointConflictError CheckpointError
        ClientClosedError ConfigurationError ConnectionFailedError DeadlineExceededError
        DecodeError DownloadError IncomeClientError InvalidRequestError LinkRefusal
        NotFoundError PayloadFault PermissionDeniedError RateLimitedError ResponseError
        SaturatedWindowError ServerError TokenError TransportError UnexpectedResponseError
        UnsafeLinkError
    """,
    "events.kinds": """
        CallFinished CheckpointCommitted CheckpointCreated DeadLettered Event FileFinished
        PageCovered PollFailed PollFinished RecordDelivered RequestAnswered RequestRetried
        RequestSent TokenRenewed WindowSplit
    """,
    "exporting.parquet": "ParquetTables",
    "exporting.tables": "RecordTables to_arrow",
    "walk.fetching": "Fetcher FetchFailure OnError",
    "http.tokens": "StoredToken TokenStore",
    "polling.batches": "Batch",
    "polling.poller": "Poller",
    "polling.status": "PollerStatus",
    "receivers.auth": "CallbackBasicAuth CallbackBearerAuth",
    "receivers.certificates": "CallbackClientCertificate",
    "receivers.issuer": "CallbackTokenIssuer",
    "receivers.networks": "CallbackSourceNetworks",
    "records.applications": """
        Address AddressEntry Applicant Application ApplicationPage ApplicationSummary
        DataSources ImageFile IncomeCalculation IncomeSource SuspectedFraudulent
        YearlyIncome
    """,
    "records.callbacks": "Callback",
    "records.dead_letters": "DeadLetter",
    "records.documents": """
        ApplicationDocuments ApplicationRecord Document DocumentEntry DocumentSource
        PaystubEntry
    """,
    "records.files": "DownloadedFile DownloadProgress",
    "records.paystub": "AmountPair Paystub PaystubAddress PaystubApplicant",
    "records.window": "Window",
    "settings": """
        BasicAuth DownloadPolicy OAuth2ClientCredentials OnEvent RetryPolicy Secret Timeouts
    """,
    "sync.client": "SyncApplicationPaginator SyncBatch SyncIncomeClient SyncIterator SyncPoller",
    "walk.paginator": "ApplicationPaginator OnSaturated WalkProgress",
    "wire.codec": "from_json to_json",
    "wire.readers": "register_document_type",
}
"""The modules, and the names that each gives."""
REMOVED: Final = {
    "to_pandas": "to_arrow(records).documents.to_pandas(types_mapper=pandas.ArrowDtype)",
    "to_polars": "polars.DataFrame(to_arrow(records).documents)",
}
"""Names of version 0.2.0, and the code to write in their place."""


def lazy_names(
    package: str, names: Mapping[str, str], removed: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports its names when asked."""
    homes = {name: module for module, text in names.items() for name in text.split()}

    def find(name: str) -> Any:
        if removed and name in removed:
            # An AttributeError would lose its text in ``from income_client import NAME``.
            raise ImportError(f"{package}.{name} was removed: write {removed[name]}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(f".{homes[name]}", package)
        except AttributeError as error:
            # Python takes any AttributeError from here to mean that there is no such name.
            raise ImportError(f"{package}.{homes[name]} cannot be imported: {error}") from error
        found = getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    def known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, known


__getattr__, __dir__ = lazy_names(__name__.rpartition(".")[0], NAMES, REMOVED)
