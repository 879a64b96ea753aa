"""Names that are looked for in the wrong place or under a wrong name, and the right ones.

Only texts of errors have them: the module is imported after a failure, and neither type checkers
nor ``dir`` and ``hasattr`` see any of its names.
"""

from collections.abc import Container, Mapping
from typing import Final

_EXTRAS: Final = {
    "receivers": "callbacks",
    "engines.faststream": "faststream",
    "engines.nats": "nats",
    "engines.postgres": "postgres",
    "exporting": "parquet",
}
"""Extras that packages need, or most of the names in them."""
HOMES: Final = {
    "emulator": "CallbackTarget Emulator Fault Faults RemoteEmulator ServiceRules World",
    "engines.faststream": "update_subscriber",
    "engines.nats": "NatsCheckpointStore NatsTokenStore nats_publisher",
    "engines.postgres": "PostgresCheckpointStore PostgresTokenStore",
    "engines.relay": "UpdateEvent faststream_publisher relay",
    "events": "DeadLetterResolved",
    "receivers": "CallbackReceiver ReceiverStatus callback_ssl_context",
    "receivers.aiohttp": "routes",
    "receivers.aiohttp_server": "serving",
    "receivers.asgi": "Receiver",
    "testing": """
        IncomeService JumpingClock LoopRunner check_checkpoint_store make_applicant
        make_application make_document make_paystub make_record script
    """,
}
"""Names that the top has never had, by the module that has them."""
GUESSES: Final = {
    "APIConnectionError": "ConnectionFailedError",
    "APIError": "IncomeClientError",
    "APIStatusError": "ResponseError",
    "APITimeoutError": "DeadlineExceededError",
    "AsyncClient": "IncomeClient, which is asynchronous",
    "AsyncIncomeClient": "IncomeClient, which is asynchronous",
    "AuthError": "AuthenticationError",
    "BadRequestError": "InvalidRequestError",
    "CallbackJWTAuth": "CallbackBearerAuth of income_client.receivers (extra callbacks)",
    "Client": "IncomeClient, which is asynchronous, or SyncIncomeClient",
    "ClientCredentials": "OAuth2ClientCredentials",
    "ConnectionError": "ConnectionFailedError",
    "ForbiddenError": "PermissionDeniedError",
    "HTTPStatusError": "ResponseError",
    "IncomeAPIError": "IncomeClientError",
    "IncomeError": "IncomeClientError",
    "OAuth2": "OAuth2ClientCredentials",
    "PostgresStore": "PostgresCheckpointStore of income_client.engines.postgres (extra postgres)",
    "RateLimitError": "RateLimitedError",
    "Record": "ApplicationRecord",
    "SQLiteStore": "SQLiteCheckpointStore",
    "SqliteCheckpointStore": "SQLiteCheckpointStore",
    "SyncClient": "SyncIncomeClient",
    "TimeoutError": "DeadlineExceededError",
    "UnauthorizedError": "AuthenticationError",
    "ValidationError": "InvalidArgumentError for an argument, DecodeError for a reply",
    "nats": "income_client.engines.nats (extra nats)",
    "postgres": "income_client.engines.postgres (extra postgres)",
}
"""Right names of public things, by the names that they have in other packages."""
_METHODS: Final = {
    "applications": "get_application(id) and list_applications()",
    "documents": "get_documents(application_id) and download(document, folder)",
    "download_documents": "download_all(documents, folder)",
    "download_file": "download(document, folder)",
    "fetch_applications": "fetch_records(ids)",
    "fetch_record": "get_record(application_id)",
    "find_record": "find_application(reference), then get_record(summary)",
    "get": "get_application(id), or get_json(path)",
    "get_application_by_reference": "find_application(reference)",
    "get_applications": "list_applications()",
    "get_paystubs": "get_documents(application_id), then documents.paystubs",
    "iter_applications": "list_applications()",
    "list": "list_applications()",
    "list_documents": "get_documents(application_id)",
    "records": "get_record(application_id) and fetch_records(ids)",
}
ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "Application": {
        "documents": "client.get_documents(application), or client.get_record(application)",
        "id": "application_id",
        "income": "income_calculations, by applicant, or total_income(year)",
        "incomes": "income_calculations, by applicant",
        "reference": "application_reference_id",
        "updated_at": "last_updated_at",
    },
    "ApplicationDocuments": {
        "id": "application_id",
        "items": "all(), which yields each document with its type",
        "keys": "documents, a mapping of types to documents",
        "values": "documents, a mapping of types to documents",
    },
    "ApplicationRecord": {
        "applicants": "application.applicants",
        "application_reference_id": "application.application_reference_id",
        "id": "application_id",
        "income": "application.income_calculations, or application.total_income(year)",
        "income_calculations": "application.income_calculations",
        "incomes": "application.income_calculations, by applicant",
        "paystubs": "documents.paystubs",
        "total_income": "application.total_income(year)",
        "updated_at": "last_updated_at",
    },
    "ApplicationSummary": {
        "id": "application_id",
        "last_updated_at": "no part of the list; client.get_application(summary) has it",
        "reference": "application_reference_id",
        "updated_at": "no part of the list; client.get_application(summary) has it",
    },
    "Document": {
        "application_id": "source.application_id",
        "data": "extracted_data",
        "filename": "file_reference_ids, one for each file",
        "id": "document_id",
        "last_updated_at": "updated_at",
        "type": "document_type",
    },
    "IncomeClient": {**_METHODS, "close": "aclose()"},
    "IncomeClientError": {
        "body_text": "body, with keep_error_bodies=True",
        "code": "status",
        "headers": "retry_after and request_id",
        "response": "status, retry_after, request_id and body",
        "status_code": "status",
    },
    "Poller": {
        "close": "stop()",
        "run": "`async for record in poller`",
        "start": "`async for record in poller`",
    },
    "SyncIncomeClient": {**_METHODS, "aclose": "close()"},
    "SyncPoller": {"run": "`for record in poller`", "start": "`for record in poller`"},
}
"""Right attributes by class, and by the attributes that are looked for there."""
_CLIENT: Final = {
    "access_token": "auth=OAuth2ClientCredentials(client_id, client_secret)",
    "allowed_hosts": "downloads=DownloadPolicy(allowed_hosts=[...])",
    "api_key": "auth=OAuth2ClientCredentials(client_id, client_secret)",
    "client_id": "auth=OAuth2ClientCredentials(client_id, client_secret)",
    "client_secret": "auth=OAuth2ClientCredentials(client_id, client_secret)",
    "credentials": "auth=",
    "deadline": "timeouts=Timeouts(deadline=...)",
    "default_headers": "session=aiohttp.ClientSession(headers=...)",
    "download_policy": "downloads=DownloadPolicy(...)",
    "headers": "session=aiohttp.ClientSession(headers=...)",
    "http_client": "session=aiohttp.ClientSession(...)",
    "max_connections": "concurrency=",
    "max_retries": "retry=RetryPolicy(max_attempts=...)",
    "password": "auth=BasicAuth(username, password)",
    "proxies": "proxy=",
    "rate_limit": "max_rate=",
    "retries": "retry=RetryPolicy(max_attempts=...)",
    "timeout": "timeouts=Timeouts(deadline=...)",
    "timezone": "service_timezone=",
    "token": "auth=OAuth2ClientCredentials(client_id, client_secret)",
    "username": "auth=BasicAuth(username, password)",
    "verify": "ssl=",
}
ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "IncomeClient": _CLIENT,
    "SyncIncomeClient": _CLIENT,
    "from_config": _CLIENT,
    "from_env": _CLIENT,
    "poll": {
        "callback": "`async for record in poller`",
        "checkpoint": "start=",
        "checkpoint_store": "store=",
        "handler": "`async for record in poller`",
        "poll_interval": "interval=",
        "since": "start=",
        "updated_after": "start=",
    },
}
"""Right arguments by function, and by the keyword arguments that are tried there."""


def place_of(name: str, offered: Container[str], moved: Mapping[str, str]) -> str | None:
    """Return where a public name is, or which one is meant; None for an unknown one.

    ``offered`` are the names of the top, and ``moved`` those that it had, by their packages.
    """
    if name in offered:
        return "it is in income_client"
    for home, names in (*moved.items(), *HOMES.items()):
        if name in names.split():
            extra = f" (extra {_EXTRAS[home]})" if home in _EXTRAS else ""
            return f"it is in income_client.{home}{extra}"
    return f"it is {GUESSES[name]}" if name in GUESSES else None


def attribute_meant(cls: type, name: str) -> str | None:
    """Return what to write for an attribute that instances of a class do not have."""
    tables = (ATTRIBUTES.get(base.__name__, {}) for base in cls.__mro__)
    return next((f"it is {table[name]}" for table in tables if name in table), None)


def argument_meant(function: str, name: str) -> str | None:
    """Return what to write for a keyword argument that a function does not take."""
    meant = ARGUMENTS.get(function, {}).get(name)
    return None if meant is None else f"it is {meant}"
