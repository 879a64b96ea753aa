"""Hands callbacks on to an application on this machine, with credentials like the service's."""

import secrets
import time
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from income_client import (
    BasicAuth,
    Callback,
    CallbackTokenIssuer,
    ConfigurationError,
    OAuth2ClientCredentials,
    Secret,
)
from income_client.cli.options import MisuseError
from income_client.emulator.callbacks import post
from income_client.emulator.exchange import check_local_address
from income_client.receivers import RequestHead

_SECONDS: Final = 15.0
"""Less than a receiver waits for what is done about a callback."""
_USUAL_PORTS: Final = {"http": 80, "https": 443}
_NONCE_BYTES: Final = 16
_FORM: Final = b"grant_type=client_credentials"


class Forwarding:
    """Posts callbacks to one address of this machine.

    Args:
        url: where to.
        basic: user name and password that go with them; they come first.
        issuer: maker of the tokens that go with them otherwise.
        oauth2: the client whom it sells tokens.

    Raises:
        MisuseError: the address is not one of this machine.
    """

    def __init__(
        self,
        url: str,
        *,
        basic: BasicAuth | None,
        issuer: CallbackTokenIssuer | None,
        oauth2: OAuth2ClientCredentials | None,
    ) -> None:
        try:
            check_local_address("--forward-to", url)
        except ConfigurationError as error:
            raise MisuseError(error.message) from None
        self._url = url
        self._basic = basic
        self._issuer = issuer
        self._oauth2 = oauth2

    def leads_to(self, port: int, path: str) -> bool:
        """Say whether this is where callbacks come from themselves.

        Every name of this machine counts as the same, and so does every way to write a path.

        Args:
            port: on which port they come.
            path: to which path, without escapes.
        """
        parts = urlsplit(self._url)
        its_port = parts.port or _USUAL_PORTS[parts.scheme]
        return its_port == port and (unquote(parts.path) or "/") == path

    async def failure(self, callback: Callback) -> int | str | None:
        """Hand a callback on; return the status or the fault that it came to, None for 200."""
        headers = [("Content-Type", "application/json")]
        authorization = self._authorization()
        if authorization is not None:
            headers.append(("Authorization", authorization.reveal()))
        body = b"" if callback.payload is None else msgspec.json.encode(callback.payload)
        answer = await post(self._url, body, headers=tuple(headers), seconds=_SECONDS)
        return None if answer.outcome == HTTPStatus.OK else answer.outcome

    def _authorization(self) -> Secret | None:
        if self._basic is not None:
            return self._basic.authorization()
        if self._issuer is None or self._oauth2 is None:
            return None
        return Secret(f"Bearer {_token(self._issuer, self._oauth2)}")


def _token(issuer: CallbackTokenIssuer, client: OAuth2ClientCredentials) -> Any:
    head = RequestHead(
        method="POST",
        headers=(
            (b"authorization", client.authorization().reveal().encode()),
            (b"content-type", b"application/x-www-form-urlencoded"),
        ),
    )
    answer = issuer.answer(head, _FORM, now=time.time(), nonce=secrets.token_bytes(_NONCE_BYTES))
    return msgspec.json.decode(answer.body)["access_token"]
