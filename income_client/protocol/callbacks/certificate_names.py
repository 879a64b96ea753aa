"""Whom a certificate names, and how somebody says whom they mean; trusts nobody's certificate.

The only module that knows the library for certificates, which is an extra.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from attrs import frozen

from income_client.errors import ConfigurationError
from income_client.hosts import plain_host

from .networks import ip_address

if TYPE_CHECKING:
    from cryptography import x509

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
_ADDRESS: Final = re.compile(r"[!-?A-~]+@[A-Za-z0-9.-]+")
_RFC_4514: Final = (
    "subject: a text as RFC 4514 has it is meant, such as 'CN=callbacks,O=Income', "
    "without spaces around commas; this prints it: "
    "openssl x509 -noout -subject -nameopt RFC2253 -in FILE"
)


@frozen(kw_only=True)
class Holder:
    """Whom a certificate names, and when it is valid."""

    subject: "x509.Name"
    """Its subject."""
    names: frozenset[str]
    """Its alternative names, spelled as `read_names` spells them."""
    begins_at: float
    """When it begins to be valid, in seconds since 1970."""
    ends_at: float
    """When it ends to be valid, in seconds since 1970."""


def check_library() -> None:
    """Look whether the library for certificates is there.

    Raises:
        ConfigurationError: it is not.
    """
    try:
        import cryptography.x509  # noqa: F401, PLC0415 - an extra
    except ImportError:
        pass
    else:
        return
    raise ConfigurationError(
        "client certificates need a library: pip install 'income-client[callbacks]'"
    )


def read_subjects(texts: str | Iterable[str] | None) -> "tuple[x509.Name, ...]":
    """Read one subject, or several, as RFC 4514 writes them.

    Raises:
        ConfigurationError: a text is none, or names nobody.
    """
    return tuple(_subject(text) for text in _several("subject", texts))


def read_names(texts: str | Iterable[str] | None) -> frozenset[str]:
    """Read one alternative name, or several: DNS names, URIs, IP or e-mail addresses.

    Raises:
        ConfigurationError: a text is none of them, or means many.
    """
    return frozenset(_name(text) for text in _several("san", texts))


def read_holder(certificate: bytes) -> Holder | None:
    """Read a certificate; None where it cannot be read.

    Args:
        certificate: in DER.
    """
    from cryptography import x509  # noqa: PLC0415 - an extra

    try:
        read = x509.load_der_x509_certificate(certificate)
        return Holder(
            subject=read.subject,
            names=frozenset(_names_in(read)),
            begins_at=read.not_valid_before_utc.timestamp(),
            ends_at=read.not_valid_after_utc.timestamp(),
        )
    except Exception:  # noqa: BLE001 - of what it consists decides what fails, and how
        return None


def _names_in(certificate: "x509.Certificate") -> Iterator[str]:
    from cryptography import x509  # noqa: PLC0415 - an extra

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return
    for name in found.value:
        match name:
            case x509.DNSName(value=text) if text.isascii():
                yield f"dns:{text.lower()}"
            case x509.UniformResourceIdentifier(value=text):
                yield f"uri:{text}"
            case x509.RFC822Name(value=text) if text.isascii():
                yield _email(text)
            case x509.IPAddress(value=address):
                yield f"ip:{ip_address(str(address))}"
            case _:
                continue


def _several(name: str, texts: object) -> tuple[str, ...]:
    if texts is None:
        return ()
    given = (texts,) if isinstance(texts, str) or not isinstance(texts, Iterable) else tuple(texts)
    found = tuple(text for text in given if isinstance(text, str) and text)
    if len(found) < len(given):
        raise ConfigurationError(f"{name} is a str, or several, none of them empty")
    return found


def _subject(text: str) -> "x509.Name":
    from cryptography import x509  # noqa: PLC0415 - an extra

    known = {
        "emailAddress": x509.NameOID.EMAIL_ADDRESS,
        "serialNumber": x509.NameOID.SERIAL_NUMBER,
    }
    try:
        return x509.Name.from_rfc4514_string(text, known)
    except ValueError:
        pass
    raise ConfigurationError(_RFC_4514)


def _name(text: str) -> str:
    address = ip_address(text)
    if address is not None:
        return f"ip:{address}"
    if _URI.fullmatch(text):
        return f"uri:{text}"
    if _ADDRESS.fullmatch(text):
        return _email(text)
    host = plain_host(text)
    if host is None:
        raise ConfigurationError(
            f"san: {text!r} is no DNS name, URI, IP or e-mail address; wildcards mean too many"
        )
    return f"dns:{host}"


def _email(text: str) -> str:
    local, _, domain = text.rpartition("@")
    return f"email:{local}@{domain.lower()}"
