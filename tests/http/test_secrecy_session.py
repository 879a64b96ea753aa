"""Nothing private shows in what comes out of a failing session: errors, frames, logs."""

import asyncio
import base64
import gc
import io
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType, TracebackType
from typing import Any

import pytest

import income_client
from income_client.errors import ConfigurationError, IncomeClientError
from income_client.http.endpoints import Response, addresses, list_applications
from income_client.http.replies import read_reply
from income_client.http.session import SessionManager
from income_client.http.transport import Transport
from income_client.records.applications import ApplicationPage
from income_client.settings import (
    BasicAuth,
    OAuth2ClientCredentials,
    RetryPolicy,
    Secret,
    Timeouts,
)
from tests.support.leaks import held_by
from tests.support.loop_time import pass_time, stay_silent
from tests.support.scripted_server import (
    Answer,
    Seen,
    always,
    forever,
    reply,
    reset,
    serving,
    token_reply,
)
from tests.support.session import session_to

CANARY = "c4n4ry"
CLIENT_SECRET = f"{CANARY}-client-secret"
PASSWORD = f"{CANARY}-password"
TOKEN = f"{CANARY}-token"
BODY = json.dumps({"ssn": f"{CANARY}-ssn"}).encode()
ENCODED = [
    base64.b64encode(f"{name}:{secret}".encode()).decode()
    for name, secret in (("partner", CLIENT_SECRET), ("user", PASSWORD))
]
ASKED = list_applications(application_reference_id=f"{CANARY}-reference")
OAUTH = OAuth2ClientCredentials("partner", CLIENT_SECRET)
BASIC = BasicAuth("user", PASSWORD)
ECHO: dict[str, Any] = {"X_Echo": f"Bearer {TOKEN}", "Location": f"https://x.example/?key={CANARY}"}


def dying(ending: str) -> Answer:
    """Answer with half a body and this ending."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        writer.write(reply(body=BODY * 9, **ECHO)[:-20])
        await writer.drain()
        if ending == "hang":
            await stay_silent(31)
        if ending == "reset":
            reset(writer)
        return None

    return answer


API_FAULTS: dict[str, Answer] = {
    **{
        f"status {status}": always(reply(status, BODY, **ECHO))
        for status in (201, 302, 400, 401, 403, 404, 408, 429, 500, 503, 999)
    },
    "login page": always(reply(body=BODY + b"<html>", content_type="text/html")),
    "not whole": always(reply(body=BODY[:-3])),
    "wrong shape": always(reply(body=BODY)),
    "wrong values": always(
        reply(body=json.dumps({"updated_after": CANARY, "applications": [CANARY]}).encode()),
    ),
    "not unicode": always(reply(body=b'{"ssn": "\xff' + BODY)),
    "bad gzip": always(reply(body=BODY, Content_Encoding="gzip")),
    "not HTTP": always(b"HTTP/9 " + CANARY.encode() + b"\r\n\r\n"),
    "bad header": always(b"HTTP/1.1 200 X\r\nX-\x00: " + CANARY.encode() + b"\r\n\r\n"),
    "long header": always(b"HTTP/1.1 200 X\r\nX: " + CANARY.encode() * 2000 + b"\r\n\r\n"),
    "too large": always(reply(body=BODY * 1000, **ECHO)),
    "closed": always(None),
    "cut": dying("close"),
    "reset": dying("reset"),
    "hang": dying("hang"),
}
TOKEN_FAULTS: dict[str, Answer] = {
    name: answer for name, answer in API_FAULTS.items() if name != "wrong values"
} | {
    "no bearer": always(token_reply(TOKEN, token_type=CANARY)),
    "no lifetime": always(token_reply(TOKEN, expires_in=CANARY)),
    "bad token": always(token_reply(f"{CANARY}\r\n")),
}


def answering(api: Answer | None = None, token: Answer | None = None) -> Answer:
    """Answer the API and the token endpoint, by default as a good service would."""
    sold = always(token_reply(TOKEN))

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        if seen.path == "/token":
            return await (token or sold)(seen, writer)
        return await (api or always(reply(body=BODY)))(seen, writer)

    return answer


def exceptions_of(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error and all that hangs on it."""
    while error is not None:
        yield error
        if error.__context__ is not None and error.__context__ is not error.__cause__:
            yield from exceptions_of(error.__context__)
        error = error.__cause__


def frames_of(trace: TracebackType | None) -> Iterator[FrameType]:
    """Give the frames of ours that a traceback holds."""
    folder = str(income_client.__path__[0])
    for frame, _ in traceback.walk_tb(trace):
        if frame.f_code.co_filename.startswith(folder):
            yield frame


def shown_by(error: BaseException) -> str:
    """Return all that a crash reporter could send of an error."""
    out = []
    for one in exceptions_of(error):
        out += [repr(one), str(one), repr(one.args), repr(vars(one))]
        out += traceback.format_exception(one)
        out += [
            f"{name}={value!r}"
            for frame in frames_of(one.__traceback__)
            for name, value in frame.f_locals.items()
        ]
    if isinstance(error, IncomeClientError):
        out.append(repr(vars(pickle.loads(pickle.dumps(error)))))
    return "\n".join(out)


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """Log all there is at DEBUG, attributes included."""
    caplog.set_level(logging.DEBUG)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    root.addHandler(handler)
    yield lambda: stream.getvalue() + "".join(repr(vars(line)) for line in caplog.records)
    root.removeHandler(handler)


async def failing(answer: Answer, auth: BasicAuth | OAuth2ClientCredentials) -> IncomeClientError:
    """Make one call that fails, and return its error."""
    asyncio.get_running_loop().set_debug(True)
    async with serving(answer) as server:
        session = SessionManager(
            Transport(addresses(server.url), max_response_bytes=10_000),
            auth=auth,
            timeouts=Timeouts(read=30, deadline=10_000),
            retry=RetryPolicy(max_attempts=2, base_delay=0.001, throttled_delay=0.001),
        )
        try:
            await session.call(ASKED, partial(read_reply, ApplicationPage, ASKED))
        except IncomeClientError as error:
            return error
        finally:
            await session.aclose()
    pytest.fail("the call succeeded")


def check(error: BaseException, logged: str) -> None:
    """Find none of the canaries."""
    shown = shown_by(error) + logged
    assert error.__cause__ is None
    assert error.__context__ is None
    assert CANARY not in shown
    assert not any(text in shown for text in ENCODED)


@pytest.mark.parametrize("fault", API_FAULTS)
async def test_a_failing_api_shows_nothing(
    fault: str,
    everything_logged: Callable[[], str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither header, body, query nor token comes out, however the API fails."""
    for auth in (OAUTH, BASIC):
        error = await failing(answering(api=API_FAULTS[fault]), auth)
        frames = [frame.f_code.co_name for frame in frames_of(error.__traceback__)]
        assert frames == ["call"]
        check(error, everything_logged() + "".join(capfd.readouterr()))


@pytest.mark.parametrize("fault", TOKEN_FAULTS)
async def test_a_failing_token_endpoint_shows_nothing(
    fault: str,
    everything_logged: Callable[[], str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither the client's secret nor what the endpoint said comes out."""
    error = await failing(answering(token=TOKEN_FAULTS[fault]), OAUTH)
    check(error, everything_logged() + "".join(capfd.readouterr()))


@pytest.mark.parametrize("fault", ["deadline", "cancelled"])
async def test_an_interrupted_call_shows_nothing(
    fault: str,
    everything_logged: Callable[[], str],
) -> None:
    """The frames that were waiting with the header in their hands do not come out."""
    reached = asyncio.Event()
    shown: list[str] = []
    frames: list[str] = []

    async def hang(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        reached.set()
        await forever()

    async def interrupted() -> None:
        try:
            await session.call(ASKED, lambda response: response)
        except (IncomeClientError, asyncio.CancelledError) as error:
            frames.extend(frame.f_code.co_name for frame in frames_of(error.__traceback__))
            shown.append(shown_by(error))

    async with serving(answering(api=hang)) as server:
        patient = Timeouts(read=1000, deadline=60)
        session = session_to(server.url, auth=OAUTH, timeouts=patient)
        task = asyncio.create_task(interrupted())
        await reached.wait()
        if fault == "cancelled":
            task.cancel()
        else:
            pass_time(60)
        await task
        await session.aclose()
    assert frames == ["call"]
    assert CANARY not in shown[0] + everything_logged()


def test_the_values_on_the_way_hide_what_they_hold() -> None:
    """Requests, replies and secrets can be printed."""
    response = Response(status=200, headers={"a": CANARY}, body=BODY)
    secret = Secret(CANARY)
    shown = f"{response!r} {ASKED!r} {secret!r} {secret} {OAUTH!r} {BASIC!r}"
    assert CANARY not in shown


@pytest.mark.parametrize("cls", [BasicAuth, OAuth2ClientCredentials])
@pytest.mark.parametrize(
    "pair",
    [
        ("u", f"{CANARY}\n"),
        ("u", Secret(f"{CANARY}\n")),
        ("u", Secret(f"{CANARY}\udcff")),
        ("u", f"{CANARY}\udcff"),
        ("u", CANARY.encode()),
        ("u", ""),
        (f"u:{CANARY}", "x"),
        (f"u\udcff{CANARY}", "x"),
        (CANARY.encode(), "x"),
        (Secret(CANARY), "x"),
        ("", CANARY),
    ],
)
def test_credentials_that_are_invalid_are_not_shown(cls: Any, pair: tuple[Any, Any]) -> None:
    """Undecodable bytes of the environment, line ends and other types are refused, not quoted."""
    with pytest.raises(ConfigurationError) as caught:
        cls(*pair)
    error = caught.value
    assert error.__context__ is None
    # The first frame is this one, which holds what it passed.
    assert caught.tb.tb_next is not None
    assert CANARY not in held_by(error.with_traceback(caught.tb.tb_next))


def test_a_secret_compares_and_complains_without_showing_itself() -> None:
    """Half a character is compared like any other; anything but text is refused."""
    assert Secret("a\udcff") == Secret("a\udcff") != Secret("a")
    with pytest.raises(ConfigurationError) as caught:
        Secret(CANARY.encode())  # type: ignore[arg-type]
    assert CANARY not in str(caught.value) + repr(caught.traceback[-1].frame.f_locals)


def test_a_leak_would_be_noticed() -> None:
    """What looks for canaries sees the locals of frames, causes and messages."""

    def leak() -> None:
        header = TOKEN
        raise ConfigurationError(str(len(header)))

    with pytest.raises(ConfigurationError) as caught:
        leak()
    assert TOKEN in "".join(repr(frame.f_locals) for frame, _ in traceback.walk_tb(caught.tb))
    error = ConfigurationError("x")
    error.__context__ = ValueError(TOKEN)
    assert TOKEN in shown_by(error)


@pytest.mark.parametrize("fault", ["not whole", "wrong shape", "status 503"])
async def test_a_failed_call_leaves_no_reply_in_memory(fault: str) -> None:
    """No cycle of references keeps a body, which may be large, until the next collection."""
    gc.collect()
    gc.disable()
    try:
        error = await failing(answering(api=API_FAULTS[fault]), OAUTH)
        left = [one for one in gc.get_objects() if isinstance(one, Response)]
    finally:
        gc.enable()
    assert error.attempts == (1 if fault == "wrong shape" else 2)
    assert left == []
