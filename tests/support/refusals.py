"""Why the checks of a receiver refuse something."""

from collections.abc import Awaitable, Callable
from typing import Any

from income_client.receivers.exchange import Refusal, RefusedError


def refusal_of(check: Callable[..., Any], *arguments: Any, **named: Any) -> Refusal | None:
    """Return why a check refuses its arguments, None if it does not."""
    try:
        check(*arguments, **named)
    except RefusedError as error:
        return error.refusal
    return None


async def refusal_in(checking: Awaitable[Any]) -> Refusal | None:
    """Return why a check that is awaited refuses, None if it does not."""
    try:
        await checking
    except RefusedError as error:
        return error.refusal
    return None
