"""Has the emulator of another process fire a callback; knows what its replies mean."""

import enum
from http import HTTPStatus
from typing import Final

from income_client.settings import BasicAuth, OAuth2ClientCredentials

from .callback_answer import CallbackAnswer, CallbackDelivery, json_of
from .callback_orders import (
    CONTROL_PATH,
    NO_SUCH_APPLICATION,
    NO_TARGET,
    CallbackOrder,
    written_order,
)
from .callback_sender import Post, send
from .callback_tokens import Token, buy_token
from .local_address import check_local_address

_JSON_TYPE: Final = ("Content-Type", "application/json")
_PATIENCE: Final = 600.0
"""Seconds for an order: longer than a callback that is sent again and again."""


class OrderFault(enum.Enum):
    """Why an order was not carried out."""

    NOBODY = "nobody answers there"
    NO_EMULATOR = "what answers there is no emulator that fires callbacks"
    NOT_AUTHORIZED = "the emulator does not accept the credentials"
    NO_TARGET = "the emulator has nowhere to send callbacks to"
    NO_SUCH_APPLICATION = "the emulator has no application of this id"


class RemoteEmulator:
    """An emulator of another process on this machine.

    Args:
        url: its address, as it says it itself.
        auth: credentials of its API.

    Raises:
        ConfigurationError: the address is not one of this machine.
    """

    def __init__(self, url: str, auth: BasicAuth | OAuth2ClientCredentials) -> None:
        origin = url.removesuffix("/")
        fault = check_local_address("url", origin + CONTROL_PATH)
        if fault is not None:
            del self, url, origin
            raise fault
        self._origin = origin
        self._auth = auth

    async def fire(self, order: CallbackOrder) -> CallbackDelivery | OrderFault:
        """Have one callback fired, and return what became of it once that is settled."""
        auth = self._auth
        if isinstance(auth, BasicAuth):
            authorization = auth.authorization()
        else:
            token = await buy_token(f"{self._origin}/token", auth, seconds=_PATIENCE)
            if not isinstance(token, Token):
                return _meaning(token)
            authorization = token.authorization
        post = Post(
            url=self._origin + CONTROL_PATH,
            headers=(_JSON_TYPE, ("Authorization", authorization.reveal())),
            body=written_order(order),
            timeout=_PATIENCE,
        )
        return _meaning(await send(post))


def _meaning(answer: CallbackAnswer) -> CallbackDelivery | OrderFault:
    parsed = json_of(answer.body)
    content = parsed[0] if parsed and isinstance(parsed[0], dict) else {}
    if answer.status == HTTPStatus.OK:
        return CallbackDelivery.of_facts(content) or OrderFault.NO_EMULATOR
    if answer.status == HTTPStatus.UNAUTHORIZED or answer.fault == "token_401":
        return OrderFault.NOT_AUTHORIZED
    if answer.is_fault:
        fault = answer.fault.removeprefix("token_")
        is_answer = fault.isdigit() or fault == "unreadable"
        return OrderFault.NO_EMULATOR if is_answer else OrderFault.NOBODY
    known = {
        NO_TARGET: OrderFault.NO_TARGET,
        NO_SUCH_APPLICATION: OrderFault.NO_SUCH_APPLICATION,
    }
    return known.get(str(content.get("error")), OrderFault.NO_EMULATOR)
