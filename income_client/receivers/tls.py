"""TLS for an endpoint of one's own: whose clients may connect; knows no web framework."""

import os
import ssl
from pathlib import Path
from typing import Final, Literal

from income_client.errors import ConfigurationError
from income_client.settings import Secret

_ASKED: Final = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL}

FilePath = str | os.PathLike[str]


def callback_ssl_context(
    certificate: FilePath,
    key: FilePath,
    client_ca: FilePath | None,
    *,
    client_certificates: Literal["required", "optional"] = "required",
    password: str | Secret | None = None,
) -> ssl.SSLContext:
    """Return a TLS context for an endpoint of callbacks (contract section 5.2, mTLS).

    TLS 1.2 at least. A client's certificate must lead to ``client_ca``; the authorities
    that this machine trusts otherwise count for nothing. Whose certificate it is, a
    `CallbackClientCertificate` tells.

    Args:
        certificate: file with the server's certificate and those between it and its root.
        key: file with its private key.
        client_ca: file with the authorities that issue clients' certificates, one between
            a root and them included; None for TLS without client certificates.
        client_certificates: "required" ends the handshake of who has none; "optional"
            leaves that to what is served, where others may connect as well.
        password: of the private key, if it is encrypted.

    Raises:
        ConfigurationError: a file cannot be read, or what it holds does not fit.
    """
    if client_certificates not in _ASKED:
        raise ConfigurationError("client_certificates is 'required' or 'optional'")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    fault = _own_fault(context, certificate, key, password)
    # Crash reporters send the locals of the frame that raises.
    del password
    if fault is None and client_ca is not None:
        context.verify_mode = _ASKED[client_certificates]
        # An authority between a root and the clients may be trusted without its root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        fault = _authorities_fault(context, client_ca)
    if fault is not None:
        raise ConfigurationError(fault)
    return context


def _own_fault(
    context: ssl.SSLContext,
    certificate: FilePath,
    key: FilePath,
    password: str | Secret | None,
) -> str | None:
    unread = _unread("certificate", certificate) or _unread("key", key)
    if unread is not None:
        return unread
    text = password.reveal() if isinstance(password, Secret) else password or ""
    asked = False

    def tell_password() -> str:
        # Without it OpenSSL would ask at the terminal.
        nonlocal asked
        asked = True
        return text

    try:
        context.load_cert_chain(certificate, key, password=tell_password)
    except ssl.SSLError as error:
        reason = error.reason or "unknown form"
    except ValueError:
        return "password: it is too long"
    else:
        return None
    if asked:
        known = "the password does not open" if text else "no password is given for"
        return f"key: {known} {_shown(key)}, which is encrypted"
    files = f"{_shown(certificate)} and {_shown(key)}"
    if reason == "KEY_VALUES_MISMATCH":
        return f"certificate, key: {files} do not belong together"
    return f"certificate, key: {files} are not a certificate and its private key in PEM ({reason})"


def _authorities_fault(context: ssl.SSLContext, client_ca: FilePath) -> str | None:
    unread = _unread("client_ca", client_ca)
    if unread is not None:
        return unread
    try:
        context.load_verify_locations(cafile=client_ca)
    except ssl.SSLError:
        return f"client_ca: {_shown(client_ca)} holds no certificate in PEM"
    held = context.cert_store_stats()
    if held["x509_ca"] < held["x509"]:
        return f"client_ca: {_shown(client_ca)} holds a certificate that is no authority's"
    return None


def _unread(name: str, path: FilePath) -> str | None:
    try:
        # A number would be taken for an open file.
        with Path(os.fspath(path)).open("rb") as file:
            file.read(1)
    except (OSError, TypeError, ValueError) as error:
        cause = getattr(error, "strerror", None) or "no path"
        return f"{name}: {_shown(path)} cannot be read: {cause}"
    return None


def _shown(path: FilePath) -> str:
    try:
        return repr(os.fspath(path))
    except TypeError:
        return "what is given"
