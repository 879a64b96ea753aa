"""Faults: which request each falls on, and how it is written on a connection."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from http import HTTPStatus
from random import Random
from typing import Any, Final
from urllib.parse import unquote

from attrs import field, frozen
from attrs.validators import optional

from income_client.errors import ConfigurationError
from income_client.settings import counting, invalid, is_number, not_negative, validated, whole

from .api import API_CALLS, Call, call_of
from .exchange import HttpReply
from .service_rules import Choice, check_integer, integer, meant

ANY: Final = "any"
"""The three calls of the API, and neither tokens nor files."""
CALLS: Final = (*(call.value for call in API_CALLS), Call.TOKEN.value, Call.FILE.value)
"""The calls that a fault can be about."""
_LEAST_STATUS: Final = 100
_MICROSECONDS: Final = 6
_GARBAGE: Final = b"\x16\x03\x01 this is not HTTP\r\n\r\n\x00\xff"


class FaultKind(Choice):
    """What goes wrong with a reply."""

    STATUS = "status"
    RESET = "reset"
    DROP = "drop"
    CUT = "cut"
    STALL = "stall"
    TRICKLE = "trickle"
    GARBAGE = "garbage"
    REDIRECT = "redirect"
    BODY = "body"


_WITHHOLDING: Final = (FaultKind.RESET, FaultKind.DROP, FaultKind.STALL, FaultKind.GARBAGE)
"""Faults that leave the client without any part of a reply."""
_REPLACING: Final = {FaultKind.STATUS: 503, FaultKind.REDIRECT: 307, FaultKind.BODY: 200}
"""Faults whose own reply stands in for the true one, and its usual status."""


def _kind(value: FaultKind | str) -> FaultKind:
    return FaultKind(value)


def _of_type(kind: type) -> Any:
    def check(name: str, value: object) -> None:
        if not isinstance(value, kind):
            raise invalid(name, f"of type {kind.__name__}", value)

    return validated(check)


def _check_status(name: str, value: Any) -> None:
    check_integer(name, value)
    if value < _LEAST_STATUS:
        raise invalid(name, "a status, 100 or more", value)


def _check_call(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise invalid(name, "the name of a call", value)
    if value != ANY and value not in CALLS:
        raise ConfigurationError(f"there is no call {value}{meant(value, (*CALLS, ANY))}")


def _check_share(name: str, value: object) -> None:
    if not is_number(value) or not 0 <= value <= 1:
        raise invalid(name, "a share from 0 to 1", value)


_is_str: Final = _of_type(str)
_is_status: Final = validated(_check_status)
_is_count_or_none: Final[Any] = optional(counting)


@frozen
class Fault:
    """One misbehaviour and the requests that it falls on.

    ``status``, ``redirect`` and ``body`` replace the reply; ``reset``, ``drop``,
    ``stall`` and ``garbage`` leave the client without one; ``cut``, ``trickle``
    and a ``stall`` that keeps something spoil the true reply on its way.

    Args:
        kind: a `FaultKind` or its name.

    Raises:
        ConfigurationError: the kind or the call is unknown, or a setting is invalid.
    """

    kind: FaultKind = field(converter=_kind)
    """What goes wrong."""
    path: str = field(default="*", kw_only=True, validator=_is_str)
    """Pattern of the raw path, as in a shell."""
    method: str = field(default="*", kw_only=True, validator=_is_str)
    """Pattern of the HTTP method."""
    times: int | None = field(default=1, kw_only=True, validator=_is_count_or_none)
    """Requests that it falls on, None for all of them."""
    skip: int = field(default=0, kw_only=True, validator=whole)
    """Matching requests that it lets pass first."""
    status: int | None = field(default=None, kw_only=True, validator=optional(_is_status))
    """Status; 503, 307 for a redirect and 200 for a body unless given."""
    headers: Mapping[str, str] = field(factory=dict, kw_only=True, validator=_of_type(Mapping))
    """Header fields, such as Retry-After."""
    body: bytes = field(default=b"", kw_only=True, repr=False, validator=_of_type(bytes))
    """The content of ``status`` and ``body``, and what ``garbage`` sends."""
    content_type: str = field(default="application/json", kw_only=True, validator=_is_str)
    """Media type of the content."""
    location: str = field(default="/", kw_only=True, validator=_is_str)
    """Where a redirect leads."""
    keep: int | None = field(default=None, kw_only=True, validator=optional(whole))
    """Bytes of the content that come first: in a cut half of them unless given, in a stall none."""
    interval: float = field(default=0.05, kw_only=True, validator=not_negative)
    """Seconds between two bytes of a trickle."""
    call: str | None = field(default=None, kw_only=True, validator=optional(validated(_check_call)))
    """A call such as ``get_application`` or ``file``, ``any`` of the API; None for all requests."""
    named: str | None = field(default=None, kw_only=True, validator=optional(_is_str))
    """Id of the application or document that it falls on, None for all of them."""
    after: float = field(default=0.0, kw_only=True, validator=not_negative)
    """Seconds of service time from when it is added until it begins."""
    seconds: float | None = field(default=None, kw_only=True, validator=optional(not_negative))
    """Seconds of service time that it lasts, None for ever."""
    rate: float = field(default=1.0, kw_only=True, validator=validated(_check_share))
    """Share of the matching requests that it falls on, from 0 to 1."""
    seed: int = field(default=7, kw_only=True, validator=integer)
    """Decides which requests these are: the same seed chooses the same ones."""

    @property
    def withholds(self) -> bool:
        """Whether the client is left without any part of a reply."""
        is_late = self.kind is FaultKind.STALL and self.keep is not None
        return self.kind in _WITHHOLDING and not is_late

    def matches(self, method: str, path: str) -> bool:
        """Say whether a request is one that this is about, whatever its time and its share.

        Args:
            method: HTTP method.
            path: raw path.
        """
        if not fnmatchcase(path, self.path) or not fnmatchcase(method, self.method):
            return False
        if self.named is not None and self.named not in map(unquote, path.split("/")):
            return False
        if self.call is None:
            return True
        call = call_of(path)
        return call in API_CALLS if self.call == ANY else call.value == self.call


def replacement(fault: Fault) -> HttpReply | None:
    """Return the reply that stands in for the true one, None if the fault needs the wire itself."""
    usual = _REPLACING.get(fault.kind)
    if usual is None:
        return None
    extra = {"Location": fault.location} if fault.kind is FaultKind.REDIRECT else {}
    return HttpReply(
        status=fault.status or usual,
        headers={"Content-Type": fault.content_type, **extra, **fault.headers},
        body=fault.body,
    )


class _Armed:
    """A fault from the moment at which it was added, and how much of it is left."""

    def __init__(self, fault: Fault, added_at: float) -> None:
        self.fault = fault
        self.begins = added_at + fault.after
        self.skip = fault.skip
        self.left = fault.times
        self.asked: Counter[str] = Counter()

    def falls(self, path: str, now: float) -> bool:
        """Say whether it falls on a request that it matches; asked once for each."""
        # Rounded, as sums of fractions of a second come to a little less than the whole.
        passed = round(now - self.begins, _MICROSECONDS)
        if passed < 0 or (self.fault.seconds is not None and passed >= self.fault.seconds):
            return False
        if self.fault.rate >= 1:
            return True
        self.asked[path] += 1
        # By path and turn, so that it is the same in whatever order requests arrive.
        chance = Random(f"{self.fault.seed} {path} {self.asked[path]}")
        return chance.random() < self.fault.rate


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

    def __len__(self) -> int:
        return len(self._armed)

    def add(self, *faults: Fault) -> None:
        """Add faults behind those that are there; their time begins now.

        Raises:
            ConfigurationError: one of them is not a `Fault`.
        """
        for fault in faults:
            if not isinstance(fault, Fault):
                raise invalid("a fault", "a Fault", fault)
        now = self._now()
        self._armed += [_Armed(fault, now) for fault in faults]

    def clear(self) -> None:
        """Forget all faults."""
        self._armed.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """Return the fault that falls on a request, and count it as played.

        A fault that still lets requests pass leaves them to those behind it.

        Args:
            method: HTTP method.
            path: raw path.
        """
        self.requests += 1
        now = self._now() if self._armed else 0.0
        for armed in self._armed:
            if not armed.fault.matches(method, path) or not armed.falls(path, now):
                continue
            if armed.skip:
                armed.skip -= 1
                continue
            if armed.left is not None:
                armed.left -= 1
                if armed.left <= 0:
                    self._armed.remove(armed)
            fault = armed.fault
            self.played[str(fault.status or fault.kind.value)] += 1
            return fault
        return None


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
