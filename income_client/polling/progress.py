"""How far a poller has come, and which versions of applications it has delivered.

Seconds before ``reached`` are done with. It stays behind service time, so that the seconds in
between are listed again each time; the versions delivered from them are remembered, and forgotten
once the list cannot show them any more. To forget one too early costs a redelivery, never a loss.
"""

from collections.abc import Container
from typing import Final

from income_client.records.window import Window

from .checkpoint import Checkpoint, Seen

_MOST_RECENT: Final = 10_000
_FAR: Final = 60
_HOUR: Final = 3_600


class Progress:
    """How far polling has come, in memory; checkpoints are taken of it."""

    def __init__(self, checkpoint: Checkpoint, *, settle: int, lookback: int) -> None:
        self.reached: int = checkpoint.reached
        self.settle = settle
        self.lookback = lookback
        resumes_at = checkpoint.resumes_at
        self._position = self.reached if resumes_at is None else min(resumes_at, self.reached)
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

    def fall_back(self, second: int) -> None:
        """List from this second again, since the service's clock is behind what was reached.

        It may lie before the second that polling began with: what a clock that has gone back
        writes there was updated later.
        """
        self._position = min(self._position, second)
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
        last_listed = listed_in.after if is_far else listed_in.before
        if updated is not None and (latest is None or updated <= max(last_listed, latest) + _HOUR):
            last_listed = max(last_listed, updated)
        self._recent.pop(key, None)
        self._seen[key] = Seen(digest, last_listed + 1)
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
        past = [
            key for key, seen in self._seen.items() if seen.last_listed < oldest and key not in held
        ]
        for key in past:
            self._recent[key] = self._seen.pop(key).digest
        while len(self._recent) > _MOST_RECENT:
            del self._recent[next(iter(self._recent))]

    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint of this moment."""
        return Checkpoint(
            since=self._since,
            reached=self.reached,
            resumes_at=self._position if self._position < self.reached else None,
            batches=self._batches,
            takeovers=self._takeovers,
            holder=self._holder,
            seen=dict(self._seen),
        )
