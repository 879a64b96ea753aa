"""Failures in the middle of a walk: passing ones go unnoticed, lasting ones lose nothing."""

import asyncio
from typing import Any

import pytest

from income_client import (
    AuthenticationError,
    ConfigurationError,
    IncomeClient,
    InvalidRequestError,
    PermissionDeniedError,
    RetryPolicy,
    ServerError,
    Timeouts,
)
from income_client.emulator import Emulator, Fault
from income_client.protocol.timestamps import wire_time
from income_client.testing import JumpingClock
from tests.support.service import NOW, client_tasks, ids_of, served, until

PASSING = {
    "throttled": Fault("status", status=429, headers={"Retry-After": "2"}, skip=4, times=3),
    "unavailable": Fault("status", status=503, skip=4, times=2),
    "reset": Fault("reset", skip=4, times=2),
    "drop": Fault("drop", skip=4, times=2),
    "cut": Fault("cut", skip=4, times=2),
    "cut to nothing": Fault("cut", keep=0, skip=4, times=2),
    "garbage": Fault("garbage", skip=4, times=2),
    "half of the JSON": Fault("body", body=b'{"updated_after": "2026', skip=4, times=2),
    "trickle": Fault("trickle", interval=0.000001, skip=4, times=2),
    "stall": Fault("stall", skip=4, times=2),
    "token refused": Fault("status", status=401, skip=4, times=1),
}


async def walked(service: Emulator, *, before: str | None = None, limit: int = 20) -> list[str]:
    """Walk in a client that waits for no time at all."""
    clock = JumpingClock()
    timeouts = Timeouts(read=0.05)
    async with IncomeClient(
        service.url, auth=service.oauth2, clock=clock, timeouts=timeouts
    ) as client:
        return await ids_of(client.list_applications(updated_before=before, limit=limit))


@pytest.mark.parametrize("fault", PASSING)
async def test_a_passing_failure_goes_unnoticed(fault: str) -> None:
    """A walk through a failure that a retry survives gives every row once."""
    async with served(200) as (service, _):
        service.faults.add(PASSING[fault])
        found = await walked(service)
        assert len(service.faults) == 0
    assert sorted(found) == sorted(service.world.ids)


@pytest.mark.parametrize("before", [None, wire_time(NOW)])
async def test_a_service_that_refuses_everything_is_an_error(before: str | None) -> None:
    """400 on every list call comes out, and ends in no loop."""
    async with served(200) as (service, _):
        service.faults.add(Fault("status", status=400, path="/v1/*", times=None))
        with pytest.raises(InvalidRequestError) as caught:
            await walked(service, before=before)
        assert caught.value.request_id is not None
        assert len(service.requests) < 10


@pytest.mark.parametrize("number", range(0, 12, 2))
async def test_one_refused_request_is_an_error_or_has_another_way(number: int) -> None:
    """A single 400 anywhere in an open walk either comes out, or every row does."""
    async with served(60) as (service, _):
        service.faults.add(Fault("status", status=400, path="/v1/*", skip=number))
        try:
            found = await walked(service, limit=8)
        except InvalidRequestError:
            return
    assert sorted(found) == sorted(service.world.ids)


async def test_credentials_refused_for_ever_are_an_error() -> None:
    """401 on every call is raised after the token was renewed once."""
    async with served(200) as (service, client):
        service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
        with pytest.raises(AuthenticationError):
            await ids_of(client.list_applications(concurrency=1))
        assert service.token_requests == 2


@pytest.mark.parametrize("before", [None, wire_time(NOW)])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_failed_walk_goes_on_when_iterated_again(
    concurrency: int, before: str | None
) -> None:
    """Whichever request fails for good, iterating again gives the rest, each row once."""
    options: dict[str, Any] = {"updated_before": before, "concurrency": concurrency}
    async with served(60) as (service, client):
        for number in range(40):
            service.faults.clear()
            service.faults.add(Fault("status", status=403, path="/v1/*", skip=number))
            walk = client.list_applications(limit=8, **options)
            found: list[str] = []
            errors = 0
            while True:
                try:
                    async for row in walk:
                        found.append(row.application_id)  # noqa: PERF401 - kept although it raises
                    break
                except PermissionDeniedError:
                    errors += 1
            assert errors == 1 - len(service.faults)
            assert sorted(found) == sorted(service.world.ids)


async def test_an_error_carries_its_facts_out_of_a_walk() -> None:
    """Status, attempts and request id of the request that failed are on the error."""
    async with served(200) as (service, client):
        service.faults.add(Fault("status", status=500, path="/v1/*", skip=3, times=None))
        view = client.with_options(retry=RetryPolicy(max_attempts=2))
        with pytest.raises(ServerError) as caught:
            await ids_of(view.list_applications(limit=20))
        error = caught.value
    assert (error.status, error.attempts, error.retryable) == (500, 2, True)
    assert error.request_id is not None
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": 1001},
        {"limit": True},
        {"limit": "10"},
        {"limit": None},
        {"limit": 10.0},
        {"concurrency": 0},
        {"concurrency": True},
        {"concurrency": 2.0},
        {"on_saturated": "ignore"},
        {"updated_after": "2026-06-02", "updated_before": "2026-06-01"},
        {"updated_after": "yesterday"},
        {"updated_after": "2026-02-30"},
        {"updated_after": "2026-06-01T25:00:00"},
        {"updated_after": ""},
        {"updated_before": 1_750_000_000},
        {"updated_before": b"2026-06-01"},
        {"updated_before": "0000-01-01"},
    ],
)
async def test_a_wrong_argument_is_refused_before_anything_is_sent(wrong: dict[str, Any]) -> None:
    """An argument that cannot be meant is an error of the call itself."""
    async with served(3) as (service, client):
        with pytest.raises(ConfigurationError):
            client.list_applications(**wrong)
    assert service.requests == []


class HesitantClock(JumpingClock):
    """A clock that jumps, except over its first pause, which never ends."""

    async def sleep(self, seconds: float) -> None:
        """Wait for ever the first time."""
        if not self.slept:
            self.slept.append(seconds)
            await asyncio.get_running_loop().create_future()
        await super().sleep(seconds)


async def test_a_pause_that_was_cut_short_is_made_again() -> None:
    """A walk that waits for the service's next second waits anew after a cancellation."""
    clock = HesitantClock()
    knobs: dict[str, Any] = {"future": "clamp", "time_flows": False}
    async with served(20, clock=clock, **knobs) as (service, client):
        walk = client.list_applications()
        found: list[str] = []

        async def go_on() -> None:
            async for row in walk:
                found.append(row.application_id)  # noqa: PERF401 - kept when cancelled

        task = asyncio.create_task(go_on())
        await until(lambda: len(clock.slept) == 1)
        asked = len(service.requests)
        task.cancel()
        await asyncio.wait([task])
        assert client_tasks() == set()
        await go_on()
        assert sorted(found) == sorted(service.world.ids)
        assert clock.slept[0] == clock.slept[1] == 1.0
        assert len(clock.slept) - 1 == len(service.requests) - asked
