"""Bells of stores on real servers: any process wakes the poller that works."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from income_client import CheckpointStore, IncomeClient
from income_client.engines.nats import NatsCheckpointStore
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.system.clock import SystemClock
from tests.support.nats_server import bucket, connected
from tests.support.polling import NOW_TEXT, scene
from tests.support.postgres import PostgresServer

PATIENCE: Final = 150


pytestmark = pytest.mark.usefixtures("fast_loop")


@contextlib.asynccontextmanager
async def store_of(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[CheckpointStore]:
    if kind == "nats":
        async with connected(request.getfixturevalue("nats_server")) as client:
            yield NatsCheckpointStore(await bucket(client))
        return
    async with request.getfixturevalue("postgres").pool() as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        yield store


@pytest.mark.parametrize("kind", ["nats", "postgres"])
async def test_a_standby_wakes_the_poller_that_works(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Though the interval is an hour; the clocks are those of the machine."""
    async with (
        scene(clock=SystemClock()) as place,
        IncomeClient(place.service.url, auth=place.service.basic) as client,
        store_of(kind, request) as store,
    ):
        options: dict[str, Any] = {"start": NOW_TEXT, "documents": False}
        options |= {"interval": 3600, "standby": True}
        leader = place.client.poll(store, **options)
        standby = client.poll(store, **options)
        (first,) = place.touch(0)
        leader.wake()
        async with asyncio.timeout(PATIENCE):
            assert (await anext(leader)).application_id == first
            waiting = asyncio.create_task(anext(standby, None))
            reading = asyncio.create_task(anext(leader))
            (updated,) = place.touch(1)
            assert standby.wake()
            assert (await reading).application_id == updated
            await leader.aclose()
            await standby.aclose()
            await waiting


async def test_tables_of_an_earlier_version_have_no_bell(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The poller works all the same, and one warning says what makes the table."""
    async with scene() as place, postgres.pool() as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        await pool.execute("DROP TABLE income_rings")
        poller = place.client.poll(store, start=NOW_TEXT, documents=False)
        place.touch(0, 1)
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                await anext(poller)
            await poller.aclose()
        (said,) = [one.message for one in caplog.records if one.name.endswith(".bell")]
        assert "wake-ups of other processes do not arrive" in said
        assert "create_schema" in said
