"""Drawing that goes on beside a block of code; knows not what is drawn."""

import asyncio
from collections.abc import Coroutine


class DrawingTask:
    """Draws from now on, until it is ended.

    Args:
        drawing: draws for as long as it is let.
    """

    def __init__(self, drawing: Coroutine[object, object, None]) -> None:
        self._task = asyncio.create_task(drawing)

    async def end(self) -> BaseException | None:
        """End it.

        Returns:
            What it had failed with before, if it had.
        """
        self._task.cancel()
        await asyncio.wait((self._task,))
        return None if self._task.cancelled() else self._task.exception()
