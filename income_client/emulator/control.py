"""The order for a callback from another process: how it is written, read and carried out."""

import enum
import json
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from attrs import Attribute, asdict, field, frozen
from attrs.validators import optional

from income_client.clock import Clock
from income_client.errors import ConfigurationError
from income_client.settings import BasicAuth, OAuth2ClientCredentials

from .arguments import Validator, instance
from .callbacks import (
    CallbackAnswer,
    CallbackDelivery,
    CallbackPost,
    CallbackTarget,
    Parcel,
    Post,
    Token,
    buy_token,
    json_of,
    send,
)
from .exchange import HttpReply, check_local_address, json_reply
from .world import World

USUAL_EVENT: Final = "income_calculations"
"""An event that is assumed; others are ``extractions`` and ``error``."""
CONTROL_PATH: Final = "/emulator/callbacks"
"""Where an emulator takes orders; no path of the service."""
NO_TARGET: Final = "no_callback_target"
"""The error of an emulator that has nowhere to send callbacks to."""
NO_SUCH_APPLICATION: Final = "no_such_application"
"""The error of an order about an application that there is not."""

_IS_STR: Final = instance(str, "a str")
_IS_BOOL: Final = instance(bool, "True or False")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


def _text(order: object, attribute: "Attribute[Any]", value: Any) -> None:
    _IS_STR(order, attribute, value)
    # Undecodable bytes of a command line become half characters, which JSON cannot hold.
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise ConfigurationError(f"{attribute.name} holds half a character")


_IS_TEXT: Final[Validator] = optional(_text)


@frozen(kw_only=True)
class CallbackOrder:
    """What another process asks for.

    Raises:
        ConfigurationError: a field cannot be meant.
    """

    application_id: str | None = field(default=None, validator=_IS_TEXT)
    """The application; None for any."""
    event_type: str | None = field(default=USUAL_EVENT, validator=_IS_TEXT)
    """What has happened; None to leave it out."""
    update: bool = field(default=False, validator=_IS_BOOL)
    """Whether the application changes first."""


def written_order(order: CallbackOrder) -> bytes:
    """Return an order as `read_order` reads it."""
    return msgspec.json.encode(asdict(order))


def read_order(body: bytes) -> CallbackOrder | None:
    """Read an order; None for what is none."""
    parsed = json_of(body)
    if parsed is None or not isinstance(parsed[0], dict):
        return None
    try:
        return CallbackOrder(**parsed[0])
    except (ConfigurationError, TypeError):
        return None


def usual_content(
    event_type: str | None, application_id: str | None, reference: str | None
) -> bytes:
    """Return the usual payload; what is None is left out."""
    fields = {
        "event_type": event_type,
        "application_id": application_id,
        "application_reference_id": reference,
    }
    return msgspec.json.encode({name: text for name, text in fields.items() if text is not None})


def content_of(payload: Any) -> bytes:
    """Return a payload's bytes: those given, or JSON.

    Raises:
        ConfigurationError: it is neither.
    """
    if isinstance(payload, bytes | bytearray):
        return bytes(payload)
    try:
        return json.dumps(
            payload, allow_nan=False, ensure_ascii=False, separators=(",", ":")
        ).encode()
    except (TypeError, ValueError, RecursionError):
        fault = f"payload is bytes or what JSON can hold, not {type(payload).__name__}"
    del payload  # crash reporters send the locals of the frame that raises
    raise ConfigurationError(fault)


def header_fields(
    fields: Mapping[str, str] | Iterable[tuple[str, str]],
) -> tuple[tuple[str, str], ...]:
    """Return header fields as pairs.

    Raises:
        ConfigurationError: one cannot be sent as a header field.
    """
    pairs = tuple(fields.items() if isinstance(fields, Mapping) else fields)
    is_sendable = all(_NAME.fullmatch(name) and _VALUE.fullmatch(text) for name, text in pairs)
    if not is_sendable:
        del fields, pairs
        raise ConfigurationError("headers hold a name or a value that is no header field")
    return pairs


_STRIDE: Final = 7919
"""From one application to the next: a prime, so that each has its turn."""


class CallbackDesk:
    """Sends the callbacks of a world.

    Args:
        world: the applications; its present second is up to date whenever this is called.
        target: where callbacks go, None for nowhere.
        clock: what pauses go by.

    Raises:
        ConfigurationError: the target is none.
    """

    def __init__(self, world: World, target: CallbackTarget | None, clock: Clock) -> None:
        self._world = world
        self._post = CallbackPost(clock)
        self._turn = 0
        self.target = target

    @property
    def target(self) -> CallbackTarget | None:
        """Where callbacks go."""
        return self._target

    @target.setter
    def target(self, target: CallbackTarget | None) -> None:
        if target is not None and not isinstance(target, CallbackTarget):
            raise ConfigurationError("callbacks is a CallbackTarget or None")
        self._target = target

    async def fire(
        self,
        order: CallbackOrder,
        *,
        target: CallbackTarget | None = None,
        payload: Any = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> CallbackDelivery:
        """Send one callback, again and again if need be.

        Args:
            order: what it is about.
            target: where to, in place of the usual one.
            payload: what it says, in place of the usual.
            headers: further header fields.

        Raises:
            ConfigurationError: there is no target or no such application, or an
                argument cannot be meant.
        """
        target = target or self._target
        if target is None:
            raise ConfigurationError("the emulator has no target for callbacks")
        parcel_headers = header_fields(headers)
        application_id = order.application_id
        if application_id is None and (payload is None or order.update):
            application_id = self._next()
        if application_id is not None and self._world.number_of(application_id) is None:
            raise ConfigurationError("the emulator has no application of this id")
        if payload is None:
            content = self._usual(order.event_type, application_id)
        else:
            content = content_of(payload)
        if order.update and application_id is not None:
            self._world.touch(application_id)
        journey = await self._post.deliver(target, Parcel(body=content, headers=parcel_headers))
        return CallbackDelivery(
            application_id=application_id,
            event_type=order.event_type,
            attempts=tuple(journey.attempts),
            is_json=journey.last.is_json,
        )

    async def reply_to(self, order: CallbackOrder) -> HttpReply:
        """Carry out an order, and return the reply to it."""
        if self._target is None:
            return json_reply(HTTPStatus.CONFLICT, {"error": NO_TARGET})
        name = order.application_id
        if name is not None and self._world.number_of(name) is None:
            return json_reply(HTTPStatus.NOT_FOUND, {"error": NO_SUCH_APPLICATION})
        delivery = await self.fire(order)
        return json_reply(HTTPStatus.OK, delivery.facts())

    def open(self) -> None:
        """Send callbacks again after `close`."""
        self._post.open()

    async def close(self) -> None:
        """End the callbacks that are under way, and send no more."""
        await self._post.close()

    def _next(self) -> str | None:
        if not len(self._world):
            return None
        self._turn += 1
        return self._world.id_of((self._turn - 1) * _STRIDE % len(self._world))

    def _usual(self, event_type: str | None, application_id: str | None) -> bytes:
        number = None if application_id is None else self._world.number_of(application_id)
        reference = None if number is None else self._world.reference_of(number)
        return usual_content(event_type, application_id, reference)


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
