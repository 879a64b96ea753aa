"""A poller's lease of its name in a store: taken at its start, lost to the next that takes it.

Who has made the last save holds it, and every write of the holder before is refused. Each
holder has a mark, a random text in every checkpoint that it saves: versions are counts, and two
pollers may have counted to the same number after a failover or a restore. A store compares the
checkpoint that it holds in the same statement as the version; from one that compares versions
only, it is loaded before each save.

A poller that has standbys saves its checkpoint again and again, and names in it the seconds after
which a standby that has seen no further save takes over. Each standby counts them by its own
clock, so that the clocks of machines need not agree.

A save that was cancelled or has failed may have been made all the same; so the store is
asked before the next one.
"""

import asyncio
import inspect
import logging
import secrets
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import evolve, frozen

from income_client.checkpoints import CheckpointStore, SQLiteCheckpointStore, StoredCheckpoint
from income_client.checkpoints.store import check_name, reason_of_conflict
from income_client.clock import Clock
from income_client.errors import (
    CheckpointConflictError,
    CheckpointError,
    IncomeClientError,
)
from income_client.instrumentation import Instrumentation
from income_client.records.dead_letters import DeadLetter
from income_client.records.window import EPOCH
from income_client.settings import invalid

from .checkpoint import Checkpoint, read_checkpoint
from .status import Monitor

T = TypeVar("T")

_LOGGER: Final = logging.getLogger("income_client.poller")
_LEASE_LOGGER: Final = logging.getLogger("income_client.poller.lease")
_MOST_RIVALS: Final = 20
_LOOKS: Final = 10
"""How often a standby looks at the store while the lease of another lasts."""
_RENEWALS: Final = 3
_LONGEST_ABSENCE: Final = 10
"""Leases for which a consumer may work on a batch; then its poller gives the lease up."""
_LONGEST_SILENCE: Final = 15.0
"""Seconds that a database waits for a commit after the save, where there is no lease."""
_MOST_PLACES: Final = 4
_METHODS: Final = ("load", "save", "dead_letters")
_MARK_BYTES: Final = 8
_NOTHING: Final = StoredCheckpoint(checkpoint=None, version=0)
_MISTAKES: Final = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    NotImplementedError, TypeError, ValueError,
)  # fmt: skip
"""What code raises that is wrong: the same call would raise it again. A driver's errors have
classes of their own, or are an `OSError`."""


@frozen
class _Write:
    """A save, and what the store holds once it is made."""

    checkpoint: Checkpoint
    stored: StoredCheckpoint
    began: float


class Lease:
    """The lease of one poller; raises `ConfigurationError` for an invalid store or name.

    With ``seconds`` it is taken once no other poller holds it, and renewed while it is held.
    """

    def __init__(
        self,
        store: CheckpointStore,
        name: str,
        clock: Clock,
        seconds: float | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        is_made = not isinstance(store, type)
        if not is_made or not all(callable(getattr(store, one, None)) for one in _METHODS):
            allowed = f"an object with the methods {', '.join(_METHODS)}"
            raise invalid("checkpoints", allowed, store)
        check_name(name)
        self._store = store
        self._bound: CheckpointStore | None = None  # the store within a transaction
        self._name = name
        self._clock = clock
        self._seconds = seconds
        self._monitor = Monitor(name, Instrumentation(), clock) if monitor is None else monitor
        self._longest_absence = _LONGEST_ABSENCE * (seconds or 0.0)
        self._known = _NOTHING
        """What the store holds, as far as this poller knows."""
        self._saved: Checkpoint | None = None
        self._saved_at = 0.0
        self._unsure: _Write | None = None
        self._late: _Write | None = None
        self._own: StoredCheckpoint | None = None
        """What the store holds if nobody has saved since this poller lost an earlier lease."""
        self._past: Checkpoint | None = None
        """What this poller has saved last, under an earlier lease."""
        self._watched: StoredCheckpoint | None = None
        self._watched_since = 0.0
        self._may_save = False  # as far as a standby has tried
        self._is_over = False  # another poller has taken over, or it was released
        self._held: float | None = None
        """Seconds that the consumer had held a batch when the lease was given up for it."""
        self._renewal: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self.is_new: bool = False
        """Whether the store had no checkpoint of the name when it was taken."""
        self.is_lost: bool = False
        """Whether it was given up, or another poller has taken over."""
        self.has_vanished: bool = False
        """Whether it was lost because the store has no checkpoint any more."""
        self.idle_since: float | None = None
        """When the consumer was given what it works on; None while it waits."""

    @property
    def place(self) -> str:
        """What the store is called in a log; the text of a foreign one may hold a password."""
        is_file = isinstance(self._store, SQLiteCheckpointStore)
        return repr(self._store) if is_file else type(self._store).__name__

    @property
    def renewal(self) -> "asyncio.Task[None] | None":
        """The task that renews it while it is held; None without standbys."""
        return self._renewal

    @property
    def progress(self) -> tuple[int, int]:
        """That of the checkpoint saved last."""
        return (0, 0) if self._saved is None else self._saved.progress

    @property
    def is_unsure(self) -> bool:
        """Whether a save has failed that may have been made."""
        return self._unsure is not None

    async def take(
        self,
        given: Checkpoint | None,
        begin: Callable[[], Awaitable[int]],
        *,
        must_exist: bool = False,
    ) -> tuple[Checkpoint, tuple[DeadLetter, ...]]:
        """Take the name over; return where to begin, and the dead letters."""
        for _ in range(_MOST_RIVALS):
            stored = await self._available()
            # A try before this one may have made the first save, and failed then or later.
            written = None if self._saved is None else self._known
            if self._unsure is not None:
                written = self._unsure.stored
            if written is None or stored != written:
                self.is_new = stored.checkpoint is None and self._past is None
            if self.is_new and must_exist:
                raise CheckpointError(
                    f"there is no checkpoint {self._name!r} in {self.place}: check the name and "
                    "the store, or poll without must_exist to begin anew"
                )
            known = None if stored.checkpoint is None else read_checkpoint(stored.checkpoint)
            takeovers = 0 if known is None else known.takeovers
            self._warn_of_older(known)
            if given is not None and (known is None or given.progress > known.progress):
                known = given
            if known is None and self._past is not None:
                since, takeovers = self._past.since, self._past.takeovers
                known = Checkpoint(since=since, reached=since, batches=self._past.batches)
            if known is None:
                second = await begin()
                known = Checkpoint(since=second, reached=second)
            takeovers = max(known.takeovers, takeovers) + 1
            mark = secrets.token_hex(_MARK_BYTES)
            taken = evolve(known, takeovers=takeovers, holder=mark, lease=None)
            self._known = stored
            try:
                await self.save(taken)
            except CheckpointConflictError:
                self.is_lost = self._is_over = self.has_vanished = False
                if self._seconds is not None:
                    self._watched = None
                    await self._clock.sleep(self._seconds / _LOOKS)
                continue
            letters = await self.letters()
            self._begin_renewing()
            return taken, letters
        raise CheckpointConflictError("other pollers keep taking over this name")

    async def check(self) -> None:
        """Raise `CheckpointConflictError` if another poller has taken over."""
        async with self._lock:
            await self._check()

    async def letters(self) -> tuple[DeadLetter, ...]:
        """Return the dead letters that the store has."""
        return await _asked(self._letters)

    async def save(self, checkpoint: Checkpoint, resolved: Sequence[str] = ()) -> None:
        """Store a checkpoint, and remove dead letters by their keys."""
        async with self._lock:
            await self._save(checkpoint, (), resolved)

    async def save_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Store dead letters, and leave the checkpoint as it is."""
        async with self._lock:
            await self._save(None, letters, ())

    @asynccontextmanager
    async def saving_with(
        self, connection: Any, checkpoint: Checkpoint, resolved: Callable[[], Sequence[str]]
    ) -> AsyncIterator[None]:
        """Store a checkpoint in the transaction in which the block writes, at its end."""
        begin = getattr(self._store, "transaction", None)
        if begin is None:
            raise invalid("checkpoints", "a store with the method transaction", self._store)
        async with AsyncExitStack() as held:
            written = None
            try:
                async with begin(connection) as store:
                    yield
                    await held.enter_async_context(self._lock)
                    held.callback(setattr, self, "_bound", None)
                    self._bound = store
                    await self._limit_silence(store)
                    written = await self._write(checkpoint, (), resolved())
            except Exception:
                late, self._late = self._late, None
                if late is not None:
                    self._confirm(late)
                    return
                # Whether the transaction was committed is unknown if its reply was lost.
                if written is not None:
                    with suppress(CheckpointError):
                        await self._check()
                if written is None or self._saved is not checkpoint:
                    raise
            else:
                self._confirm(written)

    async def _limit_silence(self, store: CheckpointStore) -> None:
        """Have a database end the transaction whose process is lost between save and commit."""
        end_when_idle = getattr(store, "end_when_idle", None)
        if end_when_idle is not None:
            seconds = _LONGEST_SILENCE if self._seconds is None else self._seconds
            await _asked(lambda: end_when_idle(seconds))

    async def release(self) -> None:
        """Give it up for good, so that a standby takes over at once."""
        self.abandon()
        if self._saved is not None and not self._is_over:
            self._is_over = True
            with suppress(IncomeClientError):
                async with self._lock:
                    await self._save(None, (), ())

    def abandon(self) -> None:
        """Renew it no more, if it was taken."""
        if self._seconds is not None and self._saved is not None:
            self.is_lost = True
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def successor(self) -> "Lease":
        """Return a lease that is not taken yet, and knows what this one has seen and saved."""
        new = Lease(self._store, self._name, self._clock, self._seconds, self._monitor)
        if self._saved is None:
            new._own, new._past = self._own, self._past
        else:
            new._own, new._past = self._known, self._saved
        new._watched, new._watched_since = self._watched, self._watched_since
        return new

    @property
    def _target(self) -> CheckpointStore:
        return self._bound or self._store

    @property
    def _last(self) -> Checkpoint:
        assert self._saved is not None  # noqa: S101 - it was taken
        return self._saved

    # Standby

    async def _available(self) -> StoredCheckpoint:
        """Return what is stored; with standbys, once no other poller holds the lease."""
        while True:
            stored = await self._load()
            is_own = stored == self._own
            if self._seconds is None or is_own or self._is_available(stored, self._seconds):
                return stored
            await self._try_rights()
            self._monitor.stands_by()
            await self._clock.sleep(self._seconds / _LOOKS)

    async def _try_rights(self) -> None:
        """Find out now whether this standby could save, and not when the leader has died."""
        check_rights = getattr(self._store, "check_rights", None)
        if check_rights is not None and not self._may_save:
            await _asked(lambda: check_rights(self._name))
        self._may_save = True

    def _is_available(self, stored: StoredCheckpoint, seconds: float) -> bool:
        if stored.checkpoint is None:
            return True
        lease = read_checkpoint(stored.checkpoint).lease
        if lease == 0:
            return True
        now = self._clock.monotonic()
        if stored != self._watched:
            self._watched, self._watched_since = stored, now
        return now - self._watched_since >= (seconds if lease is None else lease)

    def _begin_renewing(self) -> None:
        if self._seconds is None:
            return
        pause = self._seconds / _RENEWALS
        # It holds no lease while it waits, so that an abandoned poller is garbage-collected.
        renewing = _keep_renewing(weakref.ref(self), self._clock, pause)
        self._renewal = asyncio.create_task(renewing, name="income_client lease renewal")
        loop = asyncio.get_running_loop()
        weakref.finalize(self, _cancel, self._renewal, loop).atexit = False

    async def renew(self, seconds: float) -> bool:
        """Save the checkpoint again unless that was done lately; return False if it is given up."""
        now = self._clock.monotonic()
        held = 0.0 if self.idle_since is None else now - self.idle_since
        if held > self._longest_absence:
            self._renewal = None  # which this is
            _LEASE_LOGGER.warning(
                "poller %r gives its lease up, so that a standby can take over: its consumer has "
                "held a batch for %.0f s, more than ten leases of %g s",
                self._name,
                held,
                self._seconds,
                extra={"poller": self._name, "seconds": held, "lease": self._seconds},
            )
            await self.release()
            self._held = held
            return False
        async with self._lock:
            if now - self._saved_at >= seconds:
                await self._save(None, (), ())
        return True

    def note_failure(self, error: IncomeClientError) -> None:
        """Count a renewal that has failed."""
        self._monitor.renewal_failed(error)

    # The store

    async def _check(self) -> None:
        stored = await self._load()
        unsure, self._unsure = self._unsure, None
        if unsure is not None and stored == unsure.stored:
            self._confirm(unsure)
        if not self._is_known(stored):
            self._note_loss(stored)
            raise self._conflict(stored)

    def _is_known(self, stored: StoredCheckpoint) -> bool:
        """Return whether the store holds what this poller has loaded or saved last."""
        if stored == self._known or stored.version != self._known.version:
            return stored == self._known
        # A store of the user's may give back the members of the text in another order.
        texts = (stored.checkpoint, self._known.checkpoint)
        marks = {None if text is None else read_checkpoint(text).holder for text in texts}
        return None not in texts and len(marks) == 1

    def _note_loss(self, stored: StoredCheckpoint) -> None:
        self.is_lost = self._is_over = True
        self.has_vanished = stored.checkpoint is None and self._saved is not None

    def _conflict(self, stored: StoredCheckpoint) -> CheckpointConflictError:
        known = self._known.version
        reason = reason_of_conflict(stored.version, known)
        if stored.checkpoint is None:
            reason = "it is gone from the store, which was emptied or made again"
        elif self._held is not None and stored.version > known:
            reason = (
                f"this poller gave its lease up after its consumer had held a batch for "
                f"{self._held:.0f} s, and another has taken over"
            )
        return CheckpointConflictError(f"checkpoint {self._name!r}: {reason}")

    def _warn_of_older(self, stored: Checkpoint | None) -> None:
        """Warn if the store has lost what this poller has saved."""
        past = self._past
        if past is None or (stored is not None and stored.progress >= past.progress):
            return
        begins = past.since if stored is None else stored.reached
        _LEASE_LOGGER.warning(
            "the checkpoint of %r is %s: whatever was updated since %s is delivered again",
            self._name,
            "gone from the store" if stored is None else "older than what this poller has saved",
            (EPOCH + timedelta(seconds=begins)).isoformat(),
            extra={"poller": self._name, "reached": begins},
        )

    def _text_of(self, checkpoint: Checkpoint) -> str:
        lease = 0 if self.is_lost or self._is_over else self._seconds
        return checkpoint.text if lease is None else evolve(checkpoint, lease=lease).text

    async def _letters(self) -> tuple[DeadLetter, ...]:
        letters = tuple(await self._store.dead_letters(self._name))
        if not all(isinstance(letter, DeadLetter) for letter in letters):
            raise CheckpointError("the checkpoint store must return DeadLetter values")
        return letters

    async def _load(self) -> StoredCheckpoint:
        stored = await _asked(lambda: self._store.load(self._name))
        is_one = isinstance(stored, StoredCheckpoint)  # the store may be untyped code
        if not is_one:
            raise CheckpointError("the checkpoint store must return a StoredCheckpoint")
        return stored

    async def _save(
        self,
        checkpoint: Checkpoint | None,
        letters: Sequence[DeadLetter],
        resolved: Sequence[str],
    ) -> None:
        """Save a checkpoint; None for the one that the store has."""
        self._confirm(await self._write(checkpoint, letters, resolved))

    async def _write(
        self,
        checkpoint: Checkpoint | None,
        letters: Sequence[DeadLetter],
        resolved: Sequence[str],
    ) -> _Write:
        if self._unsure is not None or self._held is not None:
            await self._check()
        if checkpoint is None:  # only now is it known which save was the last
            checkpoint = self._last
        text = self._text_of(checkpoint)
        stored = StoredCheckpoint(checkpoint=text, version=self._known.version + 1)
        self._unsure = write = _Write(checkpoint, stored, self._clock.monotonic())
        try:
            version = await self._save_text(text, letters, resolved)
        except CheckpointConflictError:
            # An earlier try may have been made only after the store was asked for it.
            found = await self._load()
            if found == stored:
                if self._bound is None:
                    return write
                self._late = write  # with the rows of its transaction: this one must not be made
                raise
            self._unsure = None
            self._note_loss(found)
            raise
        if version != stored.version:
            raise CheckpointError("the checkpoint store must return the next version")
        return write

    async def _save_text(
        self, text: str, letters: Sequence[DeadLetter], resolved: Sequence[str]
    ) -> int:
        """Save over what this poller knows; raise `CheckpointConflictError` over anything else."""
        replaces = {}
        if _compares_texts(self._target):
            replaces["replaces"] = self._known.checkpoint
        elif self._saved is not None:
            found = await self._load()
            if not self._is_known(found):
                raise self._conflict(found)
        return await _asked(
            lambda: self._target.save(
                self._name,
                text,
                version=self._known.version,
                dead_letters=letters,
                resolved=resolved,
                **replaces,
            )
        )

    def _confirm(self, write: _Write) -> None:
        self._known, self._unsure = write.stored, None
        self._saved, self._saved_at = write.checkpoint, write.began
        self._monitor.failed_renewals = 0


async def _keep_renewing(lease_of: "weakref.ref[Lease]", clock: Clock, pause: float) -> None:
    while True:
        await clock.sleep(pause)
        lease = lease_of()
        if lease is None or lease.is_lost:
            return
        try:
            if not await lease.renew(pause / 2):
                return
        except CheckpointConflictError:
            return
        except IncomeClientError as error:
            name = type(error).__name__
            _LOGGER.warning("the lease was not renewed (%s)", name, extra={"error": name})
            lease.note_failure(error)
        del lease


def _compares_texts(store: CheckpointStore) -> bool:
    """Return whether the ``save`` of a store takes the text that it is to replace."""
    try:
        return "replaces" in inspect.signature(store.save).parameters
    except (TypeError, ValueError):
        return False


def _cancel(task: "asyncio.Task[None]", loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(task.cancel)


async def _asked(ask: Callable[[], Awaitable[T]]) -> T:
    """Call a store, and raise what it raises as an error of ours without its frames."""
    # The errors and frames of a database driver may hold an address with its password.
    failure: IncomeClientError
    try:
        return await ask()
    except asyncio.CancelledError as cancelled:
        cancelled.__context__ = None
        raise cancelled.with_traceback(None) from None
    except IncomeClientError as error:
        failure = error.again()
    except Exception as error:  # noqa: BLE001 - foreign code
        name = type(error).__name__
        if is_mistake(error):
            where = _places(error)
            failure = CheckpointError(f"mistake in the checkpoint store: {name}{where}")
        else:
            failure = CheckpointError(f"the checkpoint store failed: {name}", retryable=True)
    del ask
    try:
        raise failure
    finally:
        del failure


def is_mistake(error: Exception) -> bool:
    """Say whether foreign code that raised this would do it again."""
    return isinstance(error, _MISTAKES) and not isinstance(error, OSError)


def _places(error: Exception) -> str:
    """Name the lines of the store that an error passed, for its author."""
    walked = traceback.walk_tb(error.__traceback__)
    files = [(frame.f_code.co_filename, line) for frame, line in walked]
    places = [f"{Path(file).name}:{line}" for file, line in files if file != __file__]
    return f" ({' > '.join(places[-_MOST_PLACES:])})" if places else ""
