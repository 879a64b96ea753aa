"""A token endpoint for partners without an identity provider; knows no clock and no chance.

Its tokens are signed with a key that is made from the client secret, so that nothing is
stored: they are good in every process that knows the secret, and after a restart.
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final, assert_never

import msgspec
from attrs import field, frozen

from income_client.errors import ConfigurationError
from income_client.settings import OAuth2ClientCredentials, Secret, is_number

from .bearer import CallbackBearerAuth
from .exchange import Answer, RequestHead, answer
from .token_form import ClientPair, FormFault, read_token_request

MAX_FORM_BYTES: Final = 8192
"""Longest body of a token request that need be read."""

_ISSUER: Final = "income-client"
_AUDIENCE: Final = "income-client callbacks"
_ALGORITHM: Final = "HS256"
_KEY_LABEL: Final = b"income-client callback tokens 1\0"
_GRANT: Final = b"client_credentials"
_CHALLENGE: Final = 'Basic realm="callback tokens"'
_LEAST_SECRET: Final = 32
_SHORTEST: Final = 60
_LONGEST: Final = 86_400


@frozen(kw_only=True)
class _Client:
    client_id: str
    digests: tuple[bytes, ...] = field(repr=False)
    """Of the id and the secret, in each encoding that they may come in."""
    key: Secret
    """What its tokens are signed with."""


@frozen(init=False)
class CallbackTokenIssuer:
    """Sells the tokens that callbacks carry (contract section 5.2).

    The service is given the client id, the client secret, the grant type
    ``client_credentials`` and the address at which this is served; `auth` goes to the
    receiver. Serve it over TLS: the secret comes in the clear.

    Args:
        client_id: as given to the service; holds no colon.
        client_secret: as given to the service, at least 32 characters that cannot be
            guessed.
        lifetime: seconds that a token is good for, from 60 to 86400.
        also: further clients that are accepted, for the time of a change of secrets.

    Raises:
        ConfigurationError: an argument cannot be meant, or the library for tokens is not
            installed.
    """

    auth: CallbackBearerAuth
    """Accepts the tokens of this issuer."""
    lifetime: int
    """Seconds that a token is good for."""
    _clients: tuple[_Client, ...] = field(repr=False)

    def __init__(
        self,
        client_id: str,
        client_secret: str | Secret,
        *,
        lifetime: float = 3600.0,
        also: Iterable[OAuth2ClientCredentials] = (),
    ) -> None:
        made = _lifetime_fault(lifetime) or _made(client_id, client_secret, also)
        if isinstance(made, str):
            # Crash reporters send the locals of the frame that raises.
            del self, client_id, client_secret, also
            raise ConfigurationError(made)
        self.__attrs_init__(made.auth, int(lifetime), made.clients)

    def answer(self, head: RequestHead, body: bytes, *, now: float, nonce: bytes) -> Answer:
        """Answer a token request (RFC 6749, sections 4.4 and 5).

        Args:
            head: what came before the body.
            body: the whole of it.
            now: seconds since 1970.
            nonce: 16 bytes or more that were never used before; they become the token's name.

        Returns:
            A token as JSON (section 5.1 there), or an error as JSON (section 5.2).
        """
        if head.method != "POST":
            return answer(HTTPStatus.METHOD_NOT_ALLOWED, Allow="POST")
        request = read_token_request(head, body)
        if isinstance(request, FormFault):
            return _refused(request)
        client = self._client_of(request.readings)
        if client is None:
            return _refused(FormFault.CLIENT)
        if request.grant_type != _GRANT:
            return _refused(FormFault.GRANT)
        content = {
            "access_token": _token(client, self.lifetime, now=now, nonce=nonce),
            "token_type": "Bearer",
            "expires_in": self.lifetime,
        }
        return answer(HTTPStatus.OK, content, Pragma="no-cache")

    def _client_of(self, readings: Iterable[ClientPair]) -> _Client | None:
        digests = [_digest(pair.client_id, pair.client_secret) for pair in readings]
        found = None
        # Every one is compared, whichever fits.
        for client in self._clients:
            for known in client.digests:
                for digest in digests:
                    if hmac.compare_digest(digest, known):
                        found = client
        return found


@frozen(kw_only=True)
class _Made:
    auth: CallbackBearerAuth
    clients: tuple[_Client, ...]


def _made(client_id: str, client_secret: str | Secret, also: object) -> _Made | str:
    """Return the clients and what accepts their tokens, or what is wrong with one of them."""
    if not isinstance(also, Iterable):
        return "also is an iterable of OAuth2ClientCredentials"
    try:
        given = (OAuth2ClientCredentials(client_id, client_secret), *also)
        fault = _clients_fault(given)
        if fault is not None:
            return fault
        clients = tuple(map(_client, given))
        return _Made(auth=_auth(clients), clients=clients)
    except ConfigurationError as error:
        return error.message


def _lifetime_fault(lifetime: object) -> str | None:
    if is_number(lifetime) and _SHORTEST <= lifetime <= _LONGEST:
        return None
    return f"lifetime is a number of seconds from {_SHORTEST} to {_LONGEST}"


def _clients_fault(given: Iterable[object]) -> str | None:
    for client in given:
        if not isinstance(client, OAuth2ClientCredentials):
            return "also holds something that is no OAuth2ClientCredentials"
        if len(client.client_secret.reveal()) < _LEAST_SECRET:
            return (
                f"client_secret has fewer than {_LEAST_SECRET} characters, and tokens are "
                "signed with it; secrets.token_urlsafe(32) makes a good one"
            )
    return None


def _client(given: OAuth2ClientCredentials) -> _Client:
    client_id, secret = given.client_id, given.client_secret.reveal()
    digests = []
    for encoding in ("utf-8", "latin-1"):
        try:
            digests.append(_digest(client_id.encode(encoding), secret.encode(encoding)))
        except UnicodeEncodeError:
            continue
    # Not the secret itself: what is signed with it is seen by others than its owner.
    key = hmac.digest(secret.encode(), _KEY_LABEL + client_id.encode(), "sha256")
    return _Client(client_id=client_id, digests=tuple(digests), key=Secret(key.hex()))


def _auth(clients: Iterable[_Client]) -> CallbackBearerAuth:
    return CallbackBearerAuth(
        keys=[client.key for client in clients],
        issuer=_ISSUER,
        audience=_AUDIENCE,
        algorithms=(_ALGORITHM,),
    )


def _digest(client_id: bytes, client_secret: bytes) -> bytes:
    return sha256(sha256(client_id).digest() + sha256(client_secret).digest()).digest()


def _token(client: _Client, lifetime: int, *, now: float, nonce: bytes) -> str:
    issued_at = int(now)
    header = {"alg": _ALGORITHM, "typ": "at+jwt"}
    claims = {
        "iss": _ISSUER,
        "aud": _AUDIENCE,
        "sub": client.client_id,
        "client_id": client.client_id,
        "iat": issued_at,
        "exp": issued_at + lifetime,
        "jti": _encoded(nonce),
    }
    message = f"{_json(header)}.{_json(claims)}"
    signature = hmac.digest(client.key.reveal().encode(), message.encode(), "sha256")
    return f"{message}.{_encoded(signature)}"


def _json(value: dict[str, Any]) -> str:
    return _encoded(msgspec.json.encode(value))


def _encoded(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


def _refused(fault: FormFault) -> Answer:
    """Return the answer to a request that gets no token (RFC 6749, section 5.2)."""
    content = {"error": fault.value}
    match fault:
        case FormFault.CLIENT:
            return answer(
                HTTPStatus.UNAUTHORIZED, content, Pragma="no-cache", WWW_Authenticate=_CHALLENGE
            )
        case FormFault.REQUEST | FormFault.GRANT:
            return answer(HTTPStatus.BAD_REQUEST, content, Pragma="no-cache")
        case _:
            assert_never(fault)
