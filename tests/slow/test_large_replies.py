"""No reply within the limits stops the event loop for long, however it is made up."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Final

import pytest

from income_client import IncomeClient, IncomeClientError, RetryPolicy
from tests.support.clients import BASIC
from tests.support.processes import beside
from tests.support.server import ScriptedServer, in_turn, reply

LONGEST_STOP: Final = 0.3
"""Seconds."""
SIZES: Final = (2**18 - 100, 2**19, 2**20, 2**24 - 1_000)
"""Around the sizes at which replies are decoded elsewhere, and refused, and the largest one."""
PAGE: Final = (
    b'{"updated_after": "2020-01-01T00:00:00", "updated_before": "2020-01-02T00:00:00",'
    b' "applications": [%b]}'
)
ROW: Final = (
    b'{"application_id": "app-1", "application_reference_id": "",'
    b' "application_date": "2020-01-01T00:00:00"}'
)
VALUES: Final = {
    "lists": b"[]",
    "objects": b"{}",
    "members": b'{"a":1}',
    "numbers": b"1.1",
    "texts": b'"a"',
    "halves of pairs": b'"\\ud800"',
    "rows": ROW,
}


def bodies(size: int) -> Iterator[bytes]:
    """Yield bodies of about a size: as many small values as fit, or one that is large."""
    for value in VALUES.values():
        values = b",".join([value] * (size // (len(value) + 1) - 50))
        yield PAGE % values
        yield b'{"application_id": "app-1", "extra": [%b]}' % values
    for text in (b"x", b"\\u00e9", b" ", b"\\n"):
        yield b'{"a": "%b"}' % (text * ((size - 20) // len(text)))
    yield b"[" * size
    yield b" " * size
    yield b"1" * size


async def longest_stop(ending: asyncio.Event) -> float:
    """Return the longest time for which the event loop did nothing, in seconds."""
    longest, last = 0.0, time.perf_counter()
    while not ending.is_set():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


@pytest.mark.parametrize("size", SIZES)
async def test_no_reply_stops_the_event_loop_for_long(size: int) -> None:
    """Neither one that is read nor one that is refused, as a page, as a record or without a type.

    The second of two times counts, since a machine with other work stops a process at times.
    """
    everything = [*bodies(size)]
    answers = in_turn(*(reply(body=body) for body in everything for _ in range(6)))
    with beside(ScriptedServer(answers)) as server:
        once = RetryPolicy(max_attempts=1)
        async with IncomeClient(server.url, auth=BASIC, retry=once) as client:
            for body in everything:
                for read in (
                    client.get_application_page,
                    lambda: client.get_application("app-1"),
                    lambda: client.get_json("/v1/income/other"),
                ):
                    stops = []
                    for _ in range(2):
                        ending = asyncio.Event()
                        watching = asyncio.create_task(longest_stop(ending))
                        with contextlib.suppress(IncomeClientError):
                            await read()
                        ending.set()
                        stops.append(await watching)
                    assert min(stops) < LONGEST_STOP, body[:200]
