"""The way to a server: its name, a connection, TLS, its certificate; nothing is sent there."""

import asyncio
import enum
import socket
import ssl
import time
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import frozen

from income_client import IncomeClientError
from income_client.cli.output import counted
from income_client.texts import reason_of

_STEP_SECONDS: Final = 5.0
_SERVES_TLS: Final = "check that the port serves https, with TLS 1.2 or later"
_TOO_SLOW: Final = f"no answer within {_STEP_SECONDS:g} s"
_DAY: Final = 86_400
_URGENT_DAYS: Final = 7
_SOON_DAYS: Final = 21
_PORTS: Final = {"https": 443, "http": 80}

# Verification errors of OpenSSL.
_OF_ANOTHER_TIME: Final = (9, 10)
_OF_ANOTHER_NAME: Final = (62, 64)


class Verdict(enum.StrEnum):
    """What a finding means."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing."""
    WARNING = "warning"
    """It works, and something should be done."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not looked at."""


@frozen
class Finding:
    """What a check has found."""

    verdict: Verdict
    text: str
    advice: str = ""
    """What to do."""
    cause: str = ""
    """For a skipped check: the check that failed and that it needs."""


class UnansweredError(IncomeClientError):
    """A question was not asked, or not answered, for a reason that ends all questions."""


class Server:
    """A server that the client connects to; without ``tls`` the usual authorities are trusted."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(address)
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._certificate: dict[str, Any] | None = None

    async def check_name(self) -> Finding:
        """Look the host up."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_STEP_SECONDS):
                found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except TimeoutError:
            problem = _TOO_SLOW
        except (OSError, UnicodeError) as error:
            problem = _error_words(error, "the name is unknown")
        else:
            first, *more = dict.fromkeys(str(each[4][0]) for each in found)
            if first == self._host:
                return Finding(Verdict.OK, f"{first} is an address, nothing to look up")
            others = f" and {len(more)} more" if more else ""
            return Finding(Verdict.OK, f"{self._host} is {first}{others}")
        advice = "check the host name in the address, and this machine's name server"
        return Finding(Verdict.FAILED, f"{self._host}: {problem}", advice)

    async def check_connection(self) -> Finding:
        """Connect, with TLS if the address says https."""
        began = time.perf_counter()
        try:
            async with asyncio.timeout(_STEP_SECONDS):
                _, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, happy_eyeballs_delay=0.25
                )
        except OSError as error:
            return Finding(Verdict.FAILED, *self._explain_failure(error))
        seconds = time.perf_counter() - began
        peer: Any = writer.get_extra_info("peername")
        tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        writer.transport.abort()
        if tls is not None:
            self._certificate = tls.getpeercert()
        version = "plain http, allowed to this machine only" if tls is None else tls.version()
        return Finding(Verdict.OK, f"{peer[0]} in {milliseconds(seconds)}, {version}")

    def _explain_failure(self, error: OSError) -> tuple[str, str]:
        """Return why no connection was made, and what to do about it."""
        match error:
            case TimeoutError():
                text = _TOO_SLOW
                advice = "a firewall may block it: check that this machine may reach host and port"
            case ssl.SSLCertVerificationError():
                text, advice = error.verify_message, _certificate_advice(error)
            case ssl.SSLError():
                text = (error.reason or "TLS failed").replace("_", " ").lower()
                advice = _SERVES_TLS
            case ConnectionRefusedError():
                text = reason_of(error)
                advice = f"nothing listens on port {self._port}: check host and port in the address"
            case ConnectionResetError():
                # Without TLS nothing is sent that could end a connection once it is made.
                text = "the server closed the connection during the TLS handshake"
                advice = (
                    f"{_SERVES_TLS}; the server may also want a client certificate, or let in "
                    "other addresses only"
                )
            case _:
                text = _error_words(error, "no address answers")
                advice = "check this machine's network"
        return text, advice

    async def check_certificate(self) -> Finding:
        """Say whose certificate the server has shown, and how long it is valid."""
        shown = self._certificate
        if not shown:
            return Finding(Verdict.SKIPPED, "none without TLS")
        names = [name for kind, name in shown.get("subjectAltName", ()) if kind == "DNS"]
        subject = _name_parts(shown.get("subject", ()), "commonName") or ", ".join(names[:1]) or "-"
        issuer = _name_parts(shown.get("issuer", ()), "organizationName", "commonName") or "-"
        left = ssl.cert_time_to_seconds(shown["notAfter"]) - time.time()
        days = int(left // _DAY)
        text = f"{subject}, issued by {issuer}, valid for {counted(days, 'day')}"
        if days < _URGENT_DAYS:
            return Finding(Verdict.WARNING, text, "ask the service's owner to renew it")
        return Finding(Verdict.OK if days >= _SOON_DAYS else Verdict.NOTE, text)


def milliseconds(seconds: float) -> str:
    """Return a short time, such as ``1.3 ms``."""
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"  # noqa: PLR2004


def _certificate_advice(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _OF_ANOTHER_TIME:
        now = datetime.now(UTC).replace(tzinfo=None).isoformat(" ", "minutes")
        return (
            "ask the service's owner to renew the certificate, "
            f"unless this machine's clock is wrong: it says {now} UTC"
        )
    if error.verify_code in _OF_ANOTHER_NAME:
        return "check the host name in the address: another server may answer"
    return "if your company's proxy inspects TLS, set INCOME_CA_FILE to its certificate authority"


def _name_parts(name: tuple[tuple[tuple[str, str], ...], ...], *kinds: str) -> str:
    parts = {kind: text for level in name for kind, text in level}
    return ", ".join(dict.fromkeys(parts[kind] for kind in kinds if kind in parts))


def _error_words(error: OSError | UnicodeError, otherwise: str) -> str:
    if isinstance(error, socket.gaierror):
        # Its numbers are not those of the system.
        return (error.strerror or otherwise).lower()
    return reason_of(error, otherwise) if isinstance(error, OSError) else otherwise
