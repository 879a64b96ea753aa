"""Looks a host up, connects to it and hears its clock; sends no credentials and judges nothing."""

import asyncio
import re
import socket
import ssl
import time
from datetime import UTC, datetime
from email.parser import BytesHeaderParser
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import evolve, frozen

from income_client.cli.output import reason_of

from .facts import Certificate, Connected, HostFacts, Spoken, Trouble
from .times import Reading

SPOKEN: Final = 3
"""Requests on one connection: each narrows what the clock may be."""

_LIST: Final = "/v1/income/applications"
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] [1-5][0-9]{2}\b")
_END: Final = b"\r\n\r\n"


@frozen(kw_only=True)
class Origin:
    """A server, as an address names it."""

    role: str
    """What it is to the client."""
    host: str
    """Its name or IP address."""
    port: int
    """Its port."""
    path: str
    """What stands before every path."""
    is_tls: bool
    """Whether it is https."""

    @classmethod
    def of(cls, role: str, address: str) -> "Origin":
        """Return the origin of an address that a client has accepted."""
        parts = urlsplit(address)
        return cls(
            role=role,
            host=parts.hostname or "",
            port=parts.port or _DEFAULT_PORTS[parts.scheme],
            path=parts.path.rstrip("/"),
            is_tls=parts.scheme == "https",
        )

    @property
    def authority(self) -> str:
        """Host and port as a Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_usual = self.port == _DEFAULT_PORTS["https" if self.is_tls else "http"]
        return host if is_usual else f"{host}:{self.port}"


async def visit(
    origin: Origin, *, seconds: float, questions: int, tls: ssl.SSLContext | None = None
) -> HostFacts:
    """Look a server up, connect to it, and ask it for nothing a few times.

    Args:
        origin: the server.
        seconds: that each of these steps may take.
        questions: how often it is asked; not at all where nobody wants to know its answer.
        tls: whom to believe; the usual authorities unless given.
    """
    is_literal = _is_literal(origin.host)
    addresses = (origin.host,) if is_literal else await _look_up(origin, seconds)
    facts = HostFacts(
        role=origin.role, name=origin.host, addresses=addresses, is_literal=is_literal
    )
    if isinstance(addresses, Trouble):
        return facts
    began = time.perf_counter()
    opened = await _open(origin, seconds, tls)
    if isinstance(opened, Trouble):
        return evolve(facts, connected=opened)
    reader, writer = opened
    try:
        connected = _connected(writer, time.perf_counter() - began)
        spoken = await _speak(origin, reader, writer, seconds, questions) if questions else None
    finally:
        writer.transport.abort()
    return evolve(facts, connected=connected, spoken=spoken)


async def _look_up(origin: Origin, seconds: float) -> tuple[str, ...] | Trouble:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return _too_slow(seconds)
    except (OSError, UnicodeError) as error:
        return Trouble(kind=type(error).__name__, text=_words(error, "the name is unknown"))
    return tuple(dict.fromkeys(str(each[4][0]) for each in found))


async def _open(
    origin: Origin, seconds: float, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | Trouble:
    tls = (tls or ssl.create_default_context()) if origin.is_tls else None
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.open_connection(
                origin.host, origin.port, ssl=tls, happy_eyeballs_delay=0.25
            )
    except TimeoutError:
        return _too_slow(seconds)
    except ssl.SSLCertVerificationError as error:
        return Trouble(kind="certificate", text=error.verify_message)
    except ssl.SSLError as error:
        reason = (error.reason or "no reason given").replace("_", " ").lower()
        return Trouble(kind="tls", text=reason)
    except OSError as error:
        return Trouble(kind=type(error).__name__, text=_words(error, "no address answers"))


def _connected(writer: asyncio.StreamWriter, seconds: float) -> Connected:
    peer: Any = writer.get_extra_info("peername")
    tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    return Connected(
        address=str(peer[0]),
        seconds=seconds,
        tls=None if tls is None else tls.version(),
        certificate=None if tls is None else _certificate(tls.getpeercert() or {}),
    )


def _certificate(shown: dict[str, Any]) -> Certificate:
    names = [name for kind, name in shown.get("subjectAltName", ()) if kind == "DNS"]
    return Certificate(
        subject=_named(shown.get("subject", ()), "commonName") or ", ".join(names[:1]) or "-",
        issuer=_named(shown.get("issuer", ()), "organizationName", "commonName") or "-",
        seconds_left=ssl.cert_time_to_seconds(shown["notAfter"]) - time.time(),
    )


def _named(name: tuple[tuple[tuple[str, str], ...], ...], *kinds: str) -> str:
    parts = {kind: text for level in name for kind, text in level}
    return ", ".join(dict.fromkeys(parts[kind] for kind in kinds if kind in parts))


async def _speak(
    origin: Origin,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    seconds: float,
    questions: int,
) -> Spoken | Trouble:
    # HEAD is answered without a body, whatever the status.
    question = (
        f"HEAD {origin.path}{_LIST} HTTP/1.1\r\nHost: {origin.authority}\r\n"
        "User-Agent: income-client doctor\r\nAccept: application/json\r\n\r\n"
    ).encode()
    answers = 0
    dates: list[Reading] = []
    trouble = Trouble(kind="http", text="what came is not HTTP")
    for _ in range(questions):
        sent_at = time.time()
        try:
            async with asyncio.timeout(seconds):
                writer.write(question)
                head = await reader.readuntil(_END)
        except TimeoutError:
            trouble = _too_slow(seconds)
            break
        except (OSError, EOFError, asyncio.LimitOverrunError):
            break
        received_at = time.time()
        if _STATUS_LINE.match(head) is None:
            break
        answers += 1
        fields = BytesHeaderParser().parsebytes(head.partition(b"\r\n")[2])
        second = _second_of(fields.get("Date"))
        if second is not None:
            dates.append(Reading(second=second, sent_at=sent_at, received_at=received_at))
        if "close" in str(fields.get("Connection", "")).lower():
            break
    return Spoken(answers=answers, asked=questions, dates=tuple(dates)) if answers else trouble


def _second_of(text: str | None) -> int | None:
    try:
        moment = parsedate_to_datetime(str(text))
    except (ValueError, TypeError, OverflowError):
        return None
    aware: datetime = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(aware.timestamp())


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _words(error: OSError | UnicodeError, otherwise: str) -> str:
    if isinstance(error, socket.gaierror):
        # Its numbers are not those of the system.
        return (error.strerror or otherwise).lower()
    return reason_of(error, otherwise) if isinstance(error, OSError) else otherwise


def _too_slow(seconds: float) -> Trouble:
    return Trouble(kind="slow", text=f"nothing came within {seconds:g} s")
