"""Where callbacks are sent to, and what becomes of each attempt; this machine only, sends nothing.

What the contract leaves open about callbacks (sections 5.2 and 6) is a field here.
"""

from http import HTTPStatus
from ssl import SSLContext
from typing import Any, Final

from attrs import Attribute, field, frozen
from attrs.validators import optional

from income_client.errors import ConfigurationError
from income_client.settings import BasicAuth, OAuth2ClientCredentials

from .arguments import check_figure, instance
from .callback_answer import CallbackAnswer
from .local_address import check_local_address

_SENT_AGAIN: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_IS_BOOL: Final = instance(bool, "True or False")


def _address(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    fault = check_local_address(attribute.name, value)
    del value  # it may hold a secret, and crash reporters send the locals of frames
    if fault is not None:
        raise fault


def _figures(value: Any) -> tuple[float, ...]:
    try:
        figures = tuple(value)
    except TypeError:
        raise ConfigurationError("pauses are several numbers of seconds") from None
    for figure in figures:
        check_figure("each of the pauses", figure)
    return figures


def _positive(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    check_figure(attribute.name, value)
    if not value:
        raise ConfigurationError(f"{attribute.name} is a number above 0")


@frozen
class CallbackTarget:
    """An endpoint for callbacks, and how they are sent to it (contract sections 5.2 and 6).

    The contract does not say when callbacks are sent again. It is assumed here that the
    service expects 200, and sends again up to five times after 429, 500, 502, 503 and 504;
    all of that can be changed.

    Raises:
        ConfigurationError: an address leads elsewhere than to this machine, or an
            argument cannot be meant.
    """

    url: str = field(validator=_address, repr=False)
    """Where callbacks go: http or https, this machine, without user name or fragment."""
    auth: BasicAuth | OAuth2ClientCredentials | None = field(
        default=None,
        kw_only=True,
        validator=optional(
            instance((BasicAuth, OAuth2ClientCredentials), "BasicAuth or OAuth2ClientCredentials")
        ),
    )
    """What the partner has supplied; None for callbacks without an Authorization header."""
    token_url: str | None = field(
        default=None, kw_only=True, validator=optional(_address), repr=False
    )
    """Where tokens are bought, on this machine as well; needed for OAuth 2.0."""
    ssl: SSLContext | None = field(
        default=None, kw_only=True, validator=optional(instance(SSLContext, "an SSLContext"))
    )
    """The TLS context; one with a certificate makes it mutual TLS."""
    pauses: tuple[float, ...] = field(
        default=(1.0, 2.0, 4.0, 8.0, 16.0), kw_only=True, converter=_figures
    )
    """Seconds before each time that a callback is sent again, as assumed; empty: sent once."""
    timeout: float = field(default=10.0, kw_only=True, validator=_positive)
    """Seconds until an attempt, or the request for a token, is given up."""
    renews_on_401: bool = field(default=True, kw_only=True, validator=_IS_BOOL)
    """Whether a 401 makes it buy a new token and send at once, a single time."""
    honours_retry_after: bool = field(default=False, kw_only=True, validator=_IS_BOOL)
    """Whether Retry-After lengthens a pause."""
    resends_unanswered: bool = field(default=False, kw_only=True, validator=_IS_BOOL)
    """Whether it sends again when no answer came, or no token could be had."""

    def __attrs_post_init__(self) -> None:
        is_oauth2 = isinstance(self.auth, OAuth2ClientCredentials)
        addresses = [self.url] if self.token_url is None else [self.url, self.token_url]
        is_plain = not any(one.startswith("https:") for one in addresses)
        fault = None
        if is_oauth2 and self.token_url is None:
            fault = "token_url is needed where auth is OAuth2ClientCredentials"
        elif self.token_url is not None and not is_oauth2:
            fault = "token_url is given, and auth is no OAuth2ClientCredentials"
        elif self.ssl is not None and is_plain:
            fault = "ssl is given, and no address is https"
        if fault is not None:
            del self, addresses
            raise ConfigurationError(fault)

    def pause_after(self, answer: CallbackAnswer, resent: int) -> float | None:
        """Return the seconds until a callback is sent again, None if it is not.

        Args:
            answer: what the last attempt came to.
            resent: how often it was sent again so far.
        """
        is_passing = answer.status in _SENT_AGAIN
        if resent >= len(self.pauses) or not (
            is_passing or (self.resends_unanswered and answer.is_fault)
        ):
            return None
        pause = self.pauses[resent]
        if self.honours_retry_after and answer.retry_after is not None:
            return max(pause, answer.retry_after)
        return pause

    def tls_for(self, url: str) -> SSLContext | None:
        """Return the TLS context for one of the addresses, None for the default one.

        Args:
            url: `url` or `token_url`.
        """
        return self.ssl if url.startswith("https:") else None
