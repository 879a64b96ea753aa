"""Whether a cancellation is meant for whoever sees it."""

import asyncio


def is_cancelled() -> bool:
    """Say whether the running task is being cancelled.

    If not, the `asyncio.CancelledError` at hand comes from something that it waited for.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
