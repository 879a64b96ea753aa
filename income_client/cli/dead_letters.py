"""``income-client dead-letters``: lists what a poller could not read; looks, and no more."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from income_client import ConfigurationError, DeadLetter, SQLiteCheckpointStore

from .exit_status import ExitStatus
from .options import MisuseError
from .output import Column, OutputOption, QuietOption, RowWriter, say

_KIND_OF_ERROR: Final = re.compile(r"^[A-Za-z]+Error: (?=.)", re.ASCII)


def _told(row: Mapping[str, object]) -> str:
    """Return the reason without what stands beside it already, or what only programs ask for."""
    reason = _KIND_OF_ERROR.sub("", str(row["reason"]), count=1)
    return reason.replace(f"({row['application_id']})", "", 1)


_COLUMNS: Final = (
    Column("subject", "What", style="cyan"),
    Column("attempts", "Tries", "right"),
    Column("first_tried_at", "Since", is_optional=True),
    Column("last_tried_at", "Last try", is_optional=True),
    Column("next_try_at", "Next try"),
    Column("reason", "Reason", is_prose=True, told=_told),
)


async def dead_letters(
    *,
    store: Path,
    name: str = "default",
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """List what a poller could not read so far, and tries again later.

    Ids, or seconds of the list that hold more than the service can list; the
    reason, and times of the service. It looks into the file that poll --store
    keeps, whether the poller runs or not, and changes nothing. The output is a
    table on a terminal and JSON lines elsewhere; -q gives ids of applications
    alone. The exit status is 0 whether there are any or not, and 1 if there is no
    such file or name.

    Example: income-client dead-letters --store polls.db

    Args:
        store: file in which the poller keeps how far it has come.
        name: under which name.
        output: how; a table on a terminal, else JSON lines.
        quiet: only ids of applications, one a line.

    Returns:
        The exit status: 1 if there is no such file, or no such name in it; 2 for what
            can be neither.
    """
    checkpoints = _existing(store)
    if checkpoints is None:
        return _failed(f"there is no store at {store}")
    if not await _is_known(checkpoints, name):
        return _failed(f"nobody has polled as {name!r} in {store}")
    letters = await checkpoints.dead_letters(name)
    with RowWriter(_COLUMNS, output, quiet="application_id" if quiet else None) as rows:
        for letter in letters:
            if letter.application_id is not None or not quiet:
                rows.write(_row(letter))
    if not letters and not quiet:
        say("all that was listed could be read")
    return ExitStatus.DONE


def _existing(store: Path) -> SQLiteCheckpointStore | None:
    """Return a store that is there: one that is only looked for is never made."""
    try:
        checkpoints = SQLiteCheckpointStore(store)
    except ConfigurationError:
        raise MisuseError("--store: this is no path of a file") from None
    return checkpoints if store.exists() else None


async def _is_known(checkpoints: SQLiteCheckpointStore, name: str) -> bool:
    try:
        return bool((await checkpoints.load(name)).version)
    except ConfigurationError as error:
        fault = error.message
    raise MisuseError(f"--name: {fault}")


def _row(letter: DeadLetter) -> Mapping[str, object]:
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
