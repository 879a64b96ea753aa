"""Rules of every store, and a poller's behaviour with a store of somebody else."""

import asyncio
import itertools
import sqlite3
import ssl
import traceback
from collections.abc import Callable
from datetime import UTC
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    CheckpointStore,
    ConfigurationError,
    DeadLetter,
    MemoryCheckpointStore,
    SQLiteCheckpointStore,
    StoredCheckpoint,
)
from income_client.testing import check_checkpoint_store
from tests.support.canaries import CANARY, held_by, texts_of
from tests.support.disk import letter
from tests.support.polling import first, scene, take


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], CheckpointStore]:
    """Return what makes an empty store of either kind."""
    numbers = itertools.count()
    if request.param == "memory":
        return MemoryCheckpointStore
    return lambda: SQLiteCheckpointStore(tmp_path / f"{next(numbers)}.db")


@pytest.fixture
def store(make_store: Callable[[], CheckpointStore]) -> CheckpointStore:
    return make_store()


async def test_the_rules_of_a_store_are_kept(
    make_store: Callable[[], CheckpointStore],
) -> None:
    """The package's own stores do what is asked of everybody's."""
    await check_checkpoint_store(make_store)


UNSHOWN = "a text that errors leave out"


async def test_a_conflict_says_which_version_is_stored(store: CheckpointStore) -> None:
    """And shows neither text."""
    stored = StoredCheckpoint(checkpoint=f"{UNSHOWN} one", version=1)
    await store.save("default", f"{UNSHOWN} one", version=0)
    for version, said in ((2, "at version 1, not at 2"), (2**70, "at version 1, not at")):
        with pytest.raises(CheckpointConflictError, match=said) as caught:
            await store.save("default", f"{UNSHOWN} two", version=version)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert UNSHOWN not in texts_of(caught.value)
    assert await store.load("default") == stored
    assert UNSHOWN not in repr(stored)


async def test_attempts_are_dated_to_the_second(store: CheckpointStore) -> None:
    """Fractions of a second are dropped, since service time has none."""
    moment = letter(1).first_tried_at
    fine = evolve(letter(1), first_tried_at=moment.replace(microsecond=999_999))
    await store.save("default", "one", version=0, dead_letters=[fine])
    assert await store.dead_letters("default") == (letter(1),)


ZONED = evolve(letter(1), last_tried_at=letter(1).last_tried_at.replace(tzinfo=UTC))
# fmt: off
WRONG: dict[tuple[str, str], list[Any]] = {
    ("save", "name"):         ["", 5, "a\0b"],
    ("save", "checkpoint"):   [None, f"{UNSHOWN}\ud800", f"{UNSHOWN}\0"],
    ("save", "version"):      [-1, True, "0"],
    ("save", "dead_letters"): [
        [ZONED], ["application:app-1"], [evolve(letter(1), attempts=True)],
        [evolve(letter(1), attempts=2**63)], [evolve(letter(1), reason="\udc80")],
    ],
    ("save", "resolved"):     ["application:app-1", [5]],
    ("forget", "name"):       ["", 5],
    ("forget", "keys"):       ["application:app-1", [5], ["a\0"], 5, None],
    ("load", "name"):         ["", None, "\ud800"],
    ("dead_letters", "name"): ["", None, "\ud800"],
}
# fmt: on
USUAL: dict[str, dict[str, Any]] = {
    "save": {"checkpoint": "two", "version": 1},
    "forget": {"keys": []},
}


@pytest.mark.parametrize(("call", "argument"), WRONG)
async def test_wrong_arguments_are_refused(
    store: CheckpointStore, call: str, argument: str
) -> None:
    """A lone key is no list of keys; nothing is stored, and nothing is removed."""
    await store.save("default", "one", version=0, dead_letters=[letter(1)])
    for value in WRONG[call, argument]:
        arguments = {"name": "default"} | USUAL.get(call, {}) | {argument: value}
        with pytest.raises(ConfigurationError) as caught:
            await getattr(store, call)(**arguments)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert UNSHOWN not in texts_of(caught.value)
    assert await store.load("default") == StoredCheckpoint(checkpoint="one", version=1)
    assert await store.dead_letters("default") == (letter(1),)


# Stores of somebody else: what they raise shows nothing of them, and only mistakes are final

DSN: Final = f"postgresql://lender:{CANARY}@db/checkpoints"
CALLS: Final = ("load", "save", "dead_letters")


class DriverError(Exception):
    """An error of a database driver, whose message contains the address."""


class Driver(MemoryCheckpointStore):
    """A store whose calls fail as was asked for, in frames and by errors that hold its address."""

    def __init__(self, failing: str, error: BaseException, times: int | None = None) -> None:
        super().__init__()
        self.dsn = DSN
        self.failing, self.error, self.times = failing, error, times

    def __repr__(self) -> str:
        return f"Driver({self.dsn})"

    async def load(self, name: str) -> StoredCheckpoint:
        await self.fail("load")
        return await super().load(name)

    async def save(self, name: str, checkpoint: str, **changes: Any) -> int:
        await self.fail("save")
        return await super().save(name, checkpoint, **changes)

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        await self.fail("dead_letters")
        return await super().dead_letters(name)

    async def fail(self, call: str) -> None:
        """Raise the error from another one, as a driver does."""
        if call != self.failing or self.times == 0:
            return
        self.times = None if self.times is None else self.times - 1
        try:
            await self.connect(self.dsn)
        except DriverError as cause:
            if isinstance(self.error, asyncio.CancelledError):
                raise self.error  # noqa: B904 - a context is what is tested
            raise self.error from cause

    async def connect(self, address: str) -> None:
        raise DriverError(address)


def check_shows_nothing(error: BaseException) -> None:
    """See that an error has no cause, no context and none of the store's frames."""
    assert (error.__cause__, error.__context__) == (None, None)
    assert CANARY not in held_by(error)
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = {code.co_name for code in codes if code.co_filename == __file__}
    assert not names & {"fail", "connect", *CALLS}


FINAL: Final = (
    *(AttributeError, KeyError, ValueError, NotImplementedError),
    *(CheckpointError, CheckpointConflictError),
)
PASSING: Final = (
    *(DriverError, TimeoutError, ConnectionResetError, ssl.SSLCertVerificationError),
    *(sqlite3.OperationalError, CheckpointError),
)


@pytest.mark.parametrize(("kind", "call"), [*zip(FINAL, cycle(CALLS), strict=False)])
async def test_a_mistake_in_a_store_ends_the_poller_and_shows_nothing(
    kind: type[Exception], call: str
) -> None:
    """The error has the class of the mistake and its lines, for the author of the store."""
    is_own = issubclass(kind, CheckpointError)
    async with scene() as place:
        place.store = Driver(call, kind("damaged" if is_own else DSN))
        with pytest.raises(CheckpointError) as caught:
            await first(place.poll(), 1)
    check_shows_nothing(caught.value)
    assert not caught.value.retryable
    if not is_own:
        assert "mistake" in caught.value.message
        assert kind.__name__ in caught.value.message
        assert f"{Path(__file__).name}:" in caught.value.message


@pytest.mark.parametrize(("kind", "call"), [*zip(PASSING, cycle(CALLS), strict=False)])
async def test_a_passing_failure_of_a_store_is_retried(kind: type[Exception], call: str) -> None:
    """Until the store is back; the status shows the failure, and nothing of the store."""
    own = CheckpointError("locked", retryable=True)
    async with scene() as place:
        place.store = store = Driver(call, own if kind is CheckpointError else kind(DSN), times=5)
        place.touch(1)
        place.service.advance(10)
        poller = place.poll()
        assert len(await first(poller, 1)) == 1
        assert store.times == 0
        error = poller.status.last_error
        assert isinstance(error, CheckpointError)
        check_shows_nothing(error)
        assert error.retryable


async def test_what_ends_a_call_of_a_store_shows_nothing_of_it() -> None:
    """A driver may be ended while it handles an error; a stopped poller raises a passing one."""
    async with scene() as place:
        place.store = store = Driver("", DriverError(DSN))
        place.touch(1)
        place.service.advance(10)
        poller = place.poll()
        batch = await take(poller)
        store.failing = "save"
        poller.stop()
        with pytest.raises(CheckpointError) as caught:
            await batch.commit()
        check_shows_nothing(caught.value)
        place.store = Driver("load", asyncio.CancelledError())
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await first(place.poll(), 1)
        check_shows_nothing(cancelled.value)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        *(("load", None), ("load", ("text",))),
        *(("dead_letters", 7), ("dead_letters", [{"application_id": "app-1"}])),
        *(("save", None), ("save", 7)),
    ],
)
async def test_what_is_not_what_a_store_gives_is_an_error_of_the_tree(
    call: str, given: object
) -> None:
    """A store that returns rows, or nothing, is found out at its first call."""

    async def gives(*_: object, **__: object) -> object:
        return given

    async with scene() as place:
        store = MemoryCheckpointStore()
        setattr(store, call, gives)
        with pytest.raises(CheckpointError):
            await first(place.client.poll(store), 1)
