"""Ids of applications on standard input, one a line; knows not what is done with them."""

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import CancelledError
from typing import Final

from attrs import frozen

from income_client import ConfigurationError
from income_client.cli.output.saying import reason_of

STANDARD_INPUT: Final = "-"
"""What stands for it on a command line."""

_PIECE: Final = 65536
_AHEAD: Final = 16
_LONGEST_ID: Final = 1000


@frozen
class _Fault:
    """Why there are no more ids."""

    text: str
    """In words, without any content."""


async def read_ids(descriptor: int = 0) -> AsyncIterator[str]:
    """Yield the id in each line: an id alone, or JSON that has one, as ``poll`` writes it.

    Args:
        descriptor: of what to read; standard input unless given.

    Raises:
        ConfigurationError: it cannot be read, or a line has no id.
    """
    # What holds the lines, which may be records of somebody's, is gone when this raises.
    async with contextlib.aclosing(_ids(descriptor)) as ids:
        async for one in ids:
            if isinstance(one, _Fault):
                break
            yield one
        else:
            return
    raise ConfigurationError(one.text)


async def _ids(descriptor: int) -> AsyncGenerator[str | _Fault, None]:
    """Yield the id in each line, or why there are no more."""
    number = 0
    rest = b""
    async with contextlib.aclosing(_pieces(descriptor)) as pieces:
        async for piece in pieces:
            if isinstance(piece, OSError):
                yield _Fault(f"standard input cannot be read: {reason_of(piece)}")
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                number += 1
                if line.strip():
                    yield _id_in(line, number)
    if rest.strip():
        yield _id_in(rest, number + 1)


async def _pieces(descriptor: int) -> AsyncGenerator[bytes | OSError, None]:
    """Yield what comes, as it comes; no more is read ahead than there is use for."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue(_AHEAD)

    def pump() -> None:
        # Past every buffer: the lock of one that is waited for breaks the interpreter's end.
        piece: bytes | OSError = b"..."
        while piece and not isinstance(piece, OSError):
            try:
                piece = os.read(descriptor, _PIECE)
            except OSError as error:
                piece = error
            put = queue.put(piece)
            try:
                asyncio.run_coroutine_threadsafe(put, loop).result()
            except (CancelledError, RuntimeError):  # the loop has ended meanwhile
                put.close()
                return

    # A terminal, a file and a pipe are read alike; whoever never comes is not waited for.
    threading.Thread(target=pump, name="standard input", daemon=True).start()
    while piece := await queue.get():
        yield piece
        if isinstance(piece, OSError):
            return


def _id_in(line: bytes, number: int) -> str | _Fault:
    found = _found(line.strip())
    if found is None:
        return _Fault(f"line {number:,} of standard input has no id of an application")
    return found


def _found(line: bytes) -> str | None:
    if not line.startswith(b"{"):
        try:
            return line.decode() if len(line) <= _LONGEST_ID else None
        except UnicodeDecodeError:
            return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    inner = said.get("application")
    if isinstance(inner, dict):
        said = inner
    found = said.get("application_id")
    return found if isinstance(found, str) and found else None
