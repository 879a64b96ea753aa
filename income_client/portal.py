"""An event loop in a thread of its own, and the calls that other threads make in it.

The thread is started by the first call, so a process may fork before that. Nothing that it runs
refers to the `Portal`: once nobody holds that any more, the loop ends.
"""

import asyncio
import atexit
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from enum import Enum, auto
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Self, TypeVar

from attrs import frozen

from .errors import ClientClosedError, ConfigurationError

T = TypeVar("T")
Errand = Callable[[], None]
"""What the thread that waits for a call does meanwhile."""

_CLOSED: Final = "the client was closed"
_FORKED: Final = "the client was used before this process was forked; make one after the fork"
_OWN_THREAD: Final = (
    "the client cannot wait for itself: this is its own thread, in which its hooks run;"
    " call it from another one"
)
_PATIENCE: Final = 0.2 if sys.platform == "win32" else None
"""Seconds after which Windows, where nothing interrupts a wait, looks for a Ctrl-C."""
_EXIT_SECONDS: Final = 5.0
"""For how long a coroutine of a user's that ignores its end may hold up that of the program."""


class _Phase(Enum):
    """What a portal without a loop is."""

    NEW = auto()
    CLOSED = auto()


@frozen
class _End:
    """The end of a caller's iterable."""

    error: Exception | None
    """What it raised; None if it has no more items."""


class Feed(Generic[T]):
    """A caller's iterable, whose items are taken by the thread that waits for what they give.

    It may block there, use the client, or be bound to its thread, as a query of Django's is.

    Args:
        items: the iterable.
        most: items that are taken at a time: 1 if each is needed as soon as it is there.
    """

    def __init__(self, items: Iterable[T], most: int) -> None:
        self._iterator = iter(items)
        self._most = most
        self._taken: deque[T | _End] = deque()
        self._inbox: SimpleQueue[Errand | None] | None = None
        self._wanted: deque[asyncio.Future[list[T | _End]]] = deque()
        """The future of items that nobody has begun to take."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if not self._taken:
            wanted: asyncio.Future[list[T | _End]] = asyncio.get_running_loop().create_future()
            self._wanted.append(wanted)
            self._ask()
            self._taken.extend(await wanted)
        item = self._taken.popleft()
        if isinstance(item, _End):
            raise item.error or StopAsyncIteration
        return item

    def attach(self, inbox: "SimpleQueue[Errand | None]") -> None:
        """Have items taken by the thread that empties this inbox; called in the loop."""
        if self._inbox is None:
            self._inbox = inbox
            self._ask()

    def detach(self, inbox: "SimpleQueue[Errand | None]") -> None:
        """Have none taken until the next thread waits; called in the loop."""
        if self._inbox is inbox:
            self._inbox = None

    def _ask(self) -> None:
        if self._inbox is not None and self._wanted:
            self._inbox.put(self._take_items)

    def _take_items(self) -> None:
        """Take items, in the caller's thread, unless an earlier errand did that."""
        try:
            wanted = self._wanted.popleft()
        except IndexError:
            return
        taken: list[T | _End] = []
        try:
            taken.extend(islice(self._iterator, self._most))
            if len(taken) < self._most:
                taken.append(_End(None))
        except Exception as error:  # noqa: BLE001 - raised in its turn
            taken.append(_End(error))

        def give() -> None:
            if not wanted.done():
                wanted.set_result(taken)

        with suppress(RuntimeError):  # the loop has ended
            wanted.get_loop().call_soon_threadsafe(give)


class _Call(Generic[T]):
    """A coroutine in the loop, and the thread that waits for it."""

    def __init__(self, work: Coroutine[Any, Any, T], feed: Feed[Any] | None) -> None:
        self._work = work
        self._feed = feed
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._result: T | BaseException = ClientClosedError(_CLOSED)
        self._inbox: SimpleQueue[Errand | None] = SimpleQueue()
        """Errands for the thread; None once the coroutine has ended."""

    # In the loop

    def start(self, finished: Callable[["_Call[Any]"], object]) -> None:
        """Start the coroutine; ``finished`` is called at its end."""
        self._task = asyncio.get_running_loop().create_task(self._run(finished))

    def cancel(self) -> None:
        """Cancel the coroutine, whether it has begun or not."""
        if self._task is not None:
            self._task.cancel()
        if not self._has_begun:
            self.give_up()

    def give_up(self) -> None:
        """Let the thread go without a result: the coroutine never begins."""
        self._work.close()
        self._inbox.put(None)

    async def _run(self, finished: Callable[["_Call[Any]"], object]) -> None:
        self._has_begun = True
        if self._feed is not None:
            self._feed.attach(self._inbox)
        try:
            self._result = await self._work
        except asyncio.CancelledError:
            pass  # in a thread that runs no task, it is the end of the client
        except BaseException as error:  # noqa: BLE001 - raised in the thread
            self._result = error
        finally:
            if self._feed is not None:
                self._feed.detach(self._inbox)
            finished(self)
            self._inbox.put(None)

    # In the thread that waits

    def wait(self) -> None:
        """Wait for the end, and run the errands that come meanwhile."""
        while (errand := self._take_errand()) is not None:
            errand()

    def wait_for_cancellation(self) -> None:
        """Wait for the end, and run nothing any more."""
        while self._take_errand() is not None:
            pass

    def result(self) -> T:
        """Return what came of it."""
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def _take_errand(self) -> Errand | None:
        while True:
            try:
                return self._inbox.get(timeout=_PATIENCE)
            except Empty:
                continue


class _LoopThread:
    """A running loop, and the calls in it."""

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        self._at_end = at_end
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._calls: set[_Call[Any]] = set()
        self._thread = threading.Thread(target=self._serve, name="income_client", daemon=True)
        _RUNNING.add(self)
        self._thread.start()

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child of the one that it runs in."""
        return self._process != os.getpid()

    @property
    def is_this_thread(self) -> bool:
        """Whether the loop runs in the thread that asks."""
        return threading.current_thread() is self._thread

    def run(self, call: _Call[T]) -> T:
        """Run a call to its end; what interrupts the thread cancels it, and waits for that."""
        self._calls.add(call)
        try:
            self._submit(call.start, self._calls.discard)
            call.wait()
        except BaseException:
            try:
                self._submit(call.cancel)
            except ClientClosedError:
                call.give_up()
            call.wait_for_cancellation()
            raise
        return call.result()

    def stop(self) -> None:
        """Have the loop end, without waiting for that."""
        if not self.is_of_parent:
            with suppress(ClientClosedError):
                self._submit(self._loop.stop)

    def close(self, seconds: float | None = None) -> None:
        """End the loop, and wait for that; in a forked child, leave it to the parent."""
        if self.is_of_parent:
            _RUNNING.discard(self)
            asyncio.run(_completed(self._at_end()))
            return
        self.stop()
        self._thread.join(seconds)

    def _submit(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            raise ClientClosedError(_CLOSED) from None

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            try:
                self._loop.run_until_complete(self._end_tasks())
            finally:
                self._loop.close()
                _RUNNING.discard(self)
                # Whoever comes later finds the loop closed.
                for call in tuple(self._calls):
                    call.give_up()

    async def _end_tasks(self) -> None:
        try:
            await self._at_end()
        finally:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await self._loop.shutdown_asyncgens()


_RUNNING: Final[set[_LoopThread]] = set()


@atexit.register
def _close_all() -> None:
    for running in tuple(_RUNNING):
        running.close(_EXIT_SECONDS)


async def _completed(work: Awaitable[T]) -> T:
    return await work


class Portal:
    """What any thread calls to run something in one loop, and wait for it.

    Args:
        at_end: called in the loop before it ends.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        self._at_end = at_end
        self._loop: _LoopThread | _Phase = _Phase.NEW
        self._starting = threading.Lock()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._loop is _Phase.CLOSED

    def run(self, work: Coroutine[Any, Any, T], feed: Feed[Any] | None = None) -> T:
        """Run a coroutine in the loop to its end, and return its result.

        Args:
            work: the coroutine.
            feed: what this thread takes for it from an iterable of the caller's.

        Raises:
            ClientClosedError: the loop has ended, or was started before this process was forked.
            ConfigurationError: this is the loop's own thread.
        """
        try:
            loop = self._started_loop()
        except BaseException:
            work.close()
            raise
        return loop.run(_Call(work, feed))

    def ask(self, function: Callable[[], T]) -> T:
        """Call a plain function while nothing else runs in the loop, and after its end."""
        loop = self._loop
        if loop is _Phase.CLOSED:
            return function()
        if isinstance(loop, _LoopThread) and (loop.is_this_thread or loop.is_of_parent):
            return function()

        async def called() -> T:
            return function()

        return self.run(called())

    def close(self) -> None:
        """End what runs, and the loop; again does nothing."""
        loop = self._loop
        if isinstance(loop, _LoopThread):
            self._check_thread(loop)
            loop.close()
        self._loop = _Phase.CLOSED

    def _started_loop(self) -> _LoopThread:
        if self._loop is _Phase.NEW:
            with self._starting:
                if self._loop is _Phase.NEW:
                    self._loop = _LoopThread(self._at_end)
                    # Whatever thread collects this must not wait. At the end of the program,
                    # `_close_all` does.
                    weakref.finalize(self, self._loop.stop).atexit = False
        loop = self._loop
        if isinstance(loop, _Phase):
            raise ClientClosedError(_CLOSED)
        if loop.is_of_parent:
            raise ClientClosedError(_FORKED)
        self._check_thread(loop)
        return loop

    def _check_thread(self, loop: _LoopThread) -> None:
        if loop.is_this_thread:
            raise ConfigurationError(_OWN_THREAD)
