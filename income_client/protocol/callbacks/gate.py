"""Who may ring: the order in which the head of a request is checked, before its body is read."""

from collections.abc import Iterable
from typing import Final, TypeAlias, TypeVar

from attrs import field, frozen

from income_client.errors import ConfigurationError

from .basic import CallbackBasicAuth
from .bearer import CallbackBearerAuth
from .certificates import CallbackClientCertificate
from .exchange import RequestHead
from .networks import CallbackSourceNetworks, TrustedProxies
from .refusals import Refusal
from .token_rules import LONGEST_TOKEN

T = TypeVar("T")

CallbackAuth: TypeAlias = (
    CallbackBasicAuth | CallbackBearerAuth | CallbackClientCertificate | CallbackSourceNetworks
)
"""One way in which callbacks show where they come from."""

_LONGEST_AUTHORIZATION: Final = LONGEST_TOKEN + 16
_REALM: Final = 'realm="callbacks"'


@frozen(kw_only=True)
class BearerToken:
    """A token that came with a request and is still to be checked."""

    text: str = field(repr=False)
    """As it stands in the header."""


@frozen(init=False)
class CallbackGate:
    """Checks the heads of requests (contract section 5.2).

    Of Basic and Bearer, either is enough where both are given, since a request has one
    Authorization header; whatever else is given must hold as well.

    Args:
        auth: the ways in which callbacks show where they come from, each at most once.
        proxies: whose word about a request is believed.

    Raises:
        ConfigurationError: there is none, one stands twice, or source networks stand alone.
    """

    basic: CallbackBasicAuth | None
    """User names and passwords."""
    bearer: CallbackBearerAuth | None
    """Tokens."""
    certificate: CallbackClientCertificate | None
    """Client certificates."""
    networks: CallbackSourceNetworks | None
    """Source addresses."""
    proxies: TrustedProxies
    """Whose word about a request is believed."""

    def __init__(
        self, auth: CallbackAuth | Iterable[CallbackAuth], *, proxies: TrustedProxies
    ) -> None:
        given = tuple(auth) if isinstance(auth, Iterable) else (auth,)
        for one in given:
            if not isinstance(one, CallbackAuth):
                raise ConfigurationError(_mistaken(one))
        networks = _one(given, CallbackSourceNetworks)
        if not given:
            raise ConfigurationError("auth is empty: anybody could ring this endpoint")
        if networks is not None and len(given) == 1 and not networks.is_enough:
            raise ConfigurationError(
                "auth: an address tells nobody's identity; add another method to the source "
                "networks, or say is_enough=True"
            )
        certificate = _one(given, CallbackClientCertificate)
        if certificate is not None and certificate.proxy_header and not proxies.are_any:
            raise ConfigurationError(
                "auth: a proxy_header is believed from trusted_proxies, and there are none"
            )
        self.__attrs_init__(
            _one(given, CallbackBasicAuth),
            _one(given, CallbackBearerAuth),
            certificate,
            networks,
            proxies,
        )

    def check(self, head: RequestHead, *, now: float) -> Refusal | BearerToken | None:
        """Say why a request is refused, or which token must still be checked; None if it passes.

        Args:
            head: what came before its body.
            now: seconds since 1970.
        """
        if head.method != "POST":
            return Refusal.METHOD
        return self._refusal_of_sender(head, now=now) or self._presented(head)

    @property
    def challenges(self) -> tuple[str, ...]:
        """What a 401 names as accepted; the same for every cause."""
        offered = ((self.basic, "Basic"), (self.bearer, "Bearer"))
        return tuple(f"{scheme} {_REALM}" for method, scheme in offered if method is not None)

    def _refusal_of_sender(self, head: RequestHead, *, now: float) -> Refusal | None:
        if self.networks is not None:
            refusal = self.networks.refusal(self.proxies.source(head))
            if refusal is not None:
                return refusal
        if self.certificate is None:
            return None
        return self.certificate.refusal(head, self.proxies, now=now)

    def _presented(self, head: RequestHead) -> Refusal | BearerToken | None:
        if self.basic is None and self.bearer is None:
            return None
        values = head.values(b"authorization")
        if len(values) != 1:
            return Refusal.AUTHORIZATION_DOUBLED if values else Refusal.AUTHORIZATION_MISSING
        scheme, _, credentials = values[0].partition(b" ")
        if len(values[0]) > _LONGEST_AUTHORIZATION or not values[0].isascii():
            return Refusal.AUTHORIZATION_UNREADABLE
        match scheme.lower():
            case b"basic" if self.basic is not None:
                return self.basic.refusal(credentials.strip(b" "))
            case b"bearer" if self.bearer is not None:
                return BearerToken(text=credentials.strip(b" ").decode())
            case _:
                return Refusal.SCHEME_NOT_ACCEPTED


def _mistaken(given: object) -> str:
    """Say what is wrong with something that is no way to authenticate, and what is meant."""
    name = type(given).__name__
    meant = {
        "BasicAuth": "CallbackBasicAuth(username, password)",
        "CallbackTokenIssuer": "the issuer's .auth",
        "OAuth2ClientCredentials": "CallbackTokenIssuer(client_id, client_secret).auth",
    }.get(
        name,
        "a CallbackBasicAuth, CallbackBearerAuth, CallbackClientCertificate or "
        "CallbackSourceNetworks, or several",
    )
    return f"auth: {name} is no way to check callbacks; give {meant}"


def _one(given: tuple[CallbackAuth, ...], kind: type[T]) -> T | None:
    """Return the one of this kind, if there is one.

    Raises:
        ConfigurationError: there are several.
    """
    found = [one for one in given if isinstance(one, kind)]
    if len(found) > 1:
        raise ConfigurationError(f"auth holds more than one {kind.__name__}")
    return found[0] if found else None
