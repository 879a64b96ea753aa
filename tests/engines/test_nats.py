"""Stores and events on a real NATS server."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    DeadLetter,
    IncomeClientError,
    Secret,
    StoredToken,
    Window,
)
from income_client.engines.nats import NatsCheckpointStore, NatsTokenStore, nats_publisher
from income_client.engines.relay import UpdateEvent, relay
from income_client.testing import check_checkpoint_store
from tests.support.nats_server import NatsServer, bucket, connected
from tests.support.polling import first, ids_of, scene

NOON = datetime(2026, 6, 30, 12, tzinfo=UTC)


@pytest.fixture
async def client(nats_server: NatsServer) -> AsyncIterator[Client]:
    """Connect to the server."""
    async with connected(nats_server) as made:
        yield made


@pytest.mark.parametrize("history", [1, 5])
async def test_a_bucket_is_a_checkpoint_store(client: Client, history: int) -> None:
    """It keeps every rule, whatever its history."""

    async def make() -> NatsCheckpointStore:
        return NatsCheckpointStore(await bucket(client, history=history))

    await check_checkpoint_store(make)


@pytest.mark.parametrize("name", ["default", "a b.c", "Größe > *", "=", "..", "x" * 200])
async def test_every_name_has_a_key_of_its_own(client: Client, name: str) -> None:
    """Whatever its characters."""
    store = NatsCheckpointStore(await bucket(client))
    await store.save(name, "one", version=0)
    assert (await store.load(name)).checkpoint == "one"
    assert (await store.load(name + "=")).version == 0


async def test_a_poller_resumes_from_a_bucket(client: Client) -> None:
    """The next one begins where the first was."""
    store = NatsCheckpointStore(await bucket(client))
    async with scene() as place:
        place.store = store
        poller = place.poll()
        updated = place.touch(1, 2)
        assert sorted(ids_of(await first(poller, 2))) == sorted(updated)
        poller.stop(after_poll=True)
        assert [record async for record in poller] == []
        again = place.touch(3)
        assert ids_of(await first(place.poll(), 1)) == again


async def test_many_dead_letters_fit_into_one_message(client: Client) -> None:
    """What is large is compressed; what is too large is an error that says so."""
    store = NatsCheckpointStore(await bucket(client))
    letters = [
        DeadLetter(
            application_id=f"app-{number}",
            window=Window(number, number + 1),
            reason="NotFoundError: get_application: 404 Not Found",
            attempts=2,
            first_tried_at=datetime(2026, 1, 1) + timedelta(seconds=number),  # noqa: DTZ001
            last_tried_at=datetime(2026, 1, 2),  # noqa: DTZ001
        )
        for number in range(10_000)
    ]
    await store.save("default", "one", version=0, dead_letters=letters)
    assert list(await store.dead_letters("default")) == letters
    text = Random(1).randbytes(1_500_000).hex()
    with pytest.raises(CheckpointError, match="max_payload"):
        await store.save("large", text, version=0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"ttl": 60}, "forgets"), ({"storage": StorageType.MEMORY}, "memory")],
)
async def test_a_bucket_that_would_lose_checkpoints_is_refused(
    client: Client, options: dict[str, Any], reason: str
) -> None:
    """Before anything is stored in it."""
    store = NatsCheckpointStore(await bucket(client, **options))
    with pytest.raises(CheckpointError, match=reason) as caught:
        await store.load("default")
    assert not caught.value.retryable


async def test_what_others_wrote_there_is_no_checkpoint(client: Client) -> None:
    """Nothing of it is shown or overwritten."""
    kv = await bucket(client)
    await kv.put("checkpoint.default", b"S3CRET")
    await kv.put("token", b"S3CRET")
    for reading in (NatsCheckpointStore(kv).load("default"), NatsTokenStore(kv).load()):
        with pytest.raises(CheckpointError, match="holds no") as caught:
            await reading
        assert "S3CRET" not in repr(caught.value)


async def test_a_bucket_that_is_gone_is_an_error(client: Client) -> None:
    """It may be made again, so that pollers wait for it."""
    kv = await bucket(client)
    store = NatsCheckpointStore(kv)
    await store.save("default", "one", version=0)
    await client.jetstream().delete_key_value((await kv.status()).bucket)
    with pytest.raises(CheckpointError, match="gone") as caught:
        await store.load("default")
    assert caught.value.retryable


async def test_a_deleted_key_is_as_if_nothing_was_stored(client: Client) -> None:
    """A poller that holds the name notices it; a new one begins anew."""
    kv = await bucket(client)
    store = NatsCheckpointStore(kv)
    await store.save("default", "one", version=0)
    await kv.delete("checkpoint.default")
    with pytest.raises(CheckpointConflictError):
        await store.save("default", "two", version=1)
    assert (await store.load("default")).version == 0
    assert await store.save("default", "anew", version=0) == 1


async def test_a_server_that_does_not_answer_is_a_retryable_error(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the driver waits for."""
    store = NatsCheckpointStore(await bucket(client))
    await store.save("default", "one", version=0)
    monkeypatch.setattr("income_client.engines.nats._SECONDS", 0.01)

    async def hang(*_: object, **__: object) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(store._kv._js, "get_msg", hang)
    with pytest.raises(CheckpointError, match="no answer") as caught:
        await store.load("default")
    assert caught.value.retryable


async def test_one_of_many_claims_the_renewal_of_a_token(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it has saved it, or the claim is over."""
    kv = await bucket(client)
    stores = [NatsTokenStore(kv) for _ in range(8)]
    now = 1000.0
    monkeypatch.setattr("income_client.engines.nats.time.monotonic", lambda: now)
    assert [await store.load() for store in stores] == [None] * 8
    token = StoredToken(access_token=Secret("S3CRET"), expires_at=NOON, lifetime=60.0)
    for _ in range(3):
        claims = await asyncio.gather(*(store.claim(5) for store in stores))
        assert sum(claims) == 1
        winner = stores[claims.index(True)]
        others = [store for store in stores if store is not winner]
        assert not any(await asyncio.gather(*(store.claim(5) for store in others)))
        assert await winner.claim(5)
        await winner.save(token)
        assert [await store.load() for store in stores] == [token] * 8
    late = stores[0]
    assert await late.claim(5)
    assert not await stores[1].claim(5)
    now += 6
    assert await stores[1].claim(5)
    newer = StoredToken(access_token=Secret("newer"), expires_at=NOON, lifetime=60.0)
    await stores[1].save(newer)
    await late.save(token)
    assert await late.load() == newer


async def test_a_token_that_came_after_its_claim_was_over_is_shared_all_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others need not request one each; a later one replaces it."""
    kv = await bucket(client)
    slow, second, third = [NatsTokenStore(kv) for _ in range(3)]
    now = 1000.0
    monkeypatch.setattr("income_client.engines.nats.time.monotonic", lambda: now)
    assert await slow.claim(5)
    assert not await second.claim(5)
    now += 6
    assert await second.claim(5)
    token = StoredToken(access_token=Secret("S3CRET"), expires_at=NOON, lifetime=60.0)
    await slow.save(token)
    assert await third.load() == token
    later = StoredToken(
        access_token=Secret("later"), expires_at=NOON + timedelta(seconds=6), lifetime=60.0
    )
    await second.save(later)
    assert await third.load() == later


async def test_events_are_stored_once_by_their_id(client: Client) -> None:
    """A message that comes twice is dropped; a record that is too large becomes a reference."""
    stream = client.jetstream()
    await stream.add_stream(StreamConfig(name="updates", subjects=["income.updates"]))
    publish = nats_publisher(stream)
    async with scene(300) as place:
        poller = place.poll(start="2020-01-01")
        events: list[UpdateEvent] = []

        async def twice(event: UpdateEvent) -> None:
            events.append(event)
            await publish(event)
            await publish(event)

        poller.stop(after_poll=True)
        await relay(poller, twice)
    info = await stream.stream_info("updates")
    assert info.state.messages == len(events) == 300
    found = await stream.get_last_msg("updates", "income.updates")
    assert UpdateEvent.from_json(found.data or b"") in events
    large = UpdateEvent(id="large", application_id="x" * 2_000_000, updated_at=NOON)
    with pytest.raises(nats.errors.MaxPayloadError):
        await publish(large)


async def test_a_stream_that_does_not_exist_takes_no_event(client: Client) -> None:
    """The relay tries again, since an acknowledgement never came."""
    event = UpdateEvent(id="1", application_id="app-1", updated_at=NOON)
    with pytest.raises(nats.js.errors.NoStreamResponseError):
        await nats_publisher(client.jetstream(), "nobody.listens")(event)


async def test_a_connection_that_is_closed_for_good_ends_a_relay(nats_server: NatsServer) -> None:
    """No retry can make it again; the store says the same."""
    async with connected(nats_server) as lost:
        stream = lost.jetstream()
        kv = await stream.create_key_value(bucket="closed")
    with pytest.raises(CheckpointError, match="closed for good") as caught:
        await NatsCheckpointStore(kv).load("default")
    assert not caught.value.retryable
    async with scene() as place:
        poller = place.poll(start="2020-01-01")
        with pytest.raises(IncomeClientError, match="closed for good"):
            await relay(poller, nats_publisher(stream))
