"""What a raised error gives away to whoever reports it."""

import pickle
import traceback
from collections.abc import Iterator
from itertools import dropwhile
from pathlib import Path
from types import FrameType
from typing import Final

_TESTS: Final = str(Path(__file__).parents[1])


def held_by(error: BaseException) -> str:
    """Return all that a crash reporter could learn of an error: texts, attributes, chain, frames.

    The frames with which a test has made the call hold what it passed: they do not count, and
    every frame below them does, of the package or of a library.
    """
    shown = []
    for one in _chain(error):
        shown += [str(one), repr(one), repr(one.args), repr(vars(one))]
        for frame in _frames_below(one):
            shown += [f"{name}={value!r}" for name, value in frame.f_locals.items()]
    try:
        shown.append(repr(pickle.dumps(error)))
    except TypeError:
        assert not type(error).__module__.startswith("income_client")
    return "\n".join(shown)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error, its causes and its contexts, those that are not printed too."""
    while error is not None:
        yield error
        if error.__context__ is not error.__cause__:
            yield from _chain(error.__context__)
        error = error.__cause__


def _frames_below(error: BaseException) -> Iterator[FrameType]:
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return dropwhile(lambda frame: frame.f_code.co_filename.startswith(_TESTS), frames)
