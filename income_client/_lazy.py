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
from typing import Any, Final, NoReturn, TypeVar, cast

C = TypeVar("C", bound=type)
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
            raise _name_error(package, name)
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


def _name_error(package: str, name: str) -> AttributeError | ImportError:
    """Return the error of a name that a package does not have, with the right name if known."""
    place = None
    if not name.startswith("_"):
        from ._other_names import place_of  # noqa: PLC0415 - see there

        place = place_of(name, _by_name(NAMES), MOVED)
    if place is not None and _module_of(sys._getframe(2)).startswith("importlib."):  # noqa: SLF001
        # Of an AttributeError, ``from income_client import NAME`` would not show the text.
        return ImportError(f"cannot import name {name!r} from {package!r}: {place}", name=package)
    ending = "" if place is None else f": {place}"
    return AttributeError(f"module {package!r} has no attribute {name!r}{ending}")


def answers_other_names(cls: C) -> C:
    """Let the errors of wrong attributes name the right ones, and those of a plain ``for``.

    Type checkers do not see it: to them a wrong name is the error that it was.
    """
    setattr(cls, "__getattr__", _missing_attribute)  # noqa: B010 - as said
    if hasattr(cls, "__aiter__") and not hasattr(cls, "__iter__"):
        setattr(cls, "__iter__", _refuse_iteration)  # noqa: B010 - as said
    return cls


def _missing_attribute(instance: Any, name: str) -> Any:
    cls = type(instance)
    # A property whose own code has failed is not missing.
    if not name.startswith("_") and not hasattr(cls, name):
        from ._other_names import attribute_meant  # noqa: PLC0415 - see there

        if meant := attribute_meant(cls, name):
            message = f"{cls.__name__!r} object has no attribute {name!r}: {meant}"
            raise AttributeError(message, name=name)
    return object.__getattribute__(instance, name)


def _refuse_iteration(instance: Any) -> NoReturn:
    raise TypeError(
        f"{type(instance).__name__!r} object is asynchronous: write `async for`, or take it from a "
        "SyncIncomeClient for a plain `for`"
    )


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
            from ._other_names import argument_meant  # noqa: PLC0415 - see there

            meant = argument_meant(function, name)
            ending = "" if meant is None else f": {meant}"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{ending}")
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
