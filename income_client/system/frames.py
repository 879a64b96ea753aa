"""Remove the frames of functions that handle secrets from the errors that they raise."""

import inspect
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from income_client.errors import IncomeClientError

F = TypeVar("F", bound=Callable[..., Any])


def strip_frames(target: F) -> F:
    """Remove a function's frames, and the frames below them, from an error that it raises.

    Crash reporters send the variables of frames. This is for functions that handle secrets,
    replies or records as plain values. The cause and the context, which may show what was
    received, are removed as well. All this is done to errors of the package, and to cancellations
    and interruptions; any other exception, such as one of the caller's code, is not altered.

    Args:
        target: a function, asynchronous or not; or a class, for its constructor and its public
            methods.

    Returns:
        The function with the same signature, or the class itself.
    """
    return _decorate(target, _strip_own)


def strip_all_frames(target: F) -> F:
    """Remove frames as `strip_frames` does, but from any exception.

    That keeps its cause and context, and its stack as a note.

    Args:
        target: as for `strip_frames`; it runs no code of the caller's, so that an exception that
            is not the package's is a bug, or of a library.

    Returns:
        As `strip_frames`.
    """
    return _decorate(target, _strip_any)


def _decorate(target: F, strip: Callable[[BaseException], None]) -> F:
    if not isinstance(target, type):
        return cast("F", _stripping(target, strip))
    for name, member in tuple(vars(target).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(target, name, _stripping(member, strip))
        elif isinstance(member, classmethod):
            setattr(target, name, classmethod(_stripping(member.__func__, strip)))
    return target


def _stripping(
    function: Callable[..., Any], strip: Callable[[BaseException], None]
) -> Callable[..., Any]:
    # An exception without a traceback gets no entry for the frame that raises it again.
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_asynchronously(*args: Any, **options: Any) -> Any:
            try:
                return await function(*args, **options)
            except BaseException as error:
                strip(error)
                raise

        return call_asynchronously

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
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
