"""Texts of errors, errors of the caller that pass unaltered, and the content of frames."""

import asyncio
import copy
import inspect
import pickle
import traceback
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from income_client import (
    AuthenticationError,
    BasicAuth,
    CheckpointError,
    ConfigurationError,
    DecodeError,
    DownloadError,
    IncomeClient,
    IncomeClientError,
    InvalidArgumentError,
    InvalidRequestError,
    MemoryCheckpointStore,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    RetryPolicy,
    ServerError,
    Timeouts,
    TokenError,
    TransportError,
    UnexpectedResponseError,
)
from income_client.emulator import Emulator, Fault
from income_client.errors import copy_without_traceback
from income_client.system.frames import replace_errors, strip_frames
from tests.support.clients import HERE

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
    return error, copy_without_traceback(error), copy.copy(error), pickle.loads(pickle.dumps(error))


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
    """The error has the call, its subject and other facts apart, and all in its message."""
    ask = IncomeClient.check if subject is None else methodcaller(call, subject)
    for error in copies_of(await failure_of(*([fault] if fault else []), ask=ask)):
        assert (error.call, error.subject) == (call, subject)
        assert error.detail.startswith(detail)
        label = call if subject is None else f"{call}({subject})"
        assert error.message == f"{label}: {error.detail}"
        assert error.args == (error.message,)
        assert str(error).startswith(error.message)


async def test_an_error_of_a_file_is_about_its_document(tmp_path: Path) -> None:
    """The subject is the document's id, which has its older name as well."""
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


async def test_a_bad_argument_and_a_deadline_are_errors_of_python_too() -> None:
    """The errors are a ValueError and a TimeoutError too, with the facts and texts of the tree."""
    async with IncomeClient("https://income.example", auth=BasicAuth("user", "pass")) as client:
        with pytest.raises(ValueError, match="application_id") as caught:
            await client.get_application("")
    for invalid in copies_of(caught.value):  # type: ignore[arg-type]  # as is asserted
        assert isinstance(invalid, InvalidArgumentError)
        assert (invalid.argument, invalid.retryable) == ("application_id", False)
    stall = Fault("stall", path="/v1/*", times=None)
    late = await failure_of(stall, timeouts=Timeouts(deadline=0.05))
    for deadline in copies_of(late):
        assert isinstance(deadline, TimeoutError)
        assert deadline.call == "list_applications"
        assert str(deadline) == "list_applications: not done within 0.05 s"


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
    """The body is kept as bytes, and appears in no text; the same holds for copies."""
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


# Exceptions of the caller


def raise_with_cause(*_: object) -> NoReturn:
    """Raise an error that has a cause and a context of its own."""
    try:
        raise ValueError("the cause")  # noqa: TRY301 - the chain is the point
    except ValueError as cause:
        raise LookupError("of the caller") from cause


def failing_items() -> Iterator[str]:
    yield "app-1"
    raise_with_cause()


async def failing_async_items() -> AsyncIterator[str]:
    yield "app-1"
    raise_with_cause()


async def download_with_failing_progress(client: IncomeClient, folder: Path) -> None:
    (row, *_) = (await client.get_application_page()).applications
    documents = await client.get_documents(row.application_id)
    document = next(entry.document for entry in documents.all())
    await client.download(document, folder / "file", on_progress=raise_with_cause)


async def poll_with_failing_block(client: IncomeClient) -> None:
    poller = client.poll(MemoryCheckpointStore(), start="2020-01-01", once=True)
    async with aclosing(poller.batches()) as batches:
        async for batch in batches:
            async with batch:
                raise_with_cause()


async def exhaust(items: AsyncIterable[object]) -> None:
    async for _ in items:
        pass


Use = Callable[[IncomeClient, Path], Awaitable[None]]
CALLERS_CODE: Final[dict[str, Use]] = {
    "an iterable": lambda client, _: exhaust(
        client.fetch_records(failing_items(), on_error="yield")
    ),
    "an asynchronous iterable": lambda client, _: exhaust(
        client.fetch_documents(failing_async_items(), on_error="yield")
    ),
    "on_progress": download_with_failing_progress,
    "the block of a batch": lambda client, _: poll_with_failing_block(client),
}


@pytest.mark.shows_private("file", reason="a downloaded file is what was served")
@pytest.mark.parametrize("code", CALLERS_CODE)
async def test_an_error_of_the_callers_code_is_not_altered(code: str, tmp_path: Path) -> None:
    """The error keeps its traceback down to the line that raised it, its cause and its context."""
    async with (
        Emulator(2) as service,
        IncomeClient(service.url, auth=service.oauth2, downloads=HERE) as client,
    ):
        with pytest.raises(LookupError, match="of the caller") as caught:
            await CALLERS_CODE[code](client, tmp_path)
    error = caught.value
    assert traceback.extract_tb(error.__traceback__)[-1].name == "raise_with_cause"
    assert isinstance(error.__cause__, ValueError)
    assert error.__context__ is error.__cause__
    assert not hasattr(error, "__notes__")


@pytest.mark.shows_private("file", reason="a downloaded file is what was served")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_an_interruption_of_the_callers_code_is_not_altered(
    kind: type[BaseException], tmp_path: Path
) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise kind from ValueError("the cause")

    async with (
        Emulator(1) as service,
        IncomeClient(service.url, auth=service.oauth2, downloads=HERE) as client,
    ):
        documents = await client.get_documents(service.world.ids[0])
        document = next(entry.document for entry in documents.all())
        with pytest.raises(kind) as caught:
            await client.download(document, tmp_path / "file", on_progress=interrupt)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "interrupt"
    assert isinstance(caught.value.__cause__, ValueError)


# Frames

SECRET: Final = "canary-b81f"


def fail(error: BaseException) -> NoReturn:
    """Raise an error from a frame that holds a secret, while another is handled."""
    held = SECRET
    try:
        raise ValueError(held)  # noqa: TRY301 - the context is the point
    except ValueError as cause:
        raise error from cause


@strip_frames
def fail_with_secret(secret: str, error: BaseException) -> None:
    assert secret
    fail(error)


@strip_frames
async def fail_with_secret_later(secret: str, error: BaseException) -> None:
    assert secret
    await asyncio.sleep(0)
    fail(error)


@pytest.mark.parametrize("function", [fail_with_secret, fail_with_secret_later])
async def test_an_error_leaves_a_sensitive_function_without_frames_cause_and_context(
    function: Callable[[str, BaseException], Awaitable[None] | None],
) -> None:
    """The traceback begins, and ends, in the frame that has called it."""
    error = ConfigurationError("no")
    with pytest.raises(ConfigurationError) as caught:  # noqa: PT012 - one of them is a coroutine
        if (result := function(SECRET, error)) is not None:
            await result
    assert caught.value is error
    (caller,) = traceback.extract_tb(error.__traceback__)
    assert caller.name.startswith("test_an_error_leaves_a_sensitive_function")
    assert (error.__cause__, error.__context__) == (None, None)
    error.__traceback__ = None


async def test_a_cancellation_leaves_a_sensitive_function_as_a_new_one() -> None:
    """The first one keeps its frames; the new one has its arguments, and no frame with a secret."""
    cancellation = asyncio.CancelledError("cancelled by a scope")
    with pytest.raises(asyncio.CancelledError) as caught:
        await fail_with_secret_later(SECRET, cancellation)
    error = caught.value
    assert error is not cancellation
    assert error.args == ("cancelled by a scope",)
    assert (error.__cause__, error.__context__) == (None, None)
    shown = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)][1:]
    assert SECRET not in repr(shown)
    assert traceback.extract_tb(cancellation.__traceback__)[-1].name == "fail"
    assert isinstance(cancellation.__cause__, ValueError)


@pytest.mark.parametrize("function", [fail_with_secret, fail_with_secret_later])
@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, SystemExit])
async def test_a_foreign_error_leaves_a_sensitive_function_as_it_is(
    function: Callable[[str, BaseException], Awaitable[None] | None], kind: type[BaseException]
) -> None:
    with pytest.raises(kind) as caught:  # noqa: PT012 - as above
        if (result := function(SECRET, kind("no"))) is not None:
            await result
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "fail"
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__context__ is caught.value.__cause__
    assert not hasattr(caught.value, "__notes__")


def translate_key_error(error: Exception) -> CheckpointError | None:
    return CheckpointError("replaced") if isinstance(error, KeyError) else None


async def fail_later(error: BaseException) -> None:
    fail(error)


@pytest.mark.parametrize("error", [KeyError(SECRET), CheckpointError("replaced")])
async def test_an_error_of_a_library_is_replaced(error: Exception) -> None:
    """The replacement, or an error of the package, has neither cause, context nor frames below."""
    with pytest.raises(CheckpointError, match="replaced") as caught:
        await replace_errors(lambda: fail_later(error), translate_key_error)
    (caller,) = traceback.extract_tb(caught.value.__traceback__)
    assert caller.name == "test_an_error_of_a_library_is_replaced"
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    error.__traceback__ = None


async def test_an_error_that_is_not_translated_is_not_altered() -> None:
    error = ZeroDivisionError("of somebody else")
    with pytest.raises(ZeroDivisionError) as caught:
        await replace_errors(lambda: fail_later(error), translate_key_error)
    assert caught.value is error
    assert traceback.extract_tb(error.__traceback__)[-1].name == "fail"
    assert isinstance(error.__cause__, ValueError)
    assert error.__context__ is error.__cause__


@strip_frames
class Sensitive:
    """A class whose constructor and public methods are stripped."""

    def __init__(self, error: Exception | None = None) -> None:
        if error is not None:
            fail(error)

    def call(self, error: Exception) -> None:
        fail(error)

    @classmethod
    def make(cls, error: Exception) -> "Sensitive":
        return cls(error)

    def _call(self, error: Exception) -> None:
        fail(error)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (Sensitive, []),
        (Sensitive.make, []),
        (Sensitive().call, []),
        (Sensitive()._call, ["_call", "fail"]),
    ],
)
def test_a_sensitive_class_strips_its_public_methods(
    call: Callable[[Exception], object], names: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        call(ConfigurationError("no"))
    _, *below = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in below] == names


def test_a_sensitive_function_looks_like_the_function_that_it_is() -> None:
    assert inspect.iscoroutinefunction(fail_with_secret_later)
    assert not inspect.iscoroutinefunction(fail_with_secret)
    assert list(inspect.signature(fail_with_secret).parameters) == ["secret", "error"]
