"""The form of a token request, and the client that it names (RFC 6749); knows no secret.

Says what is wrong with a form in the words of the RFC, and never what it held.
"""

import base64
import binascii
import enum
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from attrs import field, frozen

from .exchange import RequestHead

_FORM: Final = b"application/x-www-form-urlencoded"
_MOST_PARAMETERS: Final = 64
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ONCE: Final = frozenset({b"grant_type", b"client_id", b"client_secret"})
_LONGEST_AUTHORIZATION: Final = 8192


class FormFault(enum.Enum):
    """What is wrong with a token request (RFC 6749, section 5.2)."""

    REQUEST = "invalid_request"
    CLIENT = "invalid_client"
    GRANT = "unsupported_grant_type"


@frozen
class ClientPair:
    """An id and a secret, as somebody claims them."""

    client_id: bytes
    """Undecoded."""
    client_secret: bytes = field(repr=False)
    """Undecoded."""


@frozen(kw_only=True)
class TokenRequest:
    """A request for a token that is well-formed."""

    grant_type: bytes
    """What is asked for."""
    readings: tuple[ClientPair, ...]
    """The client that it names, in each way in which that can be read."""


def read_token_request(head: RequestHead, body: bytes) -> TokenRequest | FormFault:
    """Read a token request (contract section 5.1, from the other side).

    Args:
        head: what came before the body.
        body: the whole of it.
    """
    form = _form(head, body)
    if isinstance(form, FormFault):
        return form
    if b"grant_type" not in form:
        return FormFault.REQUEST
    readings = _readings(head, form)
    if isinstance(readings, FormFault):
        return readings
    return TokenRequest(grant_type=form[b"grant_type"], readings=readings)


def _form(head: RequestHead, body: bytes) -> Mapping[bytes, bytes] | FormFault:
    types = head.values(b"content-type")
    encodings = head.values(b"content-encoding")
    is_form = len(types) == 1 and types[0].partition(b";")[0].strip().lower() == _FORM
    if not is_form or any(encoding.lower() not in (b"", b"identity") for encoding in encodings):
        return FormFault.REQUEST
    parts = body.split(b"&")
    if len(parts) > _MOST_PARAMETERS or _BAD_ESCAPE.search(body):
        return FormFault.REQUEST
    found: dict[bytes, bytes] = {}
    for part in parts:
        name, _, value = (_decoded(side) for side in part.partition(b"="))
        # A parameter without a value counts as left out. Some that are ignored here may
        # stand twice, such as `resource` (RFC 8707).
        if not value:
            continue
        if name in _ONCE and name in found:
            return FormFault.REQUEST
        found[name] = value
    return found


def _readings(head: RequestHead, form: Mapping[bytes, bytes]) -> tuple[ClientPair, ...] | FormFault:
    client_id = form.get(b"client_id")
    client_secret = form.get(b"client_secret")
    headers = head.values(b"authorization")
    if len(headers) > 1 or (headers and client_secret is not None):
        return FormFault.REQUEST
    if not headers:
        if client_id is None or client_secret is None:
            return FormFault.CLIENT
        return (ClientPair(client_id, client_secret),)
    readings = _basic_readings(headers[0])
    # An id in the form as well is no second way to authenticate, if it is the same.
    fitting = tuple(pair for pair in readings if client_id in (None, pair.client_id))
    return FormFault.REQUEST if readings and not fitting else fitting


def _basic_readings(authorization: bytes) -> tuple[ClientPair, ...]:
    scheme, _, credentials = authorization.partition(b" ")
    if scheme.lower() != b"basic" or len(authorization) > _LONGEST_AUTHORIZATION:
        return ()
    try:
        pair = base64.b64decode(credentials.strip(b" "), validate=True)
    except binascii.Error:
        return ()
    name, colon, secret = pair.partition(b":")
    if not colon:
        return ()
    # RFC 6749 wants both parts encoded like those of a form; half of all clients do not.
    return (ClientPair(name, secret), ClientPair(_decoded(name), _decoded(secret)))


def _decoded(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))
