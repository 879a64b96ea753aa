"""Checkpoints and events on a real NATS server, also one that is lost, refuses or forgets."""

import asyncio
import json
import secrets
import zlib
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from attrs import evolve
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.errors import KeyNotFoundError
from nats.js.kv import KeyValue

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    ConfigurationError,
    DeadLetter,
    IncomeClient,
    IncomeClientError,
    Secret,
    StoredToken,
)
from income_client.emulator import Emulator
from income_client.engines.nats import NatsCheckpointStore, NatsTokenStore, nats_publisher
from income_client.engines.relay import UpdateEvent, relay
from income_client.testing import JumpingClock, check_checkpoint_store, make_record
from tests.support.disk import letter
from tests.support.nats_server import (
    NOW,
    PASSWORD,
    USERS,
    NatsServer,
    bucket,
    connected,
    event,
    running_server,
)
from tests.support.polling import scene
from tests.support.processes import eventually

pytestmark = pytest.mark.usefixtures("fast_loop")
UPDATES: Final = StreamConfig(name="updates", subjects=["income.updates"])


# Buckets


async def test_a_bucket_is_a_checkpoint_store(client: Client) -> None:
    """A bucket that keeps older values obeys all rules of the store contract, too."""

    async def make() -> NatsCheckpointStore:
        return NatsCheckpointStore(await bucket(client, history=5))

    await check_checkpoint_store(make)


async def test_a_bucket_that_allows_direct_reads_is_read_through_its_leader(tmp_path: Path) -> None:
    """The `nats` command makes buckets so; what a follower answers may be old."""
    for server in running_server(tmp_path, USERS):
        async with connected(server, user="leader", password=PASSWORD) as client:

            async def make(client: Client = client) -> NatsCheckpointStore:
                return NatsCheckpointStore(await bucket(client, direct=True))

            await check_checkpoint_store(make)


async def test_every_name_has_a_key_of_its_own(client: Client) -> None:
    store = NatsCheckpointStore(await bucket(client))
    for name in ("default", "a b.c", "Größe > *", "=", "..", "x" * 200):
        await store.save(name, name, version=0)
        assert (await store.load(name)).checkpoint == name
        assert (await store.load(name + "=")).version == 0


@pytest.mark.parametrize(
    ("options", "reason"), [({"ttl": 60}, "forgets"), ({"storage": StorageType.MEMORY}, "memory")]
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
    """The foreign value is neither shown nor overwritten."""
    kv = await bucket(client)
    await kv.put("checkpoint.default", b"S3CRET")
    await kv.put("token", b"S3CRET")
    for reading in (NatsCheckpointStore(kv).load("default"), NatsTokenStore(kv).load()):
        with pytest.raises(CheckpointError, match="holds no") as caught:
            await reading
        assert "S3CRET" not in repr(caught.value)


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


async def test_a_user_without_rights_on_the_bucket_gets_an_error_that_says_so(
    tmp_path: Path,
) -> None:
    """The password is not in it, and what is stored stays as it was."""

    async def is_refused(call: Any) -> None:
        with pytest.raises(CheckpointError, match="rights") as caught:
            await call
        assert caught.value.retryable
        assert PASSWORD not in repr(caught.value)

    for server in running_server(tmp_path, USERS):
        async with (
            connected(server, user="owner", password=PASSWORD) as owner,
            connected(server, user="reader", password=PASSWORD) as reader,
            connected(server, user="nobody", password=PASSWORD) as nobody,
        ):
            kv = await owner.jetstream().create_key_value(bucket="rights")
            await NatsCheckpointStore(kv).save("default", "one", version=0)
            handle = await reader.jetstream(timeout=60).key_value("rights")
            store = NatsCheckpointStore(handle)
            assert (await store.load("default")).checkpoint == "one"
            assert await NatsTokenStore(handle).load() is None
            foreign = await reader.jetstream(timeout=60).key_value("rights")
            foreign._js = nobody.jetstream(timeout=1)
            handle._js = reader.jetstream(timeout=1)
            token = StoredToken(access_token=Secret("t"), expires_at=NOW, lifetime=60)
            await asyncio.gather(
                is_refused(store.save("default", "two", version=1)),
                is_refused(NatsTokenStore(handle).save(token)),
                is_refused(NatsTokenStore(handle).claim(5)),
                is_refused(NatsCheckpointStore(foreign).load("default")),
            )
            assert json.loads((await kv.get("checkpoint.default")).value or b"")["version"] == 1


@pytest.mark.parametrize("standby", [False, True])
async def test_a_bucket_that_is_made_again_under_a_poller_loses_no_update(
    client: Client, *, standby: bool
) -> None:
    """Updates of the meantime are delivered, after an absence of a moment and of some polls."""
    stream = client.jetstream()
    kv = await bucket(client)
    name = (await kv.status()).bucket
    clock = JumpingClock()
    clock.most_sleeps = None  # it retries for as long as the bucket is away
    async with (
        Emulator(20, clock=clock, time_flows=True) as service,
        IncomeClient(service.url, auth=service.basic, clock=clock) as place,
    ):
        ids = service.world.ids
        kv._js = client.jetstream(timeout=1)  # where the bucket is away, it is asked again soon
        poller = place.poll(NatsCheckpointStore(kv), documents=False, standby=standby and 1e6)
        for number in range(3):
            service.touch(ids[number])
            if number:
                await stream.delete_key_value(name)
            waiting = asyncio.ensure_future(anext(poller))
            if number == 1:
                await eventually(lambda: poller.status.failures)
                with pytest.raises(CheckpointError, match="JetStream is not running") as gone:
                    await NatsCheckpointStore(kv).load("default")
                assert gone.value.retryable
                assert not waiting.done()
            if number:
                await stream.create_key_value(bucket=name)
            found = [await waiting]
            while found[-1].application_id != ids[number]:
                found.append(await anext(poller))
        await poller.aclose()
        stored = await NatsCheckpointStore(kv).load("default")
        assert json.loads(stored.checkpoint or "")["claims"] == 3


# Dead letters: any number of them, and no crash or paused saver spoils them


X, Y = letter(1), letter(2)  # in keys of their own


async def interrupted(client: Client, kv: KeyValue, before: int, then: Awaitable[Any]) -> Any:
    handle = await client.jetstream().key_value((await kv.status()).bucket)
    write, number = handle.update, 0

    async def update(*arguments: Any, **options: Any) -> int:
        nonlocal number
        number += 1
        if number == before:
            await then
        return await write(*arguments, **options)

    handle.update = update  # type: ignore[method-assign]
    return NatsCheckpointStore(handle)


async def test_a_server_of_small_messages_takes_many(tmp_path: Path) -> None:
    """No message holds all; what is large is compressed, and what is too large is an error."""
    chance = Random(1)
    letters = [evolve(letter(one), reason=chance.randbytes(40).hex()) for one in range(300)]
    keys = [one.key for one in letters]
    for server in running_server(tmp_path, "max_payload: 10000"):
        async with connected(server) as client:
            store = NatsCheckpointStore(await bucket(client))
            await store.save("default", "one", version=0, dead_letters=letters[:150])
            await store.save("default", "2" * 50_000, version=1, dead_letters=letters[150:])
            assert list(await store.dead_letters("default")) == letters
            await store.save("default", "three", version=2, resolved=keys[::2])
            assert list(await store.dead_letters("default")) == letters[1::2]
            assert list(await store.forget("default", keys[1::2])) == keys[1::2]
            assert await store.dead_letters("default") == ()
            with pytest.raises(CheckpointError, match="max_payload"):
                await store.save("default", chance.randbytes(10_000).hex(), version=3)


async def test_a_name_never_gets_more_keys_than_a_few_hundred(client: Client) -> None:
    """However many of its dead letters come and go."""
    kv = await bucket(client)
    store = NatsCheckpointStore(kv)
    for version in range(2):
        letters = [letter(400 * version + number) for number in range(400)]
        await store.save("default", "text", version=2 * version, dead_letters=letters)
        keys = [one.key for one in letters]
        await store.save("default", "text", version=2 * version + 1, resolved=keys)
    assert (await kv.status()).values <= 1 + 256
    assert await store.dead_letters("default") == ()


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("way", ["save", "forget"])
async def test_letters_of_earlier_versions_are_read_and_moved(
    client: Client, way: str, is_compressed: bool
) -> None:
    """Earlier versions kept a name's letters beside its checkpoint, and can still read this."""
    kv = await bucket(client)
    store = NatsCheckpointStore(kv)
    await store.save("other", "text", version=0, dead_letters=[X, Y, letter(3)])
    held = [json.loads(one) for one in await raw(kv, "letters.other.")]
    old = {"version": 7, "checkpoint": "seven", "dead_letters": [*held[0], *held[1], *held[2]]}
    content = json.dumps(old).encode()
    await kv.put("checkpoint.default", zlib.compress(content) if is_compressed else content)
    assert await store.dead_letters("default") == (X, Y, letter(3))
    if way == "forget":
        assert await store.forget("default", [X.key, "application:unknown"]) == (X.key,)
        assert (await store.load("default")).version == 7
    else:
        assert await store.save("default", "eight", version=7, resolved=[X.key]) == 8
    assert await store.dead_letters("default") == (Y, letter(3))
    version = (await store.load("default")).version
    again = evolve(Y, attempts=3)
    await store.save("default", "next", version=version, dead_letters=[again])
    assert await store.dead_letters("default") == (again, letter(3))
    (value,) = await raw(kv, "checkpoint.default")
    assert json.loads(value) == {"version": version + 1, "checkpoint": "next", "dead_letters": []}


async def raw(kv: KeyValue, start: str) -> list[bytes]:
    """Return the values of keys; the library's own list of them is now and then empty."""
    info = await kv._js.stream_info(kv._stream, subjects_filter=f"{kv._pre}>")
    keys = [subject.removeprefix(kv._pre) for subject in info.state.subjects or ()]
    values = []
    for key in sorted(key for key in keys if key.startswith(start)):
        with suppress(KeyNotFoundError):  # it is deleted
            values.append((await kv.get(key)).value or b"")
    return values


@pytest.mark.parametrize("fatal", [1, 2, 3])
async def test_a_crash_between_two_writes_loses_no_letter(client: Client, fatal: int) -> None:
    """No checkpoint is stored without its letters; one that is resolved may stay until the next."""
    kv = await bucket(client)
    store = NatsCheckpointStore(kv)
    await store.save("default", "one", version=0, dead_letters=[Y])

    async def crash() -> None:
        raise ConnectionResetError

    dying = await interrupted(client, kv, fatal, crash())
    with pytest.raises(CheckpointError) as caught:
        await dying.save("default", "two", version=1, dead_letters=[X], resolved=[Y.key])
    assert caught.value.retryable
    version = (await store.load("default")).version
    assert version == (1 if fatal < 3 else 2)
    assert await store.dead_letters("default") == ((Y,) if fatal == 1 else (X, Y))
    await store.save("default", "again", version=version, dead_letters=[X], resolved=[Y.key])
    assert await store.dead_letters("default") == (X,)


TOUCHES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "the same letter": {"dead_letters": [X]},
    "newer ones": {"dead_letters": [evolve(X, attempts=9), evolve(Y, attempts=9)]},
    "both resolved": {"resolved": [X.key, Y.key]},
}


@pytest.mark.parametrize("touched", TOUCHES)
@pytest.mark.parametrize("paused", [1, 2, 3])
async def test_a_paused_saver_changes_no_letter_of_its_successor(
    client: Client, paused: int, touched: str
) -> None:
    """Wherever in its save it was paused, and whatever the other has stored meanwhile."""
    kv = await bucket(client)
    store = NatsCheckpointStore(kv)
    await store.save("default", "one", version=0, dead_letters=[Y])
    found: list[tuple[DeadLetter, ...]] = []

    async def succeed() -> None:
        version = (await store.load("default")).version
        await store.save("default", "successor", version=version, **TOUCHES[touched])
        found.append(await store.dead_letters("default"))

    late = await interrupted(client, kv, paused, succeed())
    saving = late.save("default", "late", version=1, dead_letters=[X], resolved=[Y.key])
    if paused < 3:
        with pytest.raises(CheckpointConflictError):
            await saving
    else:
        await saving  # its checkpoint came before the successor's
    assert (await store.load("default")).checkpoint == "successor"
    expected = found[0]
    if touched == "nothing":
        # What it has stored too early is taken back, and what it has resolved is removed.
        expected = {1: (Y,), 2: (Y,), 3: (X,)}[paused]
    elif touched == "the same letter" and paused == 3:
        expected = (X,)
    assert await store.dead_letters("default") == expected


async def test_a_letter_that_is_forgotten_while_another_is_stored_is_gone(client: Client) -> None:
    """Both happen, although both are in one key."""
    kv = await bucket(client)
    store = NatsCheckpointStore(kv)
    beside = next(one for one in map(letter, range(3, 5_000)) if shares_key(one))
    await store.save("default", "one", version=0, dead_letters=[X])

    async def forget() -> None:
        await store.forget("default", [X.key])

    saver = await interrupted(client, kv, 1, forget())
    await saver.save("default", "two", version=1, dead_letters=[beside])
    assert await store.dead_letters("default") == (beside,)


def shares_key(other: DeadLetter) -> bool:
    return zlib.crc32(other.key.encode()) % 256 == zlib.crc32(X.key.encode()) % 256


# Events


async def test_what_no_stream_takes_is_an_error(client: Client) -> None:
    """The relay tries again, since an acknowledgement never came."""
    stream = client.jetstream()
    refused = ((event(), "no stream"), (event("x" * 2_000_000), "larger than"))
    for sent, reason in refused:
        with pytest.raises(IncomeClientError, match=f"^NATS: .*{reason}") as caught:
            await nats_publisher(stream, "nobody.listens")(sent)
        assert caught.value.retryable


async def test_a_refusal_is_shown_with_the_sentence_and_the_code_of_the_server(
    client: Client,
) -> None:
    """A full stream, which keeps what it has, and a full bucket."""
    js = client.jetstream()
    limits: dict[str, Any] = {"max_msgs": 1, "discard": DiscardPolicy.NEW}
    await js.add_stream(name="FULL", subjects=["full.updates"], **limits)
    publish = nats_publisher(js, "full.updates")
    await publish(event("app-1"))
    full = r"maximum messages exceeded \(error 10077\)$"
    with pytest.raises(IncomeClientError, match=f"^NATS: {full}") as refused:
        await publish(event("app-2", "2"))
    assert refused.value.retryable
    kv = await bucket(client, max_bytes=4_000)
    store = NatsCheckpointStore(kv)
    full = r"maximum bytes exceeded \(error 10077\)$"
    with pytest.raises(CheckpointError, match=f"the server refused it: {full}"):
        await store.save("default", secrets.token_hex(8_192), version=0)


@pytest.mark.parametrize(("room", "is_whole"), [(-1, False), (0, False), (1_000, True)])
async def test_a_record_without_room_is_published_as_a_reference(
    room: int, is_whole: bool, tmp_path: Path
) -> None:
    """The message's headers need room, too: without it the server closes the connection."""
    record = make_record()
    sent = evolve(event(record.application_id), record=record)
    for server in running_server(tmp_path, f"max_payload: {len(sent.to_json()) + room}"):
        async with connected(server) as client:
            stream = client.jetstream()
            await stream.add_stream(name="UPDATES", subjects=["income.updates"])
            await nats_publisher(stream)(sent)
            message = await stream.get_msg("UPDATES", 1)
    assert UpdateEvent.from_json(message.data or b"") == (
        sent if is_whole else evolve(sent, record=None)
    )


LOSSES: Final[dict[str, tuple[dict[str, Any], str | None]]] = {
    "messages": ({"max_msgs": 2}, "deletes its oldest messages once it is full"),
    "bytes": ({"max_bytes": 100_000}, "deletes its oldest messages once it is full"),
    "messages of a subject": ({"max_msgs_per_subject": 1}, "keeps 1 messages of a subject"),
    "messages of a subject, refused when full": (
        {"max_msgs_per_subject": 1, "discard": "new"},
        "keeps 1 messages of a subject",
    ),
    "interest without a consumer": ({"retention": "interest"}, "and no consumer of losses:"),
    "refused when full": ({"max_msgs": 9, "discard": "new"}, None),
    "refused when full by each subject": (
        {"max_msgs_per_subject": 9, "discard": "new", "discard_new_per_subject": True},
        None,
    ),
    "work queue": ({"retention": "workqueue"}, None),
    "two weeks": ({"max_age": 14 * 86_400}, None),
}
"""Settings of a stream, and what is said of the events that it loses."""


@pytest.mark.parametrize("kind", LOSSES)
async def test_a_stream_that_deletes_events_is_refused(
    kind: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """No event is published to it; other streams get each event, without a warning."""
    settings, said = LOSSES[kind]
    streams = client.jetstream()
    await streams.add_stream(name="LOSSES", subjects=["losses"], **settings)
    publish = nats_publisher(streams, "losses")
    try:
        if said is None:
            await asyncio.gather(publish(event("app-1")), publish(evolve(event("app-2"), id="2")))
        else:
            with pytest.raises(ConfigurationError, match=said):
                await publish(event("app-1"))
        stored = (await streams.stream_info("LOSSES")).state.messages
    finally:
        await streams.delete_stream("LOSSES")
    assert stored == (2 if said is None else 0)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("pattern", "is_kept"),
    [
        (None, True), ("losses.new", True), ("losses.*", True), ("losses.>", True), (">", True),
        ("losses", False), ("losses.other", False), ("*.*.*", False), ("losses.new.>", False),
    ],
)  # fmt: skip
async def test_a_stream_keeps_what_a_consumer_is_interested_in(
    pattern: str | None, is_kept: bool, client: Client
) -> None:
    streams = client.jetstream()
    await streams.add_stream(name="LOSSES", subjects=["losses.>", "losses"], retention="interest")
    filters: dict[str, Any] = {} if pattern is None else {"filter_subject": pattern}
    publish = nats_publisher(streams, "losses.new")
    try:
        await streams.add_consumer(
            "LOSSES", durable_name="workers", ack_policy="explicit", **filters
        )
        if is_kept:
            await publish(event("app-1"))
        else:
            with pytest.raises(ConfigurationError, match=r"no consumer of losses\.new"):
                await publish(event("app-1"))
            await streams.publish("losses.new", b"")
        assert (await streams.stream_info("LOSSES")).state.messages == is_kept
    finally:
        await streams.delete_stream("LOSSES")


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"storage": "memory"}, "is kept in memory"), ({"max_age": 3600}, "deletes messages after 3")],
)
async def test_settings_that_lose_events_in_an_outage_are_a_warning(
    settings: dict[str, Any], said: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    streams = client.jetstream()
    await streams.add_stream(name="LOSSES", subjects=["losses"], **settings)
    try:
        publish = nats_publisher(streams, "losses")
        for name in ("app-1", "app-2"):
            await publish(event(name))
    finally:
        await streams.delete_stream("LOSSES")
    [message] = caplog.messages
    assert message.startswith("the stream 'LOSSES' ")
    assert said in message


async def test_a_connection_that_is_closed_for_good_ends_a_relay(nats_server: NatsServer) -> None:
    """No retry can make it again; the store says the same."""
    async with connected(nats_server) as lost:
        stream = lost.jetstream()
        kv = await bucket(lost)
    with pytest.raises(CheckpointError, match="closed for good") as caught:
        await NatsCheckpointStore(kv).load("default")
    assert not caught.value.retryable
    async with scene() as place:
        with pytest.raises(IncomeClientError, match="closed for good"):
            await relay(place.poll(start="2020-01-01"), nats_publisher(stream))


async def test_a_relay_waits_for_a_lost_server_and_loses_nothing(
    lost_server: NatsServer, lost_client: Client
) -> None:
    """The server dies within a batch; the stream stores each event once, by its id."""
    patient = lost_client.jetstream(timeout=60)
    await patient.create_key_value(bucket="lost")
    await patient.add_stream(UPDATES)
    # What the lost server was asked is given up soon, and asked again as often as it takes.
    hasty = lost_client.jetstream(timeout=1)
    kv = await patient.key_value("lost")
    kv._js = hasty
    publish = nats_publisher(hasty)
    number = 0

    async def count(event: UpdateEvent) -> None:
        nonlocal number
        number += 1
        if number == 120:
            lost_server.kill()
            asyncio.get_running_loop().call_later(0.3, lost_server.start)
        await publish(event)
        await publish(event)

    clock = JumpingClock()
    clock.most_sleeps = None  # it retries for as long as the server takes to start
    async with (
        Emulator(150, clock=clock, time_flows=True) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as place,
    ):
        store = NatsCheckpointStore(kv)
        poller = place.poll(store, start="2020-01-01", documents=False)
        relaying = asyncio.create_task(relay(poller, count))
        await eventually(lambda: poller.status.polls or relaying.done())
        poller.stop(after_poll=True)
        await relaying
        assert number > 150
        count_stored = (await patient.stream_info("updates")).state.messages
        found = [await patient.get_msg("updates", one + 1) for one in range(count_stored)]
        kv._js = patient
        events = [UpdateEvent.from_json(one.data or b"") for one in found]
        assert {event.application_id for event in events} == set(service.world.ids)
        assert len(events) == len({event.id for event in events})
        again = place.poll(store, documents=False)
        again.stop(after_poll=True)
        assert [record async for record in again] == []
