"""Credentials of callbacks (contract section 5.2): Basic as given, tokens bought and kept.

Tokens are bought as the service sells its own (section 5.1), one request at a time for
each target, and kept until they expire by the emulator's clock.
"""

import asyncio
import re
from http import HTTPStatus
from ssl import SSLContext
from typing import Final

from attrs import frozen

from income_client.clock import Clock
from income_client.settings import BasicAuth, OAuth2ClientCredentials, Secret

from .callback_answer import CallbackAnswer, json_of
from .callback_sender import Post, send
from .callback_target import CallbackTarget

_FORM: Final = b"grant_type=client_credentials"
_FORM_TYPE: Final = ("Content-Type", "application/x-www-form-urlencoded")
_TOKEN: Final = re.compile(r"[!-~]{1,16384}")


@frozen(kw_only=True)
class Token:
    """A token that was bought."""

    authorization: Secret
    """The value of the Authorization header."""
    lifetime: float
    """Seconds that it is good for, from then on."""


class _Purse:
    """The token of one target."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.token: Token | None = None
        self.expires = 0.0


class CallbackCredentials:
    """What callbacks carry, by target.

    Args:
        clock: what the life of tokens goes by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._purses: dict[CallbackTarget, _Purse] = {}

    async def of(self, target: CallbackTarget) -> Secret | CallbackAnswer | None:
        """Return the value of the Authorization header, None for none.

        Returns:
            An answer in its place that says why no token could be had.
        """
        match target.auth:
            case None:
                return None
            case BasicAuth():
                return target.auth.authorization()
            case OAuth2ClientCredentials():
                return await self._token_of(target, target.auth)

    def drop(self, target: CallbackTarget, used: Secret) -> None:
        """Forget a token that was not accepted, unless there is a newer one already."""
        purse = self._purses.get(target)
        if purse is not None and purse.token is not None and purse.token.authorization is used:
            purse.token = None

    async def _token_of(
        self, target: CallbackTarget, auth: OAuth2ClientCredentials
    ) -> Secret | CallbackAnswer:
        purse = self._purses.setdefault(target, _Purse())
        async with purse.turn:
            token = purse.token
            if token is None or self._clock.monotonic() >= purse.expires:
                url = target.token_url or ""
                bought = await buy_token(url, auth, tls=target.tls_for(url), seconds=target.timeout)
                if isinstance(bought, CallbackAnswer):
                    return bought
                token = purse.token = bought
                purse.expires = self._clock.monotonic() + token.lifetime
            return token.authorization


async def buy_token(
    url: str, auth: OAuth2ClientCredentials, *, tls: SSLContext | None = None, seconds: float
) -> Token | CallbackAnswer:
    """Buy a token; raises nothing but cancellation.

    Args:
        url: where, on this machine.
        auth: who buys it.
        tls: in place of the default TLS context.
        seconds: how long it may take.

    Returns:
        An answer in its place that says why it could not be had.
    """
    answer = await send(
        Post(
            url=url,
            headers=(_FORM_TYPE, ("Authorization", auth.authorization().reveal())),
            body=_FORM,
            tls=tls,
            timeout=seconds,
        )
    )
    if answer.status != HTTPStatus.OK:
        return CallbackAnswer(fault=f"token_{answer.outcome}")
    return _read(answer.body)


def _read(body: bytes) -> Token | CallbackAnswer:
    parsed = json_of(body)
    content = parsed[0] if parsed and isinstance(parsed[0], dict) else {}
    token, kind, lifetime = map(content.get, ("access_token", "token_type", "expires_in"))
    is_token = isinstance(token, str) and _TOKEN.fullmatch(token) is not None
    if not is_token or str(kind).lower() != "bearer" or type(lifetime) is not int:
        return CallbackAnswer(fault="token_unreadable")
    return Token(authorization=Secret(f"Bearer {token}"), lifetime=lifetime)
