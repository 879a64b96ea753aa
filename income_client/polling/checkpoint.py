"""The checkpoint of a poller, and its text: times, counts, digests and the name of a machine.

It holds no id of an application, and no content.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import tzinfo
from functools import cached_property
from typing import Any, Final, TypeGuard, cast

from attrs import field, frozen

from income_client.errors import CheckpointError, ConfigurationError
from income_client.settings import invalid
from income_client.walk.checkpoint import read_checked, write_checked
from income_client.wire.times import (
    FIRST_SECOND,
    LAST_SECOND,
    Rounding,
    When,
    service_second,
)

from .lateness import Lateness
from .reading import DIGEST_BYTES, KEY_BYTES

_VERSION: Final = 2
_FIRST_VERSION: Final = 1
_MEMBERS: Final = {"poll", "since", "reached", "low", "batches", "claims", "seen"}
_OPTIONAL: Final = {"filter", "holder", "late", "lease", "service", "settle"}
_FIRST_KEY_BYTES: Final = 8
_FIRST_DIGEST_BYTES: Final = 16
_COUNTLESS: Final = 2**60
_BATCHES_OF_A_TAKEOVER: Final = 2**32
"""More than any name delivers. Numbers of two million takeovers are exact in JavaScript."""
_CORRUPT: Final = "the checkpoint was not written by a poller, or is damaged"


@frozen
class Seen:
    """A version of an application that was delivered."""

    digest: bytes = field(repr=False)
    """Digest of the version's content."""
    last_listed: int
    """The last second in which the list can show the version."""


@frozen(kw_only=True)
class Checkpoint:
    """The progress of a poller as it is stored; contains no personal data."""

    since: int
    """The first second of polling. Earlier seconds are listed only after the service's clock has
    gone back."""
    reached: int
    """The second before which every update is delivered."""
    resumes_at: int | None = None
    """The first second of the next poll, while the service's clock is behind ``reached``; else
    None."""
    batches: int = 0
    """Number of batches that were delivered."""
    takeovers: int = 0
    """Number of pollers that have acquired the name."""
    filter_digest: str | None = None
    """Digest of the filter of the list calls; None if every application is listed."""
    service: str | None = None
    """Digest of the service's address and of the account; None in checkpoints of version 0.2.0 and
    before."""
    holder: str | None = None
    """The mark of the poller that made the save: its machine, its process and a random text; None
    in checkpoints of version 0.2.0 and before."""
    lease: float | None = None
    """Length of the lease in seconds, after which a standby may take over; 0 after a release, None
    without standbys."""
    settle: int | None = None
    """Seconds by which polling stayed behind the service time; None in checkpoints of version 0.2.0
    and before, and until the first poll has ended."""
    lateness: Lateness = field(factory=Lateness, repr=False)
    """How late updates were listed in the day before ``reached``."""
    seen: Mapping[bytes, Seen] = field(factory=dict, repr=False)
    """Versions that were delivered and that the list may show again, by the key of the application;
    each takes about twenty bytes of the text."""

    @property
    def position(self) -> int:
        """The second before which every update is delivered.

        Equal to ``reached``, or earlier while the service's clock is behind that.
        """
        return self.reached if self.resumes_at is None else min(self.resumes_at, self.reached)

    @property
    def progress(self) -> tuple[int, int]:
        """Two numbers that order the checkpoints of a name."""
        return self.reached, self.batches

    @property
    def sequence(self) -> int:
        """A number that grows with each batch and with each takeover."""
        return self.takeovers * _BATCHES_OF_A_TAKEOVER + self.batches

    @cached_property
    def text(self) -> str:
        """The checkpoint as a text, for `read_checkpoint`."""
        by_time: dict[int, list[bytes]] = {}
        for key, version in self.seen.items():
            by_time.setdefault(version.last_listed - self.reached, []).append(key + version.digest)
        state: dict[str, Any] = {
            "poll": _VERSION,
            "since": self.since,
            "reached": self.reached,
            "low": self.resumes_at,
            "batches": self.batches,
            "claims": self.takeovers,
            "seen": [[until, b64encode(b"".join(e)).decode()] for until, e in by_time.items()],
        }
        if self.filter_digest is not None:
            state["filter"] = self.filter_digest
        if self.service is not None:
            state["service"] = self.service
        if self.holder is not None:
            state["holder"] = self.holder
        if self.lease is not None:
            state["lease"] = self.lease
        if self.settle is not None:
            state["settle"] = self.settle
        if self.lateness.updates:
            state["late"] = self.lateness.as_rows(self.reached)
        return write_checked(state)


def is_checkpoint(text: str) -> bool:
    """Return whether a text is a checkpoint, intact or damaged, and not a time."""
    return text.lstrip().startswith("{")


def read_checkpoint(text: object) -> Checkpoint:
    """Read a checkpoint from its text; raise `CheckpointError` if the text is not intact."""
    state = read_checked(
        text,
        kind="poll",
        version=_VERSION,
        members=_MEMBERS,
        optional=_OPTIONAL,
        oldest=_FIRST_VERSION,
    )
    if state is None or not _is_sound(state):
        raise CheckpointError(_CORRUPT)
    return Checkpoint(
        since=state["since"],
        reached=state["reached"],
        resumes_at=state["low"],
        batches=state["batches"],
        takeovers=state["claims"],
        filter_digest=state.get("filter"),
        service=state.get("service"),
        holder=state.get("holder"),
        lease=state.get("lease"),
        settle=state.get("settle"),
        lateness=_read_lateness(state.get("late", []), state["reached"]),
        seen=_read_seen(state["seen"], state["reached"], is_first=state["poll"] == _FIRST_VERSION),
    )


def _is_sound(state: Mapping[str, Any]) -> bool:
    since, reached, low = state["since"], state["reached"], state["low"]
    return (
        _is_second(since)
        and _is_second(reached)
        and since <= reached
        and (low is None or _is_second(low))
        and _is_count(state["batches"])
        and _is_count(state["claims"])
        and all(isinstance(state.get(name), str | None) for name in ("filter", "holder", "service"))
        and _is_duration(state.get("lease"))
        and (state.get("settle") is None or _is_count(state["settle"]))
    )


def _read_lateness(rows: object, reached: int) -> Lateness:
    try:
        return Lateness.from_rows(rows, reached)
    except ValueError:
        raise CheckpointError(_CORRUPT) from None


def _read_seen(groups: object, reached: int, *, is_first: bool) -> dict[bytes, Seen]:
    if not isinstance(groups, list):
        raise CheckpointError(_CORRUPT)
    # The first version counted from 1970, and held the whole of what is cut now.
    origin = 0 if is_first else reached
    key_bytes = _FIRST_KEY_BYTES if is_first else KEY_BYTES
    entry_bytes = key_bytes + (_FIRST_DIGEST_BYTES if is_first else DIGEST_BYTES)
    seen: dict[bytes, Seen] = {}
    for group in groups:
        match group:
            case [None | int() as end, str(packed)] if type(end) is not bool:
                # Earlier versions did not know the end of some.
                until = reached if end is None else origin + end
            case _:
                raise CheckpointError(_CORRUPT)
        for entry in _split_entries(packed, entry_bytes):
            digest = entry[key_bytes : key_bytes + DIGEST_BYTES]
            seen[entry[:KEY_BYTES]] = Seen(digest, until)
    return seen


def _split_entries(packed: str, size: int) -> Iterable[bytes]:
    try:
        whole = b64decode(packed, validate=True)
    except ValueError:
        raise CheckpointError(_CORRUPT) from None
    if len(whole) % size:
        raise CheckpointError(_CORRUPT)
    return (whole[at : at + size] for at in range(0, len(whole), size))


def _is_second(value: object) -> TypeGuard[int]:
    return type(value) is int and FIRST_SECOND <= value <= LAST_SECOND


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _COUNTLESS


def _is_duration(value: object) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= cast("float", value) < math.inf)


def starting_point(start: When | None, zone: tzinfo) -> Checkpoint | int | None:
    """Return a poller's ``start=`` as a checkpoint or as a second of the service's frame."""
    if start is None:
        return None
    if isinstance(start, str) and is_checkpoint(start):
        return read_checkpoint(start)
    try:
        return service_second(start, zone, rounding=Rounding.DOWN)
    except ConfigurationError:
        pass
    allowed = "a time, its ISO 8601 text, a batch's checkpoint, or 'stored'"
    raise invalid("start", allowed, start, may_show=isinstance(start, str))
