"""What one save asks for, and what every store makes of it; knows no store."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from attrs import evolve, field, frozen

from income_client.errors import CheckpointConflictError, ConfigurationError
from income_client.records.dead_letters import DeadLetter

_INTEGERS: Final = range(-(2**63), 2**63)


@frozen(kw_only=True)
class Change:
    """A save whose arguments were looked at."""

    name: str
    """The poller's."""
    checkpoint: str = field(repr=False)
    """The new text."""
    version: int
    """The version that it is meant for."""
    dead_letters: tuple[DeadLetter, ...]
    """To be put in, after others were taken out; their times are whole seconds."""
    resolved: tuple[str, ...]
    """Keys of dead letters to be taken out."""


def change_of(
    name: str,
    checkpoint: str,
    *,
    version: int,
    dead_letters: Sequence[DeadLetter],
    resolved: Sequence[str],
) -> Change | ConfigurationError:
    """Return what a save asks for, or which of its arguments cannot be meant."""
    if not is_name(name):
        return wrong_name()
    if not _is_text(checkpoint):
        return ConfigurationError("checkpoint is a text")
    if type(version) is not int or version < 0:
        return ConfigurationError("version is a whole number, 0 or more")
    if not all(map(_is_sound, dead_letters)):
        return ConfigurationError("dead_letters are DeadLetter values, their times without zone")
    if isinstance(resolved, str) or not all(map(_is_text, resolved)):
        return ConfigurationError("resolved are keys of dead letters")
    return Change(
        name=name,
        checkpoint=checkpoint,
        version=version,
        dead_letters=tuple(_in_whole_seconds(letter) for letter in dead_letters),
        resolved=tuple(resolved),
    )


def is_name(name: object) -> bool:
    """Say whether this can be a poller's name."""
    return _is_text(name) and name != ""


def wrong_name() -> ConfigurationError:
    """Return the error for a name that is none."""
    return ConfigurationError("name is a text that is not empty")


def conflict(change: Change, *, stored: int) -> CheckpointConflictError:
    """Return the error for a change that was meant for another version than the stored one."""
    return CheckpointConflictError(
        f"checkpoint {change.name!r} is at version {stored}, not at {change.version}: "
        "another poller has taken over",
    )


def in_order(letters: Iterable[DeadLetter]) -> tuple[DeadLetter, ...]:
    """Return dead letters in the order of their first attempts."""
    return tuple(sorted(letters, key=attrgetter("first_tried_at", "key")))


def _is_text(value: object) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    # Half a surrogate pair cannot be written, and the error for it would show the text.
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_sound(letter: object) -> bool:
    return (
        isinstance(letter, DeadLetter)
        and (letter.application_id is None or _is_text(letter.application_id))
        and _is_text(letter.reason)
        and all(map(_is_integer, (letter.window.after, letter.window.before, letter.attempts)))
        and letter.first_tried_at.tzinfo is None
        and letter.last_tried_at.tzinfo is None
    )


def _is_integer(value: object) -> bool:
    return type(value) is int and value in _INTEGERS


def _in_whole_seconds(letter: DeadLetter) -> DeadLetter:
    return evolve(
        letter,
        first_tried_at=letter.first_tried_at.replace(microsecond=0),
        last_tried_at=letter.last_tried_at.replace(microsecond=0),
    )
