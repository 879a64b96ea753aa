"""The time of an event loop, moved forward by a test: timers fire, nobody waits."""

import asyncio

import pytest


class LoopTime:
    """Moves the time of the running event loop, by which silence and deadlines are measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._real_time = loop.time
        self._ahead = 0.0
        monkeypatch.setattr(loop, "time", self._now)

    def advance(self, seconds: float) -> None:
        """Move it forward."""
        self._ahead += seconds

    def _now(self) -> float:
        return self._real_time() + self._ahead
