"""What an error says, and the door through which it leaves the package without frames of ours."""

import asyncio
import copy
import pickle
import traceback
from collections.abc import Awaitable, Callable
from operator import methodcaller
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import (
    AuthenticationError,
    BasicAuth,
    ConfigurationError,
    DecodeError,
    DownloadError,
    IncomeClient,
    IncomeClientError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    RetryPolicy,
    ServerError,
    TokenError,
    TransportError,
    UnexpectedResponseError,
)
from income_client.emulator import Emulator, Fault
from income_client.errors import leaving

# Facts


ONCE: Final = RetryPolicy(max_attempts=1)


async def failure_of(
    *faults: Fault,
    ask: Callable[[IncomeClient], Awaitable[object]] = IncomeClient.check,
    **options: Any,
) -> IncomeClientError:
    """Make a call that fails in this way, and return its error."""
    async with Emulator(2) as service:
        service.faults.add(*faults)
        usual: dict[str, Any] = {"auth": service.oauth2, "retry": ONCE}
        async with IncomeClient(service.url, **usual | options) as client:
            with pytest.raises(IncomeClientError) as caught:
                await ask(client)
    return caught.value


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
    ask = IncomeClient.check if subject is None else methodcaller(call, subject)
    for error in copies_of(await failure_of(*([fault] if fault else []), ask=ask)):
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
        for error in copies_of(await failure_of(Fault(kind, path="/v1/*", times=None))):
            assert isinstance(error, TransportError)
            assert error.is_foreign is is_foreign


async def test_where_a_file_goes_is_an_argument(tmp_path: Path) -> None:
    """A destination and a template of names are named, though the message describes them."""
    auth = BasicAuth("user", "password")
    async with IncomeClient("https://income.example", auth=auth) as client:
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


async def test_nothing_is_kept_unless_asked_for() -> None:
    """The default: a body may hold a borrower's data."""
    for status, body in ((500, CANARY), (200, HALF)):
        error = await failure_of(Fault("body", path="/v1/*", status=status, body=body, times=None))
        assert error.body is None
        assert CANARY.decode() not in str(vars(error))


@pytest.mark.parametrize("size", [0, 4095, 4096, 4097, 500_000])
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


# The door through which errors leave the package


SECRET: Final = "canary-b81f"


def fail(error: BaseException) -> None:
    """Raise an error from a frame that holds a secret, while another is handled."""
    held = SECRET
    try:
        raise ValueError(held)  # noqa: TRY301 - the context is the point
    except ValueError as cause:
        raise error from cause


@leaving()
def decorated(error: BaseException) -> None:
    """Fail behind the door of a function."""
    fail(error)


def block(error: BaseException) -> None:
    """Fail behind the door of a block."""
    with leaving():
        fail(error)


async def coroutine(error: BaseException) -> None:
    """Fail behind the door of a coroutine."""
    with leaving():
        await asyncio.sleep(0)
        fail(error)


Door = Callable[[BaseException], Awaitable[None] | None]
DOORS: Final[tuple[Door, ...]] = (decorated, block, coroutine)
ERRORS: Final = (
    ConfigurationError("no"),
    KeyError("no"),
    asyncio.CancelledError(),
    KeyboardInterrupt(),
)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_an_error_leaves_without_frames_cause_and_context(
    door: Door, error: BaseException
) -> None:
    """The interpreter adds only the frames above the door, not the one of the block itself."""
    with pytest.raises(type(error)) as caught:  # noqa: PT012 - a door may be a coroutine
        if (left := door(error)) is not None:
            await left
    assert caught.value is error
    (own,) = traceback.extract_tb(error.__traceback__)
    assert own.name == "test_an_error_leaves_without_frames_cause_and_context"
    assert error.__cause__ is None
    assert error.__context__ is None
    error.__traceback__ = None


def test_a_bug_keeps_its_stack_as_a_note() -> None:
    """The note names the functions, and comes once although the bug passes two doors."""
    bug = KeyError("no")
    with pytest.raises(KeyError), leaving():
        block(bug)
    (note,) = bug.__notes__
    assert "in fail" in note
    assert SECRET not in note


@pytest.mark.parametrize("end", [StopAsyncIteration(), ConfigurationError("no")])
def test_what_is_no_bug_gets_no_note(end: Exception) -> None:
    """The end of an iteration and an error of the package are as they were."""
    with pytest.raises(type(end)), leaving():
        raise end
    assert not hasattr(end, "__notes__")
