"""A receiver in the threads of a WSGI server, each of which has an event loop for each request."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from asgiref.sync import async_to_sync

from income_client.receivers import Callback, CallbackReceiver, RequestHead
from income_client.receivers.jwks import KEPT_FOR, RENEWED_AFTER, KeySetCache
from income_client.receivers.receiver import TokenCheck
from tests.support.callbacks import AUTHORIZATION, BASIC
from tests.support.clocks import ManualClock
from tests.support.identities import NOW, accepting, key_set, token

T = TypeVar("T")

THREADS: Final = 8
SECONDS: Final = 30.0
"""Time after which a thread that waits for another one fails."""
URL: Final = "https://id.example.test/keys"
HEAD: Final = RequestHead(
    method="POST", headers={"Authorization": AUTHORIZATION, "Content-Type": "application/json"}
)


def in_threads(work: Callable[[int], T]) -> list[T]:
    """Return the results of a function that eight threads call at once."""
    barrier = threading.Barrier(THREADS)

    def begin(number: int) -> T:
        barrier.wait(SECONDS)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_equal_callbacks_in_threads_are_answered() -> None:
    """No thread waits for a run in the event loop of another one: all run side by side."""
    together = threading.Barrier(THREADS)
    receiver = CallbackReceiver(lambda _: together.wait(SECONDS), auth=BASIC)
    answers = in_threads(lambda _: async_to_sync(receiver.answer)(HEAD, b"{}").status)
    assert answers == [200] * THREADS
    assert (receiver.status.handled, receiver.status.waiting) == (THREADS, 0)


def test_many_callbacks_in_threads_are_counted() -> None:
    """Each of them once, and those that are refused as well."""
    handled: list[Callback] = []
    receiver = CallbackReceiver(handled.append, auth=BASIC)
    answer = async_to_sync(receiver.answer)
    refused = RequestHead(method="POST", headers={"Content-Type": "application/json"})

    def send(number: int) -> None:
        for one in range(25):
            answer(HEAD, b'{"number": %d}' % (number * 100 + one))
            answer(refused, b"{}")

    in_threads(send)
    assert len(handled) == receiver.status.handled == THREADS * 25
    assert [*receiver.status.refused.values()] == [THREADS * 25]


class CountingClock(ManualClock):
    """A clock that stands, and lets a key set be sent once all threads have asked for it."""

    def __init__(self) -> None:
        super().__init__(NOW)
        self.all_have_asked: Final = threading.Event()
        self._asked = 0
        self._lock = threading.Lock()

    def time(self) -> float:
        with self._lock:
            self._asked += 1
            if self._asked == THREADS:
                self.all_have_asked.set()
        return super().time()


def test_first_tokens_in_threads_share_a_request_for_keys() -> None:
    """Threads without the request wait for it in event loops of their own."""
    clock = CountingClock()
    requests = []

    async def fetch(url: str) -> Mapping[str, Any]:
        requests.append(url)
        await asyncio.to_thread(clock.all_have_asked.wait, SECONDS)
        return key_set("P-256")

    tokens = TokenCheck(accepting(keys=None, jwks_url=URL), clock, fetch=fetch)
    assert in_threads(lambda _: async_to_sync(tokens.check)(token())) == [None] * THREADS
    assert requests == [URL]


def test_a_renewal_that_ended_with_its_event_loop_is_made_up_for() -> None:
    """An event loop for each callback ends a renewal in the background: the next one waits for it.

    Otherwise keys are never renewed, and refused ones serve until the first keys have run out.
    """
    clock = ManualClock(NOW)
    requests = []

    async def fetch(url: str) -> Mapping[str, Any]:
        requests.append(url)
        await asyncio.sleep(0)
        return key_set("P-256")

    cache = KeySetCache(URL, monotonic=clock.monotonic, fetch=fetch)
    first = asyncio.run(cache.keys())
    clock.advance(RENEWED_AFTER)
    assert asyncio.run(cache.keys()) is first
    second = asyncio.run(cache.keys())
    assert second is not first
    assert len(requests) == 3
    clock.advance(KEPT_FOR - 1)
    assert asyncio.run(cache.keys()) is second
