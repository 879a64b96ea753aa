"""What an iterator works through, one at a time, asynchronous or not; knows not what it is."""

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, Generic, TypeVar

from .errors import ConfigurationError

T = TypeVar("T")


class Source(Generic[T]):
    """The items of a caller's iterable; an error of theirs waits until it is their turn.

    Args:
        items: an iterable or an asynchronous one.
        read: makes of an item what is worked on.
        expected: says what the items are, for who gave something else.

    Attributes:
        error: what the iterable or ``read`` raised.
        is_exhausted: whether nothing more will come.
        is_asynchronous: whether `pull` is to be used, not `take`.

    Raises:
        ConfigurationError: this is no iterable, or it is a text.
    """

    def __init__(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        read: Callable[[Any], T],
        expected: str,
    ) -> None:
        self.error: BaseException | None = None
        self.is_exhausted: bool = False
        self._read = read
        self._iterator: Any
        match items:
            case AsyncIterable():
                self.is_asynchronous: bool = True
                self._iterator = aiter(items)
            case Iterable() if not isinstance(items, str | bytes):
                self.is_asynchronous = False
                self._iterator = iter(items)
            case _:
                raise ConfigurationError(expected)

    def take(self) -> T | None:
        """Return the next one, None at the end or where an error stands."""
        try:
            return self._read(next(self._iterator))
        except StopIteration:
            self.is_exhausted = True
        except Exception as error:  # noqa: BLE001 - raised in its turn
            self._fail(error)
        return None

    async def pull(self) -> T | None:
        """Return the next one of an asynchronous source, None likewise."""
        try:
            return self._read(await anext(self._iterator))
        except StopAsyncIteration:
            self.is_exhausted = True
        except Exception as error:  # noqa: BLE001 - raised in its turn
            self._fail(error)
        return None

    async def aclose(self) -> None:
        """Close an asynchronous source that can be closed."""
        self.is_exhausted = True
        if self.is_asynchronous:
            close = getattr(self._iterator, "aclose", None)
            if close is not None:
                await close()

    def _fail(self, error: Exception) -> None:
        self.is_exhausted = True
        self.error = error
