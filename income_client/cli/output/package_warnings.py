"""The package's warnings, said where an operator looks; knows not where that is."""

import logging
from collections.abc import Callable
from typing import Final

_PACKAGE: Final = "income_client"


class _Sayer(logging.Handler):
    def __init__(self, say: Callable[[str], None], besides: frozenset[str]) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self._besides = besides

    def emit(self, record: logging.LogRecord) -> None:
        if record.name not in self._besides:
            self._say(record.getMessage())


def say_warnings(say: Callable[[str], None], *besides: str) -> None:
    """Say each warning of the package from now on, until the process ends.

    Args:
        say: prints a line.
        besides: names of loggers whose warnings somebody else says in more detail.
    """
    logging.getLogger(_PACKAGE).addHandler(_Sayer(say, frozenset(besides)))
