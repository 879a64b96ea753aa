"""TLS for a callback endpoint, with or without client certificates."""

import os
import ssl
from pathlib import Path
from typing import Final, Literal

from income_client.errors import ConfigurationError, InvalidArgumentError
from income_client.settings import Secret, as_secret

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
    """Return a TLS context for a callback endpoint (contract section 5.2, mTLS).

    TLS 1.2 at least. A client's certificate must lead to ``client_ca``; the other
    authorities of this machine are not used. `CallbackClientCertificate` checks which
    client it belongs to.

    Args:
        certificate: file with the server's certificate and those between it and its root.
        key: file with its private key.
        client_ca: file with the authorities that issue clients' certificates, one between
            a root and them included; None for TLS without client certificates.
        client_certificates: "required" refuses connections without one; "optional" lets
            them in, and the receiver decides.
        password: of the private key, if it is encrypted.

    Raises:
        InvalidArgumentError: a file cannot be read, or holds no certificate.
        ConfigurationError: the files do not fit each other.
    """
    password = as_secret(password)
    if client_certificates not in _ASKED:
        raise InvalidArgumentError(
            "client_certificates must be 'required' or 'optional'", argument="client_certificates"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    _load_own(context, certificate, key, password)
    if client_ca is not None:
        context.verify_mode = _ASKED[client_certificates]
        # An authority between a root and the clients may be trusted without its root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load_authorities(context, client_ca)
    return context


def _load_own(
    context: ssl.SSLContext, certificate: FilePath, key: FilePath, password: Secret
) -> None:
    _check_readable("certificate", certificate)
    _check_readable("key", key)
    was_asked = False

    def tell_password() -> str:
        # Without it OpenSSL would ask at the terminal.
        nonlocal was_asked
        was_asked = True
        return password.reveal()

    try:
        context.load_cert_chain(certificate, key, password=tell_password)
    except ssl.SSLError as error:
        files = f"'{certificate}' and '{key}'"
        if was_asked:
            is_given = password.reveal() != ""
            problem = "the password does not open" if is_given else "no password is given for"
            fault = f"key: {problem} '{key}', which is encrypted"
        elif error.reason == "KEY_VALUES_MISMATCH":
            fault = f"certificate, key: {files} do not belong together"
        else:
            reason = error.reason or "unknown form"
            fault = (
                f"certificate, key: {files} are not a certificate and its private key "
                f"in PEM ({reason})"
            )
        raise ConfigurationError(fault) from None
    except ValueError:
        raise InvalidArgumentError("password: it is too long", argument="password") from None


def _load_authorities(context: ssl.SSLContext, client_ca: FilePath) -> None:
    _check_readable("client_ca", client_ca)
    try:
        context.load_verify_locations(cafile=client_ca)
    except ssl.SSLError:
        raise InvalidArgumentError(
            f"client_ca: '{client_ca}' holds no certificate in PEM", argument="client_ca"
        ) from None
    counts = context.cert_store_stats()
    if counts["x509_ca"] < counts["x509"]:
        raise InvalidArgumentError(
            f"client_ca: '{client_ca}' holds a certificate that is not an authority's",
            argument="client_ca",
        )


def _check_readable(name: str, path: FilePath) -> None:
    fault = _reading_fault(path)
    if fault is not None:
        raise InvalidArgumentError(f"{name}: '{path}' cannot be read: {fault}", argument=name)


def _reading_fault(path: FilePath) -> str | None:
    try:
        # A number would be taken for an open file.
        with Path(os.fspath(path)).open("rb") as file:
            file.read(1)
    except (OSError, TypeError, ValueError) as error:
        return getattr(error, "strerror", None) or "not a path"
    return None
