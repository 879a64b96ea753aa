"""Authentication of callbacks: its settings, and the order of its checks.

Everything here is decided from the head of a request, before its body is read.
"""

import base64
import binascii
import hmac
import ssl as tls
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from attrs import field, frozen

from income_client.errors import ConfigurationError, InvalidArgumentError
from income_client.settings import BasicAuth, Secret, as_secret
from income_client.system.frames import strip_frames
from income_client.system.hosts import read_address

from .certificates import CallbackClientCertificate
from .exchange import LONGEST_TOKEN, Refusal, RefusedError, RequestHead
from .networks import CallbackSourceNetworks, TrustedProxies

if TYPE_CHECKING:
    from .jwt import TokenKeys, TokenRules
else:
    # Stand-ins for those who resolve type hints at run time: joserfc is an extra.
    TokenKeys = TokenRules = Any

T = TypeVar("T")

Verify: TypeAlias = Callable[[str], bool | Awaitable[bool]]
"""Returns True for a valid token; any other value refuses the token."""
GivenKey: TypeAlias = Mapping[str, Any] | str | bytes | Secret
"""A JWK, a set of JWKs, a public key in PEM, or a shared secret."""
ClaimValue: TypeAlias = str | int | bool
"""Required value of a claim."""

_LEEWAY: Final = 30.0
_LONGEST_AUTHORIZATION: Final = LONGEST_TOKEN + 16
_REALM: Final = 'realm="callbacks"'


@frozen(init=False)
class CallbackBasicAuth:
    """User name and password that callbacks carry (contract section 5.2).

    Args:
        username: as given to the service at account configuration; holds no colon.
        password: as given to the service, a str or a `Secret`.
        also: further pairs that are accepted, for the time of a change of passwords.

    Raises:
        ConfigurationError: a part is empty or holds a control character.
    """

    _digests: tuple[bytes, ...] = field(repr=False)

    def __init__(
        self, username: str, password: str | Secret, *, also: Iterable[BasicAuth] = ()
    ) -> None:
        password, others = as_secret(password), credentials_of(also, BasicAuth)
        if others is None:
            del also  # plain passwords: crash reporters send the variables of frames
            raise InvalidArgumentError("also must be an iterable of BasicAuth", argument="also")
        pairs = (BasicAuth(username, password), *others)
        digests = (pair_digests(pair.username, pair.password) for pair in pairs)
        self.__attrs_init__(tuple(chain.from_iterable(digests)))

    def check(self, credentials: bytes) -> None:
        """Refuse wrong credentials, the text after ``Basic``, in constant time."""
        try:
            pair = base64.b64decode(credentials, validate=True)
        except binascii.Error:
            raise RefusedError(Refusal.AUTHORIZATION_UNREADABLE) from None
        name, _, password = pair.partition(b":")
        digest = pair_digest(name, password)
        # Every pair is compared, even after one fits.
        fits = [hmac.compare_digest(digest, expected) for expected in self._digests]
        if not any(fits):
            raise RefusedError(Refusal.PASSWORD_WRONG)


def credentials_of(values: object, kind: type[T]) -> tuple[T, ...] | None:
    """Return credentials as a tuple; None for another type, such as a plain password."""
    pairs = tuple(values) if isinstance(values, Iterable) else (None,)
    return pairs if all(isinstance(pair, kind) for pair in pairs) else None


def pair_digest(name: bytes, secret: bytes) -> bytes:
    """Return an unambiguous digest of a name and a secret."""
    return sha256(sha256(name).digest() + sha256(secret).digest()).digest()


def pair_digests(name: str, secret: Secret) -> Iterator[bytes]:
    """Yield the digests of a pair, one for each possible encoding (RFC 7617)."""
    for encoding in ("utf-8", "latin-1"):
        try:
            yield pair_digest(name.encode(encoding), secret.reveal().encode(encoding))
        except UnicodeEncodeError:
            continue


@frozen(init=False)
class CallbackBearerAuth:
    """Rules for the bearer tokens of callbacks, from the partner's identity provider (section 5.2).

    Exactly one of ``keys``, ``jwks_url`` and ``verify`` is given. With one of the first
    two, tokens are JWTs whose ``iss`` is ``issuer``, which have not expired, and which are
    meant for this endpoint: by ``audience``, by ``claims`` or both.

    Args:
        keys: a JWK, a JWKS, a public key in PEM, a `Secret` for HS256 and its like, or
            several of these.
        jwks_url: address of the issuer's key set: https, or http on this machine.
        verify: says of a token, as it came, whether it is believed; may be async, and has
            ten seconds. It must look at everything that matters, the time included.
        issuer: what tokens carry as ``iss``.
        audience: what they carry as ``aud``; of several, one is enough.
        claims: further claims, and the values to which they must be equal.
        algorithms: those that may sign; all common ones with public keys by default.
        leeway: seconds by which the clocks may differ, 60 at most.
        ssl: a TLS context in place of the default one, where a private authority has
            issued the certificate of the key set's host.

    Raises:
        ConfigurationError: an argument is invalid, a key cannot be used with the
            algorithms, or the library for tokens is not installed.
    """

    keys: "TokenKeys | None" = field(repr=False)
    jwks_url: str | None = field(repr=False)
    verify: Verify | None = field(repr=False)
    rules: "TokenRules | None"
    """Rules for tokens; None if `verify` decides."""
    ssl: tls.SSLContext | None = field(repr=False)

    @strip_frames
    def __init__(
        self,
        *,
        keys: GivenKey | Sequence[GivenKey] | None = None,
        jwks_url: str | None = None,
        verify: Verify | None = None,
        issuer: str | None = None,
        audience: str | Iterable[str] | None = None,
        claims: Mapping[str, ClaimValue] | None = None,
        algorithms: Iterable[str] | None = None,
        leeway: float = _LEEWAY,
        ssl: tls.SSLContext | None = None,
    ) -> None:
        if sum(way is not None for way in (keys, jwks_url, verify)) != 1:
            raise ConfigurationError("give exactly one of keys, jwks_url and verify")
        if ssl is not None and not isinstance(ssl, tls.SSLContext):
            raise InvalidArgumentError("ssl must be an SSLContext", argument="ssl")
        if ssl is not None and jwks_url is None:
            raise InvalidArgumentError("ssl goes with a jwks_url", argument="ssl")
        if verify is not None:
            if not callable(verify):
                raise InvalidArgumentError("verify must be callable", argument="verify")
            if (issuer, audience, claims, algorithms, leeway) != (None, None, None, None, _LEEWAY):
                raise InvalidArgumentError(
                    "verify decides alone; no other argument goes with it", argument="verify"
                )
            self.__attrs_init__(None, None, verify, None, None)
            return
        from . import jwt  # noqa: PLC0415 - only tokens need its library

        rules = jwt.token_rules(
            issuer=issuer, audience=audience, claims=claims, algorithms=algorithms, leeway=leeway
        )
        token_keys = None if keys is None else jwt.given_keys(keys, rules)
        if token_keys is None:
            _check_address(jwks_url, rules)
        self.__attrs_init__(token_keys, jwks_url, None, rules, ssl)


def _check_address(url: object, rules: "TokenRules") -> None:
    """Refuse a URL of keys that is not https, or that has a user, query or fragment."""
    if rules.is_symmetric:
        raise InvalidArgumentError(
            "jwks_url: anyone can fetch that key set; a secret for HS256 must be given as keys",
            argument="jwks_url",
        )
    address = read_address("jwks_url", url)
    if address.has_user or address.has_fragment:
        raise InvalidArgumentError(
            "jwks_url holds a user name, a password or a fragment", argument="jwks_url"
        )
    if address.is_exposed:
        raise InvalidArgumentError(
            "jwks_url must be https, or http on this machine", argument="jwks_url"
        )


CallbackAuth: TypeAlias = (
    CallbackBasicAuth | CallbackBearerAuth | CallbackClientCertificate | CallbackSourceNetworks
)
"""A way to authenticate callbacks."""


@frozen(init=False)
class CallbackGate:
    """Checks the heads of requests (contract section 5.2).

    Of Basic and Bearer, either is enough where both are given, since a request has one
    Authorization header. Everything else that is given must hold as well.
    """

    basic: CallbackBasicAuth | None
    bearer: CallbackBearerAuth | None
    certificate: CallbackClientCertificate | None
    networks: CallbackSourceNetworks | None
    proxies: TrustedProxies

    def __init__(
        self, auth: CallbackAuth | Iterable[CallbackAuth], *, proxies: TrustedProxies
    ) -> None:
        settings = tuple(auth) if isinstance(auth, Iterable) else (auth,)
        for setting in settings:
            if not isinstance(setting, CallbackAuth):
                raise InvalidArgumentError(
                    "auth must be a CallbackBasicAuth, a CallbackBearerAuth such as the .auth of "
                    "a CallbackTokenIssuer, a CallbackClientCertificate, CallbackSourceNetworks, "
                    f"or several of them, not {type(setting).__name__}",
                    argument="auth",
                )
        networks = _only_one_of(settings, CallbackSourceNetworks)
        if not settings:
            raise InvalidArgumentError(
                "auth is empty: callbacks could come from anyone", argument="auth"
            )
        if networks is not None and len(settings) == 1 and not networks.is_enough:
            raise InvalidArgumentError(
                "auth: an address does not identify the sender; add another method to the source "
                "networks, or set is_enough=True",
                argument="auth",
            )
        certificate = _only_one_of(settings, CallbackClientCertificate)
        if certificate is not None and certificate.proxy_header and not proxies.are_any:
            raise InvalidArgumentError(
                "auth: proxy_header needs trusted_proxies, and none are given", argument="auth"
            )
        self.__attrs_init__(
            _only_one_of(settings, CallbackBasicAuth),
            _only_one_of(settings, CallbackBearerAuth),
            certificate,
            networks,
            proxies,
        )

    @property
    def challenges(self) -> tuple[str, ...]:
        """Values of WWW-Authenticate in a 401; the same for every cause."""
        offered = ((self.basic, "Basic"), (self.bearer, "Bearer"))
        return tuple(f"{scheme} {_REALM}" for method, scheme in offered if method is not None)

    def check(self, head: RequestHead, *, now: float) -> str | None:
        """Refuse a request, or return its bearer token for a later check.

        ``now`` is in seconds since 1970.
        """
        if head.method != "POST":
            raise RefusedError(Refusal.METHOD)
        if self.networks is not None:
            self.networks.check(self.proxies.source(head))
        if self.certificate is not None:
            self.certificate.check(head, self.proxies, now=now)
        if self.basic is None and self.bearer is None:
            return None
        return self._check_authorization(head)

    def _check_authorization(self, head: RequestHead) -> str | None:
        values = head.values(b"authorization")
        if not values:
            raise RefusedError(Refusal.AUTHORIZATION_MISSING)
        if len(values) > 1:
            raise RefusedError(Refusal.AUTHORIZATION_DOUBLED)
        scheme, _, credentials = values[0].partition(b" ")
        if len(values[0]) > _LONGEST_AUTHORIZATION or not values[0].isascii():
            raise RefusedError(Refusal.AUTHORIZATION_UNREADABLE)
        match scheme.lower():
            case b"basic" if self.basic is not None:
                self.basic.check(credentials.strip(b" "))
                return None
            case b"bearer" if self.bearer is not None:
                return credentials.strip(b" ").decode()
            case _:
                raise RefusedError(Refusal.SCHEME_NOT_ACCEPTED)


def _only_one_of(settings: tuple[CallbackAuth, ...], kind: type[T]) -> T | None:
    """Return the setting of a class, None if there is none; raise if there are several."""
    of_kind = [setting for setting in settings if isinstance(setting, kind)]
    if len(of_kind) > 1:
        raise InvalidArgumentError(f"auth holds more than one {kind.__name__}", argument="auth")
    return of_kind[0] if of_kind else None
