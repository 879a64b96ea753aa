"""Public names and the modules that define them, which are imported on first use.

``import income_client`` then costs next to nothing: a program pays for what it uses, and a
test run that only finds the pytest plug-in pays for none of it. Names and arguments that go work
for one more release, with a warning.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib import import_module
from types import FrameType
from typing import Any, Final, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

NAMES: Final = {
    "_version": "__version__",
    "checkpoints": "CheckpointStore MemoryCheckpointStore SQLiteCheckpointStore StoredCheckpoint",
    "client": "IncomeClient",
    "downloads.many": "DownloadFailure",
    "errors": """
        AuthenticationError CheckpointConflictError CheckpointError
        ClientClosedError ConfigurationError ConnectionFailedError DeadlineExceededError
        DecodeError DownloadError IncomeClientError InvalidArgumentError InvalidRequestError
        NotFoundError PermissionDeniedError RateLimitedError ResponseError SaturatedWindowError
        ServerError TokenError TransportError UnexpectedResponseError UnsafeLinkError
    """,
    "http.tokens": "StoredToken TokenStore",
    "polling.batches": "Batch",
    "polling.poller": "Poller",
    "polling.status": "PollerStatus",
    "records.applications": "Application ApplicationPage ApplicationSummary IncomeCalculation",
    "records.dead_letters": "DeadLetter",
    "records.documents": "ApplicationDocuments ApplicationRecord Document",
    "records.files": "DownloadedFile",
    "records.paystub": "Paystub",
    "settings": "BasicAuth DownloadPolicy OAuth2ClientCredentials RetryPolicy Secret Timeouts",
    "sync.client": "SyncIncomeClient",
    "walk.fetching": "FetchFailure",
    "wire.codec": "from_json to_json",
    "wire.readers": "register_document_type",
}
"""Public names by the module that defines them."""
MOVED: Final = {
    "audit": "Audit StaleApplication",
    "downloads": "Downloads",
    "errors": "LinkRefusal PayloadFault",
    "events": """
        CallFinished CheckpointCommitted CheckpointCreated DeadLettered Event FileFinished
        PageCovered PollFailed PollFinished RecordDelivered RequestAnswered RequestRetried
        RequestSent TokenRenewed WindowSplit OnEvent
    """,
    "exporting": "ParquetTables RecordTables to_arrow",
    "receivers": """
        Callback CallbackBasicAuth CallbackBearerAuth CallbackClientCertificate
        CallbackRejectedError CallbackSourceNetworks CallbackTokenIssuer
    """,
    "records": """
        Address AddressEntry AmountPair Applicant DataSources DocumentEntry DocumentSource
        DownloadProgress ImageFile IncomeSource PaystubAddress PaystubApplicant PaystubEntry
        SuspectedFraudulent Window YearlyIncome
    """,
    "sync": "SyncApplicationPaginator SyncBatch SyncIterator SyncPoller",
    "walk": "ApplicationPaginator Fetcher OnError OnSaturated WalkProgress",
}
"""Names that were public here until version 0.3, by the package that has them now."""
REMOVED: Final = {
    "to_pandas": "to_arrow(records).documents.to_pandas(types_mapper=pandas.ArrowDtype)",
    "to_polars": "polars.DataFrame(to_arrow(records).documents)",
}
"""Code that replaces each removed name of version 0.2.0."""
_BETWEEN: Final = frozenset({"contextlib", "importlib", __name__.partition(".")[0]})
"""Packages whose frames lie between a warning and the user's line that caused it."""


def lazy_names(
    package: str,
    names: Mapping[str, str],
    moved: Mapping[str, str] | None = None,
    removed: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports its names on first use."""
    homes = _by_name(names)
    new_homes = _by_name(moved or {})

    def get_name(name: str) -> Any:
        if removed and name in removed:
            # An AttributeError would lose its text in ``from income_client import NAME``.
            raise ImportError(f"{package}.{name} was removed: write {removed[name]}")
        if name in new_homes:
            home = f"{package}.{new_homes[name]}"
            warn_deprecated(f"{package}.{name}", f"{home}.{name}")
            # The package does not keep the name, so that every line that imports it is warned.
            return getattr(import_module(home), name)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(f".{homes[name]}", package)
        except AttributeError as error:
            # Python would read an AttributeError from here as "there is no such name".
            raise ImportError(f"{package}.{homes[name]} cannot be imported: {error}") from error
        value = getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get_name, list_names


def _by_name(names: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name."""
    return {name: module for module, text in names.items() for name in text.split()}


def warn_deprecated(old: str, new: str) -> None:
    """Warn that a name or argument is deprecated, at the line outside the package that uses it."""
    frame = sys._getframe(1)  # noqa: SLF001 - a documented function
    while frame.f_back is not None and _module_of(frame).partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    warnings.warn_explicit(
        f"{old} is deprecated since 0.3 and goes in 0.4: use {new}",
        DeprecationWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        _module_of(frame),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def warn_deprecated_arguments(
    function: str, arguments: Iterable[str], replacements: Mapping[str, str]
) -> None:
    """Warn of each deprecated argument.

    Raise a `TypeError` for an argument without a replacement.
    """
    for name in arguments:
        if name not in replacements:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        warn_deprecated(f"{function}({name}=)", replacements[name])


def renamed_argument(old: str, new: str) -> Callable[[F], F]:
    """Let an argument be passed under its old name, with a warning; type checkers know the new."""

    def rename(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                warn_deprecated(f"{function.__name__}({old}=)", f"{new}=")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return cast("F", call)

    return rename


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


__getattr__, __dir__ = lazy_names(__name__.rpartition(".")[0], NAMES, MOVED, REMOVED)
