"""Where each public name lives, so that it is imported when it is first asked for.

``import income_client`` then costs next to nothing: a program pays for what it
uses, and a test run that only finds the pytest plug-in pays for none of it.
"""

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

_PACKAGE: Final = __name__.rpartition(".")[0]

NAMES: Final = {
    "_version": ("__version__",),
    "polling.batches": ("Batch",),
    "checkpoints": (
        "CheckpointStore",
        "MemoryCheckpointStore",
        "SQLiteCheckpointStore",
        "StoredCheckpoint",
    ),
    "client": ("IncomeClient",),
    "downloads.many": (
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
        "LinkRefusal",
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
    "walk.paginator": (
        "ApplicationPaginator",
        "WalkProgress",
    ),
    "polling.poller": ("Poller",),
    "polling.status": ("PollerStatus",),
    "protocol.callbacks.basic": ("CallbackBasicAuth",),
    "protocol.callbacks.bearer": ("CallbackBearerAuth",),
    "protocol.callbacks.certificates": ("CallbackClientCertificate",),
    "protocol.callbacks.issuer": ("CallbackTokenIssuer",),
    "protocol.callbacks.networks": ("CallbackSourceNetworks",),
    "http.tokens": (
        "StoredToken",
        "TokenStore",
    ),
    "wire.codec": (
        "from_json",
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
}
"""The modules, and what each gives."""


class Homes:
    """Finds the names of a package where they live; what it does is its ``__getattr__``.

    Args:
        package: the package's own name.
        modules: its modules, and the names that each gives.
    """

    def __init__(self, package: str, modules: Mapping[str, Iterable[str]]) -> None:
        self._package = package
        self._homes = {name: module for module, names in modules.items() for name in names}

    def find(self, name: str) -> Any:
        """Import a name; it stands in the package from then on.

        Args:
            name: a public one.

        Raises:
            AttributeError: there is no such name.
            ImportError: its module cannot be imported, because of an AttributeError.
        """
        home = self._homes.get(name)
        if home is None:
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        try:
            module = import_module(f".{home}", self._package)
        except AttributeError as error:
            # Python takes any AttributeError from here to mean that there is no such name.
            raise ImportError(f"{self._package}.{home} cannot be imported: {error}") from error
        found = getattr(module, name)
        setattr(sys.modules[self._package], name, found)
        return found

    def known(self) -> list[str]:
        """Return the public names, and what else stands in the package so far."""
        return sorted({*vars(sys.modules[self._package]), *self._homes})


_FACE: Final = Homes(_PACKAGE, NAMES)

__getattr__: Final = _FACE.find
__dir__: Final = _FACE.known
