"""Client certificates of callbacks: accepted subjects and names, and proxies' headers.

The chain is verified where TLS ends, by this server or by a proxy that is trusted.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from attrs import frozen

from income_client.errors import ConfigurationError, InvalidArgumentError
from income_client.system.hosts import plain_host

from .exchange import REWRITTEN_PEER, Refusal, RefusedError, RequestHead
from .networks import TrustedProxies, ip_address

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Name
else:
    # Stand-ins for those who resolve type hints at run time: cryptography is an extra.
    Certificate = Name = Any

_LARGEST: Final = 16_384
"""Bytes of the longest certificate that is read, encoded or not."""
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9-]+")
_UNVERIFIED: Final = frozenset({b"x-amzn-mtls-clientcert"})
"""Headers in which proxies forward certificates without verifying them."""
_RFC_9440: Final = re.compile(rb":([A-Za-z0-9+/]+={0,2}):")
_PEM: Final = re.compile(
    rb"\s*-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*"
)
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
_ADDRESS: Final = re.compile(r"[!-?A-~]+@[A-Za-z0-9.-]+")
_RFC_4514: Final = (
    "subject must be a text as RFC 4514 has it, such as 'CN=callbacks,O=Income', "
    "without spaces around commas; this prints it: "
    "openssl x509 -noout -subject -nameopt RFC2253 -in FILE"
)


@frozen(init=False)
class CallbackClientCertificate:
    """Rules for the client certificate of callbacks (contract section 5.2, mTLS).

    That it leads to an authority is verified where TLS ends: by `callback_ssl_context`,
    or by a proxy, which must then remove the header from what outsiders send.

    Args:
        subject: whose, as RFC 4514 writes it, such as ``CN=callbacks,O=Income``; one or several.
        san: one or several of its alternative names: DNS names, URIs, IP or e-mail
            addresses, each exactly as the certificate has it, large letters in a DNS name
            aside. Any subject or name of those given is enough.
        any_from_ca: accepts every certificate of the authority instead, which must issue
            them for this one purpose.
        proxy_header: header in which a trusted proxy forwards the certificate, such as
            ``Client-Cert`` (RFC 9440; or PEM, percent-encoded). Of a trusted proxy's
            requests it is the only one that counts, of others it counts for nothing.
        verified_header: a further header and the value that says that the proxy has
            verified the certificate, such as ``("X-SSL-Client-Verify", "SUCCESS")``.

    Raises:
        ConfigurationError: no certificate is named, an argument is invalid, or the library for
            certificates is not installed.
    """

    subjects: tuple[Name, ...]
    """Accepted subjects."""
    names: frozenset[str]
    """Accepted alternative names with their kind, such as ``dns:callbacks.example``."""
    any_from_ca: bool
    proxy_header: bytes | None
    """Name of the proxy's header field in lower case, from ``verified_header``; None without a
    proxy."""
    verified_header: tuple[bytes, bytes] | None

    def __init__(
        self,
        *,
        subject: str | Iterable[str] | None = None,
        san: str | Iterable[str] | None = (),
        any_from_ca: bool = False,
        proxy_header: str | None = None,
        verified_header: tuple[str, str] | None = None,
    ) -> None:
        library = _import_x509()
        subjects = tuple(_parse_subject(library, text) for text in _list_texts("subject", subject))
        names = frozenset(_parse_san(text) for text in _list_texts("san", san))
        if bool(any_from_ca) is bool(subjects or names):
            raise ConfigurationError(
                "client certificates: name a subject or a san, or say any_from_ca=True, not both"
            )
        header = None if proxy_header is None else _header_name("proxy_header", proxy_header)
        if header in _UNVERIFIED:
            raise InvalidArgumentError(
                "proxy_header: the proxy does not verify the certificates in that header",
                argument="proxy_header",
            )
        if verified_header is not None and header is None:
            raise InvalidArgumentError(
                "verified_header goes with a proxy_header", argument="verified_header"
            )
        verified = None if verified_header is None else _read_verified_header(verified_header)
        self.__attrs_init__(subjects, names, bool(any_from_ca), header, verified)

    def check(self, head: RequestHead, proxies: TrustedProxies, *, now: float) -> None:
        """Refuse a request without an accepted certificate.

        Args:
            head: what came before its body.
            proxies: whose forwarding headers are believed.
            now: seconds since 1970.
        """
        certificate = self._presented_certificate(head, proxies)
        if len(certificate) > _LARGEST:
            raise RefusedError(Refusal.CERTIFICATE_UNREADABLE)
        try:
            read = _import_x509().load_der_x509_certificate(certificate)
            subject, names = read.subject, frozenset(_names_in(read))
            begins_at = read.not_valid_before_utc.timestamp()
            ends_at = read.not_valid_after_utc.timestamp()
        except Exception:  # noqa: BLE001 - the library raises errors of many kinds
            raise RefusedError(Refusal.CERTIFICATE_UNREADABLE) from None
        if not begins_at <= now <= ends_at:
            raise RefusedError(Refusal.CERTIFICATE_OUT_OF_TIME)
        is_named = subject in self.subjects or not self.names.isdisjoint(names)
        if not (self.any_from_ca or is_named):
            raise RefusedError(Refusal.CERTIFICATE_NOT_PINNED)

    def _presented_certificate(self, head: RequestHead, proxies: TrustedProxies) -> bytes:
        is_proxy = proxies.is_one(head.peer)
        if is_proxy and self.proxy_header is not None:
            return self._forwarded_certificate(head, self.proxy_header)
        # The authority may have issued a proxy's own certificate, which says nothing of the sender.
        if head.certificate is not None and not (is_proxy and self.any_from_ca):
            return head.certificate
        if self.proxy_header is not None and head.peer == REWRITTEN_PEER:
            raise RefusedError(Refusal.SOURCE_REWRITTEN)
        raise RefusedError(Refusal.CERTIFICATE_MISSING)

    def _forwarded_certificate(self, head: RequestHead, header: bytes) -> bytes:
        values = head.values(header)
        if len(values) > 1:
            raise RefusedError(Refusal.CERTIFICATE_UNREADABLE)
        if not values or not values[0]:
            raise RefusedError(Refusal.CERTIFICATE_MISSING)
        if self.verified_header is not None:
            name, value = self.verified_header
            if head.values(name) != (value,):
                raise RefusedError(Refusal.CERTIFICATE_NOT_VERIFIED)
        certificate = certificate_in(values[0])
        if certificate is None:
            raise RefusedError(Refusal.CERTIFICATE_UNREADABLE)
        return certificate


def certificate_in(value: bytes) -> bytes | None:
    """Return the certificate of a header field in DER, None if it cannot be read.

    Two forms are in use: ``:base64 of DER:`` (RFC 9440), and percent-encoded PEM as nginx
    and load balancers send it. A plus sign stays a plus sign in both.
    """
    if len(value) > _LARGEST:
        return None
    if value.startswith(b":"):
        match = _RFC_9440.fullmatch(value)
        text = match[1] if match else b""
    else:
        match = _PEM.fullmatch(unquote_to_bytes(value))
        text = b"".join(match[1].split()) if match else b""
    try:
        return base64.b64decode(text, validate=True) or None
    except binascii.Error:
        return None


def _import_x509() -> Any:
    """Import the library for certificates; raise `ConfigurationError` without the extra."""
    try:
        from cryptography import x509  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigurationError(
            "client certificates need a library: pip install 'income-client[callbacks]'"
        ) from None
    return x509


def _names_in(certificate: Certificate) -> Iterator[str]:
    x509 = _import_x509()
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return
    for name in extension.value:
        match name:
            case x509.DNSName(value=text) if text.isascii():
                yield f"dns:{text.lower()}"
            case x509.UniformResourceIdentifier(value=text):
                yield f"uri:{text}"
            case x509.RFC822Name(value=text) if text.isascii():
                yield _email_name(text)
            case x509.IPAddress(value=address):
                yield f"ip:{ip_address(str(address))}"
            case _:
                continue


def _list_texts(name: str, texts: object) -> tuple[str, ...]:
    if texts is None:
        return ()
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        texts = (texts,)
    entries = tuple(texts)
    if not all(isinstance(entry, str) and entry for entry in entries):
        raise InvalidArgumentError(
            f"{name} must be a str, or several, none of them empty", argument=name
        )
    return entries


def _parse_subject(library: Any, text: str) -> Name:
    attributes = {
        "emailAddress": library.NameOID.EMAIL_ADDRESS,
        "serialNumber": library.NameOID.SERIAL_NUMBER,
    }
    try:
        subject: Name = library.Name.from_rfc4514_string(text, attributes)
    except ValueError:
        raise InvalidArgumentError(_RFC_4514, argument="subject") from None
    return subject


def _parse_san(text: str) -> str:
    address = ip_address(text)
    if address is not None:
        return f"ip:{address}"
    if _URI.fullmatch(text):
        return f"uri:{text}"
    if _ADDRESS.fullmatch(text):
        return _email_name(text)
    host = plain_host(text)
    if host is None:
        raise InvalidArgumentError(
            f"san: {text!r} must be a DNS name, URI, IP or e-mail address; wildcards mean too many",
            argument="san",
        )
    return f"dns:{host}"


def _email_name(text: str) -> str:
    local, _, domain = text.rpartition("@")
    return f"email:{local}@{domain.lower()}"


def _header_name(argument: str, name: object) -> bytes:
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"{argument} must be the name of a header, such as 'Client-Cert'", argument=argument
        )
    return name.lower().encode()


def _read_verified_header(header: object) -> tuple[bytes, bytes]:
    match header:
        case (str() as name, str() as value) if (
            value and value.isascii() and value == value.strip()
        ):
            return _header_name("verified_header", name), value.encode()
        case _:
            raise InvalidArgumentError(
                "verified_header must be a name and a value, such as "
                "('X-SSL-Client-Verify', 'SUCCESS')",
                argument="verified_header",
            )
