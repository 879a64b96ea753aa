"""A reply may be slow, but not fall silent; a loop that was held up does not count as silence."""

import asyncio

import pytest

from income_client.errors import DeadlineExceededError
from income_client.http.endpoints import Response
from tests.support.loop_time import pass_time, stay_silent
from tests.support.scripted_server import Seen, always, reply
from tests.support.token_service import turns
from tests.support.transport import connected, one, send

LIMIT = 100.0
"""Seconds of the loop's time, far more than a test takes."""


@pytest.mark.parametrize("sent", [0, 30, 80])
async def test_a_silent_service_is_given_up(sent: int) -> None:
    """Before the header, within it, and within the body; the task itself continues."""
    whole = reply(body=b"x" * 100)

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        writer.write(whole[:sent] if sent < 80 else whole[:-20])
        await writer.drain()
        await stay_silent(LIMIT)

    error = await one(answer, read=LIMIT)
    assert isinstance(error, DeadlineExceededError)
    assert error.message == "get_application(a/1): nothing came for too long"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_slow_body_is_read() -> None:
    """What comes in pieces may take longer than the longest silence."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        whole = reply(body=b"x" * 8)
        writer.write(whole[:-8])
        for _ in range(8):
            await turns()
            pass_time(LIMIT * 0.75)
            writer.write(b"x")
        return b""

    found = await one(answer, read=LIMIT)
    assert isinstance(found, Response)
    assert found.body == b"x" * 8


async def test_a_loop_that_was_held_up_is_no_silence() -> None:
    """A reply that lay there while the caller's own code ran is taken, however late."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        # Once this has been sent, and before it can be read.
        asyncio.get_running_loop().call_soon(pass_time, LIMIT * 1.5)
        return reply(body=b"{}")

    found = await one(answer, read=LIMIT)
    assert isinstance(found, Response)
    assert found.body == b"{}"


async def test_a_silence_is_not_sent_again() -> None:
    """One send is one request, also when nothing came; the next one has a connection of its own."""
    script = [None, reply()]

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        out = script.pop(0)
        if out is None:
            await stay_silent(LIMIT)
        return out

    async with connected(answer) as (transport, server):
        assert isinstance(await send(transport, read=LIMIT), DeadlineExceededError)
        assert len(server.seen) == 1
        assert isinstance(await send(transport, read=5.0), Response)


async def test_a_caller_who_cancels_is_obeyed() -> None:
    """A cancellation from outside is not taken for a limit's."""
    async with connected(always(None)) as (transport, _):
        sending = asyncio.create_task(send(transport))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
