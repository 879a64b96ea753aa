"""How far polling has come, and its text; holds times, counts and digests, no id and no content."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import tzinfo
from typing import Final, TypeGuard

from attrs import field, frozen

from income_client.errors import CheckpointError, ConfigurationError
from income_client.walk.checkpoint import read_checked, write_checked
from income_client.wire.times import FIRST_SECOND, LAST_SECOND, Rounding, When, service_second

from .versions import DIGEST_BYTES, KEY_BYTES

_VERSION: Final = 2
_FIRST_VERSION: Final = 1
_MEMBERS: Final = {"poll", "since", "reached", "low", "batches", "claims", "seen"}
_FIRST_KEY_BYTES: Final = 8
_FIRST_DIGEST_BYTES: Final = 16
_COUNTLESS: Final = 2**60
_CORRUPT: Final = "the checkpoint is no poller's checkpoint, or is damaged"


@frozen
class Seen:
    """The version of an application that was delivered last."""

    digest: bytes = field(repr=False)
    """Its content."""
    until: int | None = None
    """The last second that the list can show it in; None where that is not known yet."""


@frozen(kw_only=True)
class Checkpoint:
    """How far polling has safely come."""

    since: int
    """The second that it began with; nothing before it is asked for unless the clock goes back."""
    reached: int
    """Whatever was updated before this second is delivered."""
    low: int | None = None
    """Where the list goes on while the service's clock is behind that second; else None."""
    batches: int = 0
    """How many batches were delivered."""
    claims: int = 0
    """How many pollers have taken it up."""
    seen: Mapping[bytes, Seen] = field(factory=dict, repr=False)
    """By the key of the application: versions delivered that the list may show again. Each takes
    about twenty bytes of the text."""

    @property
    def progress(self) -> tuple[int, int]:
        """What grows from each checkpoint to the next."""
        return self.reached, self.batches

    def text(self) -> str:
        """Return it as a text, from which `read_checkpoint` makes it again."""
        by_time: dict[int | None, list[bytes]] = {}
        for key, version in self.seen.items():
            until = None if version.until is None else version.until - self.reached
            by_time.setdefault(until, []).append(key + version.digest)
        state = {
            "poll": _VERSION,
            "since": self.since,
            "reached": self.reached,
            "low": self.low,
            "batches": self.batches,
            "claims": self.claims,
            "seen": [[until, b64encode(b"".join(e)).decode()] for until, e in by_time.items()],
        }
        return write_checked(state)


def is_checkpoint(text: str) -> bool:
    """Tell a checkpoint, whole or damaged, from a time."""
    return text.lstrip().startswith("{")


def read_checkpoint(text: object) -> Checkpoint:
    """Return the checkpoint that a text holds.

    Raises:
        CheckpointError: the text was not written by a poller, or by one of a newer version.
    """
    state = read_checked(
        text, kind="poll", version=_VERSION, members=_MEMBERS, oldest=_FIRST_VERSION
    )
    if state is None:
        raise CheckpointError(_CORRUPT)
    since, reached, low = state["since"], state["reached"], state["low"]
    batches, claims = state["batches"], state["claims"]
    are_seconds = _is_second(since) and _is_second(reached) and since <= reached
    are_seconds = are_seconds and (low is None or _is_second(low))
    are_counts = _is_count(batches) and _is_count(claims)
    if not are_seconds or not are_counts:
        raise CheckpointError(_CORRUPT)
    seen = _seen(state["seen"], reached, is_first=state["poll"] == _FIRST_VERSION)
    if seen is None:
        raise CheckpointError(_CORRUPT)
    return Checkpoint(
        since=since, reached=reached, low=low, batches=batches, claims=claims, seen=seen
    )


def _seen(groups: object, reached: int, *, is_first: bool) -> dict[bytes, Seen] | None:
    if not isinstance(groups, list):
        return None
    # The first version counted from 1970, and held the whole of what is cut now.
    origin = 0 if is_first else reached
    key_bytes = _FIRST_KEY_BYTES if is_first else KEY_BYTES
    entry_bytes = key_bytes + (_FIRST_DIGEST_BYTES if is_first else DIGEST_BYTES)
    seen: dict[bytes, Seen] = {}
    for group in groups:
        match group:
            case [None | int() as end, str(packed)] if type(end) is not bool:
                entries = _entries(packed, entry_bytes)
            case _:
                return None
        if entries is None:
            return None
        until = None if end is None else origin + end
        for entry in entries:
            digest = entry[key_bytes : key_bytes + DIGEST_BYTES]
            seen[entry[:KEY_BYTES]] = Seen(digest, until)
    return seen


def _entries(packed: str, size: int) -> Iterable[bytes] | None:
    try:
        whole = b64decode(packed, validate=True)
    except ValueError:
        return None
    if len(whole) % size:
        return None
    return (whole[at : at + size] for at in range(0, len(whole), size))


def _is_second(value: object) -> TypeGuard[int]:
    return type(value) is int and FIRST_SECOND <= value <= LAST_SECOND


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _COUNTLESS


def starting_point(start: When | None, zone: tzinfo) -> Checkpoint | int | None:
    """Return where a poller is to start: a checkpoint, or a second of the service's frame."""
    if start is None:
        return None
    if isinstance(start, str) and is_checkpoint(start):
        return read_checkpoint(start)
    try:
        return service_second(start, zone, rounding=Rounding.DOWN)
    except ConfigurationError:
        pass
    raise ConfigurationError("start must be a time, its ISO 8601 text, or a batch's checkpoint")
