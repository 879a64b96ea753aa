"""The commands about stores, on servers of PostgreSQL and NATS: status, dead-letters, poll."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from itertools import count
from typing import Any, Final

import pytest
from attrs import frozen

from income_client import IncomeClient, Poller
from income_client.cli import stores
from income_client.cli.stores import open_store, read_address
from income_client.emulator import Fault
from income_client.engines.postgres import SCHEMA
from income_client.polling import bell
from income_client.testing import IncomeService
from tests.support.cli import Cli, cli, complaints, shell
from tests.support.nats_server import PASSWORD, USERS, NatsServer, connected, running_server
from tests.support.postgres import PostgresServer
from tests.support.processes import Ran, beside, until

__all__ = ["cli", "shell"]

NUMBERS: Final = count(1)
LEASE: Final = 3.0
pytestmark = pytest.mark.income_service(applications=9)


@frozen
class Place:
    """A store on a server, by the addresses of two users."""

    owner: str
    """Address of a user that may write, with its password."""
    reader: str
    """Address of a user that may only read, with its password."""
    shown: str
    """Name of the store in messages."""

    def polled(self, service: IncomeService) -> AbstractContextManager[Poller]:
        """Return what runs a poller with a lease in another thread, until its block ends."""
        return beside(self._polling(service))

    @asynccontextmanager
    async def _polling(self, service: IncomeService) -> AsyncIterator[Poller]:
        async with (
            open_store(read_address_of(self.owner)) as store,
            IncomeClient(service.url, auth=service.oauth2) as client,
        ):
            options: dict[str, Any] = {"start": "2000-01-01", "standby": LEASE, "settle": 0}
            poller = client.poll(store, interval=3600, documents=False, **options)

            async def follow() -> None:
                async for _ in poller:
                    pass

            following = asyncio.create_task(follow())
            yield poller
            poller.stop()
            await following


def read_address_of(url: str) -> Any:
    """Return the address as the environment may hold it, with a password."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("INCOME_STORE_URL", url)
        return read_address(None)


@pytest.fixture(scope="module")
def server_with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    yield from running_server(tmp_path_factory.mktemp("nats"), USERS)


@pytest.fixture(params=["nats", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    name = f"of_commands_{next(NUMBERS)}"
    if request.param == "nats":
        server: NatsServer = request.getfixturevalue("server_with_users")
        urls = {
            user: f"nats://{user}:{PASSWORD}@127.0.0.1:{server.port}"
            for user in ("owner", "reader")
        }
        asyncio.run(make_bucket(urls["owner"], name))
        return Place(f"{urls['owner']}/{name}", f"{urls['reader']}/{name}", f"bucket {name}")
    postgres: PostgresServer = request.getfixturevalue("postgres")
    asyncio.run(make_tables(postgres, name))
    options = f"?host={postgres.folder}&search_path={name}"
    users = ("postgres", f"reader_of_{name}")
    owner, reader = (f"postgresql://{user}:{PASSWORD}@/postgres{options}" for user in users)
    return Place(owner, reader, "postgresql:///postgres")


async def make_bucket(url: str, name: str) -> None:
    async with connected(url) as client:
        await client.jetstream().create_key_value(bucket=name)


async def make_tables(postgres: PostgresServer, name: str) -> None:
    """Make the tables by the SQL that the command prints, and a role with a reader's rights."""
    reader = f"reader_of_{name}"
    async with postgres.pool(name) as pool:
        await pool.execute(SCHEMA)
        await pool.execute(f"CREATE ROLE {reader} LOGIN; GRANT USAGE ON SCHEMA {name} TO {reader}")
        (grant,) = re.findall(r"GRANT .* TO reader;", SCHEMA)
        await pool.execute(grant.replace("reader", reader))


def ask(shell: Cli, url: str, *arguments: str, **options: Any) -> Ran:
    ran = shell(*arguments, env={"INCOME_STORE_URL": url}, **options)
    assert PASSWORD not in ran.stdout + ran.stderr
    return ran


def status_of(shell: Cli, url: str) -> Any:
    ran = ask(shell, url, "status", "-o", "json")
    assert ran.status == 0
    assert "lag" not in ran.stderr
    (found,) = json.loads(ran.stdout)
    return found


def test_a_reader_sees_how_a_poller_is(shell: Cli, place: Place) -> None:
    """Its user may write nothing, and the poller keeps its lease."""
    lost = shell.service.ids[0]
    shell.service.faults.add(Fault("status", status=404, times=None, path=f"*/{lost}"))
    with place.polled(shell.service) as poller:
        until(lambda: poller.status.polls == 1)
        found = status_of(shell, place.reader)
        assert found["name"] == "default"
        assert found["lag"] is not None
        assert found["lease"]["state"] == "held"
        assert found["reasons"] == [{"reason": "get_application: 404 Not Found", "count": 1}]
        listed = ask(shell, place.reader, "dead-letters", "-q")
        assert (listed.status, listed.lines) == (0, [lost])
        assert poller.status.failures == 0
    assert status_of(shell, place.reader)["lease"]["state"] == "released"


def test_dead_letters_are_retried_and_forgotten_beside_a_poller(
    shell: Cli, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poller is woken from a pause of an hour, delivers what it can read, and never ends."""
    monkeypatch.setattr(bell, "_LOOK_SECONDS", 0.05)
    mended, lost, deleted = shell.service.ids[:3]
    faults = [
        Fault("status", status=404, times=None, path=f"*/{one}") for one in (mended, lost, deleted)
    ]
    shell.service.faults.add(*faults)
    with place.polled(shell.service) as poller:
        until(lambda: poller.status.polls == 1)
        ran = ask(shell, place.owner, "dead-letters", "--forget", deleted)
        assert ran.status == 0
        assert ran.stderr.endswith("income-client: forgot 1 dead letter\n")
        shell.service.faults.clear()
        shell.service.faults.add(faults[1])
        ran = ask(shell, place.owner, "dead-letters", "--retry-all")
        assert ran.status == 0
        assert [json.loads(line)["attempts"] for line in ran.lines] == [0, 0]
        said = "2 dead letters due now; a poller that runs is woken, and tries them"
        assert f"income-client: {said}\n" in ran.stderr
        until(lambda: poller.status.polls == 2)
        assert (poller.status.dead_letters, poller.status.failures) == (1, 0)
        assert poller.status.records == 7
        ran = ask(shell, place.owner, "dead-letters", "--retry", lost, "--retry", mended)
        assert (ran.status, len(ran.lines)) == (1, 1)
        assert f"no dead letter {mended!r} of 'default'" in ran.stderr


def test_polls_resume_from_any_store(shell: Cli, place: Place) -> None:
    """The name is new in the store once, also for a standby."""
    ran = ask(shell, place.owner, "poll", "--start", "beginning", "--once")
    assert (ran.status, len(ran.lines), complaints(ran)) == (0, 9, "")
    assert f"'default' is new in {place.shown}, begins at" in ran.stderr
    ran = ask(shell, place.owner, "poll", "--once", "--standby", "--lease", "1")
    assert (ran.status, ran.stdout, complaints(ran)) == (0, "", "")
    ran = ask(shell, place.owner, "poll", "--once", "--must-exist", "--name", "defualt")
    assert f"there is no checkpoint 'defualt' in {place.shown}" in ran.stderr


def test_a_relay_keeps_its_checkpoint_in_any_store(
    shell: Cli, place: Place, server_with_users: NatsServer
) -> None:
    """The events go to NATS; the store is where the environment says."""
    broker = f"nats://owner:{PASSWORD}@127.0.0.1:{server_with_users.port}"
    asyncio.run(make_stream(broker, subject := f"relayed{next(NUMBERS)}"))
    env = {"INCOME_STORE_URL": place.owner, "INCOME_BROKER_URL": broker}
    line = ("relay", "--subject", subject, "--start", "beginning", "--once")
    ran = shell(*line, env=env)
    assert (ran.status, complaints(ran)) == (0, "")
    assert f"'relay' is new in {place.shown}, begins at" in ran.stderr


async def make_stream(url: str, name: str) -> None:
    async with connected(url) as client:
        await client.jetstream().add_stream(name=name, subjects=[name])


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"postgresql://me:{PASSWORD}@127.0.0.1:1/lending", "the server cannot be reached"),
        (f"postgresql://me:{PASSWORD}@127.0.0.1:x/lending", "the server's address"),
        (f"nats://me:{PASSWORD}@127.0.0.1:1/income", "no NATS server answers at 127.0.0.1:1"),
        (f"nats://me:{PASSWORD}/{PASSWORD}@127.0.0.1:1/income", "no NATS server answers at ?"),
    ],
)
@pytest.mark.parametrize("command", ["dead-letters", "poll", "status"])
def test_servers_that_are_away_are_named(
    shell: Cli, command: str, url: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, without the password that the environment holds."""
    monkeypatch.setattr(stores, "_CONNECT_SECONDS", 0.2)
    ran = ask(shell, url, command)
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert said in ran.stderr


def test_a_bucket_that_is_missing_is_named(shell: Cli, server_with_users: NatsServer) -> None:
    url = f"nats://reader:{PASSWORD}@127.0.0.1:{server_with_users.port}/nowhere"
    ran = ask(shell, url, "status")
    assert (ran.status, ran.stdout) == (1, "")
    assert "there is no bucket nowhere; try nats kv add nowhere" in ran.stderr


def test_a_store_without_pollers_says_so(shell: Cli, place: Place) -> None:
    ran = ask(shell, place.reader, "status")
    assert (ran.status, ran.stdout) == (1, "")
    assert ran.stderr == f"income-client: no poller has saved a checkpoint in {place.shown}\n"
