"""Run as a script: use a client, fork, and use it in the child and in the parent.

Arguments: the service's address, the file of its authority or an empty text, and the event loop of
the child: ``same``, ``new``, or ``running`` for a fork within a coroutine.
"""

import asyncio
import gc
import os
import ssl
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from income_client import BasicAuth, ClientClosedError, IncomeClient


async def refused(client: IncomeClient) -> None:
    """Make a call that is refused, and close the client."""
    try:
        await client.get_application("of-the-child")
    except ClientClosedError as error:
        sys.stdout.write(str(error))
        sys.stdout.flush()
    await client.aclose()
    await client.aclose()


def end_child(status: int) -> None:
    """End the child, with all of its objects collected."""
    gc.collect()
    os._exit(status)


def check_end(child: int) -> None:
    """Wait for the child to end as it should."""
    _, status = os.waitpid(child, 0)
    assert status == 0, status


def fork(run: Callable[[Coroutine[Any, Any, None]], None], client: IncomeClient) -> None:
    """Fork; the child runs its part, and the parent waits for it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(refused(client))
            status = 0
        finally:
            end_child(status)
    check_end(child)


async def fork_in_loop(client: IncomeClient) -> None:
    """Fork where the event loop is running."""
    child = os.fork()
    if child == 0:
        await refused(client)
        end_child(0)
    check_end(child)


def main(url: str, authority: str, loop: str) -> None:
    """Use the client before and after."""
    trust = ssl.create_default_context(cafile=authority) if authority else None
    client = IncomeClient(url, auth=BasicAuth("user", "invented"), ssl=trust)
    with asyncio.Runner() as runner:
        runner.run(client.get_application("before"))
        match loop:
            case "same":
                fork(runner.run, client)
            case "new":
                fork(asyncio.run, client)
            case _:
                runner.run(fork_in_loop(client))
        runner.run(client.get_application("after"))
        runner.run(client.aclose())


if __name__ == "__main__":
    main(*sys.argv[1:])
