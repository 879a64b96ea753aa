"""A token endpoint for partners without an identity provider; time and chance are arguments.

Its tokens are signed with a key that is derived from the client secret, so that nothing is
stored: they are valid in every process that knows the secret, and after a restart.
"""

import base64
import binascii
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote_to_bytes

from attrs import field, frozen

from income_client.errors import ConfigurationError, InvalidArgumentError
from income_client.settings import OAuth2ClientCredentials, Secret, as_secret, is_number

from .auth import CallbackBearerAuth, credentials_of, pair_digest, pair_digests
from .exchange import Answer, RequestHead, make_answer

MAX_FORM_BYTES: Final = 8192
"""Bytes of the longest token request that is read."""

_ISSUER: Final = "income-client"
_AUDIENCE: Final = "income-client callbacks"
_KEY_LABEL: Final = b"income-client callback tokens 1\0"
_GRANT: Final = b"client_credentials"
_INVALID_REQUEST: Final = "invalid_request"
_INVALID_CLIENT: Final = "invalid_client"
_CHALLENGE: Final = 'Basic realm="callback tokens"'
_LEAST_SECRET: Final = 32
_SHORTEST: Final = 60
_LONGEST: Final = 86_400

_FORM: Final = b"application/x-www-form-urlencoded"
_MOST_PARAMETERS: Final = 64
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ONCE: Final = frozenset({b"grant_type", b"client_id", b"client_secret"})
_LONGEST_AUTHORIZATION: Final = 8192


class _TokenRequestError(Exception):
    """A token request is refused; the text is an error code of RFC 6749, section 5.2."""


@frozen(kw_only=True)
class _Client:
    client_id: str
    digests: tuple[bytes, ...] = field(repr=False)
    """Digests of the client's id and secret, in each encoding that a request may use."""
    key: Secret
    """Key that signs the client's tokens."""


@frozen(init=False)
class CallbackTokenIssuer:
    """Issues the tokens with which callbacks come (contract section 5.2).

    The service is given the client id, the client secret, the grant type
    ``client_credentials`` and the address at which this is served; `auth` goes to the
    receiver. Serve it over TLS: the secret comes in the clear.

    Args:
        client_id: as given to the service; holds no colon.
        client_secret: as given to the service, at least 32 characters that cannot be
            guessed.
        lifetime: seconds for which a token is valid, from 60 to 86400.
        also: further clients that are accepted, for the time of a change of secrets.

    Raises:
        ConfigurationError: an argument is invalid, or the library for tokens is not
            installed.
    """

    auth: CallbackBearerAuth
    """Authentication that accepts the tokens of this issuer."""
    lifetime: int
    _clients: tuple[_Client, ...] = field(repr=False)

    def __init__(
        self,
        client_id: str,
        client_secret: str | Secret,
        *,
        lifetime: float = 3600.0,
        also: Iterable[OAuth2ClientCredentials] = (),
    ) -> None:
        client_secret = as_secret(client_secret)
        others = credentials_of(also, OAuth2ClientCredentials)
        if others is None:
            del also  # plain secrets: crash reporters send the variables of frames
            raise InvalidArgumentError(
                "also must be an iterable of OAuth2ClientCredentials", argument="also"
            )
        if not is_number(lifetime) or not _SHORTEST <= lifetime <= _LONGEST:
            raise InvalidArgumentError(
                f"lifetime must be a number of seconds from {_SHORTEST} to {_LONGEST}",
                argument="lifetime",
            )
        credentials = (OAuth2ClientCredentials(client_id, client_secret), *others)
        clients = tuple(map(_make_client, credentials))
        auth = CallbackBearerAuth(
            keys=[client.key for client in clients],
            issuer=_ISSUER,
            audience=_AUDIENCE,
            algorithms=("HS256",),
        )
        self.__attrs_init__(auth, int(lifetime), clients)

    def issue(self, *, now: float, nonce: bytes) -> str:
        """Return a token of the issuer's first client.

        Args:
            now: seconds since 1970.
            nonce: 16 bytes or more that were never used before; they become the token's name.

        Raises:
            ConfigurationError: the library for tokens failed.
        """
        return self._make_token(self._clients[0], now=now, nonce=nonce)

    def answer(self, head: RequestHead, body: bytes, *, now: float, nonce: bytes) -> Answer:
        """Answer a token request (RFC 6749, sections 4.4 and 5).

        Args:
            head: what came before the body.
            body: the whole of it.
            now: seconds since 1970.
            nonce: as for `issue`.

        Returns:
            A token as JSON (section 5.1 there), or an error as JSON (section 5.2).
        """
        if head.method != "POST":
            return make_answer(HTTPStatus.METHOD_NOT_ALLOWED, Allow="POST")
        try:
            form = _read_form(head, body)
            client = self._client_of(_read_client(head, form))
            if form[b"grant_type"] != _GRANT:
                raise _TokenRequestError("unsupported_grant_type")  # noqa: TRY301 - answered like the others
            token = self._make_token(client, now=now, nonce=nonce)
        except _TokenRequestError as error:
            return _error_answer(str(error))
        except ConfigurationError as error:
            # Raised no further: the frames here hold the client's secret.
            fault = {"error": "server_error", "error_description": error.message}
            return make_answer(HTTPStatus.SERVICE_UNAVAILABLE, fault, Pragma="no-cache")
        content = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}
        return make_answer(HTTPStatus.OK, content, Pragma="no-cache")

    def _client_of(self, pairs: Iterable[tuple[bytes, bytes]]) -> _Client:
        digests = [pair_digest(*pair) for pair in pairs]
        # Every one is compared, even after one fits.
        matches = [
            client
            for client in self._clients
            for expected in client.digests
            for digest in digests
            if hmac.compare_digest(digest, expected)
        ]
        if not matches:
            raise _TokenRequestError(_INVALID_CLIENT)
        return matches[-1]

    def _make_token(self, client: _Client, *, now: float, nonce: bytes) -> str:
        from .jwt import sign_token  # noqa: PLC0415 - an extra

        issued_at = int(now)
        claims = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "sub": client.client_id,
            "client_id": client.client_id,
            "iat": issued_at,
            "exp": issued_at + self.lifetime,
            "jti": urlsafe_b64encode(nonce).rstrip(b"=").decode(),
        }
        return sign_token(claims, client.key)


def _make_client(credentials: OAuth2ClientCredentials) -> _Client:
    client_id, secret = credentials.client_id, credentials.client_secret
    if len(secret.reveal()) < _LEAST_SECRET:
        raise InvalidArgumentError(
            f"client_secret has fewer than {_LEAST_SECRET} characters, and tokens are "
            "signed with it; secrets.token_urlsafe(32) makes a good one",
            argument="client_secret",
        )
    # Not the secret itself: others than its owner see what is signed with it.
    key = hmac.digest(secret.reveal().encode(), _KEY_LABEL + client_id.encode(), "sha256")
    digests = tuple(pair_digests(client_id, secret))
    return _Client(client_id=client_id, digests=digests, key=Secret(key.hex()))


def _read_form(head: RequestHead, body: bytes) -> Mapping[bytes, bytes]:
    """Return the parameters of a token request, ``grant_type`` among them."""
    types = head.values(b"content-type")
    encodings = head.values(b"content-encoding")
    is_form = len(types) == 1 and types[0].partition(b";")[0].strip().lower() == _FORM
    if not is_form or any(encoding.lower() not in (b"", b"identity") for encoding in encodings):
        raise _TokenRequestError(_INVALID_REQUEST)
    parts = body.split(b"&")
    if len(parts) > _MOST_PARAMETERS or _BAD_ESCAPE.search(body):
        raise _TokenRequestError(_INVALID_REQUEST)
    parameters: dict[bytes, bytes] = {}
    for part in parts:
        name, _, value = (_decode_form_text(side) for side in part.partition(b"="))
        # A parameter without a value counts as left out. Some that are ignored here may
        # come twice, such as `resource` (RFC 8707).
        if not value:
            continue
        if name in _ONCE and name in parameters:
            raise _TokenRequestError(_INVALID_REQUEST)
        parameters[name] = value
    if b"grant_type" not in parameters:
        raise _TokenRequestError(_INVALID_REQUEST)
    return parameters


def _read_client(head: RequestHead, form: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Return all possible readings of a request's client id and secret."""
    client_id = form.get(b"client_id")
    client_secret = form.get(b"client_secret")
    headers = head.values(b"authorization")
    if len(headers) > 1 or (headers and client_secret is not None):
        raise _TokenRequestError(_INVALID_REQUEST)
    if not headers:
        if client_id is None or client_secret is None:
            raise _TokenRequestError(_INVALID_CLIENT)
        return [(client_id, client_secret)]
    readings = _basic_readings(headers[0])
    # An id in the form as well is not a second way to authenticate, if it is the same.
    fitting = [pair for pair in readings if client_id in (None, pair[0])]
    if readings and not fitting:
        raise _TokenRequestError(_INVALID_REQUEST)
    return fitting


def _basic_readings(authorization: bytes) -> list[tuple[bytes, bytes]]:
    scheme, _, credentials = authorization.partition(b" ")
    if scheme.lower() != b"basic" or len(authorization) > _LONGEST_AUTHORIZATION:
        return []
    try:
        pair = base64.b64decode(credentials.strip(b" "), validate=True)
    except binascii.Error:
        return []
    name, colon, secret = pair.partition(b":")
    if not colon:
        return []
    # RFC 6749 wants both parts encoded like those of a form; half of all clients do not.
    return [(name, secret), (_decode_form_text(name), _decode_form_text(secret))]


def _decode_form_text(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))


def _error_answer(fault: str) -> Answer:
    """Return the answer to a refused token request (RFC 6749, section 5.2)."""
    content = {"error": fault}
    if fault == _INVALID_CLIENT:
        return make_answer(
            HTTPStatus.UNAUTHORIZED, content, Pragma="no-cache", WWW_Authenticate=_CHALLENGE
        )
    return make_answer(HTTPStatus.BAD_REQUEST, content, Pragma="no-cache")
