"""``income-client trigger``: has a running emulator fire callbacks, and says what they came to."""

import asyncio
import os
from functools import partial
from typing import Annotated, Final, assert_never

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import ConfigurationError
from income_client.emulator import CallbackDelivery
from income_client.emulator.callbacks import USUAL_EVENT
from income_client.emulator.control import CallbackOrder, OrderFault, RemoteEmulator

from .callbacks.options import read_credentials
from .exit_status import ExitStatus
from .options import MisuseError
from .output import printable, say, write_text

_SILENCE: Final = 2.0
"""Seconds after which it is said what is waited for."""
_STILL_SENDING: Final = "not taken so far; the emulator sends it again, for half a minute in all"


async def trigger(
    application_id: str | None = None,
    *,
    event: str = USUAL_EVENT,
    update: Annotated[bool, Parameter(negative="--no-update", show_default=False)] = True,
    count: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
) -> int:
    """Have a running emulator fire callbacks, and say what became of each.

    A line tells the application, the event and what each attempt came to: the
    status of the answer, or why there was none:

      refused      nobody listens at that port
      unreachable  no way leads there, or its name has no address
      tls          certificates do not fit, on one side or the other
      timeout      no answer in ten seconds
      dropped      the connection was closed before the answer
      reset        the connection was torn down
      cut_short    the answer ended in the middle
      unreadable   what came is no HTTP
      failed       something else went wrong
      closed       the emulator has ended

    With token_ before it the same is about the token that the callback needed:
    token_401 is the answer to its client id and secret. After 429, 500, 502, 503
    and 504 it is sent again up to five times, as is assumed of the service.

    The emulator is one that was started with --callbacks; its address and
    credentials come from the environment, as emulate prints them. The exit status
    is 0 if all callbacks were answered with 200, 4 if the emulator refused the
    credentials, else 1.

    Example: income-client trigger --event extractions --count 3

    Args:
        application_id: what they are about; each about another application unless given.
        event: what they say has happened.
        update: change the application first, so that there is something to read.
        count: how many, one after the other.

    Returns:
        The exit status: 1 if one was not delivered, 4 if the emulator refused the credentials.
    """
    order = _order(application_id, event, update=update)
    emulator = _emulator()
    are_delivered = True
    for _ in range(count):
        outcome = await _fired(emulator, order)
        if isinstance(outcome, OrderFault):
            say(_explained(outcome))
            is_refused = outcome is OrderFault.NOT_AUTHORIZED
            return ExitStatus.REFUSED if is_refused else ExitStatus.FAILED
        write_text(printable(_line(outcome)))
        are_delivered = are_delivered and outcome.delivered
    return ExitStatus.DONE if are_delivered else ExitStatus.FAILED


def _order(application_id: str | None, event: str, *, update: bool) -> CallbackOrder:
    try:
        return CallbackOrder(application_id=application_id, event_type=event, update=update)
    except ConfigurationError as error:
        raise MisuseError(error.message) from None


async def _fired(emulator: RemoteEmulator, order: CallbackOrder) -> CallbackDelivery | OrderFault:
    """Have one fired, and say so if that takes its time."""
    loop = asyncio.get_running_loop()
    saying = loop.call_later(_SILENCE, partial(say, _STILL_SENDING))
    try:
        return await emulator.fire(order)
    finally:
        saying.cancel()


def _emulator() -> RemoteEmulator:
    url = os.environ.get("INCOME_BASE_URL")
    if not url:
        raise MisuseError("INCOME_BASE_URL is not set; emulate prints it")
    credentials = read_credentials("INCOME_")
    auth = credentials.oauth2 or credentials.basic
    if auth is None:
        raise MisuseError(
            "set INCOME_CLIENT_ID and INCOME_CLIENT_SECRET, or INCOME_USERNAME and "
            "INCOME_PASSWORD; emulate prints them"
        )
    try:
        return RemoteEmulator(url, auth)
    except ConfigurationError:
        pass
    del url
    raise MisuseError("INCOME_BASE_URL: emulators are on this machine, and this is not")


def _line(delivery: CallbackDelivery) -> str:
    attempts = " ".join(map(str, delivery.attempts))
    return f"{delivery.application_id or '-'} {delivery.event_type or '-'} {attempts}"


def _explained(fault: OrderFault) -> str:
    text: str = fault.value
    match fault:
        case OrderFault.NO_TARGET:
            return f"{text}; start it with --callbacks URL"
        case OrderFault.NO_SUCH_APPLICATION:
            return text
        case OrderFault.NOBODY | OrderFault.NO_EMULATOR | OrderFault.NOT_AUTHORIZED:
            return f"INCOME_BASE_URL: {text}"
        case _:
            assert_never(fault)
