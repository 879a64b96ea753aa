"""``income-client emulate`` until it is stopped."""

import asyncio
import json
import logging
import re
import shlex
import signal
import socket
import threading
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from attrs import fields_dict

from income_client import (
    BasicAuth,
    DownloadPolicy,
    IncomeClient,
    OAuth2ClientCredentials,
    RetryPolicy,
)
from income_client.emulator import Emulator, FutureBounds, Order, ServiceRules, SpanClamp
from tests.cli.commands import BASIC, BASIC_VARIABLES
from tests.support.cli import Cli, Running, spelt
from tests.support.processes import Ran, beside, until
from tests.support.server import SILENT, ScriptedServer, in_turn, reply

HERE: Final = DownloadPolicy(
    allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
)
MIDNIGHT: Final = datetime(2026, 6, 30, tzinfo=UTC)


class Emulating:
    """The command while it runs.

    Attributes:
        running: it.
        variables: what it exports, as a shell would read it.
    """

    def __init__(self, running: Running) -> None:
        self.running = running
        lines = running.stdout.wait_for("# Its files: ").splitlines()
        assert re.match(r"# [0-9,]+ invented applications at http://127.0.0.1:", lines[0])
        exported = [shlex.split(line)[1] for line in lines if line.startswith("export ")]
        self.variables: Final = dict(one.split("=", 1) for one in exported)

    @property
    def service_time(self) -> datetime:
        """The service time that it prints."""
        shown = re.search(r"Service time is (\d\S+\d)\b", self.running.stdout.text)
        assert shown
        return datetime.fromisoformat(shown[1])

    def client(self, **options: Any) -> IncomeClient:
        """Return a client that the exported variables lead to it."""
        name, secret = list(self.variables.values())[1:]
        kind = BasicAuth if "INCOME_USERNAME" in self.variables else OAuth2ClientCredentials
        return IncomeClient(self.variables["INCOME_BASE_URL"], auth=kind(name, secret), **options)


Emulate = Callable[..., Ran]


@pytest.fixture
def emulate(cli: Cli) -> Emulate:
    """Runs the emulator beside a visit, and ends it by SIGTERM unless the visit did."""

    def run(
        visit: Callable[[Emulating], Any], *arguments: str, applications: int = 40, **env: str
    ) -> Ran:
        def during(running: Running) -> None:
            result = visit(Emulating(running))
            if isinstance(result, Coroutine):
                asyncio.run(result)
            if not running.has_ended:
                running.terminate()

        count = ("--applications", str(applications))
        return cli("emulate", *count, *arguments, env=env, during=during)

    return run


# How it begins and ends


@pytest.mark.parametrize("arguments", [(), ("--oauth",), ("--basic",)], ids=spelt)
def test_its_variables_lead_a_client_to_it(arguments: tuple[str, ...], emulate: Emulate) -> None:
    async def read(emulator: Emulating) -> None:
        assert ("INCOME_PASSWORD" in emulator.variables) is (arguments == ("--basic",))
        async with emulator.client() as client:
            assert len({row.application_id async for row in client.list_applications()}) == 40

    assert emulate(read, *arguments).stderr == ""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)], ids=["Ctrl-C", "SIGTERM"]
)
def test_signals_end_it_quietly_and_at_once(
    number: signal.Signals, status: int, emulate: Emulate
) -> None:
    """130 after Ctrl-C, and 0 after SIGTERM, which is how a service is meant to end."""

    def stop(emulator: Emulating) -> None:
        # Sent to this thread, it interrupts no call of the main one, as if it came just before.
        signal.pthread_kill(threading.get_ident(), number)
        emulator.running.wait()

    ran = emulate(stop)
    assert (ran.status, ran.stderr) == (status, "")


@pytest.mark.parametrize(
    ("start", "days"),
    [((), 0), (("--start", "7d"), 7), (("--start", "2026-06-30T02:00+02:00"), None)],
)
def test_its_present_is_that_of_the_machine_or_chosen(
    start: tuple[str, ...], days: int | None, emulate: Emulate
) -> None:
    begins = MIDNIGHT if days is None else datetime.now(UTC) - timedelta(days=days, seconds=1)

    def compare(emulator: Emulating) -> None:
        passed = emulator.service_time - begins.replace(tzinfo=None)
        assert timedelta(0) <= passed < timedelta(minutes=1)

    emulate(compare, *start)


def test_a_port_can_be_chosen(emulate: Emulate, cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        taken.listen()
        ran = cli("emulate", "--port", port)
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert f"--port {port}: address already in use" in ran.stderr

    def look(emulator: Emulating) -> None:
        assert emulator.variables["INCOME_BASE_URL"] == f"http://127.0.0.1:{port}"

    emulate(look, "--port", port)


TOKEN: Final = "invented-control-token"


def state_of(emulator: Emulating, host: str, token: str | None = None) -> int:
    """Return the status of its state, asked for under a host's name."""
    headers = {"Host": host} | ({"Authorization": f"Bearer {token}"} if token else {})
    url = f"{emulator.variables['INCOME_BASE_URL']}/emulator/state"
    try:
        with urlopen(Request(url, headers=headers)) as got:
            return int(got.status)
    except HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("is_given", [True, False])
def test_other_hosts_reach_it_where_they_are_allowed(is_given: bool, emulate: Emulate) -> None:
    """By the names that are given; to control it they need the token, which is not printed."""
    env = {"INCOME_EMULATOR_TOKEN": TOKEN} if is_given else {}
    names = ("--allow-host", "emulator", "--allow-host", "192.0.2.7")

    def look(emulator: Emulating) -> None:
        emulator.running.stdout.wait_for("# Other hosts reach it at http://emulator:")
        assert state_of(emulator, "evil.example", TOKEN) == 421
        for host in ("emulator", "192.0.2.7:80"):
            assert state_of(emulator, host, TOKEN) == (200 if is_given else 403)
            assert state_of(emulator, host) == (401 if is_given else 403)

    ran = emulate(look, "--host", "0.0.0.0", *names, **env)
    assert (ran.status, ran.stderr, TOKEN in ran.stdout) == (0, "", False)
    is_told = "They may not control it: INCOME_EMULATOR_TOKEN is not set" in ran.stdout
    assert is_told is not is_given


def test_an_error_that_it_logs_has_its_cause(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log names the error's class and line, but not its text, which may be private."""
    log = logging.getLogger("income_client.emulator.server")

    async def start(_: Emulator) -> None:
        try:
            dict[str, str]().pop("what it says")
        except KeyError:
            log.exception("Error handling request")
        raise OSError("that will do")

    monkeypatch.setattr(Emulator, "start", start)
    ran = cli("emulate", "--applications", "1")
    assert "Error handling request: KeyError in test_emulate.py, line " in ran.stderr
    assert "what it says" not in ran.stderr


# How the service behaves


def test_its_latency_can_be_chosen(emulate: Emulate) -> None:
    async def ask(emulator: Emulating) -> None:
        async with emulator.client() as client:
            began = perf_counter()
            await client.get_application_page()
            assert perf_counter() - began >= 0.05

    emulate(ask, "--latency", "0.05")


RULES: Final[list[tuple[str, dict[str, Any]]]] = [
    ("", {}),
    ("--order descending", {"order": Order.DESCENDING}),
    ("--order shuffled", {"order": Order.SHUFFLED}),
    ("--order random", {"order": Order.RANDOM}),
    ("--bounds neither", {}),
    ("--bounds after", {"lower_closed": True}),
    ("--bounds before", {"upper_closed": True}),
    ("--bounds both", {"lower_closed": True, "upper_closed": True}),
    ("--max-span 86400", {"max_span": 86_400}),
    ("--span-clamp before", {"span_clamp": SpanClamp.BEFORE}),
    ("--default-span 60", {"default_span": 60}),
    ("--oldest 2026-06-30T05:00+05:00", {"oldest": int(MIDNIGHT.timestamp())}),
    ("--oldest 2d --start 2026-07-02", {"oldest": int(MIDNIGHT.timestamp())}),
    ("--future refuse", {"future": FutureBounds.REFUSE}),
    ("--visibility-delay 1", {"visibility_delay": 1}),
    ("--clock-offset -86400", {"clock_offset": -86_400}),
    ("--token-lifetime 5", {"token_lifetime": 5}),
    ("--expiry 77", {"url_lifetime": 77}),
    ("--url-age 900", {"url_age": 900}),
    ("--url-signed-once", {"url_signed_once": True}),
    ("--file-size 64KiB", {"file_bytes": 65_536}),
    ("--file-size 1.5kB", {"file_bytes": 1500}),
    ("--file-size 2MB", {"file_bytes": 2_000_000}),
    ("--file-redirects 1", {"file_redirects": 1}),
]


@pytest.mark.parametrize(("line", "expected"), RULES)
def test_each_option_is_a_rule(
    line: str, expected: dict[str, Any], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests of the emulator cover the effect of each rule."""
    rules: list[ServiceRules] = []

    async def start(self: Emulator) -> None:
        rules.append(self.rules)
        raise OSError("that will do")

    monkeypatch.setattr(Emulator, "start", start)
    assert cli("emulate", "--applications", "1", *line.split()).status == 1
    assert rules == [ServiceRules(**expected)]


def test_each_rule_has_an_option() -> None:
    assert {name for _, rules in RULES for name in rules} == {*fields_dict(ServiceRules)}


# What goes wrong


def test_faults_fall_on_their_share(emulate: Emulate) -> None:
    async def read(emulator: Emulating) -> None:
        quick = RetryPolicy(max_attempts=10, base_delay=0.0)
        async with emulator.client(retry=quick) as client:
            rows = [row async for row in client.list_applications()]
            records = [one async for one in client.fetch_records(rows, documents=False)]
        assert len(records) == 40

    ran = emulate(
        read, "--faults", "get_application: 503 rate=20%; list_applications: drop rate=0.1"
    )
    line = re.search(r"(\d+) of (\d+) requests \((.+)\)", ran.stderr)
    assert line, ran.stderr
    assert 0 < int(line[1]) < int(line[2])
    assert "503 " in line[3]


# Callbacks


def test_updates_send_callbacks(emulate: Emulate) -> None:
    with beside(ScriptedServer(in_turn(reply()))) as server:

        def watch(emulator: Emulating) -> None:
            until(lambda: len(server.requests) >= 45)
            shown = emulator.running.stdout.text
            assert f"{server.url}/in" in shown
            assert "hidden" not in shown

        address = ("--callbacks", f"{server.url}/in?key=hidden")
        ran = emulate(watch, "--updates", "200", *address, **BASIC_VARIABLES)
    assert "They carry no credentials" not in ran.stdout
    assert re.search(r"\d+ delivered, 0 not", ran.stderr)
    assert {(one.path, one.query) for one in server.requests} == {("/in", "key=hidden")}
    assert {one.authorization for one in server.requests} == {BASIC.authorization().reveal()}
    assert len({json.loads(one.body)["application_id"] for one in server.requests}) == 40


def test_an_endpoint_that_hangs_holds_nothing_back(emulate: Emulate) -> None:
    """No more than 16 callbacks are under way; updates continue, and those left out are counted."""
    with beside(ScriptedServer(in_turn(SILENT))) as server:

        async def watch(emulator: Emulating) -> None:
            until(lambda: len(server.requests) >= 16)
            async with emulator.client() as client:
                waiting = {row.application_id async for row in client.list_applications()}
                # Once all were updated there were callbacks that were left out.
                while waiting:
                    async for record in client.fetch_records({*waiting}, documents=False):
                        if record.last_updated_at.replace(tzinfo=None) >= emulator.service_time:
                            waiting.discard(record.application_id)

        ran = emulate(watch, "--updates", "500", "--callbacks", server.url)
        assert len(server.requests) == 16
    assert "16" in ran.stderr
