"""What a poller remembers and stores: how far it has come, and what could not be read.

A checkpoint holds times, counts and digests, no id and no content. Seconds before ``reached``
are done with. It stays behind service time, so that the seconds in between are listed again each
time; the versions delivered from them are remembered, and forgotten once the list cannot show
them any more. To forget one too early costs a redelivery, never a loss.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Container, Iterable, Mapping
from datetime import timedelta, tzinfo
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, TypeGuard, cast

from attrs import evolve, field, frozen

from income_client.errors import CheckpointError, ConfigurationError, IncomeClientError
from income_client.records.dead_letters import DeadLetter, is_second
from income_client.records.window import EPOCH, Window
from income_client.settings import invalid
from income_client.walk.checkpoint import read_checked, write_checked
from income_client.walk.windows import Intervals
from income_client.wire.times import (
    FIRST_SECOND,
    LAST_SECOND,
    Rounding,
    When,
    service_second,
)

from .reading import DIGEST_BYTES, KEY_BYTES

_VERSION: Final = 2
_FIRST_VERSION: Final = 1
_MEMBERS: Final = {"poll", "since", "reached", "low", "batches", "claims", "seen"}
_OPTIONAL: Final = {"holder", "lease"}
_FIRST_KEY_BYTES: Final = 8
_FIRST_DIGEST_BYTES: Final = 16
_COUNTLESS: Final = 2**60
_BATCHES_OF_A_TAKEOVER: Final = 2**32
"""More than any name delivers. Numbers of two million takeovers are exact in JavaScript."""
_MOST_RECENT: Final = 10_000
_FAR: Final = 60
_HOUR: Final = 3_600
_NO_TIME: Final = timedelta(0)
_LONGEST_REASON: Final = 500
_CORRUPT: Final = "the checkpoint was not written by a poller, or is damaged"


@frozen
class Seen:
    """The version of an application that was delivered last."""

    digest: bytes = field(repr=False)
    """Its content."""
    until: int
    """The last second that the list can show it in."""


@frozen(kw_only=True)
class Checkpoint:
    """How far polling has safely come; without personal data."""

    since: int
    """The second that it began with; nothing before it is asked for unless the clock goes back."""
    reached: int
    """Whatever was updated before this second is delivered."""
    low: int | None = None
    """Where the next poll begins while the service's clock is behind ``reached``; else None."""
    batches: int = 0
    """How many batches were delivered."""
    takeovers: int = 0
    """How many pollers have taken over the name."""
    holder: str | None = None
    """A mark of the poller that holds the name, unlike that of any other; None in checkpoints of
    versions that had none."""
    lease: float | None = None
    """Seconds after which a standby may take over from a poller that renews it no more; 0 for one
    that has given it up, None for one that works and renews none."""
    seen: Mapping[bytes, Seen] = field(factory=dict, repr=False)
    """By the key of the application: versions delivered that the list may show again. Each takes
    about twenty bytes of the text."""

    @property
    def progress(self) -> tuple[int, int]:
        """What grows from each checkpoint to the next."""
        return self.reached, self.batches

    @property
    def sequence(self) -> int:
        """What grows from each batch to the next, and from each takeover to the next."""
        return self.takeovers * _BATCHES_OF_A_TAKEOVER + self.batches

    @cached_property
    def text(self) -> str:
        """It as a text, from which `read_checkpoint` makes it again."""
        by_time: dict[int, list[bytes]] = {}
        for key, version in self.seen.items():
            by_time.setdefault(version.until - self.reached, []).append(key + version.digest)
        state: dict[str, Any] = {
            "poll": _VERSION,
            "since": self.since,
            "reached": self.reached,
            "low": self.low,
            "batches": self.batches,
            "claims": self.takeovers,
            "seen": [[until, b64encode(b"".join(e)).decode()] for until, e in by_time.items()],
        }
        if self.holder is not None:
            state["holder"] = self.holder
        if self.lease is not None:
            state["lease"] = self.lease
        return write_checked(state)


class Progress:
    """How far polling has come, in memory; checkpoints are taken of it."""

    def __init__(self, checkpoint: Checkpoint, *, settle: int, lookback: int) -> None:
        self.reached: int = checkpoint.reached
        self.settle = settle
        self.lookback = lookback
        low = checkpoint.low
        self._position = self.reached if low is None else min(low, self.reached)
        self._since = checkpoint.since
        self._batches = checkpoint.batches
        self._takeovers = checkpoint.takeovers
        self._holder = checkpoint.holder
        self._seen = dict(checkpoint.seen)
        # The latest of all others, which checkpoints do not hold.
        self._recent: dict[bytes, bytes] = {}

    @property
    def position(self) -> int:
        """The second up to which all is done: ``reached``, or earlier by a clock gone back."""
        return self._position

    @property
    def lower(self) -> int:
        """The first second that the next poll must list."""
        return max(self._since, self._position - self.lookback)

    def fall_back(self, second: int, *, is_running: bool) -> None:
        """List from this second again, since the service's clock is behind what was reached."""
        self._position = min(self._position, second)
        # After a poll, now or in an earlier process, all that follows was updated after polling
        # began, whatever second it began with.
        if is_running or self.reached > self._since:
            self._since = min(self._since, second)

    def knows(self, key: bytes, digest: bytes) -> bool:
        """Return whether this version of an application was delivered last."""
        seen = self._seen.get(key)
        return (self._recent.get(key) if seen is None else seen.digest) == digest

    def is_seen(self, key: bytes) -> bool:
        """Return whether some version of an application is remembered."""
        return key in self._seen or key in self._recent

    def admit(
        self,
        key: bytes,
        digest: bytes,
        *,
        listed_in: Window,
        updated: int | None,
        latest: int | None,
    ) -> bool:
        """Take a version that was read, and return whether it is new."""
        # The record may have been updated after it was listed, when it says. What would be far
        # behind the latest that the present may be is not believed: it is remembered as long.
        is_new = not self.knows(key, digest)
        is_far = latest is not None and listed_in.before > latest + _FAR
        until = listed_in.after if is_far else listed_in.before
        if updated is not None and (latest is None or updated <= max(until, latest) + _HOUR):
            until = max(until, updated)
        self._recent.pop(key, None)
        self._seen[key] = Seen(digest, until + 1)
        return is_new

    def deliver(self) -> None:
        """Count a batch."""
        self._batches += 1

    def advance(self, second: int, held: Container[bytes] = ()) -> None:
        """Note that whatever was updated before a second is delivered; never goes back."""
        if second <= self._position:
            return
        self._position = second
        self.reached = max(self.reached, second)
        oldest = self.lower - 1  # which a closed lower bound lists as well
        # Those held could not be read, and may come back as they were.
        past = [key for key, seen in self._seen.items() if seen.until < oldest and key not in held]
        for key in past:
            self._recent[key] = self._seen.pop(key).digest
        while len(self._recent) > _MOST_RECENT:
            del self._recent[next(iter(self._recent))]

    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint of this moment."""
        return Checkpoint(
            since=self._since,
            reached=self.reached,
            low=self._position if self._position < self.reached else None,
            batches=self._batches,
            takeovers=self._takeovers,
            holder=self._holder,
            seen=dict(self._seen),
        )


class DeadLetters:
    """The dead letters of one poller, and which of them the store does not have yet."""

    def __init__(self, letters: Iterable[DeadLetter] = ()) -> None:
        self._letters = {letter.key: letter for letter in letters}
        self._stored = set(self._letters)
        """Keys of those that the store has."""
        self._unsaved: dict[str, DeadLetter] = {}
        self._listed: dict[str, DeadLetter] = {}
        """Unsaved ones that the list has shown, as they are where the store has none of the key."""
        self._resolved: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._letters)

    def __contains__(self, key: str) -> bool:
        return key in self._letters

    @property
    def application_ids(self) -> tuple[str, ...]:
        """The applications that they are about."""
        ids = (letter.application_id for letter in self._letters.values())
        return tuple(one for one in ids if one is not None)

    @property
    def seconds(self) -> tuple[Window, ...]:
        """The seconds that hold more rows than can be asked for."""
        return tuple(window for window in self._windows if is_second(window))

    @property
    def unsaved(self) -> tuple[DeadLetter, ...]:
        """Those that the store must have before a checkpoint passes them."""
        return tuple(self._unsaved.values())

    @property
    def new(self) -> frozenset[str]:
        """Keys of unsaved ones that the store has not had before."""
        return frozenset(self._unsaved.keys() - self._stored)

    @property
    def resolved(self) -> tuple[str, ...]:
        """Keys of those that the store may lose once what was read is delivered."""
        return tuple(self._resolved)

    @property
    def _windows(self) -> list[Window]:
        return [one.window for one in self._letters.values() if one.application_id is None]

    def windows_around(self, window: Window) -> list[Window]:
        """Return the windows of the dead letters about a row without an id, listed in a window.

        Each poll lists the last seconds again, in another window. So the latest dead letter is
        about the row where they hold the window already; else it is extended, up to an hour, or
        there is a new one for what they do not hold.
        """
        # A dead letter of a single second says that it is saturated.
        window = Window(window.after, max(window.before, window.after + 2))
        known = [one for one in self._windows if not is_second(one)]
        known.sort(key=attrgetter("after"))
        gaps = Intervals(known).gaps(window)
        if not gaps:
            return [one for one in known if one.after < window.before][-1:]
        found = []
        for gap in gaps:
            ends_there = [one for one in known if one.before == gap.after <= one.after + _HOUR]
            after = max((one.after for one in ends_there), default=gap.after)
            if gap.before > after + _HOUR:
                after = gap.after
            found.append(Window(after, max(gap.before, after + 2)))
        return found

    def due(self, now: int, *, most: int) -> list[DeadLetter]:
        """Return those to be tried again, the most overdue first."""
        moment = EPOCH + timedelta(seconds=now)
        overdue = {letter.key: moment - letter.next_try_at for letter in self._letters.values()}
        due = [key for key, waited in overdue.items() if waited >= _NO_TIME]
        first = sorted(due, key=overdue.__getitem__, reverse=True)[:most]
        return [self._letters[key] for key in first]

    def put(
        self,
        application_id: str | None,
        window: Window,
        reason: str,
        *,
        attempts: int,
        now: int,
        is_retry: bool = False,
    ) -> None:
        """Add a dead letter, or count further attempts; without an id it is about a window.

        With ``is_retry`` it was tried only because it is one, and not because it was listed.
        """
        moment = EPOCH + timedelta(seconds=now)
        letter = DeadLetter(
            application_id=None if application_id is None else _storable(application_id),
            window=window,
            reason=_storable(reason[:_LONGEST_REASON]),
            attempts=attempts,
            first_tried_at=moment,
            last_tried_at=moment,
        )
        if not is_retry:
            self._listed[letter.key] = letter
        known = self._letters.get(letter.key)
        if known is not None:
            letter = evolve(
                letter,
                attempts=known.attempts + attempts,
                first_tried_at=known.first_tried_at,
            )
        self._letters[letter.key] = self._unsaved[letter.key] = letter
        self._resolved.pop(letter.key, None)

    def resolve(self, key: str) -> None:
        """Remove a dead letter whose application was read after all, if there is one."""
        if self._letters.pop(key, None) is not None:
            self._unsaved.pop(key, None)
            self._listed.pop(key, None)
            self._resolved[key] = None

    def forget(self, stored: Iterable[DeadLetter]) -> None:
        """Drop those that the store has no more; one that was listed since is a new one."""
        for key in self._stored - {letter.key for letter in stored}:
            self._stored.remove(key)
            if key in self._listed:
                self._letters[key] = self._unsaved[key] = self._listed[key]
            else:
                self._letters.pop(key, None)
                self._unsaved.pop(key, None)

    def saved(self, letters: Iterable[DeadLetter], resolved: Iterable[str]) -> None:
        """Note what the store has by now."""
        for letter in letters:
            self._stored.add(letter.key)
            if self._unsaved.get(letter.key) is letter:
                del self._unsaved[letter.key]
                self._listed.pop(letter.key, None)
        for key in resolved:
            self._stored.discard(key)
            self._resolved.pop(key, None)


def is_checkpoint(text: str) -> bool:
    """Return whether this is a checkpoint, whole or damaged, and not a time."""
    return text.lstrip().startswith("{")


def read_checkpoint(text: object) -> Checkpoint:
    """Return the checkpoint of a text; raise `CheckpointError` for any other text."""
    state = read_checked(
        text,
        kind="poll",
        version=_VERSION,
        members=_MEMBERS,
        optional=_OPTIONAL,
        oldest=_FIRST_VERSION,
    )
    if state is None:
        raise CheckpointError(_CORRUPT)
    since, reached, low = state["since"], state["reached"], state["low"]
    batches, takeovers = state["batches"], state["claims"]
    holder, lease = state.get("holder"), state.get("lease")
    are_seconds = _is_second(since) and _is_second(reached) and since <= reached
    are_seconds = are_seconds and (low is None or _is_second(low))
    are_counts = _is_count(batches) and _is_count(takeovers)
    is_mark = holder is None or isinstance(holder, str)
    if not are_seconds or not are_counts or not is_mark or not _is_duration(lease):
        raise CheckpointError(_CORRUPT)
    seen = _seen(state["seen"], reached, is_first=state["poll"] == _FIRST_VERSION)
    if seen is None:
        raise CheckpointError(_CORRUPT)
    return Checkpoint(
        since=since,
        reached=reached,
        low=low,
        batches=batches,
        takeovers=takeovers,
        holder=holder,
        lease=lease,
        seen=seen,
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
        # Earlier versions did not know the end of some.
        until = reached if end is None else origin + end
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


def _is_duration(value: object) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= cast("float", value) < math.inf)


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
    allowed = "a time, its ISO 8601 text, or a batch's checkpoint"
    raise invalid("start", allowed, start, may_show=isinstance(start, str))


def reason_of(error: IncomeClientError) -> str:
    """Return why a record could not be read; errors hold no content."""
    return f"{type(error).__name__}: {error.message}"


def _storable(text: str) -> str:
    """Return a text without characters that no database takes."""
    is_plain = "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
    return text if is_plain else text.encode("unicode_escape").decode()
