"""Orders for callbacks from another process: how they are written, read and sent."""

from http import HTTPStatus
from typing import Final

import msgspec
from attrs import field, frozen

from income_client.settings import (
    BasicAuth,
    OAuth2ClientCredentials,
    Secret,
    flag,
    invalid,
    validated,
)
from income_client.texts import has_surrogate

from .api import CONTROL_PATH
from .callbacks import (
    USUAL_EVENT,
    CallbackDelivery,
    TokenError,
    post,
    request_token,
)
from .exchange import check_local_address

_PATH: Final = f"{CONTROL_PATH}/callbacks"
_TIMEOUT: Final = 600.0
"""Seconds for an order: longer than a callback that is sent again and again."""
_REASONS: Final = {
    "no_callback_target": (
        "the emulator has nowhere to send callbacks to; "
        "start income-client listen, or give emulate --callbacks URL"
    ),
    "no_such_application": "the emulator has no application of this id",
    "unauthorized": (
        "the emulator does not accept the credentials; INCOME_BASE_URL may be that of another one"
    ),
    "unavailable": "what answers there fails at the moment; with emulate --faults, try again",
    "no_emulator": "what answers there is not an emulator; INCOME_BASE_URL must be that of one",
    "nobody": "nobody answers there; is INCOME_BASE_URL that of a running emulator?",
}
"""Why an order was not carried out; the first three are errors in the emulator's replies."""
_SERVER_ERRORS: Final = range(500, 600)


def _check_text(name: str, value: object) -> None:
    is_text = isinstance(value, str) and not has_surrogate(value)  # which JSON cannot hold
    if value is not None and not is_text:
        raise invalid(name, "a str without surrogates", value)


@frozen(kw_only=True)
class CallbackOrder:
    """What another process asks an emulator for.

    Raises:
        ConfigurationError: a field is invalid.
    """

    application_id: str | None = field(default=None, validator=validated(_check_text))
    """The application; None for any."""
    event_type: str | None = field(default=USUAL_EVENT, validator=validated(_check_text))
    """What has happened; None to leave it out."""
    update: bool = field(default=False, validator=flag)
    """Whether the application changes first."""


class OrderFailedError(Exception):
    """An order was not carried out; the reason is one of `_REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(_REASONS[reason])
        self.reason = reason


class OrderSender:
    """Sends orders to an emulator of another process on this machine, at the address it prints."""

    def __init__(self, url: str, auth: BasicAuth | OAuth2ClientCredentials) -> None:
        self._origin = url.removesuffix("/")
        self._auth = auth
        check_local_address("url", self._origin + _PATH)

    async def fire(self, order: CallbackOrder) -> CallbackDelivery:
        """Have one callback fired, and return what became of it in the end.

        Raises:
            OrderFailedError: none was fired.
        """
        try:
            authorization = await self._authorization_header()
        except TokenError as error:
            raise _order_error(error.outcome) from None
        headers = (("Content-Type", "application/json"), ("Authorization", authorization.reveal()))
        url = self._origin + _PATH
        body = msgspec.json.encode(order)
        answer = await post(url, body, headers=headers, seconds=_TIMEOUT)
        try:
            if answer.outcome == HTTPStatus.OK:
                return msgspec.json.decode(answer.body, type=CallbackDelivery)
            code = msgspec.json.decode(answer.body, type=dict[str, str]).get("error", "")
        except ValueError:
            raise _order_error(answer.outcome) from None
        raise _order_error(answer.outcome, code)

    async def _authorization_header(self) -> Secret:
        if isinstance(self._auth, BasicAuth):
            return self._auth.authorization()
        url = f"{self._origin}/token"
        authorization, _ = await request_token(url, self._auth, seconds=_TIMEOUT)
        return authorization


def _order_error(outcome: int | str, code: str = "") -> OrderFailedError:
    """Return the error for what an order came to, and for the code in the reply."""
    if code in _REASONS:
        return OrderFailedError(code)
    if outcome == HTTPStatus.UNAUTHORIZED:
        return OrderFailedError("unauthorized")
    if outcome == HTTPStatus.TOO_MANY_REQUESTS or outcome in _SERVER_ERRORS:
        return OrderFailedError("unavailable")
    is_answer = isinstance(outcome, int) or outcome == "unreadable"
    return OrderFailedError("no_emulator" if is_answer else "nobody")
