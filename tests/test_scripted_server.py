"""The server of the tests sends what a reply says, ends as it says, and hides no failure."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.server import Answer, Reply, Request, ScriptedServer, in_turn, reply

WHOLE = bytes(reply(body=b"0123456789"))


async def heard(answer: Answer) -> bytes:
    """Ask once, and return what comes until the connection ends."""
    async with ScriptedServer(answer) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /somewhere HTTP/1.1\r\n\r\n")
        try:
            return await reader.read()
        finally:
            writer.close()


async def later() -> AsyncIterator[bytes]:
    """Give two pieces."""
    yield b"67"
    yield b"89"


@pytest.mark.parametrize(
    ("answer", "bytes_"),
    [
        (reply(body=b"0123456789", closed=True), WHOLE),
        (Reply(raw=WHOLE, closed=True), WHOLE),
        (Reply(raw=WHOLE, cut=12), WHOLE[:12]),
        (Reply(raw=WHOLE, cut=-4), WHOLE[:-4]),
        (Reply(raw=WHOLE, cut=-4, slow=later), WHOLE),
    ],
    ids=["closed", "raw", "begun", "cut", "slow"],
)
async def test_as_much_comes_as_a_reply_says(answer: Reply, bytes_: bytes) -> None:
    """And the connection ends behind it."""
    assert await heard(in_turn(answer)) == bytes_


async def test_a_connection_is_reset() -> None:
    """By RST, behind what was sent."""
    with pytest.raises(ConnectionResetError):
        await heard(in_turn(Reply(raw=WHOLE, cut=-4, reset=True)))


async def test_a_reply_is_held_until_it_is_released() -> None:
    """Its beginning comes, and then nothing before the server says so."""
    async with ScriptedServer(in_turn(Reply(raw=WHOLE, cut=-4, held=True))) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.readexactly(len(WHOLE) - 4) == WHOLE[:-4]
        assert not reader.at_eof()
        server.release()
        assert await reader.read() == b""
        writer.close()


async def test_what_an_answer_raises_fails_its_test() -> None:
    """Though it is raised in another task."""

    def answer(request: Request) -> Reply:
        raise AssertionError(request.path)

    with pytest.raises(AssertionError, match="/somewhere"):
        await heard(answer)
