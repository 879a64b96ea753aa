"""An issuer's key set address as tests play it: what is there, who asks, when it answers."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from income_client.receivers.jwks import KeySetError
from tests.support.signed_tokens import NOW, key_set

URL: Final = "https://id.example.test/keys?S3CRET=1"
GONE: Final = KeySetError("the answer has the status 503")


class KeySetAtPlay:
    """Stands for `fetch_key_set`, and for the clock of whoever calls it."""

    def __init__(self, *kinds: str) -> None:
        self.answer: Mapping[str, Any] | Exception = key_set(*kinds)
        self.asked: list[float] = []
        self.cancelled = 0
        self.seconds = 5000.0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.was_asked = asyncio.Event()

    def monotonic(self) -> float:
        """Tell the time that the test has set."""
        return self.seconds

    def time(self) -> float:
        """Tell a time at which the tokens of the tests are good."""
        return NOW

    async def fetch(self, url: str) -> Mapping[str, Any]:
        """Answer once that is allowed."""
        assert url == URL
        self.asked.append(self.seconds)
        self.was_asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def hold(self) -> None:
        """Keep answers back from now on."""
        self.may_answer.clear()
        self.was_asked.clear()


async def turns() -> None:
    """Let everything run that can, as often as any of it needs."""
    for _ in range(20):
        await asyncio.sleep(0)
