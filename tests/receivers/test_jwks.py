"""Tokens are checked with an issuer's keys, which are fetched within limits, kept and renewed."""

import asyncio
import contextlib
import json
import logging
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Final

import aiohttp
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from income_client.receivers.auth import CallbackBearerAuth
from income_client.receivers.exchange import Refusal, RefusedError
from income_client.receivers.jwks import (
    FETCH_EVERY,
    KEPT_FOR,
    KeySetCache,
    KeySetError,
    fetch_key_set,
)
from income_client.receivers.receiver import TokenCheck
from tests.support.clocks import ManualClock
from tests.support.identities import NOW, accepting, key_set, token
from tests.support.proxies import tls_pair
from tests.support.server import Answer, Reply, ScriptedServer, in_turn, reply, turns

URL: Final = "https://id.example.test/keys?S3CRET=1"
GONE: Final = KeySetError("the answer has the status 503")
KEYS: Final = json.dumps(key_set("P-256")).encode()
GOOD: Final = token()


async def refusal_in(checking: Awaitable[Any]) -> Refusal | None:
    """Return why a check that is awaited refuses, None if it does not."""
    try:
        await checking
    except RefusedError as error:
        return error.refusal
    return None


@define
class ScriptedKeys:
    """Replaces `fetch_key_set` and the clock of its caller."""

    clock: ManualClock = field(factory=partial(ManualClock, NOW))
    answer: Any = field(factory=partial(key_set, "P-256"))
    asked: list[float] = field(factory=list)
    may_answer: asyncio.Event = field(factory=asyncio.Event)
    was_asked: asyncio.Event = field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.may_answer.set()

    async def fetch(self, url: str) -> Mapping[str, Any]:
        assert url == URL
        self.asked.append(self.clock.time())
        self.was_asked.set()
        await self.may_answer.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: Mapping[str, Any] = self.answer
        return answer

    def hold(self) -> None:
        self.may_answer.clear()
        self.was_asked.clear()


async def reason_of(fetching: Awaitable[Any]) -> str:
    with pytest.raises((KeySetError, OSError, aiohttp.ClientError)) as caught:
        await fetching
    if not isinstance(caught.value, KeySetError):
        return caught.type.__name__
    assert "S3CRET" not in str(caught.value)
    return str(caught.value)


async def fetched(answer: Answer, **limits: Any) -> Any:
    async with ScriptedServer(answer) as server:
        return await fetch_key_set(f"{server.url}/keys?S3CRET=1", **limits)


async def test_the_request_carries_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """No proxy, no netrc, no cookie, and the address as it was given."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login user password S3CRET\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with ScriptedServer(in_turn(reply(body=KEYS, Set_Cookie="a=b"))) as server:
        for _ in range(2):
            assert await fetch_key_set(f"{server.url}/k%2Fs?a=%41+b") == key_set("P-256")
    for request in server.requests:
        assert (request.method, request.path, request.query) == ("GET", "/k%2Fs", "a=%41+b")
        assert request.headers["accept-encoding"] == "identity"
        assert request.headers.keys() & {"authorization", "cookie", "proxy-authorization"} == set()


STATUSES: Final = (201, 206, 302, 308, 404, 503)
NO_SETS: Final = (
    *(b"", b"null", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []', b'{"keys": [], "keys": []}'),
    *(b"<html>S3CRET</html>", b"\xff\xfe", b'{"keys": ' + b"[" * 50_000),
)
BOMB: Final = zlib.compress(b" " * 10_000_000)


WRONG_ANSWERS: Final = (
    *((reply(status, KEYS, Location="/x"), f"has the status {status}") for status in STATUSES),
    *((reply(body=body), "is not ") for body in NO_SETS),
    *((reply(body=BOMB, Content_Encoding=name), "is compressed") for name in ("gzip", "BR")),
)


async def test_every_other_answer_is_a_failure() -> None:
    """A redirect is not followed, nothing is unpacked or shown, and nothing is asked twice."""
    async with ScriptedServer(in_turn(*(answer for answer, _ in WRONG_ANSWERS))) as server:
        for _, fault in WRONG_ANSWERS:
            said = await reason_of(fetch_key_set(f"{server.url}/keys?S3CRET=1"))
            assert said.startswith(f"the answer {fault}")
    assert [request.path for request in server.requests] == ["/keys"] * len(WRONG_ANSWERS)


async def test_a_body_is_counted_while_it_comes() -> None:
    async def flood() -> AsyncIterator[bytes]:
        while True:
            yield b"1000\r\n" + b" " * 4096 + b"\r\n"

    head = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"
    endless = in_turn(Reply(raw=head, slow=flood))
    assert await reason_of(fetched(endless)) == "the answer is larger than 262144 bytes"
    small = await reason_of(fetched(in_turn(reply(body=KEYS)), max_bytes=len(KEYS) - 1))
    assert small == f"the answer is larger than {len(KEYS) - 1} bytes"
    assert await fetched(in_turn(reply(body=KEYS)), max_bytes=len(KEYS)) == key_set("P-256")


async def test_what_is_cut_or_does_not_come_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for is_reset in (False, True):
        assert await reason_of(fetched(in_turn(reply(body=KEYS, cut=-20, reset=is_reset))))
    for start in (b"", b"HTTP/1.1 200 X\r\nContent-Length: 50\r\n\r\n{"):
        silence = in_turn(Reply(raw=start, held=True))
        assert await reason_of(fetched(silence, seconds=0.05)) == "it took too long"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert await reason_of(fetch_key_set(f"http://127.0.0.1:{port}/?S3CRET=1"))
    assert "S3CRET" not in caplog.text


async def test_certificates_are_verified_with_the_context_that_is_given() -> None:
    served, trusting = tls_pair()
    async with ScriptedServer(in_turn(reply(body=KEYS)), served) as server:
        assert await reason_of(fetch_key_set(server.url)) == "ClientConnectorCertificateError"
        assert await fetch_key_set(server.url, tls=trusting["ssl"]) == key_set("P-256")


def source(play: ScriptedKeys) -> KeySetCache:
    return KeySetCache(URL, monotonic=play.clock.monotonic, fetch=play.fetch)


def others() -> set[asyncio.Task[object]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


async def test_many_at_once_make_one_request() -> None:
    """The request outlives cancelled waiters, and serves all that wait meanwhile."""
    play = ScriptedKeys()
    play.hold()
    known = source(play)
    cancelled = [asyncio.create_task(known.keys()) for _ in range(3)]
    await play.was_asked.wait()
    await turns(20)
    for waiter in cancelled:
        waiter.cancel()
    await asyncio.wait(cancelled)
    assert all(waiter.cancelled() for waiter in cancelled)
    async with asyncio.TaskGroup() as group:
        waiters = [group.create_task(known.keys()) for _ in range(200)]
        await turns(20)
        play.may_answer.set()
    assert len({id(waiter.result()) for waiter in waiters}) == 1
    assert (len(play.asked), others()) == (1, set())


async def test_a_renewal_holds_up_nobody() -> None:
    """Newer keys that are known are given at once to those who have looked among older ones."""
    play = ScriptedKeys()
    known = source(play)
    keys = await known.keys()
    play.clock.advance(600)
    play.answer = key_set("P-384")
    play.hold()
    assert [await known.keys() for _ in range(5)] == [keys] * 5
    await play.was_asked.wait()
    play.may_answer.set()
    await turns(20)
    newer = await known.keys()
    assert newer is not keys
    play.clock.advance(30)
    assert await known.newer_than(keys, since=play.clock.time()) is newer
    assert (len(play.asked), others()) == (2, set())


async def test_an_answer_to_an_earlier_request_does_not_show_that_a_key_is_unknown() -> None:
    """The token came while the request was on its way: its key may be newer than the answer."""
    play = ScriptedKeys()
    known = source(play)
    play.hold()
    asking = asyncio.create_task(known.keys())
    await play.was_asked.wait()
    play.clock.advance(2)
    came_at = play.clock.time()
    play.clock.advance(2)
    play.may_answer.set()
    keys = await asking
    assert await refusal_in(known.newer_than(keys, since=came_at)) is Refusal.KEYS_UNAVAILABLE
    play.clock.advance(30)
    late = play.clock.time()
    assert await refusal_in(known.newer_than(keys, since=late)) is not Refusal.TOKEN_KEY_UNKNOWN


FAILURES: Final[tuple[Any, ...]] = (
    *(GONE, {"keys": []}, {"keys": [{"kty": "RSA"}]}, {}),
    *(OSError("S3CRET"), ValueError("S3CRET")),
)


async def test_a_failure_is_told_without_what_came(caplog: pytest.LogCaptureFixture) -> None:
    """Each kind of failure is logged once; tokens are refused as if they had come too early."""
    caplog.set_level(logging.DEBUG)
    for answer in FAILURES:
        play = ScriptedKeys()
        play.answer = answer
        known = source(play)
        for _ in range(5):
            assert await refusal_in(known.keys()) is Refusal.KEYS_UNAVAILABLE
        assert len(play.asked) == 1
    logged = [record for record in caplog.records if record.name.startswith("income_client")]
    assert [record.levelname for record in logged] == ["WARNING"] * len(FAILURES)
    assert "S3CRET" not in caplog.text
    assert "id.example.test" not in caplog.text


_pauses = st.floats(0, 1000) | st.sampled_from([0.0, 29.9, 30.0, 86_399.0])
_answers = st.sampled_from([GONE, key_set("P-256"), key_set("P-384"), {"keys": []}])


@given(st.lists(st.tuples(_pauses, st.booleans(), _answers), max_size=20))
async def test_requests_keep_their_distance_and_keys_once_known_serve_for_a_day(
    moves: list[tuple[float, bool, Any]],
) -> None:
    """However many tokens come, with known keys or not, and whatever the answers are."""
    play = ScriptedKeys()
    known, newest_at = source(play), None
    for pause, is_key_unknown, answer in moves:
        play.clock.advance(pause)
        play.answer = answer
        asked = len(play.asked)
        with contextlib.suppress(RefusedError):
            keys = await known.keys()
            if is_key_unknown:
                await known.newer_than(keys, since=play.clock.time())
        await turns(20)
        if len(play.asked) > asked and answer is not GONE and answer["keys"]:
            newest_at = play.clock.time()
        is_kept = newest_at is not None and play.clock.time() < newest_at + KEPT_FOR
        assert (known.current is not None) is is_kept
    assert all(later - earlier >= FETCH_EVERY for earlier, later in pairwise(play.asked))


Check = Callable[[str], Coroutine[Any, Any, Refusal | None]]


def checking(auth: CallbackBearerAuth, clock: Any = None, fetch: Any = None) -> Check:
    check = TokenCheck(auth, clock or ManualClock(NOW), fetch=fetch)
    return lambda text: refusal_in(check.check(text))


def at_address(play: ScriptedKeys) -> Check:
    return checking(accepting(keys=None, jwks_url=URL), play.clock, play.fetch)


def asking(verify: Any) -> Check:
    return checking(CallbackBearerAuth(verify=verify))


async def test_keys_are_used_as_they_are_given_or_fetched() -> None:
    assert await checking(accepting())(GOOD) is None
    late = checking(accepting(), ManualClock(NOW + 9999))
    assert await late(GOOD) is Refusal.TOKEN_OUT_OF_TIME
    async with ScriptedServer(in_turn(reply(body=KEYS))) as server:
        check = checking(accepting(keys=None, jwks_url=f"{server.url}/keys"))
        for _ in range(2):
            assert await check(GOOD) is None
        assert [request.path for request in server.requests] == ["/keys"]


async def test_a_new_key_is_found() -> None:
    """A token names it, or has a signature that fits none of the old ones."""
    for header in ({}, {"kid": None}):
        play = ScriptedKeys()
        check = at_address(play)
        newer = token("ES384", header=header)
        assert await check(newer) is Refusal.TOKEN_KEY_UNKNOWN
        play.clock.advance(60)
        play.answer = key_set("P-256", "P-384")
        assert await check(newer) is None
        assert await check(GOOD) is None
        assert len(play.asked) == 2


async def test_forged_names_cannot_cause_a_flood() -> None:
    """A hundred tokens with unknown keys make one request, and later ones none."""
    play = ScriptedKeys()
    check = at_address(play)
    await check(GOOD)
    play.clock.advance(60)
    texts = [token(header={"kid": f"unknown-{n}"}) for n in range(100)]
    play.hold()
    waiting = asyncio.gather(*map(check, texts))
    await play.was_asked.wait()
    # Tokens with known keys do not wait for the answer.
    assert await check(GOOD) is None
    play.may_answer.set()
    assert set(await waiting) == {Refusal.TOKEN_KEY_UNKNOWN}
    play.clock.advance(29)
    refusals = await asyncio.gather(*map(check, texts))
    assert set(refusals) == {Refusal.KEYS_UNAVAILABLE}
    assert len(play.asked) == 2


async def test_a_token_that_is_wrong_by_itself_asks_for_no_keys() -> None:
    """Newer keys would not cure it, and one that cannot be read needs none at all."""
    play = ScriptedKeys()
    check = at_address(play)
    assert await check("opaque") is Refusal.TOKEN_UNREADABLE
    assert await check(token("HS256")) is Refusal.TOKEN_ALGORITHM
    assert play.asked == []
    await check(GOOD)
    play.clock.advance(60)
    for text in (token(aud="x"), token(exp=0), GOOD[:-4] + "AAAA", "a.b.c"):
        assert await check(text) is not None
    assert len(play.asked) == 1


async def test_an_address_that_fails_is_not_the_tokens_fault() -> None:
    """The answer makes the service send again, and the old keys still serve."""
    play = ScriptedKeys()
    play.answer = GONE
    check = at_address(play)
    assert await check(GOOD) is Refusal.KEYS_UNAVAILABLE
    play.clock.advance(30)
    play.answer = key_set("P-256")
    assert await check(GOOD) is None
    play.clock.advance(700)
    play.answer = GONE
    assert await check(GOOD) is None
    assert await check(token("ES384")) is Refusal.KEYS_UNAVAILABLE


async def test_what_is_no_token_is_shown_to_nobody() -> None:
    """A verify callable sees tokens of RFC 6750 only, of a bounded length."""
    shown: list[str] = []
    for text in ("", " ", "a b", "a\n", "ü", "=", "a=b", "x" * 16_385, "a,b"):
        for check in (asking(shown.append), checking(accepting())):
            assert await check(text) is Refusal.TOKEN_UNREADABLE
    assert shown == []


VERDICTS: Final[tuple[tuple[Any, Refusal | None], ...]] = (
    (True, None),
    *((value, Refusal.TOKEN_REFUSED) for value in (False, None)),
    *((value, Refusal.VERIFIER_FAILED) for value in (1, 0, "", {"sub": "S3CRET"})),
)


async def test_exactly_true_passes(caplog: pytest.LogCaptureFixture) -> None:
    """Other true values, such as claims that nobody has checked, do not pass."""

    async def later(value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    for value, expected in VERDICTS:
        for verdict in (lambda _, value=value: later(value), lambda _, value=value: value):
            assert await asking(verdict)("opaque+/token==") is expected
    assert "S3CRET" not in caplog.text


async def test_a_callable_that_fails_refuses_and_is_logged_by_its_class(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The text of its error may show the token."""
    caplog.set_level(logging.DEBUG)

    def fail(text: str) -> bool:
        raise LookupError(text)

    async def fail_later(text: str) -> bool:
        raise TimeoutError(text)

    for verify in (fail, fail_later):
        assert await asking(verify)("S3CRET") is Refusal.VERIFIER_FAILED
    named = [record for record in caplog.records if record.name == "income_client.receivers"]
    assert [record.getMessage().split()[-1] for record in named] == ["LookupError", "TimeoutError"]
    assert "S3CRET" not in caplog.text
    assert all(record.exc_info is None for record in named)


async def test_verify_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verifier that hangs, or waits for a cancelled task, fails.

    A cancellation of the waiting caller passes through.
    """
    began = asyncio.Event()

    async def wait_for_a_cancelled_task(_text: str) -> bool:
        task = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(task.cancel)
        return await task

    async def hang(_text: str) -> bool:
        began.set()
        return await asyncio.Event().wait()

    checked = asyncio.create_task(asking(hang)("token"))
    await began.wait()
    checked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checked
    monkeypatch.setattr("income_client.receivers.receiver._VERIFY_SECONDS", 0.01)
    for verify in (wait_for_a_cancelled_task, hang):
        assert await asking(verify)("opaque") is Refusal.VERIFIER_FAILED
