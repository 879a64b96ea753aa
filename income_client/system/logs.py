"""Log lines of the package, which never disturb the code that logs them."""

import asyncio
import logging
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .texts import printable


class GuardedLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that raises nothing, whatever the program's record factory, filters and handlers do.

    Where these raise, the traceback goes to standard error if ``logging.raiseExceptions`` is set,
    as the standard handlers do it.

    Args:
        name: of the logger, below ``income_client``.
    """

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def log(
        self,
        level: int,
        msg: object,
        *args: object,
        extra: Mapping[str, object] | None = None,
        **_options: Any,
    ) -> None:
        """Log a line, with ``extra`` as fields of its record.

        Texts in the message have ``?`` for each character that is not printable; fields of
        ``extra`` are as they came. A field that the program's record factory sets as well keeps
        the factory's value: `logging.Logger` raises `KeyError` there.
        """
        logger = self.logger
        try:
            if not logger.isEnabledFor(level):
                return
            # Ids of the service and texts of errors may hold what forges lines or moves a cursor.
            shown = tuple(printable(arg) if isinstance(arg, str) else arg for arg in args)
            file, line, function, *_ = logger.findCaller(stacklevel=2)
            record = logger.makeRecord(
                logger.name, level, file, line, msg, shown, exc_info=None, func=function
            )
            for name, value in (extra or {}).items():
                vars(record).setdefault(name, value)
            logger.handle(record)
        # A handler may raise CancelledError; the task is not cancelled then.
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - code of the program
            if logging.raiseExceptions and sys.stderr is not None:
                with suppress(Exception):  # for a standard error that is closed
                    traceback.print_exc()
