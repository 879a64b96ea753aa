"""Which bearer tokens of callbacks are accepted, as a value; checks none, fetches nothing."""

import ssl as tls
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from attrs import field, frozen

from income_client.errors import ConfigurationError
from income_client.hosts import is_this_machine, plain_host
from income_client.settings import Secret

from .token_rules import DEFAULT_LEEWAY, ClaimValue, TokenRules, token_rules

if TYPE_CHECKING:
    from .token_keys import TokenKey, TokenKeys

Verify: TypeAlias = Callable[[str], bool | Awaitable[bool]]
"""Says whether a token is believed; exactly True means that it is."""
GivenKey: TypeAlias = Mapping[str, Any] | str | bytes | Secret
"""A JWK, a set of them, a public key in PEM, or a shared secret."""

_LONGEST_ADDRESS: Final = 2048
_MOST_KEYS: Final = 32


@frozen(init=False)
class CallbackBearerAuth:
    """Tokens that callbacks carry, made by the partner's identity provider (section 5.2).

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
        ssl: a TLS context in place of the default one, where the key set's host is
            vouched for by an authority of one's own.

    Raises:
        ConfigurationError: an argument cannot be meant, a key cannot be used with the
            algorithms, or the library for tokens is not installed.
    """

    keys: "TokenKeys | None" = field(repr=False)
    """The issuer's keys, where they are given."""
    jwks_url: str | None = field(repr=False)
    """Where they are fetched from, if they are not."""
    verify: Verify | None = field(repr=False)
    """What is asked in place of them."""
    rules: TokenRules | None
    """What tokens must be and say; None where `verify` decides."""
    ssl: tls.SSLContext | None = field(repr=False)
    """How the host of the key set is verified; None for the usual way."""

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
        leeway: float = DEFAULT_LEEWAY,
        ssl: tls.SSLContext | None = None,
    ) -> None:
        has_rules = any(rule is not None for rule in (issuer, audience, claims, algorithms))
        fault = _choice_fault(keys, jwks_url, verify, has_rules or leeway != DEFAULT_LEEWAY)
        fault = fault or _tls_fault(ssl, jwks_url)
        rules = None
        if verify is None:
            fault = fault or _library_fault()
        if fault is None and verify is None:
            try:
                rules = token_rules(
                    issuer=issuer,
                    audience=audience,
                    claims=claims,
                    algorithms=algorithms,
                    leeway=leeway,
                )
            except ConfigurationError as error:
                fault = error.message
        found: TokenKeys | str | None = None
        if rules is not None:
            found = _address_fault(jwks_url, rules) if keys is None else _keys(keys, rules)
        if fault is not None or isinstance(found, str):
            message = str(fault or found)
            # Crash reporters send the locals of the frame that raises.
            del self, keys, jwks_url, claims, found
            raise ConfigurationError(message)
        self.__attrs_init__(found, jwks_url, verify, rules, ssl)


def _choice_fault(keys: object, jwks_url: object, verify: object, has_rules: object) -> str | None:
    given = [way for way in (keys, jwks_url, verify) if way is not None]
    if len(given) != 1:
        return "give exactly one of keys, jwks_url and verify"
    if verify is None:
        return None
    if not callable(verify):
        return "verify is no callable"
    return "verify decides alone; no other argument goes with it" if has_rules else None


def _tls_fault(context: object, jwks_url: object) -> str | None:
    if context is None:
        return None
    if not isinstance(context, tls.SSLContext):
        return "ssl is no SSLContext"
    return "ssl goes with a jwks_url" if jwks_url is None else None


def _library_fault() -> str | None:
    try:
        from . import token_keys  # noqa: F401, PLC0415 - only tokens need its library
    except ConfigurationError as error:
        return error.message
    return None


def _address_fault(url: object, rules: TokenRules) -> str | None:
    if rules.is_symmetric:
        return "jwks_url: keys that anybody can fetch are no secrets; HS256 goes with keys"
    parts = _split(url)
    host = None if parts is None else plain_host(_host_text(parts))
    if parts is None or host is None:
        return "jwks_url is no address in printable ASCII"
    if "@" in parts.netloc or parts.fragment:
        return "jwks_url holds a user name, a password or a fragment"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_this_machine(host)):
        return "jwks_url is https, or http on this machine"
    return None


def _split(url: object) -> SplitResult | None:
    is_plain = isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url
    if not isinstance(url, str) or not is_plain or len(url) > _LONGEST_ADDRESS or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
        has_port_zero = parts.port == 0
    except ValueError:
        return None
    return None if has_port_zero else parts


def _host_text(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host


def _keys(keys: object, rules: TokenRules) -> "TokenKeys | str":
    """Return the keys that work with the rules, or what is wrong with one of them."""
    from .token_keys import TokenKeys  # noqa: PLC0415 - as above

    is_one = isinstance(keys, Mapping | str | bytes | Secret)
    given = (keys,) if is_one else keys
    if not isinstance(given, Sequence) or not given:
        return "keys are one key or several, each a JWK, a JWKS, a PEM or a Secret"
    found: list[TokenKey] = []
    for number, key in enumerate(given, start=1):
        usable = _usable(key).within(rules.algorithms)
        if not usable.keys:
            return f"keys: number {number} {_useless(key, rules)}"
        found.extend(usable.keys)
    if len(found) > _MOST_KEYS:
        return f"keys: there are more than {_MOST_KEYS}, and all may have to be tried"
    return TokenKeys(tuple(found), most_tried=_MOST_KEYS)


def _useless(given: object, rules: TokenRules) -> str:
    """Say what is wrong with a key that cannot be used; shows nothing of it."""
    text = _octets(given) if isinstance(given, str | bytes) else None
    is_secret = isinstance(given, Secret)
    causes = (
        (
            is_secret and not rules.is_symmetric,
            "is a Secret, and these go with algorithms such as ['HS256'], which must be named",
        ),
        (is_secret, "is a Secret that is too short, or a public key: it has 32 bytes for HS256"),
        (
            text is not None and b"PRIVATE KEY" in text,
            "is a private key in PEM, which only the issuer should have",
        ),
        (
            text is not None and text.startswith((b"http://", b"https://")),
            "is an address, for which there is jwks_url",
        ),
        (
            text is not None and b"-----BEGIN" not in text,
            "is no public key in PEM; a shared secret is given as a Secret",
        ),
        (
            isinstance(given, Mapping) and "d" in given,
            "is a private key, which only the issuer should have",
        ),
        (
            text is None and not isinstance(given, Mapping),
            "is neither a JWK, nor a JWKS, PEM or a Secret",
        ),
    )
    cannot = (
        "cannot be used with these algorithms: it is of another kind, too short (RSA: 2048 "
        "bits), or meant for something else"
    )
    return next((cause for is_so, cause in causes if is_so), cannot)


def _octets(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _usable(given: object) -> "TokenKeys":
    from . import token_keys  # noqa: PLC0415 - as above

    match given:
        case Mapping() if "keys" in given:
            return token_keys.import_keys(given)
        case Mapping():
            key = token_keys.import_key(given)
        case str() if given.isascii():
            key = token_keys.import_pem(given.encode())
        case bytes():
            key = token_keys.import_pem(given)
        case Secret():
            key = token_keys.import_secret(given.reveal().encode("utf-8", "surrogatepass"))
        case _:
            key = None
    return token_keys.TokenKeys(() if key is None else (key,))
