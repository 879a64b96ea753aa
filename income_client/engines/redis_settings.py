"""What a Redis server is set to, and what that may cost: it is asked, as far as the user may."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import ResponseError

T = TypeVar("T")

SECONDS: Final = 10.0
"""How long the server may take to answer."""

Settings = Mapping[str, Any]


async def await_answer(answer: Awaitable[T]) -> T:
    """Return what the server answers; its silence is an error.

    With a timeout of its own, as newer drivers have by default, the driver waits by `wait_for`,
    which can swallow a cancellation before Python 3.12.
    """
    task = asyncio.current_task()
    cancellations = 0 if task is None else task.cancelling()
    try:
        async with asyncio.timeout(SECONDS):
            return await answer
    finally:
        if task is not None and task.cancelling() > cancellations:
            raise asyncio.CancelledError from None


async def read_settings(redis: Redis | RedisCluster) -> Settings:
    """Return what this user of the server may read; some services forbid CONFIG."""
    found: dict[Any, Any] = {}
    for section in ("memory", "persistence"):
        with suppress(ResponseError):
            found |= await await_answer(redis.info(section))
    for name in ("appendfsync", "save"):
        with suppress(ResponseError):
            found |= await await_answer(redis.config_get(name))
    return found


def eviction_risk(settings: Settings) -> str | None:
    """Return the policy by which the server deletes any key once its memory is full."""
    policy = str(settings.get("maxmemory_policy", ""))
    return policy if policy.startswith("allkeys") and settings.get("maxmemory") else None


def loss_risk(settings: Settings, what: str) -> str | None:
    """Say which of what is kept these settings cost."""
    match settings.get("aof_enabled"), settings.get("appendfsync"):
        case None, _:
            return f"Redis does not say whether it keeps {what} on its disk"
        case 0, _ if settings.get("save") == "":
            return f"Redis keeps nothing on its disk, so a restart loses every {what[:-1]}"
        case 0, _:
            return f"Redis writes snapshots only, so a crash loses the {what} since the last one"
        case _, "everysec":
            return f"Redis writes to its disk once a second, so a power failure loses {what}"
        case _, "no":
            return f"Redis leaves it to the system when to write, so a power failure loses {what}"
    return None
