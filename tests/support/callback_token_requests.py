"""Requests to the token endpoint of a `CallbackTokenIssuer`, good ones and others."""

import base64
from typing import Any, Final

import msgspec

from income_client.receivers.exchange import Answer, RequestHead
from income_client.receivers.issuer import CallbackTokenIssuer
from tests.support.signed_tokens import NOW

CLIENT: Final = "service"
SECRET: Final = "q7-" + "x" * 40
FORM: Final = b"application/x-www-form-urlencoded"
GRANT: Final = b"grant_type=client_credentials"


def basic(client_id: str, secret: str, encoding: str = "utf-8") -> bytes:
    """Return the value of an Authorization header."""
    return b"Basic " + base64.b64encode(f"{client_id}:{secret}".encode(encoding))


GOOD: Final = basic(CLIENT, SECRET)


def buy(
    issuer: CallbackTokenIssuer,
    body: bytes = GRANT,
    *,
    method: str = "POST",
    authorization: bytes | None = GOOD,
    content_type: bytes | None = FORM,
    more: tuple[tuple[bytes, bytes], ...] = (),
    nonce: bytes = bytes(16),
) -> Answer:
    """Send a token request; a header of None is left out."""
    named = ((b"Authorization", authorization), (b"Content-Type", content_type))
    headers = tuple((name, value) for name, value in named if value is not None)
    head = RequestHead(method=method, headers=(*headers, *more))
    return issuer.answer(head, body, now=NOW, nonce=nonce)


def bought(issuer: CallbackTokenIssuer, **arguments: Any) -> str:
    """Return the token that such a request buys."""
    answer = buy(issuer, **arguments)
    assert answer.status == 200
    return str(msgspec.json.decode(answer.body)["access_token"])
