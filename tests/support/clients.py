"""What talks to a scripted server in a test: a client on a clock that jumps, and its calls."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from income_client import IncomeClient, IncomeClientError, OAuth2ClientCredentials
from income_client.testing import JumpingClock
from tests.support.server import Answer, Clock, ScriptedServer, token_rules
from tests.support.service import until

CREDENTIALS = OAuth2ClientCredentials("partner", "invented")


@contextlib.asynccontextmanager
async def running(
    call: Answer | None = None,
    token_request: Answer | None = None,
    *,
    clock: Clock | None = None,
    uses: float = float("inf"),
    **options: Any,
) -> AsyncIterator[tuple[ScriptedServer, IncomeClient]]:
    """Run a server of `token_rules` and a client of it; afterwards no task is left.

    Args:
        call: answers calls, as in `token_rules`.
        token_request: answers token requests, as there.
        clock: the client's, which the server tells the time by; one that jumps by default.
        uses: for how many calls a token is accepted, as there.
        options: of the client.
    """
    before = asyncio.all_tasks()
    clock = clock or JumpingClock()
    usual: dict[str, Any] = {"auth": CREDENTIALS, "clock": clock}
    async with (
        ScriptedServer(token_rules(call, token_request, uses=uses), clock=clock) as server,
        IncomeClient(server.url, **usual | options) as client,
    ):
        yield server, client
    await until(lambda: asyncio.all_tasks() == before)


async def ask(client: IncomeClient, reference: str = "a") -> None:
    """Make a list call that can be told from others by its reference."""
    await client.get_application_page(application_reference_id=reference)


async def outcomes(client: IncomeClient, references: Sequence[str]) -> list[str]:
    """Make calls at a time; return the class of each one's error, or ``done``."""

    async def outcome(reference: str) -> str:
        try:
            await ask(client, reference)
        except IncomeClientError as error:
            return type(error).__name__
        return "done"

    return await asyncio.gather(*map(outcome, references))
