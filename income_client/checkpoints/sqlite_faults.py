"""What a fault of SQLite or of the file system means for a store; never what the store holds.

The texts of SQLite are not passed on: some show the value that they are about.
"""

import errno
import os
import sqlite3
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from attrs import frozen

from income_client.errors import CheckpointError


@frozen(kw_only=True)
class Fault:
    """What is wrong with a store."""

    reason: str
    """Behind the path of the store."""
    is_passing: bool
    """Whether it may be over when the call is made again."""


def _passing(reason: str) -> Fault:
    return Fault(reason=reason, is_passing=True)


def _lasting(reason: str) -> Fault:
    return Fault(reason=reason, is_passing=False)


Foreign = sqlite3.Error | OSError | UnicodeError
"""What may come out of a store's work; the last where a damaged text is no UTF-8."""

DAMAGED: Final = "is damaged"

_IN_USE: Final = _passing("was kept locked by others for too long")
_DENIED: Final = _lasting(f"cannot be opened: {os.strerror(errno.EACCES)} for it or its folder")
_OTHERWISE: Final = _lasting("cannot be used")
_UNREADABLE: Final = _lasting(DAMAGED)
_BOTH: Final = os.R_OK | os.W_OK
_REFUSALS: Final = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY},
)
_FAULTS: Final[Mapping[int, Fault]] = {
    sqlite3.SQLITE_BUSY: _IN_USE,
    sqlite3.SQLITE_LOCKED: _IN_USE,
    sqlite3.SQLITE_PROTOCOL: _IN_USE,
    sqlite3.SQLITE_FULL: _passing(f"cannot be written: {os.strerror(errno.ENOSPC)}"),
    sqlite3.SQLITE_IOERR: _passing("cannot be read or written"),
    sqlite3.SQLITE_NOMEM: _passing("cannot be used: memory ran out"),
    sqlite3.SQLITE_CANTOPEN: _passing("cannot be opened"),
    sqlite3.SQLITE_PERM: _DENIED,
    sqlite3.SQLITE_READONLY: _lasting("cannot be written: it is read-only"),
    sqlite3.SQLITE_TOOBIG: _lasting("cannot hold a checkpoint of this size"),
    sqlite3.SQLITE_CORRUPT: _lasting(DAMAGED),
    sqlite3.SQLITE_CONSTRAINT: _lasting(DAMAGED),
    sqlite3.SQLITE_NOTADB: _lasting(f"{DAMAGED}, or was never an SQLite database"),
    sqlite3.SQLITE_ERROR: _lasting(f"{DAMAGED}: a table or a column is missing"),
}
"""By the primary code; one that is missing here is nothing that we expect."""

_PASSING_ERRNOS: Final = frozenset(
    {
        errno.EAGAIN, errno.EDQUOT, errno.EINTR, errno.EIO, errno.EMFILE, errno.ENFILE,
        errno.ENOMEM, errno.ENOSPC, errno.ESTALE,
    }
)  # fmt: skip


def fault_of(error: Foreign, path: Path) -> Fault:
    """Return what an error means for the store at this path."""
    if isinstance(error, OSError):
        reason = error.strerror or type(error).__name__
        return Fault(reason=f"cannot be used: {reason}", is_passing=error.errno in _PASSING_ERRNOS)
    code = getattr(error, "sqlite_errorcode", None)
    if code is None or isinstance(error, UnicodeError):
        return _UNREADABLE
    primary = code & 0xFF
    if primary in _REFUSALS and _is_denied(path):
        return _DENIED
    fault = _FAULTS.get(primary, _OTHERWISE)
    return Fault(reason=f"{fault.reason} ({error.sqlite_errorname})", is_passing=fault.is_passing)


def as_checkpoint_error(
    error: Foreign | CheckpointError,
    path: Path,
) -> CheckpointError:
    """Return the error for the caller of a store: a new one, without traceback or chain."""
    if isinstance(error, CheckpointError):
        return CheckpointError(f"{_subject(path)} {error.message}", retryable=error.retryable)
    fault = fault_of(error, path)
    return CheckpointError(f"{_subject(path)} {fault.reason}", retryable=fault.is_passing)


def _subject(path: Path) -> str:
    return f"checkpoint store {str(path)!r}"


def _is_denied(path: Path) -> bool:
    # SQLite keeps the errno of a failed open to itself, so the same is asked again.
    may = partial(os.access, effective_ids=os.access in os.supports_effective_ids)
    is_missing = not may(path, os.F_OK)
    return not (may(path.parent, os.W_OK | os.X_OK) and (is_missing or may(path, _BOTH)))
