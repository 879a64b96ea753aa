"""An event loop in a thread of its own, and the calls that other threads make in it.

The first call starts the thread, so a process may fork before that. Nothing that the thread runs
refers to the `Portal`: the loop ends once the portal is garbage.

A signal may interrupt the main thread between any two steps: its handler may call the portal, and
Ctrl-C skips the rest of the function. So whatever must not stop half-way runs in threads of this
module, which no signal interrupts; a thread that calls takes no lock (`SimpleQueue` has none that
Python code sees), and the end of a call is a flag before it is an item of a queue.
"""

import _thread
import asyncio
import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypeVar

from attrs import frozen

from income_client.errors import ClientClosedError, ConfigurationError

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]
"""A function that makes the coroutine of a call; the loop calls it."""
CallerQueue: TypeAlias = "SimpleQueue[Callable[[], None] | None]"
"""Functions for the thread that waits for a call; None once the call has ended."""

_CLOSED: Final = "the client was closed"
_FORKED: Final = "the client was used before this process was forked; make one after the fork"
_OWN_THREAD: Final = (
    "the client cannot wait for itself: this is its own thread, in which its hooks run;"
    " call it from another one"
)
_GREEN: Final = frozenset({"gevent", "eventlet"})
"""Libraries that replace threads by green ones, which share one thread of the system."""
_SIGNAL_SECONDS: Final = 0.2
"""Time between two looks for a signal in a thread that waits: nothing interrupts a wait on Windows,
nor elsewhere one that begins just as the signal comes."""
_EXIT_SECONDS: Final = 5.0
"""Seconds by which a user's coroutine that ignores its cancellation may delay the program's end.
"""


@frozen
class _End:
    """The end of a caller's iterable."""

    error: Exception | None
    """Error that the iterable raised; None if it has no more items."""


class CallerIterator(Generic[T]):
    """An asynchronous iterator over a caller's iterable, which the caller's own thread iterates.

    The thread does that while it waits for a call. The iterable may block there, use the client,
    or be bound to its thread, as a query of Django's is.

    Args:
        items: the iterable.
        most: items that cross to the loop at a time: 1 if each is needed as soon as it is there.
    """

    def __init__(self, items: Iterable[T], most: int) -> None:
        self._iterator = iter(items)
        self._most = most
        self._buffer: deque[T | _End] = deque()
        self._queue: CallerQueue | None = None
        self._requests: deque[asyncio.Future[list[T | _End]]] = deque()
        """Futures of items that no thread has begun to read."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if not self._buffer:
            request: asyncio.Future[list[T | _End]] = asyncio.get_running_loop().create_future()
            self._requests.append(request)
            self._enqueue()
            self._buffer.extend(await request)
        item = self._buffer.popleft()
        if isinstance(item, _End):
            raise item.error or StopAsyncIteration
        return item

    def attach(self, queue: CallerQueue) -> None:
        """Make the thread of a queue read the items; called in the loop."""
        if self._queue is None:
            self._queue = queue
            self._enqueue()

    def detach(self, queue: CallerQueue) -> None:
        """Leave the items to the next waiting thread; called in the loop."""
        if self._queue is queue:
            self._queue = None

    def _enqueue(self) -> None:
        if self._queue is not None and self._requests:
            self._queue.put(self._read_items)

    def _read_items(self) -> None:
        """Read items for the first request, in the caller's thread, unless it was served before."""
        try:
            request = self._requests.popleft()
        except IndexError:
            return
        items: list[T | _End] = []
        try:
            items.extend(islice(self._iterator, self._most))
            if len(items) < self._most:
                items.append(_End(None))
        except Exception as error:  # noqa: BLE001 - raised in its turn
            items.append(_End(error))

        def set_result() -> None:
            if not request.done():
                request.set_result(items)

        with suppress(RuntimeError):  # the loop has ended
            request.get_loop().call_soon_threadsafe(set_result)


class _Call(Generic[T]):
    """A task in the loop, and the thread that waits for its result.

    Like a `concurrent.futures.Future`, without the lock that Ctrl-C could leave locked.
    """

    def __init__(
        self,
        work: Work[T],
        iterator: CallerIterator[Any] | None,
        at_end: Callable[["_Call[Any]"], object],
    ) -> None:
        self._work = work
        self._iterator = iterator
        self._at_end = at_end
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._is_done = False
        self._result: T | BaseException = ClientClosedError(_CLOSED)
        self._queue: CallerQueue = SimpleQueue()

    # In the loop

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """Cancel the task, whether it has begun or not."""
        if self._task is not None:
            self._task.cancel()
        if not self._has_begun:
            self.set_done()

    def set_done(self) -> None:
        """Release the waiting thread, with the result if there is one."""
        self._at_end(self)
        self._is_done = True
        self._queue.put(None)

    async def _run(self) -> None:
        self._has_begun = True
        if self._iterator is not None:
            self._iterator.attach(self._queue)
        try:
            self._result = await self._work()
        except asyncio.CancelledError:
            pass  # for a thread, which is no task, that is the end of the client
        except BaseException as error:  # noqa: BLE001 - raised in the thread
            self._result = error
        finally:
            if self._iterator is not None:
                self._iterator.detach(self._queue)
            self.set_done()

    # In the thread that waits

    def wait(self) -> None:
        """Call the functions of the queue until the call has ended."""
        while (function := self._next_function()) is not None:
            function()

    def wait_for_cancellation(self) -> None:
        """Wait for the end of a cancelled call, and run no more functions of the queue."""
        while not self._is_done:
            self._next_function()

    def result(self) -> T:
        """Return the result, or raise the error, of a call that has ended."""
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def _next_function(self) -> Callable[[], None] | None:
        while True:
            try:
                return self._queue.get(timeout=_SIGNAL_SECONDS)
            except Empty:
                continue


class _LoopThread:
    """A thread that runs a portal's loop, and the calls in it.

    Each of several concurrent first calls starts a thread; the slot keeps the first one that has a
    loop, and the others end at once.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]], slot: "_Slot") -> None:
        self._at_end = at_end
        self._slot = slot
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop
        self._calls: set[_Call[Any]] = set()
        self._is_stopping = False
        self._has_ended = False
        self._ends: SimpleQueue[None] = SimpleQueue()
        """Wakes a thread that waits for the end."""
        self._thread = threading.Thread(target=self._serve, name="income_client", daemon=True)
        self._started: SimpleQueue[BaseException | None] = SimpleQueue()

    def start(self) -> None:
        """Start the thread, and wait until the slot has a loop or is closed."""
        _thread.start_new_thread(self._start, ())  # which nothing interrupts half-way
        if (error := self._started.get()) is not None:
            raise error

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child of the one that the thread runs in."""
        return self._process != os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is the loop's thread."""
        return threading.current_thread() is self._thread

    def run(self, work: Work[T], iterator: CallerIterator[Any] | None) -> T:
        """Return a call's result; an interruption of the waiting thread cancels the call first."""
        call = _Call(work, iterator, self._calls.discard)
        try:
            self._calls.add(call)
            self._submit(call.start)
            call.wait()
        except BaseException:
            try:
                self._submit(call.cancel)
            except ClientClosedError:
                call.set_done()
            call.wait_for_cancellation()
            raise
        return call.result()

    def stop(self) -> None:
        """Stop the loop, without waiting for its end."""
        if not self.is_of_parent:
            with suppress(ClientClosedError):
                self._submit(self._stop)

    def close(self, seconds: float | None = None) -> None:
        """Stop the loop and wait for its end; in a forked child, leave it to the parent."""
        if self.is_of_parent:
            _RUNNING.discard(self)
            asyncio.run(_await(self._at_end()))
            return
        self.stop()
        # Thread.join of CPython 3.11 takes the thread for ended once a signal has interrupted it.
        until = None if seconds is None else monotonic() + seconds
        while not self._has_ended and (until is None or monotonic() < until):
            with suppress(Empty):
                self._ends.get(timeout=_SIGNAL_SECONDS)

    def _submit(self, function: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            raise ClientClosedError(_CLOSED) from None

    def _stop(self) -> None:
        if not self._is_stopping:  # a second stop would end `_end_tasks`
            self._is_stopping = True
            self._loop.stop()

    def _start(self) -> None:
        try:
            self._thread.start()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._started.put(error)

    def _serve(self) -> None:
        try:
            self._loop = asyncio.new_event_loop()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._started.put(error)
            return
        is_first = self._slot.setdefault("thread", self) is self
        if is_first:
            _RUNNING.add(self)
        self._started.put(None)
        if not is_first:
            self._loop.close()
            return
        try:
            self._loop.run_forever()
        finally:
            try:
                self._loop.run_until_complete(self._end_tasks())
            finally:
                try:
                    self._loop.close()
                finally:
                    self._release_waiting()

    def _release_waiting(self) -> None:
        """Wake every thread that waits for a call or for the end; a later call finds no loop."""
        _RUNNING.discard(self)
        for call in tuple(self._calls):
            call.set_done()
        self._has_ended = True
        self._ends.put(None)

    async def _end_tasks(self) -> None:
        try:
            await self._at_end()
        finally:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._loop.shutdown_asyncgens()


_Slot = dict[Literal["thread"], _LoopThread | None]
"""The thread of a portal, shared with that thread and the portal's finalizer, which must not refer
to the portal: empty before the first call, None once the portal is closed. Threads fill it by
``setdefault``, which is atomic."""
_RUNNING: Final[set[_LoopThread]] = set()


@atexit.register
def _close_all() -> None:
    for thread in tuple(_RUNNING):
        thread.close(_EXIT_SECONDS)


async def _await(work: Awaitable[T]) -> T:
    return await work


def _stop(slot: _Slot) -> None:
    """Stop the loop of a garbage-collected portal without waiting: any thread may finalize it."""
    thread = slot.setdefault("thread", None)
    if thread is not None:
        thread.stop()


class Portal:
    """An event loop for threads, each of which waits for its own calls.

    Args:
        at_end: called in the loop before the loop ends.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        self._at_end = at_end
        self._slot: _Slot = {}
        # At the end of the program, `_close_all` waits.
        weakref.finalize(self, _stop, self._slot).atexit = False

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._slot.get("thread", self) is None

    def run(self, work: Work[T], iterator: CallerIterator[Any] | None = None) -> T:
        """Run a coroutine in the loop to its end, and return its result.

        Args:
            work: makes the coroutine, in the loop.
            iterator: the caller's iterable that this thread reads for the coroutine.

        Raises:
            ClientClosedError: the loop has ended, or was started before this process was forked.
            ConfigurationError: this is the loop's own thread, or threads are green.
        """
        return self._started_thread().run(work, iterator)

    def ask(self, function: Callable[[], T]) -> T:
        """Call a plain function in the loop, or at once after the loop's end."""
        thread = self._slot.get("thread")
        if self.is_closed or (thread is not None and (thread.is_current or thread.is_of_parent)):
            return function()

        async def call() -> T:
            return function()

        return self.run(call)

    def close(self) -> None:
        """Cancel all calls and stop the loop; a second call does nothing."""
        thread = self._slot.setdefault("thread", None)
        if thread is not None:
            self._check_thread(thread)
            thread.close()
            self._slot["thread"] = None

    def _started_thread(self) -> _LoopThread:
        if not self._slot:
            _check_threads_are_real()
            _LoopThread(self._at_end, self._slot).start()
        thread = self._slot["thread"]
        if thread is None:
            raise ClientClosedError(_CLOSED)
        if thread.is_of_parent:
            raise ClientClosedError(_FORKED)
        self._check_thread(thread)
        return thread

    def _check_thread(self, thread: _LoopThread) -> None:
        if thread.is_current:
            raise ConfigurationError(_OWN_THREAD)


def _check_threads_are_real() -> None:
    """Raise an error where green threads have replaced the system's.

    The loop would run in the thread of its callers: after the first call, Django's ORM and
    ``asyncio.run`` would refuse to work there until the process ends.
    """
    library = _thread.start_new_thread.__module__.partition(".")[0]
    if library in _GREEN:
        raise ConfigurationError(
            f"{library} has replaced the threads of this process, which SyncIncomeClient needs:"
            " run it in workers with threads or processes, such as gthread of gunicorn, or leave"
            " threads as they are when patching"
        )
