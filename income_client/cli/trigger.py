"""``income-client trigger``: makes a running emulator send callbacks, and shows the outcomes."""

import asyncio
import os
from typing import Annotated, Final

from cyclopts import Parameter

from income_client import ConfigurationError

from .exit_status import ExitStatus
from .options import Count
from .output import say
from .rows import Column, OutputOption, RowWriter

_SILENCE: Final = 2.0
"""Seconds after which the command tells what it is waiting for."""
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
    """Make a running emulator send callbacks, and show the outcome of each.

    INCOME_BASE_URL must be set, as income-client emulate prints it; that command's
    --callbacks says where they go. An emulator with a control token asks for
    INCOME_EMULATOR_TOKEN.

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

    After 429, 500, 502, 503 and 504 a callback is sent up to five more times, as is
    assumed of the service. The exit status is 1 unless all were answered with 200.

    Example: income-client trigger --event extractions --count 3

    Args:
        application_id: What they are about. Default: each about another application.
        event: The event that they report.
        update: Change the application first, so that there is an update. Default: --update.
        count: How many to send, one after the other.
        output: Format of the output.
    """
    # It loads aiohttp, which the help does not need.
    from income_client.emulator import RemoteEmulator

    url = os.environ.get("INCOME_BASE_URL")
    if not url:
        raise ConfigurationError(
            "INCOME_BASE_URL is not set; start income-client emulate --callbacks URL in another "
            "terminal, and set the variables that it prints"
        )
    try:
        emulator = RemoteEmulator(url, os.environ.get("INCOME_EMULATOR_TOKEN") or None)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"INCOME_BASE_URL or INCOME_EMULATOR_TOKEN: {error.message}"
        ) from None
    await emulator.start()
    are_delivered = True
    with RowWriter(_COLUMNS, output) as rows:
        for _ in range(count):
            waiting = asyncio.get_running_loop().call_later(_SILENCE, say, _STILL_SENDING)
            try:
                delivery = await emulator.fire_callback(application_id, event, update=update)
            finally:
                waiting.cancel()
            are_delivered = are_delivered and delivery.delivered
            rows.write({column.key: getattr(delivery, column.key) for column in _COLUMNS})
    return ExitStatus.DONE if are_delivered else ExitStatus.FAILED
