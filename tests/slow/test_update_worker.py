"""The guide's worker on FastStream and a real server: killed, stopped, failing and restarted."""

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from nats.js.api import ConsumerConfig

from tests.slow.update_workers import ATTEMPTS, Figures, Letter, Play, playing
from tests.support.nats_server import NatsServer, running_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """Run a server that a test may kill."""
    (tmp_path / "nats").mkdir()
    yield from running_server(tmp_path / "nats")


@pytest.fixture
async def play(server: NatsServer, tmp_path: Path) -> AsyncIterator[Play]:
    """Make the streams of the guide."""
    async with playing(server, tmp_path) as found:
        yield found


def _many(events: int, applications: int) -> list[str]:
    return [f"ok-{number % applications}" for number in range(events)]


async def test_killed_workers_lose_nothing(play: Play) -> None:
    """A worker of three is killed ten times; each event that it had in hand comes again."""
    chance = Random(7)
    workers = [await play.start() for _ in range(3)]
    await play.publish(*_many(300, 40))
    for kill in range(10):
        await play.noted(min(300, 20 * (kill + 1)))
        slot = chance.randrange(3)
        await play.end(workers[slot], signal.SIGKILL)
        workers[slot] = await play.start()
    figures = await play.settled()
    assert (figures.handled, figures.lost, figures.dead) == (300, 0, 0)
    assert figures.twice <= 10 * 10
    with closing(sqlite3.connect(play.folder / "incomes.db")) as incomes:
        rows = incomes.execute("SELECT application_id FROM incomes").fetchall()
    assert {application_id for [application_id] in rows} == set(_many(40, 40))
    assert all(worker.returncode is None for worker in workers)


async def test_stopped_workers_end_what_they_have_begun(play: Play) -> None:
    """SIGTERM ends a worker with status 0, and nothing is handled twice."""
    play.ack_wait = 3.0
    for _ in range(4):
        worker = await play.start()
        await play.publish(*_many(50, 40))
        await play.noted(len(play.notes()) + 10, "begin")
        assert await play.end(worker) == 0
    await play.start()
    figures = await play.settled()
    assert figures == Figures(events=200, handled=200, lost=0, twice=0, dead=0)


async def test_a_stopped_worker_leaves_a_handler_that_hangs(play: Play) -> None:
    """The event comes again."""
    await play.publish("hangs-1")
    worker = await play.start()
    await play.noted(1, "begin")
    assert await play.end(worker) == 0
    await play.start()
    await play.noted(2, "begin")


async def test_a_handler_may_fail_in_every_way(play: Play) -> None:
    """Each event comes again after a pause, and ends as a dead letter; the others are handled."""
    failing = {
        "fails-1": ("failed", "KeyError"),
        "group-1": ("failed", "ExceptionGroup"),
        "cancels-1": ("failed", "CancelledError"),
        "hangs-1": ("failed", "TimeoutError"),
        "odd-1": ("failed", "_OddError"),
        "gone-1": ("deleted", "NotFoundError"),
        "unread-1": ("unreadable", "DecodeError"),
    }
    worker = await play.start()
    await play.publish(*failing, "once-1", *_many(50, 10))
    figures = await play.settled()
    assert figures == Figures(events=58, handled=51, lost=0, twice=0, dead=7)
    bodies = {event.application_id: event.to_json() for event in play.published}
    expected = [Letter(bodies[name], *why) for name, why in failing.items()]
    assert sorted(await play.letters(), key=repr) == sorted(expected, key=repr)
    tries = [note.application_id for note in play.notes("begin")]
    for name, (reason, _) in failing.items():
        assert tries.count(name) == (ATTEMPTS if reason == "failed" else 1)
    assert worker.returncode is None


@pytest.mark.parametrize("kind", ["dies", "exits"])
async def test_an_event_that_ends_its_process_becomes_a_dead_letter(play: Play, kind: str) -> None:
    """After as many processes as there are attempts; those in hand with it are not lost either."""
    await play.publish(f"{kind}-1", *_many(20, 20))
    for _ in range(ATTEMPTS):
        worker = await play.start(until="ready")  # it may end amid its start
        async with asyncio.timeout(60):
            await worker.wait()
    await play.start()
    figures = await play.settled()
    assert (figures.handled + figures.dead, figures.lost, figures.twice) == (21, 0, 0)
    letters = await play.letters()
    assert {(letter.reason, letter.error) for letter in letters} == {("failed", "Unfinished")}
    assert play.published[0].to_json() in {letter.body for letter in letters}
    tries = [note.application_id for note in play.notes("begin")]
    assert tries.count(f"{kind}-1") == ATTEMPTS


async def test_a_killed_server_loses_nothing(play: Play) -> None:
    """NATS is killed four times while events are published and handled."""
    workers = [await play.start() for _ in range(2)]
    publishing = asyncio.create_task(play.publish(*_many(300, 40)))
    for kill in range(4):
        await play.noted(40 * (kill + 1))
        await asyncio.to_thread(play.server.kill)
        await asyncio.to_thread(play.server.start)
    await publishing
    figures = await play.settled()
    assert (figures.handled, figures.lost, figures.dead) == (300, 0, 0)
    assert all(worker.returncode is None for worker in workers)


async def test_three_workers_share_the_events(play: Play) -> None:
    """Each event is handled by one of them, and of an application one at a time in a worker."""
    play.ack_wait = 30.0
    workers = [await play.start() for _ in range(3)]
    await play.publish(*_many(300, 5))
    figures = await play.settled()
    assert figures == Figures(events=300, handled=300, lost=0, twice=0, dead=0)
    assert {note.process for note in play.notes()} == {worker.pid for worker in workers}
    turns: dict[tuple[int, str], list[str]] = {}
    for note in play.notes("begin", "end"):
        turns.setdefault((note.process, note.application_id), []).append(note.word)
    for words in turns.values():
        assert words == ["begin", "end"] * (len(words) // 2)


async def test_a_handler_may_take_longer_than_ack_wait(play: Play) -> None:
    """Meanwhile no other worker gets its event, nor one that waits for a free place."""
    for _ in range(2):
        await play.start()
    await play.publish("slow-1", "slow-1", *(f"slow-{number}" for number in range(2, 40)))
    figures = await play.settled()
    assert figures == Figures(events=40, handled=40, lost=0, twice=0, dead=0)
    assert len(play.notes("begin")) == 40


async def test_foreign_messages_become_dead_letters(play: Play) -> None:
    """The messages hold any bytes, of any length."""
    largest = b"x" * play.client.max_payload
    rest = b'", "application_id": "ok-1", "updated_at": "2026-06-30T12:00:00Z"}'
    foreign = [
        (b"not JSON", {"content-type": "application/json"}),
        (b"\xff\xfe", {"content-type": "text/plain"}),
        (b"", {"reply_to": "income.updates"}),
        (b'{"id": "1"}', None),
        (b'{"id": "' + b"i" * 1_000 + rest, None),
        (b'{"id": "' + rest, None),
        (largest, None),
    ]
    for body, headers in foreign:
        await play.send(body, headers)
    await play.publish("ok-1")
    await play.start()
    await play.settled()
    letters = await play.letters()
    assert {(one.reason, one.error) for one in letters} == {("unreadable", "DecodeError")}
    assert [len(one.body) for one in letters if one.body[:1] == b"x"] == [len(largest) - 1_000]
    small = [body for body, _ in foreign if body != largest]
    assert sorted(one.body for one in letters if one.body[:1] != b"x") == sorted(small)
    assert len(play.notes()) == 1


async def test_an_event_that_comes_twice_is_handled_once(play: Play) -> None:
    """Also where the stream has not dropped it."""
    await play.start()
    await play.publish("ok-1")
    await play.noted(1)
    await play.send(play.published[0].to_json())
    figures = await play.settled()
    assert figures == Figures(events=1, handled=1, lost=0, twice=0, dead=0)


async def test_without_a_stream_of_dead_letters_events_wait(play: Play) -> None:
    """Failed events become dead letters once the stream exists again."""
    await play.start()
    await play.publish("ok-1")
    await play.noted(1)
    await play.streams.delete_stream("DEAD")
    await play.publish("fails-1", "ok-2")
    await play.noted(2 + ATTEMPTS, "begin")
    await play.noted(2)
    await play.streams.add_stream(name="DEAD", subjects=["income.dead.>"])
    figures = await play.settled()
    assert figures == Figures(events=3, handled=2, lost=0, twice=0, dead=1)


async def test_the_consumer_of_an_earlier_worker_is_taken_over(play: Play) -> None:
    """The server would have given up after nine deliveries, and kept no dead letter."""
    earlier = ConsumerConfig(
        durable_name="incomes",
        filter_subject="income.updates",
        ack_wait=120,
        max_deliver=9,
        max_ack_pending=100,
    )
    await play.streams.add_consumer("UPDATES", earlier)
    await play.publish(*_many(10, 10))
    await play.start()
    figures = await play.settled()
    assert figures == Figures(events=10, handled=10, lost=0, twice=0, dead=0)
    found = (await play.streams.consumer_info("UPDATES", "incomes")).config
    assert (found.max_deliver, found.max_ack_pending) == (-1, 100)


async def test_a_worker_that_starts_before_its_server_waits_for_it(play: Play) -> None:
    """The worker then handles events that were published earlier."""
    await play.publish("ok-1")
    await asyncio.to_thread(play.server.kill)
    worker = await play.start(until="ready")
    await asyncio.to_thread(play.server.start)
    await play.noted(1)
    await play.noted(1, "started")
    assert worker.returncode is None
    assert await play.end(worker) == 0


async def test_a_worker_that_is_stopped_amid_its_start_ends(play: Play) -> None:
    """The last subscribers start while the broker already closes the connection."""
    play.concurrency = 300
    await play.publish("ok-1")
    worker = await play.start(until="ready")
    await play.noted(1)
    assert not play.notes("started")
    assert await play.end(worker) in {0, 1}
