"""``income-client token``: buys an access token and tells how long it serves and what it says."""

import sys
from datetime import UTC, datetime
from typing import Final

from income_client import (
    AuthenticationError,
    BasicAuth,
    IncomeClientError,
    PermissionDeniedError,
    StoredToken,
)

from .config import Connection, Ready, made_ready
from .exit_status import ExitStatus
from .options import Switch, TableOrJson
from .output import say, write_text
from .tokens.claims import content_of
from .tokens.keeper import TokenKeeper
from .tokens.view import TokenReport, show_token

_WARNING: Final = "whoever has this reads what you may read; this terminal keeps it on screen"


async def token(
    *,
    connection: Connection | None = None,
    output: TableOrJson = "table",
    reveal: Switch = False,
) -> int:
    """Buy an access token, and tell how long it serves and what it says.

    Its claims are shown where it is a JWT, without verifying it and without those
    that may be about a person. The token itself is only shown by --reveal, which
    prints nothing else. The exit status is 1 where the credentials need no token,
    and 4 if it, or they, were refused.

    Example: income-client token

    Args:
        connection: where the account comes from.
        output: a table to read, or JSON.
        reveal: print the token itself, and nothing else.

    Returns:
        The exit status: 1 where there are no tokens, 4 if the service refuses this one.
    """
    found = made_ready(connection)
    if isinstance(found.auth, BasicAuth):
        say("there is no token: user name and password go with every request")
        return ExitStatus.FAILED
    keeper = TokenKeeper()
    refusal = await _bought(found, keeper)
    bought = keeper.token
    if bought is None:
        if refusal is not None:
            raise refusal
        say("no token was bought")
        return ExitStatus.FAILED
    if refusal is not None:
        say(f"bought, and not taken by the service: {refusal}")
    if reveal:
        _reveal(bought)
    else:
        show_token(_report(bought), output)
    is_refused = isinstance(refusal, AuthenticationError | PermissionDeniedError)
    return ExitStatus.REFUSED if is_refused else ExitStatus.DONE


async def _bought(found: Ready, keeper: TokenKeeper) -> IncomeClientError | None:
    """Have a client buy a token by the smallest call there is, and return how that ended."""
    client = found.client(token_store=keeper)
    try:
        async with client:
            await client.get_application_page(limit=1)
    except IncomeClientError as error:
        return error.again()
    return None


def _report(bought: StoredToken) -> TokenReport:
    return TokenReport(
        expires_at=bought.expires_at.astimezone(UTC),
        seconds_left=(bought.expires_at - datetime.now(UTC)).total_seconds(),
        lifetime=bought.lifetime,
        characters=len(bought.access_token.reveal()),
        content=content_of(bought.access_token.reveal()),
    )


def _reveal(bought: StoredToken) -> None:
    if sys.stdout.isatty():
        say(_WARNING)
    write_text(bought.access_token.reveal())
