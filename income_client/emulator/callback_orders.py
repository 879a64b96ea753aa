"""What a callback is to say, and the order for one from another process; sends nothing.

Payloads are not specified (contract section 6). These are assumed, and hold nothing of a
borrower's.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from attrs import Attribute, asdict, field, frozen
from attrs.validators import optional

from income_client.errors import ConfigurationError

from .arguments import Validator, instance
from .callback_answer import json_of

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
