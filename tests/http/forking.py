"""Run as a script: use a client, fork, and use it in the child and in the parent.

Arguments: the address of a service and the file of its authority. Three children are forked, one
after the other, to use the same event loop, a new one, and the running one.
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
        sys.stdout.write(f"{error}\n")
        sys.stdout.flush()
    await client.aclose()
    await client.aclose()


def end_child() -> None:
    """End the child, with all of its objects collected."""
    gc.collect()
    os._exit(0)


def check_end(child: int) -> None:
    """Wait for the child to end as it should."""
    _, status = os.waitpid(child, 0)
    assert status == 0, status


def fork(run: Callable[[Coroutine[Any, Any, None]], None], client: IncomeClient) -> None:
    """Fork; the child runs its part, and the parent waits for it."""
    child = os.fork()
    if child == 0:
        run(refused(client))
        end_child()
    check_end(child)


async def fork_in_loop(client: IncomeClient) -> None:
    """Fork where the event loop is running."""
    child = os.fork()
    if child == 0:
        await refused(client)
        end_child()
    check_end(child)


def use(url: str, authority: str) -> None:
    """Use the client before and after each fork."""
    trust = ssl.create_default_context(cafile=authority)
    client = IncomeClient(url, auth=BasicAuth("user", "invented"), ssl=trust)
    with asyncio.Runner() as runner:
        runner.run(client.get_application("before"))
        fork(runner.run, client)
        runner.run(client.get_application("same"))
        fork(asyncio.run, client)
        runner.run(client.get_application("new"))
        runner.run(fork_in_loop(client))
        runner.run(client.get_application("running"))
        runner.run(client.aclose())


if __name__ == "__main__":
    use(*sys.argv[1:])
