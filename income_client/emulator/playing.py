"""Faults that need the wire itself, written on a connection byte by byte; decides nothing."""

import asyncio
import socket
import struct
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from .exchange import HttpReply
from .faults import Fault, FaultKind

_GARBAGE: Final = b"\x16\x03\x01 this is not HTTP\r\n\r\n\x00\xff"


def _wire_bytes(reply: HttpReply) -> bytes:
    known = {status.value: status.phrase for status in HTTPStatus}
    lines = [f"HTTP/1.1 {reply.status} {known.get(reply.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    lines += [f"Content-Length: {len(reply.body)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + reply.body


def _first_bytes(reply: HttpReply, keep: int) -> bytes:
    whole = _wire_bytes(reply)
    return whole[: len(whole) - len(reply.body) + keep]


def _reset(transport: asyncio.Transport) -> None:
    connection = transport.get_extra_info("socket")
    # Without lingering the kernel answers with RST instead of FIN.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def _trickle(
    transport: asyncio.Transport, content: bytes, interval: float, closing: asyncio.Event
) -> None:
    for place in range(len(content)):
        if transport.is_closing() or closing.is_set():
            return
        transport.write(content[place : place + 1])
        with suppress(TimeoutError):
            async with asyncio.timeout(interval):
                await closing.wait()


async def play(
    fault: Fault, reply: HttpReply, transport: asyncio.Transport, closing: asyncio.Event
) -> None:
    """Spoil a reply on its way and leave the connection closed, or closing.

    Args:
        fault: what to play.
        reply: the true reply, of which ``cut``, ``trickle`` and some stalls write something.
        transport: the connection.
        closing: set when the emulator closes, which ends every stall and trickle.
    """
    match fault.kind:
        case FaultKind.RESET:
            _reset(transport)
            return
        case FaultKind.CUT:
            keep = len(reply.body) // 2 if fault.keep is None else fault.keep
            transport.write(_first_bytes(reply, keep))
        case FaultKind.GARBAGE:
            transport.write(fault.body or _GARBAGE)
        case FaultKind.STALL:
            if fault.keep is not None:
                transport.write(_first_bytes(reply, fault.keep))
            await closing.wait()
        case FaultKind.TRICKLE:
            await _trickle(transport, _wire_bytes(reply), fault.interval, closing)
        case FaultKind.DROP | FaultKind.STATUS | FaultKind.REDIRECT | FaultKind.BODY:
            pass
    transport.close()
