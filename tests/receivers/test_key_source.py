"""Many tokens, one request; whoever leaves takes nothing from the others."""

import asyncio
import logging

import pytest

from income_client.protocol.callbacks.refusals import Refusal
from income_client.protocol.callbacks.token_keys import TokenKeys
from income_client.receivers.key_source import KeySource
from tests.support.key_sets import GONE, URL, KeySetAtPlay, turns
from tests.support.signed_tokens import key_set


def source(play: KeySetAtPlay) -> KeySource:
    """Return a source of this address."""
    return KeySource(URL, monotonic=play.monotonic, fetch=play.fetch)


def others() -> set[asyncio.Task[object]]:
    """Return the tasks that are left beside the test."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


async def filled(play: KeySetAtPlay) -> tuple[KeySource, TokenKeys]:
    """Return a source that knows keys, and the keys."""
    known = source(play)
    keys = await known.keys()
    assert isinstance(keys, TokenKeys)
    return known, keys


async def test_nothing_is_fetched_before_it_is_needed() -> None:
    """The first token brings the keys, the next ones use them."""
    play = KeySetAtPlay("P-256")
    known = source(play)
    assert play.asked == []
    first = await known.keys()
    assert await known.keys() is first
    assert len(play.asked) == 1


async def test_many_at_once_make_one_request() -> None:
    """All of them get its keys, and no task stays behind."""
    play = KeySetAtPlay("P-256")
    play.hold()
    known = source(play)
    async with asyncio.TaskGroup() as group:
        waiters = [group.create_task(known.keys()) for _ in range(200)]
        await play.was_asked.wait()
        await turns()
        play.may_answer.set()
    assert len(play.asked) == 1
    assert len({id(waiter.result()) for waiter in waiters}) == 1
    assert others() == set()


async def test_who_hangs_up_takes_nothing_from_the_others() -> None:
    """Not even the last who waits, or the one who began: the request goes on without them."""
    play = KeySetAtPlay("P-256")
    play.hold()
    known = source(play)
    waiters = [asyncio.create_task(known.keys()) for _ in range(3)]
    await play.was_asked.wait()
    await turns()
    for waiter in waiters:
        waiter.cancel()
    await asyncio.wait(waiters)
    assert all(waiter.cancelled() for waiter in waiters)
    next_one = asyncio.create_task(known.keys())
    await turns()
    play.may_answer.set()
    assert isinstance(await next_one, TokenKeys)
    assert (len(play.asked), play.cancelled, others()) == (1, 0, set())


async def test_a_renewal_holds_up_nobody() -> None:
    """All go on with the keys that there are until others have come."""
    play = KeySetAtPlay("P-256")
    known, keys = await filled(play)
    play.time += 600
    play.answer = key_set("P-384")
    play.hold()
    assert [await known.keys() for _ in range(5)] == [keys] * 5
    await play.was_asked.wait()
    play.may_answer.set()
    await turns()
    newer = await known.keys()
    assert newer is not keys
    assert (len(play.asked), others()) == (2, set())


async def test_a_renewal_that_fails_keeps_the_keys() -> None:
    """For a day; the attempts keep their distance."""
    play = KeySetAtPlay("P-256")
    known, keys = await filled(play)
    play.answer = GONE
    for _ in range(100):
        play.time += 800
        assert await known.keys() is keys
        await turns()
        assert await known.keys() is keys
    assert len(play.asked) == 101
    play.time += 6401
    assert await known.keys() is Refusal.KEYS_UNAVAILABLE


async def test_unknown_keys_in_a_flood_make_one_request() -> None:
    """In its time; all who wait share its outcome."""
    play = KeySetAtPlay("P-256")
    known, keys = await filled(play)
    assert await known.newer_than(keys, since=play.time) is Refusal.TOKEN_KEY_UNKNOWN
    play.time += 29
    assert await known.newer_than(keys, since=play.time) is Refusal.KEYS_UNAVAILABLE
    play.time += 1
    play.hold()
    async with asyncio.TaskGroup() as group:
        waiters = [group.create_task(known.newer_than(keys, since=play.time)) for _ in range(200)]
        await play.was_asked.wait()
        await turns()
        # Tokens with known keys do not wait for that.
        assert await known.keys() is keys
        play.may_answer.set()
    newer = waiters[0].result()
    assert isinstance(newer, TokenKeys)
    assert all(waiter.result() is newer for waiter in waiters)
    for _ in range(200):
        assert await known.newer_than(newer, since=play.time) is Refusal.TOKEN_KEY_UNKNOWN
    # Who has looked among older keys is given the newer ones at once.
    assert await known.newer_than(keys, since=play.time) is newer
    assert len(play.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [GONE, {"keys": []}, {"keys": [{"kty": "RSA"}]}, {}, OSError("S3CRET"), ValueError("S3CRET")],
)
async def test_a_failure_is_told_without_what_came(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever fetch does, it is logged once by its kind, and the token may come again."""
    caplog.set_level(logging.DEBUG)
    play = KeySetAtPlay("P-256")
    play.answer = answer  # type: ignore[assignment]
    known = source(play)
    for _ in range(5):
        assert await known.keys() is Refusal.KEYS_UNAVAILABLE
    assert len(play.asked) == 1
    (record,) = (record for record in caplog.records if record.name.startswith("income_client"))
    assert record.levelname == "WARNING"
    assert "S3CRET" not in caplog.text
    assert "id.example.test" not in caplog.text


async def test_an_unknown_key_may_be_new_when_the_address_fails() -> None:
    """So the token is to come again."""
    play = KeySetAtPlay("P-256")
    known, keys = await filled(play)
    play.time += 60
    play.answer = GONE
    assert await known.newer_than(keys, since=play.time) is Refusal.KEYS_UNAVAILABLE
    assert await known.keys() is keys
    assert len(play.asked) == 2
