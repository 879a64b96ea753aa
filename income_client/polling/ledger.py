"""What was delivered, and from which second on the list is read again; reads no clock.

Seconds before ``reached`` are done with. The checkpoint stays behind service
time, so that the stretch in between is listed again each time; the versions
delivered from it are remembered, and forgotten once the list cannot show them
any more. To forget one too early costs a repetition, never a loss.
"""

from collections import deque
from typing import Final

from attrs import evolve

from income_client.records.window import Window

from .checkpoint import Checkpoint, Seen

_MOST_STRAYS: Final = 10_000
_FAR: Final = 60


class Ledger:
    """How far polling has come, in memory; checkpoints are taken of it.

    Args:
        checkpoint: where to begin.
        settle: seconds that the checkpoint stays behind service time.
        lookback: seconds before the checkpoint that are listed again as well.
    """

    def __init__(self, checkpoint: Checkpoint, *, settle: int, lookback: int) -> None:
        self.reached: int = checkpoint.reached
        self.settle = settle
        self.lookback = lookback
        self.low = checkpoint.low
        self._since = checkpoint.since
        self._batches = checkpoint.batches
        self._claims = checkpoint.claims
        self._seen = dict(checkpoint.seen)
        self._strays: deque[tuple[bytes, Seen]] = deque()
        self._earlier: dict[bytes, Seen] = {}
        self._held: set[bytes] = set()

    @property
    def lower(self) -> int:
        """The first second that the next poll must list."""
        lower = self.reached if self.low is None else min(self.low, self.reached)
        return max(self._since, lower - self.lookback)

    def fall_back(self, second: int, *, is_running: bool = False) -> None:
        """Note that the service's clock is behind what was reached, and updates follow from here.

        Either it has gone back, or it had run ahead. What was reached stays so.

        Args:
            second: nothing that was updated since the last poll carries an earlier time.
            is_running: whether there was a poll before. Then all that follows was updated
                after polling began, whatever second it began with.
        """
        if self.low is None or second < self.low:
            self.low = second
        if is_running:
            self._since = min(self._since, second)

    def admit(
        self, key: bytes, digest: bytes, *, listed_in: Window, updated: int | None, now: int
    ) -> bool:
        """Take a version that was read; tell whether it is new.

        What the record says of its update is believed if it fits where it was listed:
        then the list can show this version nowhere else.

        Args:
            key: stands for the application.
            digest: the version.
            listed_in: where the list has shown the application.
            updated: the second at which the record says that it was updated.
            now: service time.
        """
        is_new = not self.knows(key, digest)
        is_past = listed_in.before <= now - self.settle - self.lookback
        until = None
        if updated is not None and listed_in.after - 1 <= updated <= listed_in.before + 1:
            # A window that ends far ahead would be remembered as long.
            is_far = listed_in.before > now + _FAR
            until = (updated if is_past or is_far else listed_in.before) + 1
        self.remember(key, digest, until, is_stray=is_past)
        return is_new

    def is_seen(self, key: bytes) -> bool:
        """Tell whether some version of an application is remembered."""
        return key in self._seen

    def hold(self, key: bytes) -> None:
        """Forget nothing of an application that cannot be read: it may come back as it was."""
        self._held.add(key)

    def release(self, key: bytes) -> None:
        """Forget an application in its time, now that it could be read."""
        self._held.discard(key)

    def knows(self, key: bytes, digest: bytes) -> bool:
        """Tell whether this version of an application was delivered last."""
        seen = self._seen.get(key)
        return seen is not None and seen.digest == digest

    def remember(self, key: bytes, digest: bytes, until: int | None, *, is_stray: bool) -> None:
        """Note what is delivered of an application now.

        Args:
            key: stands for the application.
            digest: the version.
            until: the last second that the list can show this version in, if it is known.
            is_stray: whether the list has shown it in seconds that are not listed again, so
                that it matters only if the application moves on; of these few are kept.
        """
        self._seen[key] = seen = Seen(digest, until)
        if is_stray and until is None:
            self._strays.append((key, seen))
            if len(self._strays) > _MOST_STRAYS:
                key, seen = self._strays.popleft()
                if self._seen.get(key) is seen:
                    del self._seen[key]

    def deliver(self) -> None:
        """Note that a batch is handed out."""
        self._batches += 1

    def begin(self) -> None:
        """Note that a poll begins, and that the list is now asked again."""
        self._earlier = {key: seen for key, seen in self._seen.items() if seen.until is None}

    def tell_time(self, present: int) -> None:
        """Note that whatever was read before this poll was written by this second."""
        for key, seen in self._earlier.items():
            if self._seen.get(key) is seen:
                self._seen[key] = evolve(seen, until=present)
        self._earlier = {}

    def advance(self, second: int) -> None:
        """Note that whatever was updated before a second is delivered; never goes back."""
        if self.low is not None:
            self.low = max(self.low, second)
            self.low = None if self.low >= self.reached else self.low
        elif second <= self.reached:
            return
        self.reached = max(self.reached, second)
        oldest = self.lower - 1  # which a closed lower bound lists as well
        self._seen = {
            key: seen
            for key, seen in self._seen.items()
            if seen.until is None or seen.until >= oldest or key in self._held
        }

    def checkpoint(self) -> Checkpoint:
        """Return the state as it is now."""
        return Checkpoint(
            since=self._since,
            reached=self.reached,
            low=self.low,
            batches=self._batches,
            claims=self._claims,
            seen=dict(self._seen),
        )
