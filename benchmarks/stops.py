"""The longest time for which a reply stops the event loop, however it is made up."""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

from income_client import IncomeClient, IncomeClientError, RetryPolicy

from .report import Row, Scale, at_most
from .services import ServiceProcess, answer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_SIZES: Final = (2**18 - 100, 2**19, 2**20, 2**24 - 1_000)
"""Around the sizes at which replies are decoded in a thread, and refused, and the largest one."""
_LONGEST_STOP: Final = 0.3
_TURNS: Final = 2
"""The shorter of two stops counts, since a machine with other work stops a process at times."""
_PAGE: Final = (
    b'{"updated_after": "2020-01-01T00:00:00", "updated_before": "2020-01-02T00:00:00",'
    b' "applications": [%b]}'
)
_ROW: Final = (
    b'{"application_id": "app-1", "application_reference_id": "",'
    b' "application_date": "2020-01-01T00:00:00"}'
)
_VALUES: Final = (b"[]", b"{}", b'{"a":1}', b"1.1", b'"a"', b'"\\ud800"', _ROW)
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_NUMBER: Final = re.compile(rb"body-(\d+)")
_LENGTH: Final = re.compile(rb"(?i)content-length: (\d+)")
_TOKEN: Final = b'{"access_token": "invented", "token_type": "Bearer", "expires_in": 86400}'


async def longest_stops(scale: Scale) -> list[Row]:
    """Read and refuse replies of every make, as a page, as a record and without a type."""
    rows = []
    for size in _SIZES[: scale.few_rounds + 1]:
        with ServiceProcess(_serve, size) as service:
            once = RetryPolicy(max_attempts=1)
            async with IncomeClient(service.url, auth=service.oauth2, retry=once) as client:
                await client.get_json("/v1/income/token")  # for a token and a connection
                stops = [
                    await _stop_of(read)
                    for number in range(len([*_bodies(size)]))
                    for read in _readings(client, f"body-{number}")
                ]
        what = f"replies of {size:,} bytes: longest stop of the event loop"
        shown = f"{max(stops) * 1000:.0f} ms"
        rows.append(at_most(what, max(stops), _LONGEST_STOP, shown=shown))
    return rows


def _readings(
    client: IncomeClient, name: str
) -> tuple[Callable[[], Coroutine[Any, Any, object]], ...]:
    return (
        lambda: client.get_application_page(application_reference_id=name),
        lambda: client.get_application(name),
        lambda: client.get_json(f"/v1/income/{name}"),
    )


async def _stop_of(read: Callable[[], Coroutine[Any, Any, object]]) -> float:
    """Return the longest time for which the event loop did nothing while a reply was read."""
    stops = []
    for _ in range(_TURNS):
        ending = asyncio.Event()
        watching = asyncio.create_task(_longest_stop(ending))
        with contextlib.suppress(IncomeClientError):
            await read()
        ending.set()
        stops.append(await watching)
    return min(stops)


async def _longest_stop(ending: asyncio.Event) -> float:
    longest, last = 0.0, time.perf_counter()
    while not ending.is_set():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


def _bodies(size: int) -> Iterator[bytes]:
    """Yield bodies of about a size: as many small values as fit, or one that is large."""
    for value in _VALUES:
        values = b",".join([value] * (size // (len(value) + 1) - 50))
        yield _PAGE % values
        yield b'{"application_id": "app-1", "extra": [%b]}' % values
    for text in (b"x", b"\\u00e9", b" ", b"\\n"):
        yield b'{"a": "%b"}' % (text * ((size - 20) // len(text)))
    yield b"[" * size
    yield b" " * size
    yield b"1" * size


def _serve(connection: "Connection[Any, Any]", size: int) -> None:
    bodies = [*_bodies(size)]

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if length := _LENGTH.search(head):
                    await reader.readexactly(int(length[1]))
                number = _NUMBER.search(head)
                body = _TOKEN if number is None else bodies[int(number[1])]
                writer.write(_HEAD % len(body) + body)
                await writer.drain()

    async def served() -> None:
        server = await asyncio.start_server(reply, "127.0.0.1")
        async with server:
            port = server.sockets[0].getsockname()[1]
            await answer(connection, (f"http://127.0.0.1:{port}", "client", "invented"), {})

    asyncio.run(served())
