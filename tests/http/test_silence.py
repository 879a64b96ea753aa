"""A reply may be slow, but not fall silent; a loop that was held up does not count as silence."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from income_client.errors import DeadlineExceededError
from income_client.http.endpoints import Response
from tests.support.clients import connected, one, send
from tests.support.loop_time import pass_time, silence
from tests.support.server import HUNG_UP, Reply, Request, in_turn, reply, turns

LIMIT = 100.0
"""Seconds of the loop's time, far more than a test takes."""


@pytest.mark.parametrize("sent", [0, 30, 80])
async def test_a_silent_service_is_given_up(sent: int) -> None:
    """Before the header, within it, and within the body; the task itself continues."""
    cut = sent if sent < 80 else -20
    begun = reply(body=b"x" * 100, cut=cut, slow=partial(silence, LIMIT))
    error = await one(in_turn(begun), read=LIMIT)
    assert isinstance(error, DeadlineExceededError)
    assert error.message == "get_application(a/1): nothing came for too long"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_slow_body_is_read() -> None:
    """What comes in pieces may take longer than the longest silence."""

    async def drops() -> AsyncIterator[bytes]:
        for _ in range(8):
            await turns()
            pass_time(LIMIT * 0.75)
            yield b"x"

    found = await one(in_turn(reply(body=b"x" * 8, cut=-8, slow=drops)), read=LIMIT)
    assert isinstance(found, Response)
    assert found.body == b"x" * 8


async def test_a_loop_that_was_held_up_is_no_silence() -> None:
    """A reply that lay there while the caller's own code ran is taken, however late."""

    def answer(_: Request) -> Reply:
        # Once this has been sent, and before it can be read.
        asyncio.get_running_loop().call_soon(pass_time, LIMIT * 1.5)
        return reply(body=b"{}")

    found = await one(answer, read=LIMIT)
    assert isinstance(found, Response)
    assert found.body == b"{}"


async def test_a_silence_is_not_sent_again() -> None:
    """One send is one request, also when nothing came; the next one has a connection of its own."""
    answer = in_turn(Reply(cut=0, slow=partial(silence, LIMIT)), reply())
    async with connected(answer) as (transport, server):
        assert isinstance(await send(transport, read=LIMIT), DeadlineExceededError)
        assert len(server.requests) == 1
        assert isinstance(await send(transport, read=5.0), Response)


async def test_a_caller_who_cancels_is_obeyed() -> None:
    """A cancellation from outside is not taken for a limit's."""
    async with connected(in_turn(HUNG_UP)) as (transport, _):
        sending = asyncio.create_task(send(transport))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
