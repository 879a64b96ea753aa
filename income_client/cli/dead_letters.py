"""``income-client dead-letters``: lists what a poller could not read, retries or forgets it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from attrs import evolve
from cyclopts import Parameter

from income_client import ConfigurationError, IncomeClientError

from .exit_status import ExitStatus
from .options import Switch
from .output import counted, say
from .rows import Column, OutputOption, QuietOption, RowWriter
from .stores import CredsOption, StoreOption, load_name, open_store, read_address

if TYPE_CHECKING:
    from income_client import CheckpointStore, DeadLetter

_KIND_OF_ERROR: Final = re.compile(r"^[A-Za-z]+Error: (?=.)", re.ASCII)


def shown_reason(reason: str, application_id: str | None) -> str:
    """Return the reason of a dead letter, without the error's class and the id."""
    return _KIND_OF_ERROR.sub("", reason, count=1).replace(f"({application_id})", "", 1)


def _reason_of_row(row: Mapping[str, object]) -> str:
    return shown_reason(str(row["reason"]), str(row["application_id"]))


KeysOption = Annotated[tuple[str, ...], Parameter(metavar="KEY", negative=(), show_default=False)]

_COLUMNS: Final = (
    Column("subject", "What", style="cyan"),
    Column("attempts", "Tries", "right"),
    Column("first_tried_at", "Since", dropped=1),
    Column("last_tried_at", "Last try", dropped=2),
    Column("next_try_at", "Next try"),
    Column("reason", "Reason", shown=_reason_of_row),
)


async def dead_letters(
    *,
    store: StoreOption = None,
    name: Annotated[str, Parameter(metavar="NAME")] = "default",
    retry: KeysOption = (),
    retry_all: Switch = False,
    forget: KeysOption = (),
    creds: CredsOption = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """List what a poller could not read, and tries again later.

    These are ids of applications, seconds that hold more than the service can
    list, or parts of the list with a row whose id cannot be read. Times are the
    service's. The poller may be running.

    With --retry or --retry-all, have them tried at once, as after a repair: by the
    poller that runs, which is woken, or else by the next one. With --forget, remove
    those that need no further try, such as applications that were deleted; what is
    updated later and cannot be read comes back. Either lists what it has changed.
    Exits with 1 if there is no such store, name or key.

    The password of a database comes from PGPASSWORD, or an address with a password
    from INCOME_STORE_URL.

    Example: income-client dead-letters --store polls.db --retry-all

    Args:
        store: Store of the poller, as for poll: file, postgresql:// or nats://host/bucket.
            Default: $INCOME_STORE_URL.
        name: Name of the poller there.
        retry: Try this one at once: its application's id, or its key in JSON. Repeatable.
        retry_all: Try all of them at once.
        forget: Remove this one: its application's id, or its key in JSON. Repeatable.
        creds: File of credentials for a store in NATS.
        output: Format of the output.
        quiet: Print ids of applications only, one a line.
    """
    if forget and (retry or retry_all):
        raise ConfigurationError("--forget cannot be combined with --retry or --retry-all")
    address = read_address(store)
    async with open_store(address, creds, must_exist=True) as checkpoints:
        if not (await load_name(checkpoints, address, name)).version:
            raise address.unknown_error(name)
        stored = await checkpoints.dead_letters(name)
        keys_by_entry = {entry: _key_of(entry, stored) for entry in (*forget, *retry)}
        keys = [key for key in keys_by_entry.values() if key is not None]
        if forget:
            letters, message = await _forget(checkpoints, name, stored, keys)
        elif retry or retry_all:
            due = [letter.key for letter in stored] if retry_all else keys
            letters, message = await _retry(checkpoints, name, stored, due)
        else:
            letters, message = stored, "" if stored else "no dead letters"
    with RowWriter(_COLUMNS, output, quiet="application_id" if quiet else None) as rows:
        for letter in letters:
            if letter.application_id is not None or not quiet:
                rows.write(_letter_row(letter))
    if message and not quiet:
        say(message)
    changed = {letter.key for letter in letters}
    missing = [entry for entry, key in keys_by_entry.items() if key not in changed]
    for entry in missing:
        say(f"no dead letter {entry!r} of {name!r} in {address.place}")
    return ExitStatus.FAILED if missing else ExitStatus.DONE


async def _forget(
    checkpoints: "CheckpointStore", name: str, stored: Sequence["DeadLetter"], keys: Sequence[str]
) -> tuple[Sequence["DeadLetter"], str]:
    """Forget dead letters; return them, and a message."""
    removed = await checkpoints.forget(name, keys)
    letters = [letter for letter in stored if letter.key in removed]
    return letters, f"forgot {counted(len(letters), 'dead letter')}" if letters else ""


async def _retry(
    checkpoints: "CheckpointStore", name: str, stored: Sequence["DeadLetter"], keys: Sequence[str]
) -> tuple[Sequence["DeadLetter"], str]:
    """Make dead letters due, and wake the poller; return them, and a message."""
    due = await checkpoints.retry(name, keys)
    letters = [evolve(letter, attempts=0) for letter in stored if letter.key in due]
    if not letters:
        return letters, "" if stored else "no dead letters"
    outcome = await _wake_poller(checkpoints, name)
    return letters, f"{counted(len(letters), 'dead letter')} due now; {outcome}"


async def _wake_poller(checkpoints: "CheckpointStore", name: str) -> str:
    """Wake the poller that works, which tries what is due; return what comes of it."""
    try:
        await checkpoints.ring(name)
    except IncomeClientError as error:
        return f"the next poll tries them, as no poller could be woken ({error.message})"
    return "a poller that runs is woken, and tries them"


def _key_of(text: str, letters: Iterable["DeadLetter"]) -> str | None:
    """Return the key of the dead letter with a key or an application's id."""
    keys = {letter.key for letter in letters}
    ids = {letter.application_id: letter.key for letter in letters}
    return text if text in keys else ids.get(text)


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
