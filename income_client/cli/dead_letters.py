"""``income-client dead-letters``: lists what a poller could not read, and changes nothing."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from income_client import ConfigurationError

from .exit_status import ExitStatus
from .output import say
from .rows import Column, OutputOption, QuietOption, RowWriter

if TYPE_CHECKING:
    from income_client import DeadLetter, SQLiteCheckpointStore

_KIND_OF_ERROR: Final = re.compile(r"^[A-Za-z]+Error: (?=.)", re.ASCII)


def _shown(row: Mapping[str, object]) -> str:
    """Return the reason without the kind of the error, and the id that is shown beside it."""
    reason = _KIND_OF_ERROR.sub("", str(row["reason"]), count=1)
    return reason.replace(f"({row['application_id']})", "", 1)


_COLUMNS: Final = (
    Column("subject", "What", style="cyan"),
    Column("attempts", "Tries", "right"),
    Column("first_tried_at", "Since", dropped=1),
    Column("last_tried_at", "Last try", dropped=2),
    Column("next_try_at", "Next try"),
    Column("reason", "Reason", shown=_shown),
)


async def dead_letters(
    *,
    store: Annotated[Path, Parameter(metavar="FILE")],
    name: Annotated[str, Parameter(metavar="NAME")] = "default",
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """List what a poller could not read, and tries again later.

    These are ids of applications, or seconds that hold more than the service can
    list. Times are the service's. The poller may be running. Exits with 1 if
    there is no such store or name.

    Example: income-client dead-letters --store polls.db

    Args:
        store: File that poll --store keeps.
        name: Name of the poller in that file.
        output: Format of the output.
        quiet: Print ids of applications only, one a line.
    """
    checkpoints = _existing(store)
    if checkpoints is None:
        return _failed(f"there is no store at {store}")
    if not await _is_known(checkpoints, name):
        return _failed(f"no poller {name!r} in {store}")
    letters = await checkpoints.dead_letters(name)
    with RowWriter(_COLUMNS, output, quiet="application_id" if quiet else None) as rows:
        for letter in letters:
            if letter.application_id is not None or not quiet:
                rows.write(_row(letter))
    if not letters and not quiet:
        say("no dead letters")
    return ExitStatus.DONE


def _existing(store: Path) -> "SQLiteCheckpointStore | None":
    """Return the store if it exists; it is never made here."""
    from income_client import SQLiteCheckpointStore

    try:
        checkpoints = SQLiteCheckpointStore(store)
    except ConfigurationError:
        raise ConfigurationError("--store: this must be the path of a file") from None
    return checkpoints if store.exists() else None


async def _is_known(checkpoints: "SQLiteCheckpointStore", name: str) -> bool:
    try:
        return bool((await checkpoints.load(name)).version)
    except ConfigurationError as error:
        raise ConfigurationError(f"--name: {error.message}") from None


def _row(letter: "DeadLetter") -> Mapping[str, object]:
    window = letter.window
    return {
        "application_id": letter.application_id,
        "subject": letter.application_id or f"second {window.starts_at.isoformat(' ')}",
        "window_after": window.starts_at,
        "window_before": window.ends_at,
        "attempts": letter.attempts,
        "first_tried_at": letter.first_tried_at,
        "last_tried_at": letter.last_tried_at,
        "next_try_at": letter.next_try_at,
        "reason": letter.reason,
    }


def _failed(message: str) -> int:
    say(message)
    return ExitStatus.FAILED
