"""Orders for callbacks from another process: how they are written, read and sent."""

import enum
from http import HTTPStatus
from typing import Any, Final

import msgspec
from attrs import Attribute, evolve, field, frozen
from attrs.validators import optional

from income_client.errors import ConfigurationError
from income_client.settings import (
    BasicAuth,
    OAuth2ClientCredentials,
    Secret,
    flag,
    invalid,
)

from .api import CONTROL_PATH
from .callbacks import (
    USUAL_EVENT,
    CallbackDelivery,
    CallbackTarget,
    TokenError,
    is_auth,
    is_local,
    json_object,
    post,
    request_token,
)
from .exchange import check_local_address

NO_TARGET: Final = "no_callback_target"
"""The error of an emulator that has no target for callbacks."""
NO_SUCH_APPLICATION: Final = "no_such_application"
"""The error of an order about an application that does not exist."""

_TIMEOUT: Final = 600.0
"""Seconds for an order: longer than a callback that is sent again and again."""


def _is_text(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    # Undecodable bytes of a command line become surrogates, which JSON cannot hold.
    is_text = isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)
    if value is not None and not is_text:
        raise invalid(attribute.name, "a str without surrogates", value)


@frozen(kw_only=True)
class CallbackOrder:
    """What another process asks an emulator for.

    Raises:
        ConfigurationError: a field is invalid.
    """

    application_id: str | None = field(default=None, validator=_is_text)
    """The application; None for any."""
    event_type: str | None = field(default=USUAL_EVENT, validator=_is_text)
    """What has happened; None to leave it out."""
    update: bool = field(default=False, validator=flag)
    """Whether the application changes first."""
    url: str | None = field(default=None, validator=optional(is_local), repr=False)
    """Where the callback goes on this machine; None for where the emulator sends callbacks."""
    auth: BasicAuth | OAuth2ClientCredentials | None = field(default=None, validator=is_auth)
    """Its credentials; None for those that the emulator has for its callbacks."""
    token_url: str | None = field(default=None, validator=optional(is_local), repr=False)
    """The token endpoint for them, on this machine."""

    def target(self, usual: CallbackTarget | None) -> CallbackTarget | None:
        """Return where it goes and how, None for nowhere.

        Args:
            usual: the emulator's own target; its credentials go to its own address only.

        Raises:
            ConfigurationError: the credentials and the addresses do not go together.
        """
        if self.url is not None:
            return CallbackTarget(self.url, auth=self.auth, token_url=self.token_url)
        if usual is None or self.auth is None:
            return usual
        return evolve(usual, auth=self.auth, token_url=self.token_url)


def written_order(order: CallbackOrder) -> bytes:
    """Return an order as `read_order` reads it."""
    content: dict[str, Any] = {
        "application_id": order.application_id,
        "event_type": order.event_type,
        "update": order.update,
        "url": order.url,
        "token_url": order.token_url,
    }
    match order.auth:
        case BasicAuth(username=name, password=secret):
            content |= {"username": name, "password": secret.reveal()}
        case OAuth2ClientCredentials(client_id=name, client_secret=secret):
            content |= {"client_id": name, "client_secret": secret.reveal()}
    return msgspec.json.encode(content)


def read_order(body: bytes) -> CallbackOrder | None:
    """Read an order; None for anything else."""
    content = json_object(body)
    if content is None:
        return None
    try:
        if "username" in content:
            auth = BasicAuth(content.pop("username"), content.pop("password", ""))
            return CallbackOrder(auth=auth, **content)
        if "client_id" in content:
            client = OAuth2ClientCredentials(
                content.pop("client_id"), content.pop("client_secret", "")
            )
            return CallbackOrder(auth=client, **content)
        return CallbackOrder(**content)
    except (ConfigurationError, TypeError):
        return None


class OrderFault(enum.Enum):
    """Why an order was not carried out."""

    NOBODY = "nobody answers there"
    NO_EMULATOR = "what answers there is not an emulator that fires callbacks"
    NOT_AUTHORIZED = "the emulator does not accept the credentials"
    NO_TARGET = "the emulator has nowhere to send callbacks to"
    NO_SUCH_APPLICATION = "the emulator has no application of this id"


class RemoteEmulator:
    """An emulator of another process on this machine.

    Args:
        url: its address, as it prints it itself.
        auth: credentials of its API.

    Raises:
        ConfigurationError: the address is not one of this machine.
    """

    def __init__(self, url: str, auth: BasicAuth | OAuth2ClientCredentials) -> None:
        self._origin = url.removesuffix("/")
        self._auth = auth
        check_local_address("url", self._origin + CONTROL_PATH)

    async def fire(self, order: CallbackOrder) -> CallbackDelivery | OrderFault:
        """Have one callback fired, and return what became of it in the end."""
        try:
            authorization = await self._authorization()
        except TokenError as error:
            return _fault_of(error.outcome)
        headers = (("Content-Type", "application/json"), ("Authorization", authorization.reveal()))
        url = self._origin + CONTROL_PATH
        answer = await post(url, written_order(order), headers=headers, seconds=_TIMEOUT)
        content = json_object(answer.body) or {}
        if answer.outcome == HTTPStatus.OK:
            return CallbackDelivery.of_facts(content) or OrderFault.NO_EMULATOR
        known = {
            NO_TARGET: OrderFault.NO_TARGET,
            NO_SUCH_APPLICATION: OrderFault.NO_SUCH_APPLICATION,
        }
        return known.get(str(content.get("error"))) or _fault_of(answer.outcome)

    async def _authorization(self) -> Secret:
        if isinstance(self._auth, BasicAuth):
            return self._auth.authorization()
        url = f"{self._origin}/token"
        authorization, _ = await request_token(url, self._auth, seconds=_TIMEOUT)
        return authorization


def _fault_of(outcome: int | str) -> OrderFault:
    if outcome == HTTPStatus.UNAUTHORIZED:
        return OrderFault.NOT_AUTHORIZED
    is_answer = isinstance(outcome, int) or outcome == "unreadable"
    return OrderFault.NO_EMULATOR if is_answer else OrderFault.NOBODY
