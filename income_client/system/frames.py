"""Keep what functions handle out of the errors of the package: crash reporters send variables."""

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable, Container
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from income_client.errors import IncomeClientError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_MOST_PLACES: Final = 4


def strip_frames(target: F) -> F:
    """Remove a function's frames, and the frames below them, from an error that it raises.

    Crash reporters send the variables of frames. This is for functions that handle secrets,
    replies or records as plain values. The cause and the context, which may show what was
    received, are removed as well. All this is done to errors of the package only; an asynchronous
    function raises a new cancellation in place of one that passed its frames. No other exception
    is altered.

    Args:
        target: a function, asynchronous or not; or a class, for its constructor and its public
            methods.

    Returns:
        The function with the same signature, or the class itself.
    """
    if not isinstance(target, type):
        return cast("F", _stripping(target))
    for name, member in tuple(vars(target).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(target, name, _stripping(member))
        elif isinstance(member, classmethod):
            setattr(target, name, classmethod(_stripping(member.__func__)))
    return target


def _stripping(function: Callable[..., Any]) -> Callable[..., Any]:
    # An exception without a traceback gets no entry for the frame that raises it again.
    if inspect.iscoroutinefunction(inspect.unwrap(function)):

        @wraps(function)
        async def call_asynchronously(*args: Any, **options: Any) -> Any:
            try:
                return await function(*args, **options)
            except IncomeClientError as error:
                _strip(error)
                raise
            except asyncio.CancelledError as error:
                reason = error.args
            # Raised outside of the block above, so that the first one is not its context.
            del args, options
            raise asyncio.CancelledError(*reason)

        return call_asynchronously

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except IncomeClientError as error:
            _strip(error)
            raise

    return call


def places_of(error: BaseException, *, excluded: Container[str] = ()) -> str:
    """Return the last places of an error's traceback, as ``a.py:12 > b.py:7``; empty without one.

    Args:
        error: that another's code has raised, and whose text may hold what it must not show.
        excluded: files whose frames are left out.
    """
    walked = traceback.walk_tb(error.__traceback__)
    files = [(frame.f_code.co_filename, line) for frame, line in walked]
    places = [f"{Path(file).name}:{line}" for file, line in files if file not in excluded]
    return " > ".join(places[-_MOST_PLACES:])


def _strip(error: IncomeClientError) -> None:
    error.__cause__ = error.__context__ = error.__traceback__ = None


@strip_frames
async def replace_errors(
    work: Callable[[], Awaitable[T]], translate: Callable[[Exception], IncomeClientError | None]
) -> T:
    """Do the work of a library; raise an error of the package in place of the library's.

    Args:
        work: calls a database, a broker or a store of somebody else's; awaited.
        translate: returns the error that replaces an exception; None for one that the library is
            not expected to raise, which is not altered.

    Returns:
        What ``work`` returns.

    Raises:
        IncomeClientError: what ``work`` raised, if it is one of the package, or its replacement.
    """
    try:
        return await work()
    except IncomeClientError:
        raise
    except Exception as error:
        replacement = translate(error)
        if replacement is None:
            raise
        raise replacement from None
