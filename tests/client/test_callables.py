"""What a client calls while it works is a plain function: one that is awaited would do nothing."""

import io
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from income_client import BasicAuth, ConfigurationError, IncomeClient
from income_client.testing import make_document

BASIC = BasicAuth("user", "invented")


async def waits(*_: object) -> None:
    """Be awaited."""


async def yields(*_: object) -> AsyncIterator[None]:
    """Be iterated asynchronously."""
    yield


def generates(*_: object) -> Iterator[None]:
    """Be iterated."""
    yield


class Waits:
    """Has calls that are awaited."""

    async def __call__(self, *_: object) -> None:
        """Be awaited."""

    async def method(self, *_: object) -> None:
        """Be awaited."""

    @staticmethod
    async def static(*_: object) -> None:
        """Be awaited."""


class Plain:
    """Has plain calls; making one is a plain call too."""

    def __init__(self, *_: object) -> None:
        pass

    def __call__(self, *_: object) -> None:
        """Do nothing."""

    def method(self, *_: object) -> None:
        """Do nothing."""


class MadePlainly:
    """Is made by a plain call, although what is made is not."""

    def __init__(self, *_: object) -> None:
        pass

    async def __call__(self) -> None:
        """Be awaited."""


def give_event_hook(function: Any) -> None:
    """Give a function to a new client."""
    IncomeClient("https://income.example", auth=BASIC, on_event=function)


async def give_progress_hook(function: Any) -> None:
    """Give a function to a download, whose document has no address."""
    async with IncomeClient("https://income.example", auth=BASIC) as client:
        client.download_all([make_document()], "/nowhere/at/all", on_progress=function)
        if not callable(function):
            await client.download(make_document(), io.BytesIO(), on_progress=function)


@pytest.mark.parametrize(
    "function",
    [
        waits,
        yields,
        generates,
        Waits(),
        Waits().method,
        Waits.static,
        partial(waits, 1),
        partial(Waits(), 1),
        partial(partial(Waits().method), 1),
        3,
        "print",
    ],
    ids=[
        *("coroutine function", "async generator", "generator", "object", "method"),
        *("static method", "partial", "partial of an object", "partial of a partial"),
        *("number", "text"),
    ],
)
async def test_what_is_not_a_plain_function_is_refused(function: Any) -> None:
    """Both hooks, by the same rule, and before anything is sent."""
    with pytest.raises(ConfigurationError, match="on_event is called"):
        give_event_hook(function)
    with pytest.raises(ConfigurationError, match="on_progress is called"):
        await give_progress_hook(function)


@pytest.mark.parametrize(
    "function",
    [print, [].append, Plain(), Plain().method, Plain, MadePlainly, partial(Plain(), 1)],
    ids=["builtin", "builtin method", "object", "method", "class", "class of waits", "partial"],
)
async def test_any_plain_callable_is_taken(function: Callable[..., object]) -> None:
    """Functions, methods, objects, classes and what is built in."""
    give_event_hook(function)
    await give_progress_hook(function)
