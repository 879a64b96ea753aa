"""A token is checked with keys, with an address or with a callable, and never raises."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import pytest

from income_client.receivers.auth import CallbackBearerAuth
from income_client.receivers.exchange import Refusal
from income_client.receivers.receiver import TokenCheck
from tests.support.callback_requests import HandClock
from tests.support.key_sets import GONE, URL, KeySetAtPlay
from tests.support.refusals import refusal_in
from tests.support.scripted_server import Seen, forever, reply, serving
from tests.support.signed_tokens import NOW, accepting, key_set, token

GOOD: Final = token()
Check = Callable[[str], Coroutine[Any, Any, Refusal | None]]
"""Says why a token is refused."""


def checking(auth: CallbackBearerAuth, clock: Any = None, fetch: Any = None) -> Check:
    """Return a check of tokens."""
    check = TokenCheck(auth, clock or HandClock(NOW), fetch=fetch)
    return lambda text: refusal_in(check.check(text))


def at_address(play: KeySetAtPlay) -> Check:
    """Return a check with the keys at an address."""
    return checking(accepting(keys=None, jwks_url=URL), play, play.fetch)


def asking(verify: Any) -> Check:
    """Return a check that asks a callable."""
    return checking(CallbackBearerAuth(verify=verify))


async def test_keys_that_are_given_are_used() -> None:
    """The time is that of the clock."""
    assert await checking(accepting())(GOOD) is None
    late = checking(accepting(), HandClock(NOW + 9999))
    assert await late(GOOD) is Refusal.TOKEN_OUT_OF_TIME


async def test_a_new_key_is_found_when_a_token_names_it() -> None:
    """The issuer may change its keys at any time."""
    play = KeySetAtPlay("P-256")
    check = at_address(play)
    assert await check(GOOD) is None
    play.seconds += 60
    play.answer = key_set("P-256", "P-384")
    assert await check(token("ES384")) is None
    assert await check(GOOD) is None
    assert len(play.asked) == 2


async def test_a_nameless_token_of_a_new_key_is_found_too() -> None:
    """Where tokens name no key, a signature that fits none may be of a new one."""
    play = KeySetAtPlay("P-256")
    check = at_address(play)
    nameless = token("ES384", header={"kid": None})
    assert await check(nameless) is Refusal.TOKEN_KEY_UNKNOWN
    play.seconds += 60
    play.answer = key_set("P-384")
    assert await check(nameless) is None


async def test_forged_names_cannot_cause_a_flood() -> None:
    """A thousand tokens with unknown keys make one request, and later ones none."""
    play = KeySetAtPlay("P-256")
    check = at_address(play)
    await check(GOOD)
    play.seconds += 60
    texts = [token(header={"kid": f"unknown-{n}"}) for n in range(1000)]
    play.hold()
    waiting = asyncio.gather(*map(check, texts))
    await play.was_asked.wait()
    # Tokens with known keys do not wait for the answer.
    assert await check(GOOD) is None
    play.may_answer.set()
    assert set(await waiting) == {Refusal.TOKEN_KEY_UNKNOWN}
    play.seconds += 29
    refusals = await asyncio.gather(*map(check, texts))
    assert set(refusals) == {Refusal.KEYS_UNAVAILABLE}
    assert len(play.asked) == 2


@pytest.mark.parametrize("text", [token(aud="x"), token(exp=0), GOOD[:-4] + "AAAA", "a.b.c"])
async def test_a_token_that_is_wrong_by_itself_asks_for_no_keys(text: str) -> None:
    """Newer keys would not cure it."""
    play = KeySetAtPlay("P-256")
    check = at_address(play)
    await check(GOOD)
    play.seconds += 60
    assert await check(text) is not None
    assert len(play.asked) == 1


async def test_an_address_that_fails_is_not_the_tokens_fault() -> None:
    """The answer makes the service send again, and the old keys go on serving."""
    play = KeySetAtPlay("P-256")
    play.answer = GONE
    check = at_address(play)
    assert await check(GOOD) is Refusal.KEYS_UNAVAILABLE
    play.seconds += 30
    play.answer = key_set("P-256")
    assert await check(GOOD) is None
    play.seconds += 700
    play.answer = GONE
    assert await check(GOOD) is None
    assert await check(token("ES384")) is Refusal.KEYS_UNAVAILABLE


async def test_without_a_fetch_the_address_is_asked() -> None:
    """One real request for the first token, none for the second."""

    async def respond(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        return reply(body=json.dumps(key_set("P-256")).encode())

    async with serving(respond) as server:
        auth = accepting(keys=None, jwks_url=f"{server.url}/keys")
        check = checking(auth)
        assert await check(GOOD) is None
        assert await check(GOOD) is None
        assert [seen.path for seen in server.seen] == ["/keys"]


@pytest.mark.parametrize("text", ["", " ", "a b", "a\n", "ü", "=", "a=b", "x" * 16_385, "a,b"])
async def test_what_is_no_token_is_shown_to_nobody(text: str) -> None:
    """A verify callable sees tokens of RFC 6750 only, of a bounded length."""
    shown: list[str] = []
    assert await asking(shown.append)(text) is Refusal.TOKEN_UNREADABLE
    assert await checking(accepting())(text) is Refusal.TOKEN_UNREADABLE
    assert shown == []


def said(value: Any) -> Callable[[str], Any]:
    """Return a callable that says this of every token."""
    return lambda text: value


def said_later(value: Any) -> Callable[[str], Awaitable[Any]]:
    """Return one that says it later."""

    async def verify(text: str) -> Any:
        await asyncio.sleep(0)
        return value

    return verify


@pytest.mark.parametrize("way", [said, said_later])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, None),
        (False, Refusal.TOKEN_REFUSED),
        (None, Refusal.TOKEN_REFUSED),
        (1, Refusal.VERIFIER_FAILED),
        ({"sub": "S3CRET"}, Refusal.VERIFIER_FAILED),
        ("", Refusal.VERIFIER_FAILED),
        (0, Refusal.VERIFIER_FAILED),
    ],
)
async def test_exactly_true_passes(
    way: Any, value: Any, expected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What is merely true in an `if`, such as claims that nobody looked at, does not."""
    assert await asking(way(value))("opaque+/token==") is expected
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
    assert [record.getMessage().rpartition(" ")[2] for record in named] == [
        "LookupError",
        "TimeoutError",
    ]
    assert "S3CRET" not in caplog.text
    assert all(record.exc_info is None for record in named)


async def test_cancellation_passes_through_a_callable() -> None:
    """It is no failure of the callable."""
    begun = asyncio.Event()

    async def wait(text: str) -> bool:
        begun.set()
        await forever()

    task = asyncio.create_task(asking(wait)("token"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_task_of_verify_is_its_failure() -> None:
    """What it waited for was cancelled, not the check."""

    async def wait(_text: str) -> bool:
        task = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
        return True

    assert await asking(wait)("opaque") is Refusal.VERIFIER_FAILED


async def test_verify_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody unknown holds a request for ever."""
    monkeypatch.setattr("income_client.receivers.receiver._VERIFY_SECONDS", 0.01)

    async def hang(_text: str) -> bool:
        await asyncio.Event().wait()
        return True

    assert await asking(hang)("opaque") is Refusal.VERIFIER_FAILED


async def test_what_is_no_token_asks_for_no_keys() -> None:
    """Not even the first time."""
    play = KeySetAtPlay("P-256")
    assert await at_address(play)("opaque") is Refusal.TOKEN_UNREADABLE
    assert await at_address(play)(token("HS256")) is Refusal.TOKEN_ALGORITHM
    assert play.asked == []
