"""The door through which errors leave the package: what it takes from them, and what it leaves."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable

import pytest

from income_client.errors import ConfigurationError, leaving

SECRET = "canary-b81f"


def fail(error: BaseException) -> None:
    """Raise an error from a frame that holds a secret, while another is handled."""
    held = SECRET
    try:
        raise ValueError(held)  # noqa: TRY301 - the context is the point
    except ValueError as cause:
        raise error from cause


@leaving()
def decorated(error: BaseException) -> None:
    """Fail behind the door of a function."""
    fail(error)


def block(error: BaseException) -> None:
    """Fail behind the door of a block."""
    with leaving():
        fail(error)


async def coroutine(error: BaseException) -> None:
    """Fail behind the door of a coroutine."""
    with leaving():
        await asyncio.sleep(0)
        fail(error)


class Rows:
    """An iterator with a door."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __aiter__(self) -> "Rows":
        return self

    async def __anext__(self) -> None:
        with leaving():
            fail(self.error)


async def iterated(error: BaseException) -> None:
    """Fail behind the door of an iterator."""
    await anext(Rows(error))


Door = Callable[[BaseException], Awaitable[None] | None]
DOORS: tuple[Door, ...] = (decorated, block, coroutine, iterated)
ERRORS = (ConfigurationError("no"), KeyError("no"), asyncio.CancelledError(), KeyboardInterrupt())


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_an_error_leaves_without_frames_cause_and_context(
    door: Door, error: BaseException
) -> None:
    """The interpreter adds only the frames above the door, not the one of the block itself."""
    with pytest.raises(type(error)) as caught:  # noqa: PT012 - a door may be a coroutine
        if (left := door(error)) is not None:
            await left
    assert caught.value is error
    own = ["test_an_error_leaves_without_frames_cause_and_context"]
    above = ["iterated"] if door is iterated else []
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names == own + above
    assert error.__cause__ is None
    assert error.__context__ is None
    error.__traceback__ = None


def test_a_bug_keeps_its_stack_as_a_note() -> None:
    """The note names the functions, and comes once although the bug passes two doors."""
    bug = KeyError("no")
    with pytest.raises(KeyError), leaving():
        block(bug)
    (note,) = bug.__notes__
    assert "in fail" in note
    assert SECRET not in note


@pytest.mark.parametrize("end", [StopAsyncIteration(), ConfigurationError("no")])
def test_what_is_no_bug_gets_no_note(end: Exception) -> None:
    """The end of an iteration and an error of the package are as they were."""
    with pytest.raises(type(end)), leaving():
        raise end
    assert not hasattr(end, "__notes__")


def test_nothing_is_taken_from_a_result() -> None:
    """A block without an error is as if there were no door, and a function keeps its name."""

    @leaving()
    def three() -> int:
        return 3

    assert three() == 3
    assert three.__name__ == "three"
