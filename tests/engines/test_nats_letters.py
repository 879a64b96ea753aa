"""Dead letters in a bucket: any number of them, and no crash or paused saver spoils them."""

import json
import zlib
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import evolve
from nats.aio.client import Client
from nats.js.errors import KeyNotFoundError
from nats.js.kv import KeyValue

from income_client import CheckpointConflictError, CheckpointError, DeadLetter
from income_client.engines.nats import NatsCheckpointStore
from tests.support.nats_server import bucket, connected, running_server
from tests.support.store_files import letter

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
    """They had all of a name in the value of its checkpoint, and still understand it."""
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
