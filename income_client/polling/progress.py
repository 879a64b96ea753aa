"""The progress of a poller: the second that it has reached, and the versions it has delivered.

    since ........... lower ...... position ........ reached ........ present
    first second      next poll    updates before    position, but    service
    of the name       lists from   are delivered     never goes back  time
                      here

    position <= reached <= present - settle        lower = max(since, position - lookback)
    position < reached only while the service's clock is behind ``reached``

The seconds from ``lower`` to the present are listed again by each poll. The versions delivered from
these seconds are remembered until the list cannot show them any more. Forgetting a version too
early costs a redelivery, never a loss.
"""

from collections.abc import Container
from typing import Final

from income_client.records.window import Window

from .checkpoint import Checkpoint, Seen
from .lateness import Lateness

_MOST_RECENT: Final = 10_000
_FAR: Final = 60
_HOUR: Final = 3_600


class Progress:
    """The progress of one poller in memory; `checkpoint` returns a copy of it."""

    def __init__(self, checkpoint: Checkpoint, *, settle: int, lookback: int) -> None:
        self.reached: int = checkpoint.reached
        self.settle = settle
        self.lookback = lookback
        self._position = checkpoint.position
        self._since = checkpoint.since
        self._batches = checkpoint.batches
        self._takeovers = checkpoint.takeovers
        self._filter_digest = checkpoint.filter_digest
        self._service = checkpoint.service
        self._holder = checkpoint.holder
        self.lateness: Lateness = checkpoint.lateness.summary()
        """How late updates were listed within a day, as this poller and earlier ones saw it."""
        self._seen = dict(checkpoint.seen)
        # Versions that the list cannot show any more; checkpoints do not contain them.
        self._recent: dict[bytes, bytes] = {}
        self._updated: dict[bytes, int] = {}
        """The second of the last update of each version that was read since this poller began."""

    @property
    def position(self) -> int:
        """The second before which every update is delivered.

        Equal to ``reached``, or earlier while the service's clock is behind that.
        """
        return self._position

    @property
    def lower(self) -> int:
        """The first second that the next poll must list."""
        return max(self._since, self._position - self.lookback)

    def fall_back(self, second: int) -> None:
        """List again from a second, because the service's clock is behind the progress.

        The second may lie before ``since``: an update that carries such a time was made after
        polling began, by the clock that went back.
        """
        self._position = min(self._position, second)
        self._since = min(self._since, second)

    def knows(self, key: bytes, digest: bytes) -> bool:
        """Return whether a version is the last delivered version of its application."""
        seen = self._seen.get(key)
        return (self._recent.get(key) if seen is None else seen.digest) == digest

    def is_seen(self, key: bytes) -> bool:
        """Return whether any version of an application is remembered."""
        return key in self._seen or key in self._recent

    def is_read(self, key: bytes, first: int) -> bool:
        """Return whether a row of a page from a second on is of a version that was read.

        Where the list shows an update that was not read yet, the record read last is older.
        """
        # A page may hold the second before as well.
        return self._updated.get(key, first - 2) >= first - 1

    def updated(self, key: bytes) -> int | None:
        """Return the second of the last update in the record that was read last."""
        return self._updated.get(key)

    def admit(
        self,
        key: bytes,
        digest: bytes,
        *,
        listed_in: Window,
        updated: int | None,
        latest: int | None,
    ) -> bool:
        """Remember a version that was read; return whether it must be delivered."""
        # A record may have been updated after it was listed, at the time that it reports. A time
        # far behind the latest possible present is not believed.
        is_new = not self.knows(key, digest)
        is_far = latest is not None and listed_in.before > latest + _FAR
        last_listed = listed_in.after if is_far else listed_in.before
        if updated is not None and (latest is None or updated <= max(last_listed, latest) + _HOUR):
            last_listed = max(last_listed, updated)
        self._recent.pop(key, None)
        self._seen[key] = Seen(digest, last_listed + 1)
        self._updated.pop(key, None)
        if updated is not None:
            self._updated[key] = updated
        return is_new

    def deliver(self) -> None:
        """Count a delivered batch."""
        self._batches += 1

    def advance(self, second: int, dead_keys: Container[bytes] = ()) -> None:
        """Note that every update before a second is delivered; never go back."""
        if second <= self._position:
            return
        self._position = second
        self.reached = max(self.reached, second)
        self.lateness.keep_day(self._position)
        oldest = self.lower - 1  # since an inclusive lower bound lists one second more
        # Dead letters may be read again, in the version that was delivered last.
        past = [
            key
            for key, seen in self._seen.items()
            if seen.last_listed < oldest and key not in dead_keys
        ]
        for key in past:
            self._recent[key] = self._seen.pop(key).digest
            self._updated.pop(key, None)
        while len(self._recent) > _MOST_RECENT:
            del self._recent[next(iter(self._recent))]

    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint of the current progress."""
        return Checkpoint(
            since=self._since,
            reached=self.reached,
            resumes_at=self._position if self._position < self.reached else None,
            batches=self._batches,
            takeovers=self._takeovers,
            filter_digest=self._filter_digest,
            service=self._service,
            holder=self._holder,
            settle=self.settle,
            lateness=self.lateness.summary(),
            seen=dict(self._seen),
        )
