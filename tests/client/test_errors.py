"""What an error says: its call, its subject, its argument, and the service's own words."""

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import (
    AuthenticationError,
    BasicAuth,
    ConfigurationError,
    DecodeError,
    DownloadError,
    DownloadPolicy,
    IncomeClient,
    IncomeClientError,
    InvalidRequestError,
    NotFoundError,
    OAuth2ClientCredentials,
    PayloadFault,
    PermissionDeniedError,
    RateLimitedError,
    RetryPolicy,
    ServerError,
    SQLiteCheckpointStore,
    StoredToken,
    Timeouts,
    TokenError,
    TransportError,
    UnexpectedResponseError,
)
from income_client.emulator import Emulator, Fault

# Facts


ONCE: Final = RetryPolicy(max_attempts=1)
AUTH: Final = BasicAuth("user", "password")
NOW: Final = datetime.now(UTC)
UNKNOWN: Final[Any] = {"colour": "red"}


def copies_of(error: IncomeClientError) -> tuple[IncomeClientError, ...]:
    """Return an error and all that is made of it to be sent on or raised once more."""
    return error, error.again(), copy.copy(error), pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize(
    ("call", "subject", "fault", "detail"),
    [
        ("get_application", "app-gone", None, "404 Not Found"),
        ("get_documents", "app-gone", None, "404 Not Found"),
        ("list_applications", None, Fault("status", path="/v1/*", status=500), "500 Internal"),
        ("list_applications", None, Fault("body", path="/v1/*", body=b"[]"), "$: expected"),
        ("list_applications", None, Fault("reset", path="/v1/*", times=None), "connection"),
        ("token", None, Fault("status", path="/token", status=401), "401 Unauthorized, the client"),
        ("token", None, Fault("body", path="/token", body=b"{}"), "access_token is not"),
    ],
)
async def test_an_error_knows_its_call(
    call: str, subject: str | None, fault: Fault | None, detail: str
) -> None:
    """It has the call, its subject and the rest apart, and all of it in its message."""
    async with Emulator(1) as service:
        if fault is not None:
            service.faults.add(fault)
        async with IncomeClient(service.url, auth=service.oauth2, retry=ONCE) as client:
            ask = partial(getattr(client, call), subject) if subject else client.check
            with pytest.raises(IncomeClientError) as caught:
                await ask()
    for error in copies_of(caught.value):
        assert (error.call, error.subject) == (call, subject)
        assert error.detail.startswith(detail)
        label = call if subject is None else f"{call}({subject})"
        assert error.message == f"{label}: {error.detail}"
        assert error.args == (error.message,)
        assert str(error).startswith(error.message)


async def test_an_error_of_a_file_is_about_its_document(tmp_path: Path) -> None:
    """Its subject is the document's id, which has its older name as well."""
    async with Emulator(1) as service, IncomeClient(service.url, auth=service.oauth2) as client:
        (row,) = (await client.get_application_page()).applications
        documents = await client.get_documents(row.application_id)
        document = next(entry.document for entry in documents.all())
        with pytest.raises(DownloadError) as caught:
            await client.download(document, tmp_path / "file")
    for error in copies_of(caught.value):
        assert isinstance(error, DownloadError)
        assert (error.call, error.subject) == ("download", document.document_id)
        assert error.document_id == document.document_id
        assert error.message == f"download({document.document_id}): {error.detail}"
    assert DownloadError("it is full", document_id="d").subject == "d"


async def test_what_does_not_speak_http_is_known() -> None:
    """An address of something else can be told from a connection that broke."""
    for kind, is_foreign in (("garbage", True), ("reset", False)):
        async with Emulator(1) as service:
            service.faults.add(Fault(kind, path="/v1/*", times=None))
            async with IncomeClient(service.url, auth=service.basic, retry=ONCE) as client:
                with pytest.raises(TransportError) as caught:
                    await client.check()
        for error in copies_of(caught.value):
            assert isinstance(error, TransportError)
            assert error.is_foreign is is_foreign


def test_an_error_of_a_row_is_about_its_application() -> None:
    """Its message names the row's application behind the call."""
    error = DecodeError((PayloadFault("$", "broken"),), is_row=True, subject="app-1")
    assert error.message == "application app-1: $: broken"
    error.name_call("list_applications", error.subject)
    for one in copies_of(error):
        assert one.subject == "app-1"
        assert one.message == "list_applications: application app-1: $: broken"


AT: Final = "https://income.example"


@pytest.mark.parametrize(
    ("argument", "make", "detail"),
    [
        ("base_url", lambda: IncomeClient("ftp://one.example", auth=AUTH), "is neither https"),
        ("concurrency", lambda: IncomeClient(AT, auth=AUTH, concurrency=0), "must"),
        ("proxy", lambda: IncomeClient(AT, auth=AUTH, proxy="no"), "must be an"),
        ("deadline", lambda: Timeouts(deadline=0), "must be a finite number above 0, not 0"),
        ("budget", lambda: RetryPolicy(budget=-1), "must be a whole number"),
        ("username", lambda: BasicAuth("a:b", "c"), "holds a character"),
        ("client_secret", lambda: OAuth2ClientCredentials("a", ""), "is empty"),
        ("allowed_hosts", lambda: DownloadPolicy(allowed_hosts=("*",)), "the entry '*' allows"),
        ("path", lambda: SQLiteCheckpointStore(":memory:"), "path must be that of a file"),
        ("access_token", lambda: StoredToken(access_token="", expires_at=NOW), "access_token must"),
        (None, lambda: IncomeClient.from_env(**UNKNOWN), "from_env has no option"),
    ],
)
def test_an_error_knows_its_argument(
    argument: str | None, make: Callable[[], object], detail: str
) -> None:
    """The name of a setting is apart from what is wrong with it, and in the message first."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    for error in copies_of(caught.value):
        assert isinstance(error, ConfigurationError)
        assert error.argument == argument
        assert error.detail.startswith(detail)
        assert error.message.startswith(argument or detail)
        assert (error.call, error.subject) == (None, None)


async def test_where_a_file_goes_is_an_argument(tmp_path: Path) -> None:
    """A destination and a template of names are named, though the message describes them."""
    async with IncomeClient("https://income.example", auth=AUTH) as client:
        for argument, names in (("names", "no fields"), ("directory", "{document_id}")):
            directory: Any = tmp_path if argument == "names" else 1
            with pytest.raises(ConfigurationError) as caught:
                client.download_all((), directory, names=names)
            assert caught.value.argument == argument


def test_a_setting_is_named_as_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the variable, and the argument stays what it is in code."""
    monkeypatch.setenv("INCOME_BASE_URL", "ftp://one.example")
    monkeypatch.setenv("INCOME_USERNAME", "user")
    monkeypatch.setenv("INCOME_PASSWORD", "password")
    with pytest.raises(ConfigurationError) as caught:
        IncomeClient.from_config()
    assert (caught.value.argument, caught.value.detail) == ("base_url", "is neither https nor http")
    assert str(caught.value) == "INCOME_BASE_URL is neither https nor http"


# ``keep_error_bodies=True``


CANARY: Final = b"canary-of-the-body"
HALF: Final = b'{"applications": "' + CANARY + b'"}'


async def failure_of(fault: Fault, **options: Any) -> IncomeClientError:
    """Make a call that fails in this way, and return its error."""
    async with Emulator(2) as service:
        service.faults.add(fault)
        async with IncomeClient(service.url, auth=service.oauth2, retry=ONCE, **options) as client:
            with pytest.raises(IncomeClientError) as caught:
                await client.check()
    return caught.value


@pytest.mark.parametrize(
    ("path", "status", "body", "error"),
    [
        ("/v1/*", 400, CANARY, InvalidRequestError),
        ("/v1/*", 403, CANARY, PermissionDeniedError),
        ("/v1/*", 404, CANARY, NotFoundError),
        ("/v1/*", 429, CANARY, RateLimitedError),
        ("/v1/*", 500, CANARY, ServerError),
        ("/v1/*", 200, b"<html>" + CANARY, UnexpectedResponseError | DecodeError),
        ("/v1/*", 200, HALF, DecodeError),
        ("/token", 401, CANARY, AuthenticationError),
        ("/token", 500, CANARY, TokenError),
    ],
)
async def test_a_failure_keeps_what_the_service_says(
    path: str, status: int, body: bytes, error: Any
) -> None:
    """As bytes and in no text; also of a copy, and of the token endpoint."""
    fault = Fault("body", path=path, status=status, body=body, times=None)
    found = await failure_of(fault, keep_error_bodies=True)
    assert isinstance(found, error)
    for one in copies_of(found):
        assert (one.status, one.body) == (status, body)
        assert CANARY.decode() not in f"{one} {one!r} {one.args}"


@pytest.mark.parametrize("options", [{}, {"keep_error_bodies": False}])
async def test_nothing_is_kept_unless_asked_for(options: dict[str, Any]) -> None:
    """The default: a body may hold a borrower's data."""
    for status, body in ((500, CANARY), (200, HALF)):
        fault = Fault("body", path="/v1/*", status=status, body=body, times=None)
        error = await failure_of(fault, **options)
        assert error.body is None
        assert CANARY.decode() not in str(vars(error))


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 70_000, 500_000])
async def test_four_kilobytes_are_kept_at_most(size: int) -> None:
    """The first ones, however long the body is; None if there is none."""
    body = bytes(range(1, 251)) * (size // 250 + 1)
    for status in (500, 200):
        fault = Fault("body", path="/v1/*", status=status, body=body[:size], times=None)
        error = await failure_of(fault, keep_error_bodies=True)
        assert (error.body or b"") == body[: min(size, 4096)]


async def test_a_retry_is_not_disturbed() -> None:
    """A long body of the first attempts is left behind, and the next one succeeds."""
    async with Emulator(2) as service:
        service.faults.add(Fault("body", path="/v1/*", status=503, body=CANARY * 1000, times=2))
        async with IncomeClient(service.url, auth=service.basic, keep_error_bodies=True) as client:
            await client.check()
            await client.check()


async def test_a_token_is_never_kept() -> None:
    """A reply of the token endpoint that cannot be used may hold one all the same."""
    body = b'{"access_token": "' + CANARY + b'", "token_type": 5}'
    fault = Fault("body", path="/token", body=body, times=None)
    error = await failure_of(fault, keep_error_bodies=True)
    assert isinstance(error, TokenError)
    assert error.body is None
