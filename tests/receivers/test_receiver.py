"""A receiver answers 200 once on_callback has finished, and 503 where it must come again."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.receivers import (
    Callback,
    CallbackBearerAuth,
    CallbackReceiver,
    CallbackRejectedError,
    CallbackSourceNetworks,
)
from income_client.receivers.adapters import BodyCutError
from income_client.receivers.exchange import (
    Answer,
    Refusal,
    RequestHead,
    check_content,
    read_callback,
)
from tests.support.callbacks import AUTHORIZATION, BASIC, refusal_of
from tests.support.clocks import ManualClock, pass_time
from tests.support.service import until

EVENT: Final = {
    "event_type": "income_calculations",
    "application_id": "app-000001",
    "application_reference_id": "loan-1",
}

NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)


def head_of(
    authorization: str | None = AUTHORIZATION,
    *,
    method: str = "POST",
    content_type: str | None = "application/json",
    **fields: str,
) -> RequestHead:
    """Return the head of a callback; underscores in names of fields become hyphens."""
    named = {"Authorization": authorization, "Content-Type": content_type, **fields}
    headers = tuple(
        (name.replace("_", "-"), value) for name, value in named.items() if value is not None
    )
    return RequestHead(method=method, headers=headers, peer="198.51.100.7")


async def chunks_of(*chunks: bytes, is_cut: bool = False) -> AsyncIterator[bytes]:
    """Yield a body in pieces."""
    for chunk in chunks:
        yield chunk
    if is_cut:
        raise BodyCutError


async def answered(
    receiver: CallbackReceiver,
    payload: Any = EVENT,
    head: RequestHead | None = None,
    chunks: Iterable[bytes] | None = None,
) -> Answer:
    """Give a receiver a callback without a server, and return its answer."""
    pieces = [msgspec.json.encode(payload)] if chunks is None else chunks
    return await receiver.answer(head or head_of(), chunks_of(*pieces))


def accepting(on_callback: Any = bool, **settings: Any) -> CallbackReceiver:
    return CallbackReceiver(on_callback, auth=BASIC, **settings)


def header(answer: Answer, name: str) -> str | None:
    return dict(answer.headers).get(name)


class Holding:
    """An on_callback that keeps each callback and waits until it may return."""

    def __init__(self) -> None:
        self.began: list[Callback] = []
        self.done = 0
        self.may_end = asyncio.Event()

    async def __call__(self, callback: Callback) -> None:
        self.began.append(callback)
        await self.may_end.wait()
        self.done += 1


async def test_a_good_callback_is_passed_on_and_answered_with_json() -> None:
    came: list[Callback] = []
    answer = await answered(accepting(came.append, clock=ManualClock(NOW.timestamp())))
    assert (answer.status, answer.body) == (200, b'{"status":"OK"}')
    assert header(answer, "Content-Type") == "application/json"
    assert came == [
        Callback(
            event_type="income_calculations",
            application_id="app-000001",
            application_reference_id="loan-1",
            payload=EVENT,
            received_at=NOW,
        )
    ]


async def test_a_failure_is_answered_with_503(caplog: pytest.LogCaptureFixture) -> None:
    def fail(callback: Callback) -> None:
        raise ValueError(callback.application_id)

    async def give_up(_callback: Callback) -> None:
        raise TimeoutError

    async def wait_for_a_cancelled_task(_callback: Callback) -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(task.cancel)
        await task

    for handler in (fail, give_up, wait_for_a_cancelled_task):
        receiver = accepting(handler, retry_after=7.2)
        answer = await answered(receiver)
        assert (answer.status, header(answer, "Retry-After")) == (503, "8")
        assert receiver.status.refused == {"handler_failed": 1}
        assert receiver.status.handled == 0
    assert "ValueError in " in caplog.text
    assert "app-000001" not in caplog.text


@pytest.mark.parametrize("is_slow", [True, False])
async def test_a_handler_ends_with_its_time_or_its_server(is_slow: bool) -> None:
    """A slow handler gets 503, so that the callback comes again; a cancelled one leaves nothing."""
    ended: list[str] = []

    async def hang(_callback: Callback) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    receiver = accepting(hang, timeout=0.01 if is_slow else 60)
    task = asyncio.create_task(answered(receiver))
    if is_slow:
        assert (await task).status == 503
        assert receiver.status.refused == {"handler_slow": 1}
    else:
        await until(lambda: receiver.status.waiting == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (ended, receiver.status.waiting) == (["cancelled"], 0)


BODIES: Final[tuple[tuple[list[bytes], int], ...]] = (
    ([b"{", b"}"], 200),
    ([b'"' + b"a" * 8 + b'"'], 200),
    ([b'"' + b"a" * 9 + b'"'], 413),
    ([b"[1,", b"2,3", b",4,5]"], 413),
    ([b"{"], 400),
    ([], 200),
)


async def test_bodies_are_read_up_to_the_limit() -> None:
    for chunks, status in BODIES:
        receiver = accepting(max_body_bytes=10)
        assert (await answered(receiver, chunks=chunks)).status == status


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b""
        pass_time(60)
        await asyncio.sleep(0)


async def test_a_body_that_is_cut_or_never_ends_closes_the_connection() -> None:
    """The next request on that connection could not be told from the rest of the body."""
    receiver = accepting(body_timeout=60)
    for body, status in ((chunks_of(b"{", is_cut=True), 400), (endless(), 408)):
        answer = await receiver.answer(head_of(), body)
        assert (answer.status, header(answer, "Connection")) == (status, "close")
    assert receiver.status.refused == {"cut_short": 1, "too_slow": 1}


async def test_of_a_refused_head_no_body_is_read() -> None:
    async def unread() -> AsyncIterator[bytes]:
        yield b""
        pytest.fail("the body was read")

    for head, status in (
        (head_of(None), 401),
        (head_of(method="GET"), 405),
        (head_of(content_type="text/plain"), 415),
        (head_of(Content_Encoding="gzip"), 415),
        (head_of(Content_Encoding="deflate"), 415),
        (head_of(Content_Length="9999999"), 413),
    ):
        answer = await accepting().answer(head, unread())
        assert (answer.status, header(answer, "Connection")) == (status, "close")


async def test_all_wrong_credentials_get_the_same_answer() -> None:
    wrong = (None, "", "Basic", "Basic !", "Basic c2VydmljZTpvdGhlcg==", "Bearer x", "Digest a=b")
    receiver = CallbackReceiver(bool, auth=(BASIC, CallbackBearerAuth(verify=lambda _token: False)))
    (answer,) = {await answered(receiver, head=head_of(value)) for value in wrong}
    assert answer.status == 401
    challenges = 'Basic realm="callbacks", Bearer realm="callbacks"'
    assert header(answer, "WWW-Authenticate") == challenges
    assert header(answer, "Retry-After") is None


@pytest.mark.parametrize("text", ["snow \u2603", "half \ud83d", "\U0001f4b0"])
async def test_a_field_of_any_text_is_refused_or_ignored(text: str) -> None:
    """Frameworks decode fields as they like, and hand over half characters too."""
    receiver = accepting()
    assert (await answered(receiver, head=head_of(text))).status == 401
    assert (await answered(receiver, head=head_of(X_Other=text))).status == 200


async def test_verify_returns_the_callback_and_calls_nobody() -> None:
    """Frameworks without an adapter call it, with heads of bytes or of text."""
    receiver = accepting(pytest.fail, max_body_bytes=10)
    assert (await receiver.verify(head_of(), b"[]")).payload == []
    fields = {"Authorization": AUTHORIZATION, "Content-Type": "application/json"}
    for headers in (fields, list(fields.items()), [(b"authorization", AUTHORIZATION.encode())]):
        head = RequestHead(method="POST", headers=headers)
        assert (await receiver.verify(head, b"{}")).payload == {}
    for refused, body, status in (
        (head_of(None), b"[]", 401),
        (head_of(), b"[", 400),
        (head_of(), b"[" + b" " * 9 + b"]", 413),
    ):
        with pytest.raises(CallbackRejectedError) as caught:
            await receiver.verify(refused, body)
        assert caught.value.status == status
    assert caught.value.reason == str(caught.value) == "the body is too large"


async def test_refusals_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Anybody can cause them."""
    clock = ManualClock()
    receiver = accepting(clock=clock)
    for _ in range(100):
        await answered(receiver, head=head_of(None))
        clock.advance(1)
    assert [record.unsaid for record in caplog.records] == [0, 59]  # type: ignore[attr-defined]
    assert receiver.status.refused == {"authorization_missing": 100}


async def test_an_answer_waits_for_on_callback_and_a_full_queue_is_answered_with_503() -> None:
    """A process that dies before has not answered, and the service sends again."""
    handler = Holding()
    receiver = accepting(handler, concurrency=2, queue=3)
    tasks = [asyncio.create_task(answered(receiver, {"event_type": str(n)})) for n in range(5)]
    await until(lambda: receiver.status.waiting == 5)
    full = await answered(receiver, {"event_type": "5"})
    assert (full.status, header(full, "Retry-After")) == (503, "5")
    assert len(handler.began) == 2
    assert not any(task.done() for task in tasks)
    handler.may_end.set()
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [200] * 5
    assert (handler.done, receiver.status.waiting) == (5, 0)
    assert receiver.status.refused == {"queue_full": 1}


async def test_repeats_are_marked_and_run_all_the_same() -> None:
    """Equal callbacks may be different events.

    A repeat is recognised for ten minutes after the last one; a callback that is handled again
    later is remembered again, and others with it.
    """
    clock, came = ManualClock(), list[Callback]()
    receiver = accepting(came.append, clock=clock)
    other = {**EVENT, "event_type": "extractions"}
    began = clock.time()
    calls = (
        *((0, EVENT, False), (0, EVENT, True), (0, other, False), (600, EVENT, False)),
        *((900, EVENT, True), (1560, other, False), (1620, other, True), (1680, EVENT, False)),
    )
    for seconds, event, _ in calls:
        clock.advance_to(began + seconds)
        assert (await answered(receiver, event)).status == 200
    assert [callback.is_repeat for callback in came] == [is_repeat for *_, is_repeat in calls]
    assert (receiver.status.handled, receiver.status.repeats) == (8, 3)


async def test_repeats_are_skipped_on_request() -> None:
    came, fails = list[Callback](), [True, False, False]

    def handle(callback: Callback) -> None:
        came.append(callback)
        if fails.pop(0):
            raise ValueError

    receiver = accepting(handle, on_repeat="skip")
    assert [(await answered(receiver)).status for _ in range(4)] == [503, 200, 200, 200]
    assert len(came) == 2
    assert (receiver.status.handled, receiver.status.repeats) == (3, 2)


async def test_a_repeat_that_comes_meanwhile_is_known_once_the_first_is_done() -> None:
    """The service repeats a callback early if its own time limit is too short."""
    handler = Holding()
    receiver = accepting(handler, on_repeat="skip")
    tasks = [asyncio.create_task(answered(receiver)) for _ in range(2)]
    await until(lambda: receiver.status.waiting == 2)
    handler.may_end.set()
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [200, 200]
    assert (len(handler.began), receiver.status.repeats) == (1, 1)


async def test_equal_callbacks_at_once_share_a_run() -> None:
    """Not the one that began before they came; a client that hangs up harms no other."""
    handler = Holding()
    receiver = accepting(handler)
    tasks = [asyncio.create_task(answered(receiver)) for _ in range(20)]
    await until(lambda: receiver.status.waiting == 20)
    await asyncio.sleep(0)
    tasks.pop().cancel()
    await asyncio.sleep(0)
    handler.may_end.set()
    assert {answer.status for answer in await asyncio.gather(*tasks)} == {200}
    assert [callback.is_repeat for callback in handler.began] == [False, True]


async def test_networks_may_be_said_to_be_enough() -> None:
    networks = CallbackSourceNetworks(["198.51.100.7"], is_enough=True)
    receiver = CallbackReceiver(print, auth=networks)
    assert (await answered(receiver, head=head_of(None))).status == 200


def read(body: bytes) -> Callback:
    return read_callback(body, received_at=NOW)


def test_hints_are_taken_up_and_the_payload_is_not_shown() -> None:
    """A payload may hold fields that the contract does not name."""
    body = b'{"event_type":"extractions","application_id":"app-1","more":["secret",{"a":null}]}'
    found = read(body)
    assert (found.event_type, found.application_id) == ("extractions", "app-1")
    assert found.payload["more"] == ["secret", {"a": None}]
    assert "secret" not in repr(found)


SHAPES: Final = (
    *(b"", b" \r\n\t", b"{}", b"[]", b"null", b"7", b'"text"', b"[[[]]]", b"\xef\xbb\xbf{}"),
    b'{"application_id":null,"event_type":["a"],"application_reference_id":{}}',
    *(b'{"application_id":""}', b'{"application_id":"a\\u0000b"}', b'{"event_type":"a\\nb"}'),
    b'{"application_id":"' + b"a" * 257 + b'"}',
)
NUMBERS: Final = (
    *("99999999999999.99", "1.10", "-0.0", "0." + "1" * 60, "1e400", "-1e-400", "2E+5"),
    *("1e999999999", "1e-999999999", "0.5e-1"),
    *("18446744073709551616", "-9223372036854775809", "9" * 60),
)


def test_unknown_shapes_pass_without_hints_and_numbers_with_every_digit() -> None:
    """Payloads are not specified; nothing at all is one too, and no number is too large."""
    for body in SHAPES:
        found = read(body)
        hints = (found.event_type, found.application_id, found.application_reference_id)
        assert hints == (None, None, None)
        assert body.strip() or found.payload is None
    for text in NUMBERS:
        number = read(b'{"amounts":[' + text.encode() + b"]}").payload["amounts"][0]
        assert type(number) is (int if text.lstrip("-").isdecimal() else Decimal)
        assert Decimal(number).as_tuple() == Decimal(text).as_tuple()


NO_JSON: Final = (
    *(b"{", b"{}{}", b"nul", b"a=b", b"<a/>", b"\xff\xfe{\0}\0", b"NaN", b"\0"),
    *(b'{"a":"\xff"}', b'{"a":1,"a":2}'),
    *(b"[" * 5000 + b"]" * 5000, b'{"a":' * 300 + b"1" + b"}" * 300),
)


def test_what_is_not_json_is_refused() -> None:
    """A number whose exponent alone has more digits than can be read is, for what it is."""
    for body in NO_JSON:
        assert refusal_of(read_callback, body, received_at=NOW) is Refusal.NOT_JSON
    body = b'{"application_id":"app-1","x":1e99999999999999999999}'
    refusal = refusal_of(read_callback, body, received_at=NOW)
    assert refusal is Refusal.NOT_JSON
    assert "beyond limits" in refusal.reason


@given(st.binary(max_size=200))
def test_no_body_raises(body: bytes) -> None:
    assert refusal_of(read_callback, body, received_at=NOW) in (None, Refusal.NOT_JSON)


JSON_TYPES = (
    *("application/json", "Application/JSON", "application/json;", "application/vnd.service+json"),
    *("application/json; charset=utf-8", 'application/json;charset="UTF-8"'),
    "application/json; version=1; charset=us-ascii",
)
OTHER_TYPES = (
    *("text/plain", "text/json", "application/jsonp", "application/json-seq", "json", "", "*/*"),
    *("application/x-www-form-urlencoded", "multipart/form-data; boundary=json"),
    *("application/json; charset=utf-16", "text/html; charset=application/json"),
)


CONTENTS: Final[tuple[tuple[str, list[str], Refusal | None], ...]] = (
    ("Content-Type", [], None),
    *(("Content-Type", [one], None) for one in JSON_TYPES),
    *(("Content-Type", [one], Refusal.CONTENT_TYPE) for one in OTHER_TYPES),
    ("Content-Type", ["application/json", "text/plain"], Refusal.CONTENT_TYPE),
    *(("Content-Encoding", [one], None) for one in ("", "identity", "Identity")),
    ("Content-Encoding", ["gzip"], Refusal.CONTENT_ENCODING),
    ("Content-Encoding", ["identity, gzip"], Refusal.CONTENT_ENCODING),
)


def test_only_plain_json_is_read() -> None:
    """Under any of its names, or without one; forms of browsers and two types are refused."""
    for name, values, expected in CONTENTS:
        head = RequestHead(method="POST", headers=[(name, value) for value in values])
        assert refusal_of(check_content, head, max_body_bytes=9) is expected
