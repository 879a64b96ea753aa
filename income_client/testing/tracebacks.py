"""Which frames of a failure a test's author is shown; knows nothing of what failed.

The errors of this package tell by themselves what is wrong. Where in the package they are
raised says nothing more, since failures travel as values until the very end.
"""

import sys
from collections.abc import Iterator
from traceback import walk_tb
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from _pytest._code import TracebackEntry

_PACKAGE: Final = __name__.partition(".")[0]
_FIXTURES: Final = f"{_PACKAGE}.testing.plugin"
_GENERATED: Final = f"<attrs generated methods {_PACKAGE}."


def hide_package(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Have pytest leave the package's own frames out, unless it is run with ``--full-trace``.

    The exception keeps its traceback, for debuggers and for ``--tb=native``. A failure of
    another kind is shown with all frames: it may be a fault of the package.

    Args:
        excinfo: what was raised.
    """
    for error in _chain(excinfo.value):
        if not _is_ours(error):
            continue
        for frame, _ in walk_tb(error.__traceback__):
            module = str(frame.f_globals.get("__name__"))
            is_generated = frame.f_code.co_filename.startswith(_GENERATED)
            if is_generated or module.partition(".")[0] == _PACKAGE:
                # Where pytest looks, so that no module has to know of it.
                frame.f_globals["__tracebackhide__"] = _is_told
            if module == _FIXTURES and error is excinfo.value:
                # Around a fixture there are other plug-ins' hooks, which would be left alone.
                excinfo.traceback = excinfo.traceback.filter(_is_no_hook)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_no_hook(entry: "TracebackEntry") -> bool:
    return not entry.name.startswith("pytest_")


def _is_ours(error: BaseException) -> bool:
    known = sys.modules.get(f"{_PACKAGE}.errors")
    return known is not None and isinstance(error, known.IncomeClientError)


def _is_told(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    return _is_ours(excinfo.value)
