"""Callbacks of the emulated service: about which application, to where, and what came of it."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from income_client.clock import Clock
from income_client.errors import ConfigurationError

from .callback_answer import CallbackDelivery
from .callback_orders import (
    NO_SUCH_APPLICATION,
    NO_TARGET,
    CallbackOrder,
    content_of,
    header_fields,
    usual_content,
)
from .callback_target import CallbackTarget
from .callbacks_out import CallbackPost, Parcel
from .exchange import HttpReply
from .gate import json_reply
from .world import World

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
