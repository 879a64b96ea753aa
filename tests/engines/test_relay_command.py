"""``income-client relay`` publishes an event for each update to a real NATS server."""

import asyncio
import re
import sys
from itertools import count
from typing import Any, Final

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from income_client.cli.stores import connect_to_nats
from income_client.engines.relay import UpdateEvent
from tests.support.cli import Cli, Running, cli, complaints, shell
from tests.support.clocks import pass_time
from tests.support.nats_server import NatsServer, connected
from tests.support.processes import Ran

__all__ = ["cli", "shell"]

NUMBERS: Final = count(1)
pytestmark = pytest.mark.income_service(applications=9)


class Relay:
    """Relays to a stream of its own."""

    def __init__(self, shell: Cli, server: NatsServer) -> None:
        number = next(NUMBERS)
        self.service: Final = shell.service
        self.subject = f"relay{number}.updates"
        self.bucket: Final = f"relay{number}"
        self._server = server
        self._shell = shell
        self._with(self._set_up)

    def __call__(self, *arguments: str, url: str | None = None, **options: Any) -> Ran:
        to = ("--to", url or self._server.url) if "env" not in options else ()
        places = (*to, "--subject", self.subject)
        return self._shell("relay", *places, *arguments, **options)

    @property
    def events(self) -> list[UpdateEvent]:
        found: list[UpdateEvent] = self._with(self._events)
        return found

    def _with(self, work: Any) -> Any:
        async def connect_and_work() -> Any:
            async with connected(self._server) as client:
                return await work(client)

        return asyncio.run(connect_and_work())

    async def _set_up(self, client: Client) -> None:
        stream = client.jetstream()
        await stream.add_stream(StreamConfig(name=self.bucket, subjects=[self.subject]))
        await stream.create_key_value(bucket=self.bucket)

    def limit(self, **settings: Any) -> None:
        """Limit the stream to 20 messages."""

        async def update(client: Client) -> None:
            config = StreamConfig(name=self.bucket, subjects=[self.subject], max_msgs=20)
            await client.jetstream().update_stream(config, **settings)

        self._with(update)

    async def _events(self, client: Client) -> list[UpdateEvent]:
        stream = client.jetstream()
        state = (await stream.stream_info(self.bucket)).state
        last = range(state.first_seq, state.last_seq + 1)
        messages = [await stream.get_msg(self.bucket, number) for number in last]
        return [UpdateEvent.from_json(message.data or b"") for message in messages]


@pytest.fixture
def relay(shell: Cli, nats_server: NatsServer) -> Relay:
    return Relay(shell, nats_server)


@pytest.mark.parametrize("place", ["store", "bucket"])
def test_each_update_is_published_once(place: str, relay: Relay) -> None:
    """The checkpoint is in a file or in a bucket; the next run has nothing to publish."""
    where = ("--store", "relay.db") if place == "store" else ("--bucket", relay.bucket)
    ran = relay(*where, "--start", "beginning", "--once")
    assert (ran.status, ran.stdout, complaints(ran)) == (0, "", "")
    kept = where[1] if place == "store" else f"bucket {relay.bucket}"
    begins, did = ran.stderr.splitlines()
    assert begins == f"income-client: 'relay' is new in {kept}, begins at 1970-01-01 00:00:00"
    assert did.startswith("income-client: 1 poll, 9 records, ")
    assert sorted(event.application_id for event in relay.events) == sorted(relay.service.ids)
    assert {event.record for event in relay.events} == {None}
    ran = relay(*where, "--once", "--standby", "--lease", "1")
    assert (ran.status, len(relay.events)) == (0, len(relay.service.ids))
    (updated,) = relay.service.ids[:1]
    relay.service.touch(updated)
    assert relay(*where, "--once").status == 0
    assert relay.events[-1].application_id == updated


def test_a_new_name_can_be_refused(relay: Relay) -> None:
    """With --must-exist, a mistyped name is one line and status 1; nothing is read."""
    where = ("--bucket", relay.bucket, "--once")
    ran = relay(*where, "--must-exist")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    said = f"--must-exist: there is no checkpoint 'relay' in bucket {relay.bucket}; "
    assert said in ran.stderr
    assert len(relay.service.requests) == 0
    assert relay(*where).status == 0
    assert relay(*where, "--must-exist").status == 0
    assert relay(*where, "--must-exist", "--start", "7d").status == 2


def test_a_stream_that_deletes_events_is_refused(relay: Relay) -> None:
    """The server deletes the oldest events of a full stream, unless it is told to refuse new ones.

    The command ends before it reads anything from the service.
    """
    where = ("--bucket", relay.bucket, "--start", "beginning", "--once")
    relay.limit(discard="old")
    ran = relay(*where)
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert f"--subject: the stream '{relay.bucket}' deletes its oldest messages" in ran.stderr
    assert len(relay.service.requests) == 0
    relay.limit(discard="new")
    assert relay(*where).status == 0
    assert len(relay.events) == 9


def test_an_event_can_hold_the_record(relay: Relay) -> None:
    """Then workers need nothing from the service."""
    where = ("--bucket", relay.bucket, "--start", "beginning", "--once")
    assert relay(*where, "--payload", "record", "--no-documents").status == 0
    records = [event.record for event in relay.events]
    assert all(record is not None and record.documents is None for record in records)


@pytest.mark.parametrize(
    ("url", "arguments", "status", "said"),
    [
        (None, (), 2, "one of --store and --bucket"),
        (None, ("--store", "a", "--bucket", "b"), 2, "only one of --store and --bucket"),
        (None, ("--bucket", "nothing"), 1, "there is no bucket nothing"),
        (None, ("--bucket", "a.b"), 2, "--bucket"),
        (None, ("--store", "a.db", "--payload", "all"), 2, "--payload"),
        (None, ("--store", "a.db", "--lease", "0"), 2, "--lease"),
        (None, ("--store", "a.db", "--creds", "missing"), 1, "--creds"),
        ("redis://127.0.0.1:1", ("--store", "a.db"), 1, "no NATS server answers"),
        ("nats://127.0.0.1:1", ("--store", "a.db"), 1, "no NATS server answers at 127.0.0.1:1"),
        ("nats://gone.invalid:1", ("--store", "a.db"), 1, "at gone.invalid:1: the host name"),
        ("nats://me:S3CRET@127.0.0.1:1", ("--store", "a.db"), 2, "as INCOME_BROKER_URL"),
        ("nats://S3CRET@127.0.0.1:1", ("--store", "a.db"), 2, "as INCOME_BROKER_URL"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    url: str | None, arguments: tuple[str, ...], status: int, said: str, relay: Relay
) -> None:
    """Before anything is read."""
    ran = relay(*arguments, url=url)
    assert (ran.status, ran.stdout) == (status, "")
    assert said in " ".join(ran.stderr.split())
    assert "S3CRET" not in ran.stderr
    assert ran.stderr.count("\n") == 1 or status == 2
    assert relay.service.requests.count("list_applications") == 0


def test_an_extra_that_is_missing_is_named(shell: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "income_client.engines.nats_connection", None)
    monkeypatch.delattr("income_client.engines.nats_connection", raising=False)
    ran = shell("relay", "--to", "127.0.0.1:4222", "--store", "a.db")
    assert ran.status == 2
    assert "NATS needs the extra nats: pip install 'income-client[nats]'" in ran.stderr


def test_the_address_may_come_from_the_environment(relay: Relay, nats_server: NatsServer) -> None:
    """A command line is readable for every user of the machine, and an address may hold a password.

    One of both must be given.
    """
    where = ("--store", "relay.db", "--start", "beginning", "--once")
    assert relay(*where, env={"INCOME_BROKER_URL": nats_server.url}).status == 0
    assert len(relay.events) == len(relay.service.ids)
    ran = relay(*where, env={})
    assert (ran.status, "one of --to and INCOME_BROKER_URL" in ran.stderr) == (2, True)


def test_a_subject_without_a_stream_is_named(relay: Relay) -> None:
    """Without a stream, its events would be lost."""
    relay.subject = "nobody.has"
    ran = relay("--store", "a.db")
    assert (ran.status, "no stream has nobody.has" in ran.stderr) == (1, True)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("nats://me:S3CRET@127.0.0.1:1", "127.0.0.1:1"),
        ("nats://me:S3,CRET@127.0.0.1:1", "?"),
        ("nats://me:S3[CRET@127.0.0.1:1", "?"),
        ("nats://S3?CRET@127.0.0.1:1", "?"),
    ],
)
def test_a_server_that_is_not_there_is_one_line(
    url: str, place: str, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its address, and no password of it."""
    monkeypatch.setattr("income_client.cli.stores._CONNECT_SECONDS", 0.2)
    ran = relay("--store", "a.db", env={"INCOME_BROKER_URL": url})
    assert (ran.status, ran.stderr.count("\n")) == (1, 1)
    assert f"no NATS server answers at {place}" in ran.stderr
    assert not re.search("S3|CRET", ran.stderr)


@pytest.mark.parametrize(("place", "noticed"), [("store", False), ("bucket", True)])
def test_a_relay_ends_while_its_server_is_away(
    place: str,
    shell: Cli,
    lost_server: NatsServer,
    monkeypatch: pytest.MonkeyPatch,
    *,
    noticed: bool,
) -> None:
    """By SIGTERM, with the status of any other end, and without a traceback."""
    monkeypatch.setattr("income_client.engines.nats._SECONDS", 0.5)
    relay = Relay(shell, lost_server)
    where = ("--store", "relay.db") if place == "store" else ("--bucket", relay.bucket)

    def lose(running: Running) -> None:
        running.stderr.wait_for("is new in")
        lost_server.kill()
        if noticed:
            running.stderr.wait_for("poll failed")
        running.terminate()

    ran = relay(*where, "--interval", "0.2", "--standby", during=lose)
    assert ran.status == 0
    assert all(line.startswith("income-client: ") for line in ran.stderr.splitlines())


async def test_a_server_that_is_frozen_counts_as_lost_after_half_a_minute(
    lost_server: NatsServer,
) -> None:
    """Another node is then tried: a machine that vanishes closes no connection."""
    async with connect_to_nats(lost_server.url, None) as client:
        await client.flush()
        lost_server.freeze()
        for _ in range(3):
            assert client.is_connected
            await asyncio.sleep(0)
            pass_time(10.1)
            for _ in range(20):
                await asyncio.sleep(0)
        assert not client.is_connected
