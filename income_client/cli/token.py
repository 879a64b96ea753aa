"""``income-client token``: buys an access token and tells how long it serves and what it says."""

import sys
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from income_client import (
    AuthenticationError,
    BasicAuth,
    ConfigurationError,
    IncomeClient,
    IncomeClientError,
    PermissionDeniedError,
    StoredToken,
)

from .accounts.connecting import Connection, Ready, ready
from .tokens.claims import content_of
from .tokens.keeper import TokenKeeper
from .tokens.view import TokenReport, show

_FAILED: Final = 1
_REFUSED: Final = 4
_WARNING: Final = (
    "income-client: whoever has this reads what you may read; this terminal keeps it on screen"
)


async def token(
    *,
    connection: Connection | None = None,
    output: Literal["table", "json"] = "table",
    reveal: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Buy an access token, and tell how long it serves and what it says.

    Args:
        connection: where the account comes from.
        output: a table to read, or JSON.
        reveal: print the token itself, and nothing else.

    Returns:
        The exit status: 1 where there are no tokens, 4 if the service refuses this one.
    """
    found = ready(connection)
    if isinstance(found, str):
        raise ConfigurationError(found)
    if isinstance(found.auth, BasicAuth):
        print(
            "income-client: there is no token: user name and password go with every request",
            file=sys.stderr,
        )
        return _FAILED
    keeper = TokenKeeper()
    refusal = await _bought(found, keeper)
    bought = keeper.token
    if bought is None:
        if refusal is not None:
            raise refusal
        print("income-client: no token was bought", file=sys.stderr)
        return _FAILED
    if refusal is not None:
        print(f"income-client: bought, and not taken by the service: {refusal}", file=sys.stderr)
    if reveal:
        _reveal(bought)
    else:
        show(_report(bought), output)
    is_refused = isinstance(refusal, AuthenticationError | PermissionDeniedError)
    return _REFUSED if is_refused else 0


async def _bought(found: Ready, keeper: TokenKeeper) -> IncomeClientError | None:
    """Have a client buy a token by the smallest call there is, and return how that ended."""
    async with IncomeClient(
        found.account.base_url or "",
        auth=found.auth,
        auth_url=found.account.auth_url,
        token_store=keeper,
    ) as client:
        try:
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
        print(_WARNING, file=sys.stderr)
    print(bought.access_token.reveal(), flush=True)
