"""Nothing private is kept of what a poller reads: not in its store, its status or its logs."""

import io
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from income_client import IncomeClientError, SQLiteCheckpointStore, to_json
from income_client.emulator import Emulator, Fault
from tests.support.leaks import held_by
from tests.support.poison import BROKEN_APPLICATIONS, CANARY, TRACES, broken, poisoned
from tests.support.polling import Scene, rest, scene, take


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """Log all there is at DEBUG, attributes included."""
    caplog.set_level(logging.DEBUG)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    yield lambda: stream.getvalue() + "".join(repr(vars(line)) for line in caplog.records)
    logging.getLogger().removeHandler(handler)


def kept_in(folder: Path) -> str:
    """Return every byte of every file."""
    return "".join(path.read_bytes().decode("latin-1") for path in sorted(folder.iterdir()))


def assert_clean(*texts: str) -> None:
    """No canary sings."""
    for text in texts:
        assert not [trace for trace in TRACES if trace in text]


async def body_of(place: Scene, number: int) -> bytes:
    """Return an application whose private values are all canaries."""
    application = await place.client.get_application(place.ids[number])
    return json.dumps(poisoned(json.loads(to_json(application)))).encode()


def path_of(service: Emulator, number: int) -> str:
    """Return the path of an application."""
    return f"/v1/income/applications/{service.world.ids[number]}"


async def test_what_is_delivered_leaves_no_trace(tmp_path: Path, logged: Callable[[], str]) -> None:
    """The store holds digests and times; neither a name nor an amount nor an address."""
    async with scene() as place:
        place.store = SQLiteCheckpointStore(tmp_path / "polls.db")
        body = await body_of(place, 1)
        place.service.faults.add(Fault("body", body=body, path=path_of(place.service, 1)))
        place.touch(1, 2)
        poller = place.poll()
        place.service.advance(3)
        batch = await take(poller)
        assert CANARY in str([to_json(record) for record in batch])
        assert_clean(batch.checkpoint, repr(batch), repr(batch.records), repr(poller.status))
        await batch.commit()
        assert_clean(kept_in(tmp_path), logged())


@pytest.mark.parametrize("name", BROKEN_APPLICATIONS)
async def test_a_dead_letter_leaves_no_trace(
    name: str, tmp_path: Path, logged: Callable[[], str]
) -> None:
    """Its reason names paths and kinds, and shows no value."""
    async with scene() as place:
        place.store = SQLiteCheckpointStore(tmp_path / "polls.db")
        body = broken(json.loads(await body_of(place, 1)), BROKEN_APPLICATIONS[name])
        fault = Fault("body", body=body, path=path_of(place.service, 1), times=None)
        place.service.faults.add(fault)
        (one,) = place.touch(1)
        place.service.advance(3)
        poller = place.poll()
        await rest(poller)
        (letter,) = await place.store.dead_letters("default")
        assert letter.application_id == one
        assert letter.reason.startswith("DecodeError: ")
        assert_clean(kept_in(tmp_path), logged(), repr(letter), repr(poller.status))


async def spoil(place: Scene) -> None:
    """Have one application hold canaries at first, and the service refuse whatever else."""
    body = broken(json.loads(await body_of(place, 1)), BROKEN_APPLICATIONS["pay is a text"])
    place.service.faults.add(
        Fault("body", body=body, path=path_of(place.service, 1)),
        Fault("status", status=401, path="/v1/income/applications/*", times=None),
    )
    place.touch(1, 2)
    place.service.advance(3)


async def test_an_error_that_ends_it_holds_nothing(logged: Callable[[], str]) -> None:
    """Neither its frames nor what they can reach show what was being read."""
    async with scene() as place:
        await spoil(place)
        poller = place.poll()
        shown = ""
        try:
            await rest(poller)
        except IncomeClientError as error:
            report = traceback.TracebackException.from_exception(error, capture_locals=True)
            shown = "".join(report.format()) + held_by(error)
        assert "AuthenticationError" in shown
        assert_clean(shown, logged(), repr(poller.status), repr(vars(poller)))
