"""A destination whose ``write`` must be awaited is refused: nothing would be written to it."""

import io
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import pytest

from income_client import ConfigurationError, DownloadError
from tests.support.downloads import scene


async def take(_data: bytes) -> None:
    """Take bytes, later."""


def promise(data: bytes) -> Awaitable[None]:
    """Return what takes bytes once it is awaited."""
    return take(data)


class AsyncCallable:
    """An object that is called and awaited."""

    async def __call__(self, _data: bytes) -> None:
        """Take bytes, later."""


class Stream:
    """A destination made of functions."""

    def __init__(self, write: Callable[..., Any], flush: Callable[..., Any] = lambda: None) -> None:
        self.write = write
        self.flush = flush


async def flush_later() -> None:
    """Flush, later."""


AWAITED: Final = {
    "function": Stream(take),
    "partial": Stream(partial(take)),
    "object": Stream(AsyncCallable()),
    "partial of an object": Stream(partial(AsyncCallable())),
    "flush": Stream(io.BytesIO().write, flush_later),
}


@pytest.mark.parametrize("kind", AWAITED)
async def test_it_is_refused_before_anything_is_sent(kind: str) -> None:
    """In whatever form the coroutine function is given."""
    async with scene() as place:
        document = await place.document()
        with pytest.raises(ConfigurationError, match="not awaited"):
            await place.client.download(document, AWAITED[kind])
        assert place.asked == []


async def test_a_plain_function_that_returns_an_awaitable_fails() -> None:
    """Only its first call tells; the file does not count as written."""
    async with scene() as place:
        document = await place.document()
        with pytest.raises(DownloadError, match="does not take the file: TypeError"):
            await place.client.download(document, Stream(promise))


async def test_plain_functions_of_any_form_are_taken() -> None:
    """Methods of the built-in streams, partial ones and callable objects."""
    async with scene() as place:
        document = await place.document()
        for wrap in (lambda write: write, partial, lambda write: partial(partial(write))):
            target = io.BytesIO()
            await place.client.download(document, Stream(wrap(target.write), target.flush))
            assert target.getvalue() == place.content(document)
