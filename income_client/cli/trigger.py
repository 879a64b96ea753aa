"""``income-client trigger``: has a running emulator send callbacks, and shows what came of them."""

import asyncio
import os
from typing import Annotated, Final

from cyclopts import Parameter

from income_client import BasicAuth, ConfigurationError, OAuth2ClientCredentials

from .exit_status import ExitStatus
from .options import Count
from .output import say
from .rows import Column, OutputOption, RowWriter
from .running import announcement, credentials_from

_SILENCE: Final = 2.0
"""Seconds after which it is said what is waited for."""
_STILL_SENDING: Final = "not delivered so far; the emulator tries again, for half a minute in all"
_COLUMNS: Final = (
    Column("application_id", "Application"),
    Column("event_type", "Event", dropped=1),  # the same in each row
    Column("delivered", "Delivered"),
    Column("attempts", "Answers"),
)


async def trigger(
    application_id: Annotated[str | None, Parameter(name="APPLICATION_ID")] = None,
    /,
    *,
    event: Annotated[str, Parameter(metavar="EVENT")] = "income_calculations",
    update: Annotated[bool, Parameter(negative="--no-update", show_default=False)] = True,
    count: Count = 1,
    output: OutputOption = None,
) -> int:
    """Have a running emulator send callbacks, and show what came of each.

    With nothing set, this finds the income-client emulate that runs on this
    machine. That one sends callbacks to its --callbacks, or to the income-client
    listen that runs beside it. INCOME_BASE_URL and credentials, as emulate prints
    them, choose another emulator.

    The answers are statuses, one for each attempt, or why there was none:

      refused      nothing listens at that port
      unreachable  the host cannot be reached or has no address
      tls          one side does not accept the other's certificate
      timeout      no answer in ten seconds
      dropped      the connection was closed before the answer
      reset        the connection was reset
      cut_short    the answer ended in the middle
      unreadable   the answer is not HTTP
      failed       any other failure
      closed       the emulator has ended

    With token_ before it, an answer is about the request for a token: token_401
    means that the client id and secret were refused. After 429, 500, 502, 503 and
    504 a callback is sent up to five more times, as is assumed of the service.

    The exit status is 1 unless all were answered with 200, and 4 if the emulator
    refuses the credentials.

    Example: income-client trigger --event extractions --count 3

    Args:
        application_id: What they are about. Default: each about another application.
        event: The event that they report.
        update: Change the application first, so that there is an update. Default: --update.
        count: How many to send, one after the other.
        output: Format of the output.
    """
    # It loads aiohttp, which the help does not need.
    from income_client.emulator.callback_orders import (
        CallbackOrder,
        OrderFailedError,
        OrderSender,
    )
    from income_client.emulator.exchange import check_local_address

    url, auth = _find_emulator()
    check_local_address("INCOME_BASE_URL", url)
    order = CallbackOrder(application_id=application_id, event_type=event, update=update)
    emulator = OrderSender(url, auth)
    are_delivered = True
    with RowWriter(_COLUMNS, output) as rows:
        for _ in range(count):
            waiting = asyncio.get_running_loop().call_later(_SILENCE, say, _STILL_SENDING)
            try:
                outcome = await emulator.fire(order)
            except OrderFailedError as error:
                say(str(error))
                is_refused = error.reason == "unauthorized"
                return ExitStatus.REFUSED if is_refused else ExitStatus.FAILED
            finally:
                waiting.cancel()
            are_delivered = are_delivered and outcome.delivered
            rows.write({column.key: getattr(outcome, column.key) for column in _COLUMNS})
    return ExitStatus.DONE if are_delivered else ExitStatus.FAILED


def _find_emulator() -> tuple[str, BasicAuth | OAuth2ClientCredentials]:
    """Return the emulator that the environment names, or else the one that runs here."""
    url = os.environ.get("INCOME_BASE_URL")
    if url:
        credentials = credentials_from(os.environ, "INCOME_")
    else:
        running = announcement("emulate")
        if running is None:
            raise ConfigurationError(
                "no emulator is running here, and INCOME_BASE_URL is not set; "
                "start income-client emulate in another terminal"
            )
        url, credentials = running["url"], credentials_from(running)
    auth = credentials.oauth2 or credentials.basic
    if auth is None:
        raise ConfigurationError(
            "set INCOME_CLIENT_ID and INCOME_CLIENT_SECRET, or INCOME_USERNAME and "
            "INCOME_PASSWORD, as emulate prints them"
        )
    return url, auth
