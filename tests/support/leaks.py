"""What a raised error gives away to whoever reports it."""

import pickle
import traceback


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
