"""Findings of checks, and the check of a connection, which sends no request."""

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
from income_client.system.texts import reason_of
from income_client.system.tls import default_context

_MOST_SECONDS: Final = 10.0
"""Longest wait for a connection in seconds, as long as a client's by default."""
_DAY: Final = 86_400
_URGENT_DAYS: Final = 7
_SOON_DAYS: Final = 21
_PORTS: Final = {"https": 443, "http": 80}

# Verification errors of OpenSSL.
_OF_ANOTHER_TIME: Final = (9, 10)
_OF_ANOTHER_NAME: Final = (62, 64)


class Verdict(enum.StrEnum):
    """The result of a check."""

    OK = "ok"
    NOTE = "note"
    """A fact that is worth knowing."""
    WARNING = "warning"
    """The check passed, but something should be done."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """The check was not run."""


@frozen
class Finding:
    """A check's result, with its text and advice."""

    verdict: Verdict
    text: str
    advice: str = ""
    """Advice to the user."""
    cause: str = ""
    """Name of the failed check that this one depends on; None unless it was skipped."""


class UnansweredError(IncomeClientError):
    """A question got no answer, for a reason that ends all questions."""


async def check_connection(address: str, tls: ssl.SSLContext | None) -> Finding:
    """Connect to the server of a URL, and report the step that fails and what to do.

    Without ``tls`` the usual authorities are trusted.
    """
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    context = (tls or default_context()) if parts.scheme == "https" else None
    began = time.perf_counter()
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            _, writer = await asyncio.open_connection(
                host, port, ssl=context, happy_eyeballs_delay=0.25
            )
    except (OSError, UnicodeError) as error:
        step, reason, advice = _explain_failure(error, has_ca_file=tls is not None)
        return Finding(Verdict.FAILED, f"{step} of {host}:{port}: {reason}", advice)
    seconds = time.perf_counter() - began
    peer: Any = writer.get_extra_info("peername")
    session: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    reached = f"{peer[0]} in {seconds * 1000:.1f} ms"
    if session is None:
        return Finding(Verdict.OK, f"{reached}, plain http, allowed to this machine only")
    return _judge_certificate(f"{reached}, {session.version()}", session.getpeercert() or {})


def _explain_failure(error: OSError | UnicodeError, *, has_ca_file: bool) -> tuple[str, str, str]:
    """Return the failed step of a connection, the reason and the advice."""
    match error:
        case socket.gaierror() | UnicodeError():
            reason = getattr(error, "strerror", None) or "the name is unknown"
            advice = "check the host name in the address, and this machine's name server"
            return "name", reason.lower(), advice
        case TimeoutError():
            advice = "a firewall may block it: check that this machine may reach host and port"
            return "port", f"no answer within {_MOST_SECONDS:g} s", advice
        case ConnectionRefusedError():
            advice = "nothing listens on this port: check host and port in the address"
            return "port", reason_of(error), advice
        case ssl.SSLCertVerificationError():
            advice = _certificate_advice(error.verify_code, has_ca_file=has_ca_file)
            return "certificate", error.verify_message, advice
        case ssl.SSLError() | ConnectionResetError():
            # Without TLS nothing is sent that could end a connection once it is made.
            reason = getattr(error, "reason", None) or "the server closed the connection"
            advice = (
                "check that the port serves https, with TLS 1.2 or later; the server may also "
                "want a client certificate, or let in other addresses only"
            )
            return "TLS handshake", reason.replace("_", " ").lower(), advice
        case _:
            return "port", reason_of(error, "no address answers"), "check this machine's network"


def _certificate_advice(code: int, *, has_ca_file: bool) -> str:
    if code in _OF_ANOTHER_TIME:
        now = datetime.now(UTC).replace(tzinfo=None).isoformat(" ", "minutes")
        return (
            "ask the service's owner to renew the certificate, "
            f"unless this machine's clock is wrong: it says {now} UTC"
        )
    if code in _OF_ANOTHER_NAME:
        return "check the host name in the address: another server may answer"
    if has_ca_file:
        return "the file of INCOME_CA_FILE must hold the authority that issued this certificate"
    return "if your company's proxy inspects TLS, set INCOME_CA_FILE to its certificate authority"


def _judge_certificate(reached: str, certificate: dict[str, Any]) -> Finding:
    """Name the issuer of an accepted certificate, and the end of its validity."""
    issuer = {kind: text for level in certificate["issuer"] for kind, text in level}
    name = issuer.get("organizationName") or issuer.get("commonName") or "-"
    days = int((ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()) // _DAY)
    text = f"{reached}, certificate issued by {name}, valid for {counted(days, 'day')}"
    if days < _URGENT_DAYS:
        return Finding(Verdict.WARNING, text, "ask the service's owner to renew it")
    return Finding(Verdict.OK if days >= _SOON_DAYS else Verdict.NOTE, text)
