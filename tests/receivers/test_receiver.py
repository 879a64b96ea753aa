"""A receiver answers 200 once on_callback has finished, and 503 where it must come again."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from income_client import (
    Callback,
    CallbackRejectedError,
    CallbackSourceNetworks,
)
from income_client.protocol.callbacks.exchange import Answer
from income_client.receivers import CallbackReceiver
from tests.support.callback_requests import (
    AUTHORIZATION,
    BASIC,
    EVENT,
    HandClock,
    Heard,
    chunks_of,
    ring,
    ring_head,
    until_waiting,
)
from tests.support.leaks import package_frames


def header(answer: Answer, name: str) -> str | None:
    """Return the one value of a header field."""
    return dict(answer.headers).get(name)


async def test_a_good_callback_is_handed_over_and_answered_with_json() -> None:
    """With its hints, its payload and the time at which it came."""
    heard = Heard()
    receiver = CallbackReceiver(heard, auth=BASIC, clock=HandClock())
    answer = await ring(receiver)
    assert (answer.status, answer.body) == (200, b'{"status":"OK"}')
    assert header(answer, "Content-Type") == "application/json"
    assert heard.callbacks == [
        Callback(
            event_type="income_calculations",
            application_id="app-000001",
            application_reference_id="loan-1",
            payload=EVENT,
            received_at=datetime(2026, 6, 30, 12, tzinfo=UTC),
        )
    ]


async def test_the_answer_waits_for_on_callback() -> None:
    """Whoever dies before has not answered, and the service sends again."""
    let, done = asyncio.Event(), []

    async def handle(callback: Callback) -> None:
        await let.wait()
        done.append(callback.application_id)

    receiver = CallbackReceiver(handle, auth=BASIC)
    task = asyncio.create_task(ring(receiver))
    await until_waiting(receiver, 1)
    assert not task.done()
    let.set()
    assert (await task).status == 200
    assert done == ["app-000001"]
    assert receiver.status.waiting == 0


async def test_a_failure_is_answered_with_503(caplog: pytest.LogCaptureFixture) -> None:
    """With a pause, and without a word of what the error says."""

    def fail(callback: Callback) -> None:
        raise ValueError(callback.application_id)

    receiver = CallbackReceiver(fail, auth=BASIC, retry_after=7.2)
    answer = await ring(receiver)
    assert (answer.status, header(answer, "Retry-After")) == (503, "8")
    assert receiver.status.refused == {"handler_failed": 1}
    assert receiver.status.handled == 0
    assert "ValueError in " in caplog.text
    assert "app-000001" not in caplog.text


async def test_a_cancelled_task_of_the_handler_is_a_failure() -> None:
    """What it waited for was cancelled, not the callback."""

    async def wait(_callback: Callback) -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(task.cancel)
        await task

    receiver = CallbackReceiver(wait, auth=BASIC)
    assert (await ring(receiver)).status == 503
    assert receiver.status.refused == {"handler_failed": 1}


async def test_a_callback_that_is_cancelled_ends_its_handler() -> None:
    """As when its server stops; nothing is left behind."""
    ended: list[str] = []

    async def hang(_callback: Callback) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    receiver = CallbackReceiver(hang, auth=BASIC)
    task = asyncio.create_task(ring(receiver))
    await until_waiting(receiver, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (ended, receiver.status.waiting) == (["cancelled"], 0)


async def test_what_takes_too_long_is_cancelled_and_comes_again() -> None:
    """Its own time limit is another thing."""
    ended = []

    async def hang(_callback: Callback) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def give_up(_callback: Callback) -> None:
        raise TimeoutError

    receiver = CallbackReceiver(hang, auth=BASIC, timeout=0.01)
    assert (await ring(receiver)).status == 503
    assert ended == ["cancelled"]
    assert receiver.status.refused == {"handler_slow": 1}
    receiver = CallbackReceiver(give_up, auth=BASIC)
    assert (await ring(receiver)).status == 503
    assert receiver.status.refused == {"handler_failed": 1}


@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        ([b"{", b"}"], 200),
        ([b'"' + b"a" * 8 + b'"'], 200),
        ([b'"' + b"a" * 9 + b'"'], 413),
        ([b"[1,", b"2,3", b",4,5]"], 413),
        ([b"{"], 400),
        ([], 200),
    ],
)
async def test_bodies_are_read_up_to_the_limit(chunks: list[bytes], status: int) -> None:
    """Counted as they come, whatever they have announced."""
    receiver = CallbackReceiver(Heard(), auth=BASIC, max_body_bytes=10)
    assert (await ring(receiver, chunks=chunks)).status == status


async def test_a_body_that_is_cut_or_never_ends_is_refused() -> None:
    """The connection is closed, since what follows cannot be told from it."""
    receiver = CallbackReceiver(Heard(), auth=BASIC, body_timeout=0.01)
    cut = await receiver.answer(ring_head(), chunks_of(b"{", is_cut=True))
    assert (cut.status, header(cut, "Connection")) == (400, "close")

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b""
            await asyncio.sleep(0)

    slow = await receiver.answer(ring_head(), endless())
    assert (slow.status, header(slow, "Connection")) == (408, "close")
    assert receiver.status.refused == {"cut_short": 1, "too_slow": 1}


async def test_a_head_that_is_refused_has_no_body_read() -> None:
    """Nobody unknown is listened to."""
    receiver = CallbackReceiver(Heard(), auth=BASIC)

    async def unread() -> AsyncIterator[bytes]:
        yield b""
        pytest.fail("the body was read")

    for head, status in (
        (ring_head(None), 401),
        (ring_head(method="GET"), 405),
        (ring_head(content_type="text/plain"), 415),
        (ring_head(Content_Encoding="gzip"), 415),
        (ring_head(Content_Length="9999999"), 413),
    ):
        answer = await receiver.answer(head, unread())
        assert (answer.status, header(answer, "Connection")) == (status, "close")


async def test_all_wrong_credentials_get_the_same_answer() -> None:
    """Nobody learns what was wrong."""
    receiver = CallbackReceiver(Heard(), auth=BASIC)
    wrong = (None, "", "Basic", "Basic !", "Basic c2VydmljZTpvdGhlcg==", "Bearer x", "Digest a=b")
    answers = {await ring(receiver, head=ring_head(value)) for value in wrong}
    assert len(answers) == 1
    (answer,) = answers
    assert answer.status == 401
    assert header(answer, "WWW-Authenticate") == 'Basic realm="callbacks"'
    assert header(answer, "Retry-After") is None


@pytest.mark.parametrize("scheme", ["basic", "BASIC", "Basic ", "bAsIc  "])
async def test_schemes_have_no_case(scheme: str) -> None:
    """And may be followed by more than one blank."""
    receiver = CallbackReceiver(Heard(), auth=BASIC)
    credentials = AUTHORIZATION.partition(" ")[2]
    assert (await ring(receiver, head=ring_head(f"{scheme} {credentials}"))).status == 200


async def test_every_check_must_pass() -> None:
    """A password from elsewhere is refused, and so is a guess from there."""
    networks = CallbackSourceNetworks(["198.51.100.0/24"])
    elsewhere = CallbackSourceNetworks(["203.0.113.0/24"])
    good = CallbackReceiver(Heard(), auth=[BASIC, networks])
    assert (await ring(good)).status == 200
    assert (await ring(good, head=ring_head(None))).status == 401
    assert (await ring(CallbackReceiver(Heard(), auth=[BASIC, elsewhere]))).status == 403


async def test_verify_returns_the_callback_and_calls_nobody() -> None:
    """For frameworks without an adapter."""
    heard = Heard()
    receiver = CallbackReceiver(heard, auth=BASIC, max_body_bytes=10)
    assert (await receiver.verify(ring_head(), b"[]")).payload == []
    assert heard.callbacks == []
    for head, body, status in (
        (ring_head(None), b"[]", 401),
        (ring_head(), b"[", 400),
        (ring_head(), b"[" + b" " * 9 + b"]", 413),
    ):
        with pytest.raises(CallbackRejectedError) as caught:
            await receiver.verify(head, body)
        assert caught.value.status == status
    assert caught.value.reason == str(caught.value) == "the body is too large"


async def test_the_frames_of_a_rejection_hold_nothing() -> None:
    """Crash reporters send them."""
    receiver = CallbackReceiver(Heard(), auth=BASIC)
    with pytest.raises(CallbackRejectedError) as caught:
        await receiver.verify(ring_head(Content_Encoding="gzip"), b'{"ssn":"123-45-6789"}')
    ours = package_frames(caught.value)
    assert ours
    locals_shown = str([frame.locals for frame in ours])
    assert "123-45" not in locals_shown
    assert AUTHORIZATION not in locals_shown
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


async def test_refusals_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Since anybody can cause them."""
    clock = HandClock()
    receiver = CallbackReceiver(Heard(), auth=BASIC, clock=clock)
    for _ in range(100):
        await ring(receiver, head=ring_head(None))
        clock.seconds += 1
    assert [record.unsaid for record in caplog.records] == [0, 59]  # type: ignore[attr-defined]
    assert receiver.status.refused == {"authorization_missing": 100}
