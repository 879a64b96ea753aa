"""Remove the frames of functions that handle secrets from the errors that they raise."""

import inspect
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from income_client.errors import IncomeClientError

P = ParamSpec("P")
T = TypeVar("T")


def strip_frames(function: Callable[P, T]) -> Callable[P, T]:
    """Remove the frames of a function, and those below it, from an error that it raises.

    Crash reporters send the variables of frames. This is for functions that handle secrets,
    replies or records as plain values. The cause and the context, which may show what was
    received, are removed as well. All this is done to errors of the package, and to cancellations
    and interruptions; any other exception, such as one of the caller's code, is not altered.

    Args:
        function: asynchronous or not.

    Returns:
        The function with the same signature.
    """
    return _stripping(function, _strip_own)


def strip_all_frames(function: Callable[P, T]) -> Callable[P, T]:
    """Remove frames as `strip_frames` does, also from any other exception.

    That keeps its cause and context, and its stack as a note.

    Args:
        function: asynchronous or not; it runs no code of the caller's, so that an exception that
            is not the package's is a bug, or of a library.

    Returns:
        The function with the same signature.
    """
    return _stripping(function, _strip_any)


def strip_frames_of_methods(cls: type[T]) -> type[T]:
    """Decorate the constructor and each public method of a class with `strip_frames`.

    Whatever an argument is, no frame of the package shows it.

    Args:
        cls: a class that is not to be decorated again, such as by attrs.

    Returns:
        The class.
    """
    for name, member in tuple(vars(cls).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(cls, name, strip_frames(member))
        elif isinstance(member, classmethod):
            setattr(cls, name, classmethod(strip_frames(member.__func__)))
    return cls


def _stripping(function: Callable[P, T], strip: Callable[[BaseException], None]) -> Callable[P, T]:
    # An exception without a traceback gets no entry for the frame that raises it again.
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_asynchronously(*args: P.args, **options: P.kwargs) -> Any:
            try:
                return await function(*args, **options)
            except BaseException as error:
                strip(error)
                raise

        return cast("Callable[P, T]", call_asynchronously)

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        try:
            return function(*args, **options)
        except BaseException as error:
            strip(error)
            raise

    return call


def _strip_own(error: BaseException) -> None:
    if isinstance(error, IncomeClientError) or not isinstance(error, Exception):
        error.__cause__ = error.__context__ = error.__traceback__ = None


def _strip_any(error: BaseException) -> None:
    _strip_own(error)
    if error.__traceback__ is not None:
        error.add_note("raised in:\n" + "".join(traceback.format_tb(error.__traceback__)))
        error.__traceback__ = None
