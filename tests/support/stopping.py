"""The end of a server that a test runs in its own loop."""

import asyncio

_TURNS = 3


async def stop(server: asyncio.Server) -> None:
    """Stop a server once each connection that it has accepted is with its handler.

    asyncio loses, unclosed, what a server accepts in the turn of the loop in which it is closed.
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening)
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    server.close()
