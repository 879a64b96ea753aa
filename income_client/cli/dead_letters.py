"""``income-client dead-letters``: lists what a poller could not read, or forgets some of it."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from income_client import ConfigurationError
from income_client.system.disk import is_missing

from .exit_status import ExitStatus
from .output import check_is_no_output, counted, say
from .rows import Column, OutputOption, QuietOption, RowWriter

if TYPE_CHECKING:
    from income_client import DeadLetter, SQLiteCheckpointStore

_KIND_OF_ERROR: Final = re.compile(r"^[A-Za-z]+Error: (?=.)", re.ASCII)


def _shown_reason(row: Mapping[str, object]) -> str:
    """Return the reason of a dead letter, without the error's class and the id."""
    reason = _KIND_OF_ERROR.sub("", str(row["reason"]), count=1)
    return reason.replace(f"({row['application_id']})", "", 1)


_COLUMNS: Final = (
    Column("subject", "What", style="cyan"),
    Column("attempts", "Tries", "right"),
    Column("first_tried_at", "Since", dropped=1),
    Column("last_tried_at", "Last try", dropped=2),
    Column("next_try_at", "Next try"),
    Column("reason", "Reason", shown=_shown_reason),
)


async def dead_letters(
    *,
    store: Annotated[Path, Parameter(metavar="FILE")],
    name: Annotated[str, Parameter(metavar="NAME")] = "default",
    forget: Annotated[
        tuple[str, ...], Parameter(metavar="KEY", negative=(), show_default=False)
    ] = (),
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """List what a poller could not read, and tries again later.

    These are ids of applications, seconds that hold more than the service can
    list, or parts of the list with a row whose id cannot be read. Times are the
    service's. The poller may be running.

    With --forget, remove those that need no further try, such as applications that
    were deleted, and list what was removed. What is updated later and cannot be
    read comes back. Exits with 1 if there is no such store, name or key.

    Example: income-client dead-letters --store polls.db

    Args:
        store: File that poll --store keeps.
        name: Name of the poller in that file.
        forget: Remove this one: its application's id, or its key in JSON. Repeatable.
        output: Format of the output.
        quiet: Print ids of applications only, one a line.
    """
    check_is_no_output(store, "--store")
    checkpoints = _existing_store(store)
    if checkpoints is None:
        return _report_failure(f"there is no store at {store}")
    if not await _is_known(checkpoints, name):
        return _report_failure(f"no poller {name!r} in {store}")
    letters = await checkpoints.dead_letters(name)
    missing: list[str] = []
    if forget:
        keys_by_entry = {entry: _key_of(entry, letters) for entry in forget}
        removed = await checkpoints.forget(name, filter(None, keys_by_entry.values()))
        letters = tuple(letter for letter in letters if letter.key in removed)
        missing = [entry for entry, key in keys_by_entry.items() if key not in removed]
    with RowWriter(_COLUMNS, output, quiet="application_id" if quiet else None) as rows:
        for letter in letters:
            if letter.application_id is not None or not quiet:
                rows.write(_letter_row(letter))
    if letters and forget and not quiet:
        say(f"forgot {counted(len(letters), 'dead letter')}")
    elif not letters and not forget and not quiet:
        say("no dead letters")
    for entry in missing:
        say(f"no dead letter {entry!r} of {name!r} in {store}")
    return ExitStatus.FAILED if missing else ExitStatus.DONE


def _key_of(text: str, letters: Iterable["DeadLetter"]) -> str | None:
    """Return the key of the dead letter with a key or an application's id."""
    keys = {letter.key for letter in letters}
    ids = {letter.application_id: letter.key for letter in letters}
    return text if text in keys else ids.get(text)


def _existing_store(store: Path) -> "SQLiteCheckpointStore | None":
    """Return the store if it exists; never create it."""
    from income_client import SQLiteCheckpointStore

    try:
        checkpoints = SQLiteCheckpointStore(store)
    except ConfigurationError:
        raise ConfigurationError("--store: this must be the path of a file") from None
    return None if is_missing(store) else checkpoints


async def _is_known(checkpoints: "SQLiteCheckpointStore", name: str) -> bool:
    try:
        return bool((await checkpoints.load(name)).version)
    except ConfigurationError as error:
        raise ConfigurationError(f"--name: {error.message}") from None


def _letter_row(letter: "DeadLetter") -> Mapping[str, object]:
    window = letter.window
    return {
        "application_id": letter.application_id,
        "key": letter.key,
        "subject": _subject_of(letter),
        "window_after": window.starts_at,
        "window_before": window.ends_at,
        "attempts": letter.attempts,
        "first_tried_at": letter.first_tried_at,
        "last_tried_at": letter.last_tried_at,
        "next_try_at": letter.next_try_at,
        "reason": letter.reason,
    }


def _subject_of(letter: "DeadLetter") -> str:
    if letter.application_id is not None:
        return letter.application_id or "(empty id)"
    window = letter.window
    what = "second" if window.before - window.after == 1 else "list from"
    return f"{what} {window.starts_at.isoformat(' ')}"


def _report_failure(message: str) -> int:
    say(message)
    return ExitStatus.FAILED
