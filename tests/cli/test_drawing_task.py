"""Drawing beside a block of code: how it ends."""

import asyncio

import pytest

from income_client.cli.downloads.bars import Bars
from income_client.cli.output.drawing_task import DrawingTask


async def test_it_draws_until_it_is_ended() -> None:
    """What is drawn without end ends when it is asked to, and that is no failure."""
    drawn = asyncio.Event()

    async def draw() -> None:
        while True:
            drawn.set()
            await asyncio.sleep(0)

    task = DrawingTask(draw())
    await drawn.wait()
    assert await task.end() is None
    drawn.clear()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not drawn.is_set()


async def test_what_it_failed_with_is_returned() -> None:
    """A failure is told at the end, once and again, and drawing that has ended is none."""
    failed = asyncio.Event()
    error = OSError("the terminal is gone")

    async def fail() -> None:
        failed.set()
        raise error

    async def draw_once() -> None:
        failed.set()

    for drawing, expected in ((fail(), error), (draw_once(), None)):
        failed.clear()
        task = DrawingTask(drawing)
        await failed.wait()
        assert await task.end() is expected
        assert await task.end() is expected


async def test_bars_that_cannot_be_drawn_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What drawing fails with is raised at the end of the block, unless the block failed itself."""
    bars = Bars(1)
    bars.is_shown = True
    drawn = asyncio.Event()

    def fail() -> None:
        drawn.set()
        raise OSError("the terminal is gone")

    monkeypatch.setattr(bars, "draw", fail)
    with pytest.raises(OSError, match="terminal is gone"):
        async with bars:
            await drawn.wait()
    with pytest.raises(ValueError, match="first"):
        async with bars:
            raise ValueError("first")
