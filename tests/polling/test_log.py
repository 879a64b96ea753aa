"""The log of a poller: failures with their reason, their number and the next try; and their end."""

import asyncio
import logging
import re

import pytest

from income_client import IncomeClient, MemoryCheckpointStore
from income_client.emulator import Emulator
from tests.support.clocks import pass_time
from tests.support.polling import LEASE, FailingStore, Scene, cluster, leader_and_standby, rest
from tests.support.service import until

READ_SECONDS = 31.0
"""Seconds after which a request without an answer has failed."""


@pytest.fixture(autouse=True)
def _shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "income_client")


def lines_of(caplog: pytest.LogCaptureFixture, *, level: int = logging.WARNING) -> list[str]:
    """Return the lines about pollers; each names its poller, in the text and as a field."""
    lines = [line for line in caplog.records if line.name.startswith("income_client.poller")]
    for line in lines:
        assert "'default'" in line.getMessage()
        assert "default" in (vars(line).get("poller"), vars(line).get("checkpoint"))
    return [line.getMessage() for line in lines if line.levelno >= level]


def pattern_of(text: str) -> str:
    """Return a pattern for a text with ``#`` in place of numbers, and ``*`` of anything."""
    return re.escape(text).replace(r"\#", r"[\d.]+").replace(r"\*", ".*")


async def test_a_failing_service_is_logged_from_the_first_failure_to_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A line has the reason, the failures in a row, since when, the next try and the lag."""
    async with cluster() as made:
        leader = await made.started(2, interval=2.0)
        made.place.service.faults.add("list_applications: 500 x9")
        await made.pass_time(60)
        assert leader.poller.status.failures == 0
    first, *later, last = [line for line in lines_of(caplog) if "renewed" not in line]
    failed = "poller 'default': polling failed (ServerError: list_applications: 500 *): "
    assert re.fullmatch(
        pattern_of(f"{failed}the first failure, next try in # s, # s behind"), first
    )
    for line in later:
        assert re.fullmatch(
            pattern_of(f"{failed}failure # in # s, next try in # s, # s behind"), line
        )
    works = "poller 'default' works again after # failures in # s, # s behind"
    assert re.fullmatch(pattern_of(works), last)


async def test_an_error_that_ends_the_poller_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster() as made:
        made.place.service.faults.add("list_applications: 401 x9")
        replica = await made.started(2)
        assert replica.task is not None
        replica.task.exception()
    (line,) = lines_of(caplog)
    assert line.endswith(": the first failure, ends the poller")


async def test_a_lease_that_is_not_renewed_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """Later failures are warnings ever less often, and the next renewal that succeeds is one."""
    async with cluster(store := FailingStore()) as made:
        leader = await made.started(2, interval=3600.0)
        store.failures = 7
        await made.pass_time(int(3 * LEASE))
        assert leader.poller.status.failures == 0
    not_renewed = (
        "poller 'default': the lease was not renewed (CheckpointError: the store is locked)"
    )
    shown = [line for line in lines_of(caplog) if "renewed" in line]
    assert shown == [
        f"{not_renewed}: the first failure, next try in 5 s",
        f"{not_renewed}: failure 2 in 5 s, next try in 5 s",
        f"{not_renewed}: failure 4 in 15 s, next try in 5 s",
        "poller 'default': the lease is renewed again, after 35 s",
    ]


async def test_a_standby_says_that_its_store_answers_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with cluster(store := FailingStore()) as made:
        await leader_and_standby(made)
        store.failing_loads = 2
        await made.pass_time(6)
    *_, last = lines_of(caplog)
    assert re.fullmatch(
        pattern_of("poller 'default' stands by again after # failure* in # s"), last
    )


async def test_a_service_that_hangs_is_reported_after_one_read_timeout(
    place: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Not only when the call fails at its deadline, several requests later."""
    place.service.faults.add("list_applications: stall x1")
    poller = place.poll()
    polling = asyncio.create_task(rest(poller))
    await until(lambda: place.requests("list_applications") == 1)
    pass_time(READ_SECONDS)
    await until(lambda: poller.status.failures == 1)
    assert "nothing came for too long" in str(poller.status.last_error)
    await polling
    no_answer, works = lines_of(caplog)
    reason = "no answer (DeadlineExceededError: list_applications: nothing came for too long)"
    assert no_answer.startswith(f"poller 'default': {reason}: the first failure, sent again")
    assert works.startswith("poller 'default' works again after 1 failure in ")
    assert poller.status.failures == 0


async def test_a_token_endpoint_that_hangs_is_reported_after_one_read_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It has no poller's name, since all pollers of a client share the token."""
    async with Emulator(1) as service, IncomeClient(service.url, auth=service.oauth2) as client:
        service.faults.add("token: stall x1")
        polling = asyncio.create_task(rest(client.poll(MemoryCheckpointStore(), documents=False)))
        await until(lambda: [request.name for request in service.requests] == ["token"])
        pass_time(READ_SECONDS)
        await polling
    (line,) = [line for line in caplog.records if line.levelno == logging.WARNING]
    reason = "DeadlineExceededError: token: nothing came for too long"
    assert line.getMessage() == f"the token endpoint: no answer ({reason}), sent again"


async def test_many_new_dead_letters_are_few_warnings(
    place: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten are warnings, one more counts the others, which are at INFO."""
    bad = place.touch(*range(15))
    place.touch(*range(15, 20))
    place.spoil(*bad, status=404)
    place.service.advance(10)
    await rest(place.poll())
    *shown, more = lines_of(caplog)
    assert len(shown) == 10
    assert more == "poller 'default': 5 more became dead letters"
    became = [line for line in lines_of(caplog, level=logging.INFO) if "became a dead" in line]
    assert len(became) == len(bad)


async def test_failures_end_once_what_was_polled_is_stored() -> None:
    """And not an interval later, at the end of the next poll."""
    async with cluster(store := FailingStore()) as made:
        leader, _ = await leader_and_standby(made, interval=3600.0)
        made.place.service.advance(30)
        store.failures = 2
        leader.poller.wake()
        await made.pass_time(1)
        assert leader.poller.status.failures
        await made.pass_time(6)
        assert leader.poller.status.failures == 0
