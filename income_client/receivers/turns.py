"""So many at a time, in whichever event loop; a receiver may be older than its server's."""

import asyncio


class Turns:
    """Lets so many in at a time.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = asyncio.Semaphore(count)

    def one(self) -> asyncio.Semaphore:
        """Return what lets one in, to be entered in the running loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Test clients, for some, have a loop for each of them.
            self._loop, self._turns = loop, asyncio.Semaphore(self._count)
        return self._turns
