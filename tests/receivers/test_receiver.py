"""A receiver answers 200 once on_callback has finished, and 503 where it must come again."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    BasicAuth,
    Callback,
    CallbackClientCertificate,
    CallbackRejectedError,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
    ConfigurationError,
    OAuth2ClientCredentials,
)
from income_client.receivers import CallbackReceiver
from income_client.receivers.exchange import (
    Answer,
    Refusal,
    RequestHead,
    check_content,
    read_callback,
)
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
from tests.support.refusals import refusal_of


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
        (ring_head(Content_Encoding="deflate"), 415),
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


async def test_a_full_queue_is_answered_with_503() -> None:
    """At once, and without harm to those who wait."""
    let = asyncio.Event()
    heard = Heard()

    async def handle(callback: Callback) -> None:
        heard(callback)
        await let.wait()

    receiver = CallbackReceiver(handle, auth=BASIC, concurrency=2, queue=3)
    tasks = [asyncio.create_task(ring(receiver, {"event_type": str(n)})) for n in range(5)]
    await until_waiting(receiver, 5)
    full = await ring(receiver, {"event_type": "5"})
    assert (full.status, header(full, "Retry-After")) == (503, "5")
    assert len(heard.callbacks) == 2
    let.set()
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [200] * 5
    assert len(heard.callbacks) == 5
    assert receiver.status.refused == {"queue_full": 1}


async def test_repeats_are_told_and_run_all_the_same() -> None:
    """What looks the same may be another event; after a failure, it is no repeat."""
    clock, heard = HandClock(), Heard()
    receiver = CallbackReceiver(heard, auth=BASIC, clock=clock)
    for _ in range(2):
        assert (await ring(receiver)).status == 200
    await ring(receiver, {**EVENT, "event_type": "extractions"})
    clock.seconds += 600
    await ring(receiver)
    assert [callback.is_repeat for callback in heard.callbacks] == [False, True, False, False]
    assert (receiver.status.handled, receiver.status.repeats) == (4, 1)


async def test_repeats_are_skipped_if_one_says_so() -> None:
    """Only once they were handled."""
    heard, fails = Heard(), [True, False, False]

    def handle(callback: Callback) -> None:
        heard(callback)
        if fails.pop(0):
            raise ValueError

    receiver = CallbackReceiver(handle, auth=BASIC, on_repeat="skip")
    assert [(await ring(receiver)).status for _ in range(4)] == [503, 200, 200, 200]
    assert len(heard.callbacks) == 2
    assert (receiver.status.handled, receiver.status.repeats) == (3, 2)


@pytest.mark.parametrize(("on_repeat", "repeats"), [("run", [False, True]), ("skip", [False])])
async def test_a_repeat_that_comes_meanwhile_is_known_once_the_first_is_done(
    on_repeat: Literal["run", "skip"], repeats: list[bool]
) -> None:
    """As when the service has waited for too short a time, and sends again."""
    let, heard = asyncio.Event(), Heard()

    async def handle(callback: Callback) -> None:
        heard(callback)
        await let.wait()

    receiver = CallbackReceiver(handle, auth=BASIC, on_repeat=on_repeat)
    tasks = [asyncio.create_task(ring(receiver)) for _ in range(2)]
    await until_waiting(receiver, 2)
    let.set()
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [200, 200]
    assert [callback.is_repeat for callback in heard.callbacks] == repeats
    assert receiver.status.repeats == 1


async def test_equal_callbacks_at_once_share_a_run() -> None:
    """One that began before they came is not shared."""
    let, heard = asyncio.Event(), Heard()

    async def handle(callback: Callback) -> None:
        heard(callback)
        await let.wait()

    receiver = CallbackReceiver(handle, auth=BASIC)
    tasks = [asyncio.create_task(ring(receiver)) for _ in range(20)]
    await until_waiting(receiver, 20)
    let.set()
    assert {answer.status for answer in await asyncio.gather(*tasks)} == {200}
    assert len(heard.callbacks) == 2


async def test_one_that_shares_a_run_may_be_cancelled_alone() -> None:
    """As when its client hangs up; the others are answered."""
    let = asyncio.Event()

    async def handle(_callback: Callback) -> None:
        await let.wait()

    receiver = CallbackReceiver(handle, auth=BASIC)
    tasks = [asyncio.create_task(ring(receiver)) for _ in range(4)]
    await until_waiting(receiver, 4)
    await asyncio.sleep(0)
    tasks.pop().cancel()
    await asyncio.sleep(0)
    let.set()
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [200] * 3


async def yields(_callback: object) -> AsyncIterator[None]:
    """Do nothing when it is called."""
    yield


@pytest.mark.parametrize(
    "wrong",
    [
        {"auth": []},
        {"auth": CallbackSourceNetworks(["198.51.100.7"])},
        {"auth": [BASIC, BASIC]},
        {"auth": ["service:password"]},
        {"auth": None},
        {"auth": CallbackClientCertificate(san="a.example", proxy_header="Client-Cert")},
        {"on_callback": 7},
        {"on_callback": lambda: None},
        {"on_callback": yields},
        {"on_callback": lambda _callback, _more: None},
        {"concurrency": 0},
        {"queue": 0},
        {"timeout": 0},
        {"retry_after": float("inf")},
        {"max_body_bytes": 1.5},
        {"body_timeout": -1},
        {"repeat_window": -1},
        {"on_repeat": "ignore"},
        {"trusted_proxies": "10.0.0.1"},
    ],
)
def test_a_receiver_that_cannot_be_meant_is_refused(wrong: dict[str, object]) -> None:
    """One without any check first of all."""
    arguments = {"on_callback": Heard(), "auth": BASIC} | wrong
    with pytest.raises(ConfigurationError):
        CallbackReceiver(**arguments)  # type: ignore[arg-type]


async def test_networks_may_be_said_to_be_enough() -> None:
    """Where the service is given no credentials."""
    networks = CallbackSourceNetworks(["198.51.100.7"], is_enough=True)
    receiver = CallbackReceiver(Heard(), auth=networks)
    assert (await ring(receiver, head=ring_head(None))).status == 200


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (BasicAuth("service", "p"), "CallbackBasicAuth"),
        (CallbackTokenIssuer("service", "s" * 32), ".auth"),
        (OAuth2ClientCredentials("service", "p"), "CallbackTokenIssuer"),
        (None, "CallbackBearerAuth"),
    ],
)
def test_what_is_no_check_is_told_with_what_is_meant(given: object, meant: str) -> None:
    """The likeliest mistakes by name."""
    with pytest.raises(ConfigurationError, match=meant):
        CallbackReceiver(Heard(), auth=given)  # type: ignore[arg-type]


async def test_heads_of_text_are_heads_too() -> None:
    """As frameworks without an adapter here tell them."""
    receiver = CallbackReceiver(Heard(), auth=BASIC)
    fields = {"Authorization": AUTHORIZATION, "Content-Type": "application/json"}
    for headers in (fields, list(fields.items())):
        head = RequestHead(method="POST", headers=headers)
        assert (await receiver.verify(head, b"{}")).payload == {}


NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)


def head(*fields: tuple[str, str]) -> RequestHead:
    """Return the head of a request with these fields."""
    raw = tuple((name.encode(), value.encode("latin-1")) for name, value in fields)
    return RequestHead(method="POST", headers=raw)


def read(body: bytes) -> Callback:
    """Return the callback that a body is."""
    return read_callback(body, received_at=NOW)


def test_hints_are_taken_up() -> None:
    """The event and the ids that are publicly known."""
    body = b'{"event_type":"extractions","application_id":"app-1","more":[1,{"a":null}]}'
    assert read(body) == Callback(
        event_type="extractions",
        application_id="app-1",
        payload={"event_type": "extractions", "application_id": "app-1", "more": [1, {"a": None}]},
        received_at=NOW,
    )


@pytest.mark.parametrize(
    "body",
    [
        b"{}", b"[]", b"null", b"7", b'"text"', b"true", b"[[[]]]", b'{"event_type":7}',
        b'{"application_id":null,"event_type":["a"],"application_reference_id":{}}',
        b'{"application_id":""}', b'{"application_id":"a\\u0000b"}', b'{"event_type":"a\\nb"}',
        b'{"application_id":"' + b"a" * 257 + b'"}', b"\xef\xbb\xbf{}",
    ],
)  # fmt: skip
def test_unknown_shapes_pass_without_hints(body: bytes) -> None:
    """Payloads are not specified."""
    found = read(body)
    hints = (found.event_type, found.application_id, found.application_reference_id)
    assert hints == (None, None, None)


@pytest.mark.parametrize("body", [b"", b" \r\n\t"])
def test_an_empty_body_is_a_callback_that_says_nothing(body: bytes) -> None:
    """Whoever may ring, rings."""
    assert read(body) == Callback(payload=None, received_at=NOW)


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"{}{}", b"nul", b"a=b", b"<a/>", b"\xff\xfe{\0}\0", b'{"a":"\xff"}', b"NaN",
        b"[" * 5000 + b"]" * 5000, b'{"a":' * 300 + b"1" + b"}" * 300, b'{"a":1,"a":2}', b"\0",
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused(body: bytes) -> None:
    """Cut, doubled, in another encoding, or too deep."""
    assert refusal_of(read_callback, body, received_at=NOW) is Refusal.NOT_JSON


@given(st.binary(max_size=200))
def test_no_body_raises(body: bytes) -> None:
    """Whatever comes becomes a callback or a refusal."""
    assert refusal_of(read_callback, body, received_at=NOW) in (None, Refusal.NOT_JSON)


def test_the_payload_is_not_shown() -> None:
    """It may hold what the contract does not name."""
    assert "secret" not in repr(read(b'{"event_type":"error","note":"secret"}'))


@pytest.mark.parametrize(
    "value",
    [
        "application/json", "Application/JSON", "application/json; charset=utf-8",
        'application/json;charset="UTF-8"', "application/vnd.service+json", "application/json;",
        "application/json; version=1; charset=us-ascii",
    ],
)  # fmt: skip
def test_json_is_read_under_any_of_its_names(value: str) -> None:
    """With or without a charset that means UTF-8."""
    check_content(head(("Content-Type", value)), max_body_bytes=9)


def test_a_body_without_a_type_is_read() -> None:
    """Nobody says that the service names one; what is no JSON is refused all the same."""
    check_content(head(), max_body_bytes=9)


@pytest.mark.parametrize(
    "value",
    [
        "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=json",
        "text/json", "application/jsonp", "application/json-seq", "json", "",
        "application/json; charset=utf-16", "text/html; charset=application/json", "*/*",
    ],
)  # fmt: skip
def test_other_types_are_refused(value: str) -> None:
    """Forms of browsers among them."""
    found = refusal_of(check_content, head(("Content-Type", value)), max_body_bytes=9)
    assert found is Refusal.CONTENT_TYPE


def test_doubled_types_are_refused() -> None:
    """One of them would be believed by somebody else."""
    fields = (("Content-Type", "application/json"), ("content-type", "text/plain"))
    assert refusal_of(check_content, head(*fields), max_body_bytes=9) is Refusal.CONTENT_TYPE
