"""What a client is told once: frozen, validated values that know nothing of the network."""

import base64
import hmac
import math
from typing import Any, Final, NoReturn

from attrs import Attribute, field, frozen

from .errors import ConfigurationError

_FIRST_PRINTABLE: Final = 0x20
_DELETE: Final = 0x7F


class Secret:
    """A text that shows itself only when asked: masked in repr, str and format, never pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled")


def _secret(value: "str | Secret") -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ConfigurationError(f"a secret is a str or a Secret, not {type(value).__name__}")
    return Secret(value)


def _has_control_characters(text: str) -> bool:
    return any(ord(char) < _FIRST_PRINTABLE or ord(char) == _DELETE for char in text)


def _check_credential(name: str, text: object, *, forbidden: str = "") -> None:
    if not isinstance(text, str) or not text:
        raise ConfigurationError(f"{name} is empty or no str")
    if _has_control_characters(text) or any(char in text for char in forbidden):
        raise ConfigurationError(f"{name} holds a character that a Basic credential cannot carry")


def _basic(name: str, secret: str) -> Secret:
    return Secret("Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode())


@frozen
class BasicAuth:
    """User name and password, sent with every request (contract section 5.1).

    Args:
        username: as issued; holds no colon.
        password: as issued, a str or a `Secret`.

    Raises:
        ConfigurationError: either is empty or holds a control character.
    """

    username: str = field()
    password: Secret = field(converter=_secret)

    def __attrs_post_init__(self) -> None:
        _check_credential("username", self.username, forbidden=":")
        _check_credential("password", self.password.reveal())

    def authorization(self) -> Secret:
        """Return the value of the Authorization header."""
        return _basic(self.username, self.password.reveal())


@frozen
class OAuth2ClientCredentials:
    """Client id and secret, which buy access tokens (contract section 5.1).

    Args:
        client_id: as issued; holds no colon.
        client_secret: as issued, a str or a `Secret`.

    Raises:
        ConfigurationError: either is empty or holds a control character.
    """

    client_id: str = field()
    client_secret: Secret = field(converter=_secret)

    def __attrs_post_init__(self) -> None:
        _check_credential("client_id", self.client_id, forbidden=":")
        _check_credential("client_secret", self.client_secret.reveal())

    def authorization(self) -> Secret:
        """Return the value of the Authorization header of the token request."""
        return _basic(self.client_id, self.client_secret.reveal())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _positive(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if not _is_number(value) or value <= 0:  # type: ignore[operator]
        raise ConfigurationError(f"{attribute.name} is a finite number above 0")


def _not_negative(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if not _is_number(value) or value < 0:  # type: ignore[operator]
        raise ConfigurationError(f"{attribute.name} is a finite number, 0 or more")


def _counting(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"{attribute.name} is a whole number, 1 or more")


@frozen(kw_only=True)
class Timeouts:
    """How long things may take, in seconds.

    Raises:
        ConfigurationError: one of them is not a finite number above 0.
    """

    connect: float = field(default=10.0, validator=_positive)
    """Until a new connection is ready, TLS included."""
    read: float = field(default=30.0, validator=_positive)
    """Between two pieces of a reply."""
    deadline: float = field(default=120.0, validator=_positive)
    """For a whole call: token, queueing, every attempt, pauses and the body."""


@frozen(kw_only=True)
class RetryPolicy:
    """When and how often a failed request is made again.

    A pause is drawn evenly between 0 and ``base * 2**(attempt - 1)``, at most
    ``max_delay``, and never shorter than the service asked for.

    Raises:
        ConfigurationError: a figure is out of its range.
    """

    max_attempts: int = field(default=3, validator=_counting)
    """Requests for one call, the first included; 1 retries nothing."""
    base_delay: float = field(default=0.05, validator=_not_negative)
    """Seconds, after a failure of the connection or the service."""
    throttled_delay: float = field(default=1.0, validator=_not_negative)
    """Seconds, after a 429 that names no pause."""
    max_delay: float = field(default=20.0, validator=_not_negative)
    """Longest pause of our own choice, in seconds."""
    max_retry_after: float = field(default=60.0, validator=_not_negative)
    """Longest Retry-After that is waited for, in seconds; beyond it the error is raised."""
    budget: int = field(default=500, validator=_not_negative)
    """Tokens that all calls of a client share: a retry takes 5 (10 after a time-out)."""
