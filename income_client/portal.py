"""An event loop in a thread of its own, and the calls that other threads make in it.

The thread is started by the first call, so a process may fork before that. Nothing that it runs
refers to the `Portal`: once nobody holds that any more, the loop ends.

A signal may come between any two steps of the main thread: its handler may call the portal, and
Ctrl-C leaves the rest undone. So what must not stay half done is done in threads of our own, which
no signal interrupts; the thread that calls holds no lock, and an end is a state before a message.
"""

import asyncio
import atexit
import os
import threading
import weakref
from _thread import start_new_thread
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Literal, Self, TypeVar

from attrs import frozen

from .errors import ClientClosedError, ConfigurationError

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]
"""What the loop makes the coroutine of a call with."""
Errand = Callable[[], None]
"""What the thread that waits for a call does meanwhile."""

_CLOSED: Final = "the client was closed"
_FORKED: Final = "the client was used before this process was forked; make one after the fork"
_OWN_THREAD: Final = (
    "the client cannot wait for itself: this is its own thread, in which its hooks run;"
    " call it from another one"
)
_PATIENCE: Final = 0.2
"""Seconds after which a thread that waits looks for a signal: nothing interrupts a wait on Windows,
nor elsewhere one that begins just as the signal comes."""
_EXIT_SECONDS: Final = 5.0
"""For how long a coroutine of a user's that ignores its end may hold up that of the program."""


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

    def __init__(
        self,
        work: Work[T],
        feed: Feed[Any] | None,
        forget: Callable[["_Call[Any]"], object],
    ) -> None:
        self._work = work
        self._feed = feed
        self._forget = forget
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._has_ended = False
        self._result: T | BaseException = ClientClosedError(_CLOSED)
        self._inbox: SimpleQueue[Errand | None] = SimpleQueue()
        """Errands for the thread; None, which it may be interrupted over, after the end."""

    # In the loop

    def start(self) -> None:
        """Start the coroutine."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """Cancel the coroutine, whether it has begun or not."""
        if self._task is not None:
            self._task.cancel()
        if not self._has_begun:
            self.end()

    def end(self) -> None:
        """Let the thread go, with a result if there is one."""
        self._forget(self)
        self._has_ended = True
        self._inbox.put(None)

    async def _run(self) -> None:
        self._has_begun = True
        if self._feed is not None:
            self._feed.attach(self._inbox)
        try:
            self._result = await self._work()
        except asyncio.CancelledError:
            pass  # in a thread that runs no task, it is the end of the client
        except BaseException as error:  # noqa: BLE001 - raised in the thread
            self._result = error
        finally:
            if self._feed is not None:
                self._feed.detach(self._inbox)
            self.end()

    # In the thread that waits

    def wait(self) -> None:
        """Wait for the end, and run the errands that come meanwhile."""
        while (errand := self._take_errand()) is not None:
            errand()

    def wait_for_cancellation(self) -> None:
        """Wait for the end, and run nothing any more."""
        while not self._has_ended:
            self._take_errand()

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
    """A thread that runs a loop for a portal, and the calls in it.

    Each first call starts one, and the first loop that is there stays.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]], held: "_Held") -> None:
        self._at_end = at_end
        self._held = held
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop
        self._calls: set[_Call[Any]] = set()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._serve, name="income_client", daemon=True)
        self._ready: SimpleQueue[BaseException | None] = SimpleQueue()

    def start(self) -> None:
        """Start the thread, and wait until the portal has a loop, or is closed."""
        start_new_thread(self._start, ())  # which nothing interrupts half-way
        if (error := self._ready.get()) is not None:
            raise error

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child of the one that it runs in."""
        return self._process != os.getpid()

    @property
    def is_this_thread(self) -> bool:
        """Whether the loop runs in the thread that asks."""
        return threading.current_thread() is self._thread

    def run(self, work: Work[T], feed: Feed[Any] | None) -> T:
        """Run a call to its end; what interrupts the thread cancels it, and waits for that."""
        call = _Call(work, feed, self._calls.discard)
        try:
            self._calls.add(call)
            self._submit(call.start)
            call.wait()
        except BaseException:
            try:
                self._submit(call.cancel)
            except ClientClosedError:
                call.end()
            call.wait_for_cancellation()
            raise
        return call.result()

    def stop(self) -> None:
        """Have the loop end, without waiting for that."""
        if not self.is_of_parent:
            with suppress(ClientClosedError):
                self._submit(self._stop)

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

    def _stop(self) -> None:
        if not self._is_stopping:  # or else it would stop what its end does
            self._is_stopping = True
            self._loop.stop()

    def _start(self) -> None:
        try:
            self._thread.start()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._ready.put(error)

    def _serve(self) -> None:
        try:
            self._loop = asyncio.new_event_loop()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._ready.put(error)
            return
        if self._held.setdefault("loop", self) is not self:
            self._loop.close()
            self._ready.put(None)
            return
        _RUNNING.add(self)
        self._ready.put(None)
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
                    call.end()

    async def _end_tasks(self) -> None:
        try:
            await self._at_end()
        finally:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await self._loop.shutdown_asyncgens()


_Held = dict[Literal["loop"], _LoopThread | None]
"""What a portal and its threads share: empty before the first call, None once it is closed. It is
filled by ``setdefault``, which is atomic."""
_RUNNING: Final[set[_LoopThread]] = set()


@atexit.register
def _close_all() -> None:
    for running in tuple(_RUNNING):
        running.close(_EXIT_SECONDS)


async def _completed(work: Awaitable[T]) -> T:
    return await work


def _drop(held: _Held) -> None:
    """Have the loop of a portal that nobody holds end; whatever thread does this must not wait."""
    loop = held.setdefault("loop", None)
    if loop is not None:
        loop.stop()


class Portal:
    """What any thread calls to run something in one loop, and wait for it.

    Args:
        at_end: called in the loop before it ends.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        self._at_end = at_end
        self._held: _Held = {}
        # At the end of the program, `_close_all` waits.
        weakref.finalize(self, _drop, self._held).atexit = False

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._held.get("loop", self) is None

    def run(self, work: Work[T], feed: Feed[Any] | None = None) -> T:
        """Run a coroutine in the loop to its end, and return its result.

        Args:
            work: makes the coroutine, in the loop.
            feed: what this thread takes for it from an iterable of the caller's.

        Raises:
            ClientClosedError: the loop has ended, or was started before this process was forked.
            ConfigurationError: this is the loop's own thread.
        """
        return self._started_loop().run(work, feed)

    def ask(self, function: Callable[[], T]) -> T:
        """Call a plain function while nothing else runs in the loop, and after its end."""
        loop = self._held.get("loop")
        if self.is_closed or (loop is not None and (loop.is_this_thread or loop.is_of_parent)):
            return function()

        async def called() -> T:
            return function()

        return self.run(called)

    def close(self) -> None:
        """End what runs, and the loop; again does nothing."""
        loop = self._held.setdefault("loop", None)
        if loop is not None:
            self._check_thread(loop)
            loop.close()
            self._held["loop"] = None

    def _started_loop(self) -> _LoopThread:
        if not self._held:
            _LoopThread(self._at_end, self._held).start()
        loop = self._held["loop"]
        if loop is None:
            raise ClientClosedError(_CLOSED)
        if loop.is_of_parent:
            raise ClientClosedError(_FORKED)
        self._check_thread(loop)
        return loop

    def _check_thread(self, loop: _LoopThread) -> None:
        if loop.is_this_thread:
            raise ConfigurationError(_OWN_THREAD)
