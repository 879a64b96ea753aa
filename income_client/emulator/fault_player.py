"""Choose the request that each fault falls on, and write the fault to its connection."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from random import Random
from typing import Final, TypeAlias

from income_client.settings import invalid

from .exchange import HttpReply
from .faults import USUAL_STATUS, Fault, FaultKind, script

FaultPlan: TypeAlias = str | Fault | Iterable[Fault]
"""A script, a fault, or several of them."""

_MICROSECONDS: Final = 6
_GARBAGE: Final = b"\x16\x03\x01 this is not HTTP\r\n\r\n\x00\xff"


class _Armed:
    """A fault in use, from the moment at which it was added."""

    def __init__(self, fault: Fault, added_at: float) -> None:
        self.fault = fault
        self.begins = added_at + fault.after
        self.skip = fault.skip
        self.left = fault.times

    def is_on(self, now: float) -> bool:
        """Return whether the fault's time has begun and is not over."""
        # Rounded, as sums of fractions of a second come to a little less than the whole.
        passed = round(now - self.begins, _MICROSECONDS)
        return passed >= 0 and (self.fault.seconds is None or passed < self.fault.seconds)


class Faults:
    """Faults in the order in which they were added; the first that matches is played.

    Args:
        now: returns service time in seconds, by which faults begin and end; unless given,
            no time passes.

    Attributes:
        requests: how many requests were looked at.
        played: how many of them faults fell on, by status or kind.
    """

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self.requests: int = 0
        self.played: Counter[str] = Counter()
        self._now = now
        self._armed: list[_Armed] = []
        self._drawn: Counter[tuple[int, str]] = Counter()

    def __len__(self) -> int:
        return len(self._armed)

    def add(self, *plans: FaultPlan) -> None:
        """Add faults after the existing ones; their time begins now.

        Args:
            *plans: text as in `script`, a `Fault`, or several of them.

        Raises:
            ConfigurationError: a text cannot be read, or something else was given.
        """
        faults = [fault for plan in plans for fault in _faults_of(plan)]
        now = self._now()
        self._armed += [_Armed(fault, now) for fault in faults]

    def clear(self) -> None:
        """Forget all faults."""
        self._armed.clear()
        self._drawn.clear()

    def reset(self) -> None:
        """Forget all faults, and their counts."""
        self.clear()
        self.requests = 0
        self.played.clear()

    def left(self) -> list[tuple[Fault, int, int | None]]:
        """Return the remaining faults, with the requests that each still skips and affects."""
        return [(armed.fault, armed.skip, armed.left) for armed in self._armed]

    def take(self, method: str, path: str) -> Fault | None:
        """Return the fault for a request, and count it as played.

        A fault that still lets requests pass leaves them to those behind it.

        Args:
            method: HTTP method.
            path: raw path.
        """
        self.requests += 1
        now = self._now() if self._armed else 0.0
        chances: dict[int, float] = {}
        for armed in self._armed:
            fault = armed.fault
            if not fault.matches(method, path) or not armed.is_on(now):
                continue
            if armed.skip:
                armed.skip -= 1
                continue
            if fault.rate is not None:
                chance = chances.get(fault.seed)
                if chance is None:
                    chance = self._chance(fault.seed, path)
                if chance >= fault.rate:
                    # What is left decides on the next fault, so that their shares add up.
                    chances[fault.seed] = chance - fault.rate
                    continue
            if armed.left is not None:
                armed.left -= 1
                if armed.left <= 0:
                    self._armed.remove(armed)
            self.played[str(fault.status or fault.kind.value)] += 1
            return fault
        return None

    def _chance(self, seed: int, path: str) -> float:
        # By path and turn, so that it is the same in whatever order requests arrive.
        self._drawn[seed, path] += 1
        return Random(f"{seed} {path} {self._drawn[seed, path]}").random()


def _faults_of(plan: FaultPlan) -> tuple[Fault, ...]:
    if isinstance(plan, str):
        return script(plan)
    faults = tuple(plan) if isinstance(plan, Iterable) else (plan,)
    for fault in faults:
        if not isinstance(fault, Fault):
            raise invalid("a fault", "a script or a Fault", fault)
    return faults


def replacement(fault: Fault) -> HttpReply | None:
    """Return the reply that replaces the true one; None if the fault acts on the connection."""
    usual = USUAL_STATUS.get(fault.kind)
    if usual is None:
        return None
    headers = {"Content-Type": fault.content_type}
    if fault.kind is FaultKind.REDIRECT:
        headers["Location"] = fault.location
    if fault.retry_after is not None:
        headers["Retry-After"] = str(fault.retry_after)
    return HttpReply(
        status=fault.status or usual,
        headers={**headers, **fault.headers},
        body=fault.body,
    )


def _wire_bytes(reply: HttpReply) -> bytes:
    phrases = {status.value: status.phrase for status in HTTPStatus}
    lines = [f"HTTP/1.1 {reply.status} {phrases.get(reply.status, 'Unknown')}"]
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
    """Spoil a reply on its way, and close the connection; ``closing`` ends stalls and trickles."""
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
    transport.close()
