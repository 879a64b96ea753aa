"""Whose client certificate a callback must come with; the chain is the TLS layer's to verify.

Or the proxy's, if that ends TLS and is one that is believed.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from income_client.errors import ConfigurationError

from .certificate_header import LARGEST, certificate_in
from .certificate_names import Holder, check_library, read_holder, read_names, read_subjects
from .exchange import REWRITTEN_PEER, RequestHead
from .networks import TrustedProxies
from .refusals import Refusal

if TYPE_CHECKING:
    from cryptography import x509

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9-]+")
_UNVERIFIED: Final = frozenset({b"x-amzn-mtls-clientcert"})
"""Headers of proxies that carry what anybody has made up."""


@frozen(init=False)
class CallbackClientCertificate:
    """The client certificate that callbacks come with (contract section 5.2, mTLS).

    That it leads to an authority is verified where TLS ends: by `callback_ssl_context`,
    or by a proxy, which must then take the header out of what outsiders send.

    Args:
        subject: whose, as RFC 4514 writes it, such as ``CN=callbacks,O=Income``; one or several.
        san: one or several of its alternative names: DNS names, URIs, IP or e-mail
            addresses, each exactly as it stands there, large letters in a DNS name aside.
            Any subject or name of those given is enough.
        any_from_ca: takes every certificate of the authority instead, which must issue
            them for this one purpose.
        proxy_header: header in which a trusted proxy tells the certificate, such as
            ``Client-Cert`` (RFC 9440; or PEM, percent-encoded). Of a trusted proxy's
            requests it is the only one that counts, of others it counts for nothing.
        verified_header: a further header and the value that says that the proxy has
            verified the certificate, such as ``("X-SSL-Client-Verify", "SUCCESS")``.

    Raises:
        ConfigurationError: nobody is named, an argument cannot be meant, or the library
            for certificates is not installed.
    """

    subjects: "tuple[x509.Name, ...]"
    """Subjects that may ring."""
    names: frozenset[str]
    """Alternative names that may ring."""
    any_from_ca: bool
    """Whether everybody whom the authority knows may ring."""
    proxy_header: bytes | None
    """Where a trusted proxy tells the certificate, in lower case."""
    verified_header: tuple[bytes, bytes] | None = field()
    """Where it says that it has verified it, in lower case, and how."""

    def __init__(
        self,
        *,
        subject: str | Iterable[str] | None = None,
        san: str | Iterable[str] | None = (),
        any_from_ca: bool = False,
        proxy_header: str | None = None,
        verified_header: tuple[str, str] | None = None,
    ) -> None:
        check_library()
        subjects, names = read_subjects(subject), read_names(san)
        if bool(any_from_ca) is bool(subjects or names):
            raise ConfigurationError(
                "client certificates: name a subject or a san, or say any_from_ca=True, not both"
            )
        header = None if proxy_header is None else _header_name("proxy_header", proxy_header)
        if header in _UNVERIFIED:
            raise ConfigurationError(
                "proxy_header: that one carries certificates that nobody has verified"
            )
        if verified_header is not None and header is None:
            raise ConfigurationError("verified_header goes with a proxy_header")
        verified = None if verified_header is None else _verified(verified_header)
        self.__attrs_init__(subjects, names, bool(any_from_ca), header, verified)

    def refusal(self, head: RequestHead, proxies: TrustedProxies, *, now: float) -> Refusal | None:
        """Say why a request does not pass, None if it does.

        Args:
            head: what came before its body.
            proxies: whose word about a request is believed.
            now: seconds since 1970.
        """
        certificate = self._presented(head, proxies)
        if isinstance(certificate, Refusal):
            return certificate
        holder = read_holder(certificate) if len(certificate) <= LARGEST else None
        if holder is None:
            return Refusal.CERTIFICATE_UNREADABLE
        if not holder.begins_at <= now <= holder.ends_at:
            return Refusal.CERTIFICATE_OUT_OF_TIME
        return None if self._is_meant(holder) else Refusal.CERTIFICATE_NOT_PINNED

    def _presented(self, head: RequestHead, proxies: TrustedProxies) -> bytes | Refusal:
        is_proxy = proxies.is_one(head.peer)
        if is_proxy and self.proxy_header is not None:
            return self._forwarded(head, self.proxy_header)
        # A proxy's own certificate is the authority's perhaps, and tells nothing of the sender.
        if head.certificate is not None and not (is_proxy and self.any_from_ca):
            return head.certificate
        if self.proxy_header is not None and head.peer == REWRITTEN_PEER:
            return Refusal.SOURCE_REWRITTEN
        return Refusal.CERTIFICATE_MISSING

    def _forwarded(self, head: RequestHead, header: bytes) -> bytes | Refusal:
        values = head.values(header)
        if len(values) > 1:
            return Refusal.CERTIFICATE_UNREADABLE
        if not values or not values[0]:
            return Refusal.CERTIFICATE_MISSING
        if not self._is_verified(head):
            return Refusal.CERTIFICATE_NOT_VERIFIED
        return certificate_in(values[0]) or Refusal.CERTIFICATE_UNREADABLE

    def _is_verified(self, head: RequestHead) -> bool:
        if self.verified_header is None:
            return True
        name, value = self.verified_header
        return head.values(name) == (value,)

    def _is_meant(self, holder: Holder) -> bool:
        return (
            self.any_from_ca
            or holder.subject in self.subjects
            or not self.names.isdisjoint(holder.names)
        )


def _header_name(argument: str, name: object) -> bytes:
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise ConfigurationError(f"{argument} is the name of a header, such as 'Client-Cert'")
    return name.lower().encode()


def _verified(header: object) -> tuple[bytes, bytes]:
    match header:
        case (str() as name, str() as value) if (
            value and value.isascii() and value == value.strip()
        ):
            return _header_name("verified_header", name), value.encode()
        case _:
            raise ConfigurationError(
                "verified_header is a name and a value, such as ('X-SSL-Client-Verify', 'SUCCESS')"
            )
