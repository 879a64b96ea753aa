"""A NATS server that is lost, refuses, or has no JetStream: clear errors, and nothing lost."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from income_client import CheckpointError, IncomeClient, Secret, StoredToken
from income_client.emulator import Emulator
from income_client.engines.nats import NatsCheckpointStore, NatsTokenStore, nats_publisher
from income_client.engines.relay import UpdateEvent, relay
from income_client.testing import JumpingClock, check_checkpoint_store
from tests.engines.test_nats import NOON
from tests.support.nats_server import NatsServer, bucket, connected, running_server

USERS = """
authorization {
  users = [
    {user: owner, password: S3CRET}
    {user: reader, password: S3CRET, permissions: {
      publish: ["$JS.API.STREAM.INFO.>", "$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>"]
      subscribe: "_INBOX.>"
    }}
    {user: leader, password: S3CRET, permissions: {
      publish: {allow: ">", deny: "$JS.API.DIRECT.GET.>"}
    }}
    {user: nobody, password: S3CRET, permissions: {publish: "x", subscribe: "_INBOX.>"}}
  ]
}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """Run a server that a test may kill."""
    yield from running_server(tmp_path)


@pytest.fixture
async def client(server: NatsServer) -> AsyncIterator[Client]:
    """Connect to it, however often it is killed."""
    async with connected(server, max_reconnect_attempts=-1) as made:
        yield made


@pytest.mark.parametrize("fatal", [0, 1, 150])
async def test_a_relay_waits_for_a_lost_server_and_loses_nothing(
    server: NatsServer, client: Client, fatal: int
) -> None:
    """At its start, among the events of a batch, and between batches."""
    patient = client.jetstream(timeout=60)
    await patient.create_key_value(bucket="lost")
    await patient.add_stream(StreamConfig(name="updates", subjects=["income.updates"]))
    # What the lost server was asked is given up soon, and asked again as often as it takes.
    hasty = client.jetstream(timeout=1)
    kv = await patient.key_value("lost")
    kv._js = hasty
    publish = nats_publisher(hasty)
    loop = asyncio.get_running_loop()
    number = 0

    def lose() -> None:
        server.kill()
        loop.call_later(0.3, server.start)

    async def count(event: UpdateEvent) -> None:
        nonlocal number
        number += 1
        if number == fatal:
            lose()
        await publish(event)

    clock = JumpingClock()
    clock.most_sleeps = None  # it retries for as long as the server takes to start
    async with (
        Emulator(300, clock=clock, time_flows=True) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as place,
    ):
        store = NatsCheckpointStore(kv)
        poller = place.poll(store, start="2020-01-01", documents=False)
        if not fatal:
            lose()
        relaying = asyncio.create_task(relay(poller, count))
        async with asyncio.timeout(60):
            # A status has no event.
            while poller.status.polls < 1 and not relaying.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        poller.stop(after_poll=True)
        await relaying
        assert number > 300 or fatal == 0
        info = await patient.stream_info("updates")
        found = [
            await patient.get_msg("updates", number + 1) for number in range(info.state.messages)
        ]
        kv._js = patient
        events = [UpdateEvent.from_json(one.data or b"") for one in found]
        assert {event.application_id for event in events} == set(service.world.ids)
        again = place.poll(store, documents=False)
        again.stop(after_poll=True)
        assert [record async for record in again] == []


async def test_a_user_without_rights_on_the_bucket_gets_an_error_that_says_so(
    tmp_path: Path,
) -> None:
    """The password is not in it, and what is stored stays as it was."""
    for server in running_server(tmp_path, USERS):
        login = {"password": "S3CRET"}
        async with connected(server, user="owner", **login) as owner:
            kv = await owner.jetstream().create_key_value(bucket="rights")
            await NatsCheckpointStore(kv).save("default", "one", version=0)
            async with connected(server, user="reader", **login) as reader:
                handle = await reader.jetstream(timeout=60).key_value("rights")
                store = NatsCheckpointStore(handle)
                assert (await store.load("default")).checkpoint == "one"
                token = StoredToken(access_token=Secret("t"), expires_at=NOON, lifetime=60)
                tokens = NatsTokenStore(handle)
                assert await tokens.load() is None
                handle._js = reader.jetstream(timeout=1)
                for failing in (
                    store.save("default", "two", version=1),
                    tokens.save(token),
                    tokens.claim(5),
                ):
                    with pytest.raises(CheckpointError, match="rights") as caught:
                        await failing
                    assert caught.value.retryable
                    assert "S3CRET" not in repr(caught.value)
            async with connected(server, user="nobody", **login) as nobody:
                handle._js = nobody.jetstream(timeout=1)
                with pytest.raises(CheckpointError, match="rights"):
                    await NatsCheckpointStore(handle).load("default")
            assert json.loads((await kv.get("checkpoint.default")).value or b"")["version"] == 1


async def test_a_bucket_that_allows_direct_reads_is_read_through_its_leader(
    tmp_path: Path,
) -> None:
    """The `nats` command makes buckets so; what a follower answers may be old."""
    for server in running_server(tmp_path, USERS):
        async with connected(server, user="leader", password="S3CRET") as client:

            async def make(client: Client = client) -> NatsCheckpointStore:
                return NatsCheckpointStore(await bucket(client, direct=True))

            await check_checkpoint_store(make)


async def test_a_server_without_jetstream_is_a_retryable_error(
    server: NatsServer, client: Client
) -> None:
    """Once it has JetStream again, all is there."""
    stream = client.jetstream(timeout=1)
    store = NatsCheckpointStore(await stream.create_key_value(bucket="off"))
    await store.save("default", "one", version=0)
    event = UpdateEvent(id="1", application_id="app-1", updated_at=NOON)
    server.kill()
    server.start(jetstream=False)
    await reconnected(client)
    with pytest.raises(CheckpointError, match="JetStream is not running") as caught:
        await store.load("default")
    assert caught.value.retryable
    with pytest.raises(nats.js.errors.Error):
        await nats_publisher(stream)(event)
    server.kill()
    server.start()
    await reconnected(client)
    assert (await store.load("default")).checkpoint == "one"


async def reconnected(client: Client) -> None:
    """Wait until a client has found its server again."""
    before = client.stats["reconnects"]
    async with asyncio.timeout(30):
        # It counts, and has no event.
        while not client.is_connected or client.stats["reconnects"] == before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("standby", [False, True])
async def test_a_bucket_that_is_made_again_under_a_poller_loses_no_update(
    client: Client, *, standby: bool
) -> None:
    """What was updated meanwhile comes, whether it was away for a moment or for some polls."""
    stream = client.jetstream()
    kv = await stream.create_key_value(bucket="again")
    clock = JumpingClock()
    clock.most_sleeps = None  # it retries for as long as the bucket is away
    async with (
        Emulator(20, clock=clock, time_flows=True) as service,
        IncomeClient(service.url, auth=service.basic, clock=clock) as place,
    ):
        ids = service.world.ids
        poller = place.poll(NatsCheckpointStore(kv), documents=False, standby=standby, lease=1e6)
        for number in range(3):
            service.touch(ids[number])
            if number:
                await stream.delete_key_value("again")
            waiting = asyncio.ensure_future(anext(poller))
            if number == 1:
                async with asyncio.timeout(60):
                    # A status has no event.
                    while not poller.status.failures:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                assert not waiting.done()
            if number:
                await stream.create_key_value(bucket="again")
            found = [await waiting]
            while found[-1].application_id != ids[number]:
                found.append(await anext(poller))
        await poller.aclose()
        stored = await NatsCheckpointStore(kv).load("default")
        assert json.loads(stored.checkpoint or "")["claims"] == 3
