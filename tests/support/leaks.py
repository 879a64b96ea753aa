"""What a raised error gives away to whoever reports it."""

import pickle
import traceback
from pathlib import Path
from typing import Final

import income_client

_PACKAGE: Final = Path(income_client.__file__).parent


def held_by(error: BaseException) -> str:
    """Return everything that a crash reporter could learn from an error that is raised here."""
    report = []
    try:
        _raise(error)
    except type(error) as caught:
        report = [
            *traceback.TracebackException.from_exception(caught, capture_locals=True).format()
        ]
        chained = (caught.__cause__, caught.__context__)
    texts = [str(error), repr(error), repr(error.args), repr(vars(error)), repr(chained)]
    return "".join([*report, *texts, repr(pickle.dumps(error))])


def _raise(error: BaseException) -> None:
    raise error


def package_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the package's own frames of a traceback, with their variables."""
    return [one for one in _frames(error) if Path(one.filename).is_relative_to(_PACKAGE)]


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.TracebackException.from_exception(error, capture_locals=True).stack
