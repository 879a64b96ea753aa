"""Access tokens: the reply that brings one, how long it serves, how it is kept.

Knows no clock: every moment is an argument, in seconds of a monotonic clock
unless it is a datetime. Says what is wrong with a reply, never what it held.
"""

import enum
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from attrs import Attribute, field, frozen

from income_client.errors import (
    AuthenticationError,
    ConfigurationError,
    DecodeError,
    IncomeClientError,
    TokenError,
)
from income_client.settings import Secret, check_positive
from income_client.wire.strict_json import parse

from .endpoints import token_request
from .messages import Response
from .replies import content_of, facts_of, failure_of, label

CONTRACT_LIFETIME: Final = 3600.0
"""Seconds that a token lives (contract section 5.1)."""

_EARLIEST_RENEWAL: Final = 300.0
_SAFETY_MARGIN: Final = 10.0
_LONGEST_LIFETIME: Final = 10 * 366 * 86400
_SCHEME: Final = "Bearer "
_ACCESS_TOKEN: Final = re.compile(r"[!-~]{1,16384}")


class TokenState(enum.Enum):
    """What a token is still good for."""

    FRESH = "fresh"
    """Used, and nothing else to do."""
    STALE = "stale"
    """Used, while a new one is fetched."""
    EXPIRED = "expired"
    """Not used any more."""


@frozen(kw_only=True)
class Token:
    """A token that was bought, and the moments at which its state changes.

    The margins scale with its life, so that a token of a minute is neither
    renewed at every call nor used up to its last instant.
    """

    authorization: Secret
    """The value of the Authorization header."""
    obtained_at: float
    """When the request for it was sent: its life began later than this."""
    lifetime: float
    """Seconds from then to its end."""
    stale_at: float = field(init=False)
    """From when on it should be replaced."""
    expired_at: float = field(init=False)
    """From when on it is not sent any more, a little before its end."""

    @stale_at.default
    def _stale_at(self) -> float:
        return self.obtained_at + self.lifetime - min(_EARLIEST_RENEWAL, self.lifetime / 4)

    @expired_at.default
    def _expired_at(self) -> float:
        return self.obtained_at + self.lifetime - min(_SAFETY_MARGIN, self.lifetime / 20)

    def state(self, now: float) -> TokenState:
        """Say what it is good for at a moment."""
        if now < self.stale_at:
            return TokenState.FRESH
        return TokenState.STALE if now < self.expired_at else TokenState.EXPIRED


def _secret(value: "str | Secret") -> Secret:
    return Secret(value) if isinstance(value, str) else value


def _sendable(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if not isinstance(value, Secret) or not _is_access_token(value.reveal()):
        raise ConfigurationError(f"{attribute.name} is no token that a header can carry")


def _aware(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ConfigurationError(f"{attribute.name} is no datetime with a zone")


def _positive(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    check_positive(attribute.name, value)


@frozen(kw_only=True)
class StoredToken:
    """A token as processes share it: its end in the time of day.

    Raises:
        ConfigurationError: a field cannot be meant.
    """

    access_token: Secret = field(converter=_secret, validator=_sendable)
    """The token itself; a store asks for it with ``reveal()``."""
    expires_at: datetime = field(validator=_aware)
    """When it ends, with a zone."""
    lifetime: float = field(default=CONTRACT_LIFETIME, validator=_positive)
    """Seconds it was given for; they decide how early it is renewed."""


def to_stored(token: Token, *, now: float, wall_time: datetime) -> StoredToken:
    """Return a token as a store keeps it."""
    remaining = token.obtained_at + token.lifetime - now
    return StoredToken(
        access_token=Secret(token.authorization.reveal().removeprefix(_SCHEME)),
        expires_at=wall_time + timedelta(seconds=remaining),
        lifetime=token.lifetime,
    )


def from_stored(stored: StoredToken, *, now: float, wall_time: datetime) -> Token:
    """Return a stored token as this process uses it.

    One that claims to last longer than it was given for, as after a clock was
    set back, lasts for that long from now.
    """
    remaining = min((stored.expires_at - wall_time).total_seconds(), stored.lifetime)
    return Token(
        authorization=Secret(_SCHEME + stored.access_token.reveal()),
        obtained_at=now + remaining - stored.lifetime,
        lifetime=stored.lifetime,
    )


def read_token(response: Response, *, sent_at: float) -> Token | IncomeClientError:
    """Read the reply of the token endpoint (contract section 5.1).

    Args:
        response: what came back.
        sent_at: when the request was sent, in seconds of the monotonic clock.

    Returns:
        The token, or an `AuthenticationError` when the credentials were
        refused, or a `TokenError`; raises nothing.
    """
    if response.status != HTTPStatus.OK:
        return _refusal(response)
    payload = parse(response.body)
    if isinstance(payload, DecodeError):
        if payload.retryable:
            return _unusable(response, f"{content_of(response)} instead of JSON", retryable=True)
        return _unusable(response, payload.faults[0].reason)
    if not isinstance(payload, dict):
        return _unusable(response, "the reply is no object")
    for name, (is_right, expected) in _FIELDS.items():
        if not is_right(payload.get(name)):
            return _unusable(response, f"{name} is not {expected}")
    return Token(
        authorization=Secret(_SCHEME + payload["access_token"]),
        obtained_at=sent_at,
        lifetime=float(payload["expires_in"]),
    )


def _refusal(response: Response) -> IncomeClientError:
    failure = failure_of(token_request(), response)
    message = "token: the reply is unexpected" if failure is None else failure.message
    if response.status == HTTPStatus.UNAUTHORIZED:
        message += ", the client credentials were refused"
    if response.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED}:
        return AuthenticationError(message, **facts_of(response))
    retryable = failure is not None and failure.retryable
    return TokenError(message, retryable=retryable, **facts_of(response))


def _unusable(response: Response, fault: str, *, retryable: bool = False) -> TokenError:
    message = f"{label(token_request())}: {fault}"
    return TokenError(message, retryable=retryable, **facts_of(response))


def _is_access_token(value: object) -> bool:
    return isinstance(value, str) and _ACCESS_TOKEN.fullmatch(value) is not None


def _is_bearer(value: object) -> bool:
    return isinstance(value, str) and value.lower() == "bearer"


def _is_lifetime(value: object) -> bool:
    return type(value) is int and 0 < value <= _LONGEST_LIFETIME


_FIELDS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "access_token": (_is_access_token, "a text of printable ASCII without spaces, 16 KiB at most"),
    "token_type": (_is_bearer, "Bearer"),
    "expires_in": (_is_lifetime, "a whole number of seconds, above 0 and below ten years"),
}
