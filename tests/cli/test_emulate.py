"""``income-client emulate`` until it is stopped."""

import asyncio
import json
import re
import shlex
import socket
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from io import BytesIO
from time import perf_counter
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from attrs import fields_dict

from income_client import (
    BasicAuth,
    Document,
    DownloadPolicy,
    IncomeClient,
    MemoryCheckpointStore,
    OAuth2ClientCredentials,
    RetryPolicy,
)
from income_client.emulator import ServiceRules
from tests.support.beside import beside, until
from tests.support.cli import Cli, Ran, Running, spelt
from tests.support.listening import BASIC, BASIC_VARIABLES, OAUTH2_VARIABLES
from tests.support.scripted_server import always, forever, reply, serving, with_tokens

HERE: Final = DownloadPolicy(
    allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
)
NOBODY: Final = "http://127.0.0.1:9/callbacks"
TO_NOBODY: Final = f"--callbacks {NOBODY}"
OVER_TLS: Final = "--callbacks https://127.0.0.1:9/"
LIST: Final = "/v1/income/applications"


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

    def fetch(self, query: str = "") -> tuple[int, str, str]:
        """Return status, head and body of a reply; it must have printed Basic credentials."""
        auth = BasicAuth(self.variables["INCOME_USERNAME"], self.variables["INCOME_PASSWORD"])
        url = f"{self.variables['INCOME_BASE_URL']}{LIST}{query}"
        request = Request(url, headers={"Authorization": auth.authorization().reveal()})
        try:
            with urlopen(request) as got:
                return got.status, str(got.headers), got.read().decode()
        except HTTPError as error:
            with error:
                return error.code, str(error.headers), ""

    def ids(self) -> list[str]:
        """Return the ids of its applications, in the order of its list."""
        rows = json.loads(self.fetch("?limit=1000")[2])["applications"]
        return [row["application_id"] for row in rows]


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


@pytest.mark.parametrize("arguments", [(), ("--oauth",), ("--basic",)], ids=spelt)
def test_its_variables_lead_a_client_to_it(arguments: tuple[str, ...], emulate: Emulate) -> None:
    """A client made from the printed environment reads every application."""

    async def read(emulator: Emulating) -> None:
        assert ("INCOME_PASSWORD" in emulator.variables) is (arguments == ("--basic",))
        async with emulator.client() as client:
            assert len({row.application_id async for row in client.list_applications()}) == 40

    assert emulate(read, *arguments).stderr == ""


@pytest.mark.parametrize(("signal", "status"), [("interrupt", 130), ("terminate", 0)])
def test_signals_end_it_quietly(signal: str, status: int, emulate: Emulate) -> None:
    """130 after Ctrl-C, and 0 after SIGTERM, which is how a service is meant to end."""
    ran = emulate(lambda emulator: getattr(emulator.running, signal)())
    assert (ran.status, ran.stderr) == (status, "")


def test_its_present_is_that_of_the_machine(emulate: Emulate) -> None:
    """However long its data took to make, service time is not behind."""

    async def compare(emulator: Emulating) -> None:
        seconds = set[datetime]()
        async with emulator.client() as client:
            while len(seconds) < 3:  # a clock that is behind is so at the turn of a second
                # Less than it takes to invent the data; the process may have had to wait.
                earlier = datetime.now(UTC) - timedelta(milliseconds=200)
                before = earlier.replace(tzinfo=None, microsecond=0)
                present = (await client.get_application_page(limit=1)).updated_before
                assert before <= present <= datetime.now(UTC).replace(tzinfo=None)
                seconds.add(present)

    assert emulate(compare, applications=20_000).status == 0


@pytest.mark.parametrize("start", ["2026-06-30", "2026-06-30T02:00:00+02:00", "7d"])
def test_its_present_can_be_chosen(start: str, emulate: Emulate) -> None:
    """Service time begins where --start says, in UTC where there is no zone."""
    begins = datetime(2026, 6, 30)  # noqa: DTZ001 - service time
    if start == "7d":
        begins = datetime.now(UTC).replace(tzinfo=None, microsecond=0) - timedelta(days=7)

    def compare(emulator: Emulating) -> None:
        passed = emulator.service_time - begins
        assert timedelta(0) <= passed < timedelta(minutes=1)

    emulate(compare, "--start", start)


def test_latency_and_updates_are_as_they_are_told(emulate: Emulate) -> None:
    """Every reply takes its time, and one application after the other changes."""

    async def poll(emulator: Emulating) -> None:
        changed: set[str] = set()
        async with emulator.client() as client:
            began = perf_counter()
            await client.get_application_page()
            assert perf_counter() - began >= 0.05
            poller = client.poll(MemoryCheckpointStore(), interval=0.2, documents=False)
            async for record in poller:
                changed.add(record.application_id)
                if len(changed) == 5:
                    break

    emulate(poll, "--latency", "0.05", "--updates", "100")


def test_a_port_can_be_chosen(emulate: Emulate, cli: Cli) -> None:
    """The port asked for is the one it listens on; one that is taken is one line, status 1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def look(emulator: Emulating) -> None:
        assert emulator.variables["INCOME_BASE_URL"] == f"http://127.0.0.1:{port}"

    emulate(look, "--port", port)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ran = cli("emulate", "--port", port)
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert f"--port {port}: address already in use" in ran.stderr


def test_a_request_that_is_not_http_prints_nothing(emulate: Emulate) -> None:
    """It is answered with 400, and no traceback comes to the terminal."""

    async def send(emulator: Emulating) -> None:
        port = urlsplit(emulator.variables["INCOME_BASE_URL"]).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01\x02\x00\x01\r\n\r\n")  # TLS
        async with asyncio.timeout(20):
            assert b" 400 " in await reader.readline()
        writer.transport.abort()

    ran = emulate(send)
    assert (ran.status, ran.stderr) == (0, "")


# How the service behaves


EXPIRED: Final = (
    "--url-age", "900", "--url-signed-once", "--visibility-delay", "1", "--token-lifetime", "5",
)  # fmt: skip


async def first_document(client: IncomeClient) -> Document:
    """Return a document of the first application."""
    rows = [row async for row in client.list_applications()]
    return next((await client.get_documents(rows[0].application_id)).all()).document


def test_files_and_addresses_are_as_it_is_told(emulate: Emulate) -> None:
    """Size and redirects of files; addresses expire when they should, or have already."""

    async def read(emulator: Emulating) -> None:
        async with emulator.client(downloads=HERE) as client:
            document = await first_document(client)
            assert "X-Amz-Expires=77&" in document.url
            assert (await client.download(document, BytesIO())).size == 65_536

    async def read_expired(emulator: Emulating) -> None:
        async with emulator.client() as client:
            url = (await first_document(client)).url
            with pytest.raises(HTTPError) as caught:
                await asyncio.to_thread(urlopen, url)
            caught.value.close()

    emulate(read, "--file-size", " 64KiB ", "--expiry", "77", "--file-redirects", "1")
    emulate(read_expired, *EXPIRED)


@pytest.mark.parametrize("bounds", ["neither", "after", "before", "both"])
def test_bounds_may_be_inclusive(bounds: str, emulate: Emulate) -> None:
    """The name says which bound's very second is in the window."""

    async def ask(emulator: Emulating) -> None:
        async with emulator.client() as client:
            one = (await client.get_application_page("2000-01-01")).applications[0].application_id
            second = (await client.get_application(one)).last_updated_at.replace(tzinfo=None)
            for name, window in (
                ("after", (second, second + timedelta(seconds=1))),
                ("before", (second - timedelta(seconds=1), second)),
            ):
                page = await client.get_application_page(*window)
                found = one in {row.application_id for row in page.applications}
                assert found is (bounds in (name, "both")), name

    emulate(ask, "--bounds", bounds)


AT: Final = ("--start", "2026-06-30T12:00:00")
OLD: Final = "?updated_after=2026-06-01"


@pytest.mark.parametrize(
    ("options", "query", "status", "words"),
    [
        ("--max-span 86400", OLD, 200, '"2026-06-29T12:00'),
        ("--max-span 86400 --span-clamp before", OLD, 200, '"2026-06-02T00:00:00"'),
        ("--oldest 2026-06-20T05:00+05:00", OLD, 200, '"2026-06-20T'),
        ("--default-span 60", "", 200, '"2026-06-30T11:59:'),
        ("--future refuse", "?updated_before=2100-01-01", 400, ""),
        ("--clock-offset -86400", "", 200, "29 Jun 2026"),
        ("", "?updated_before=2100-01-01", 200, '"2100-01-01'),
    ],
)
def test_windows_and_clocks_are_as_it_is_told(
    options: str, query: str, status: int, words: str, emulate: Emulate
) -> None:
    """Wide and old windows, bounds in the future, a request without bounds, the Date header."""

    def ask(emulator: Emulating) -> None:
        found, head, body = emulator.fetch(query)
        assert found == status
        assert words in head + body

    emulate(ask, "--basic", *AT, *options.split())


def test_rows_come_in_the_order_that_is_asked_for(emulate: Emulate) -> None:
    """Descending is ascending backwards."""
    orders: list[list[str]] = []
    for order in ("ascending", "descending"):
        emulate(lambda one: orders.append(one.ids()), "--basic", "--order", order, *AT)
    assert len(orders[0]) == 40
    assert orders[0] == orders[1][::-1]


def test_an_emulated_service_has_every_option_of_its_rules(cli: Cli) -> None:
    """Each rule of the emulator is an option of the command."""
    rules = {name.replace("_", "-") for name in fields_dict(ServiceRules)}
    renamed = {
        "lower-closed": "bounds", "upper-closed": "bounds", "url-lifetime": "expiry",
        "file-bytes": "file-size",
    }  # fmt: skip
    options = set(re.findall(r"--([a-z-]+)", cli("emulate", "--help").stdout))
    assert {renamed.get(name, name) for name in rules} <= options


# What goes wrong


def test_faults_fall_on_their_share(emulate: Emulate) -> None:
    """A client meets them and reads everything; at the end their number is reported."""

    async def read(emulator: Emulating) -> None:
        quick = RetryPolicy(max_attempts=10, base_delay=0.0)
        async with emulator.client(retry=quick) as client:
            rows = [row async for row in client.list_applications()]
            records = [one async for one in client.fetch_records(rows, documents=False)]
        assert len(records) == 40

    ran = emulate(read, "--faults", "503:20%@application,drop:0.1@list")
    line = re.search(r"(\d+) of (\d+) requests \((.+)\)", ran.stderr)
    assert line, ran.stderr
    assert 0 < int(line[1]) < int(line[2])
    assert "503 " in line[3]


@pytest.mark.parametrize(
    ("faults", "met"),
    [
        ("429:100%@list, 404:1@documents, 500:0", {"list", "documents"}),
        ("500:100%", {"list", "application", "documents"}),
    ],
)
def test_a_fault_falls_on_the_calls_that_it_names(
    faults: str, met: set[str], emulate: Emulate
) -> None:
    """All of them unless one is named; other calls are left alone."""

    def ask(emulator: Emulating) -> None:
        one = "app-4158a36c27"
        paths = {"list": "", "application": f"/{one}", "documents": f"/{one}/documents"}
        for call, path in paths.items():
            status, head, _ = emulator.fetch(path)
            assert (status != 200) is (call in met), call
            assert ("Retry-After" in head) is (status == 429)

    emulate(ask, "--basic", "--faults", faults)


# Misuse


@pytest.mark.parametrize(
    ("option", "text", "named"),
    [
        ("--order", "sorted", "ascending"),
        ("--bounds", "open", "neither"),
        ("--max-span", "0", "--max-span"),
        ("--expiry", "0", "--expiry"),
        ("--file-redirects", "-1", "--file-redirects"),
        ("--oldest", "yesterday", "--oldest"),
        *(("--file-size", text, "--file-size") for text in
          ("", "k", "0", "-1", "1e3", "1,000", "5TB", "3GiB", "1kB2", "٣", "9" * 99)),
        *(("--faults", text, "--faults") for text in ("", "500", "500:0.1,", "500:-1")),
        ("--faults", "500:2", "from 0 to 1"),
        ("--faults", "500:101%", "from 0 to 1"),
        ("--faults", "200:0.1", "400"),
        ("--faults", "body:0.1", "reset"),
        ("--faults", "500:0.1@files", "token"),
        ("--faults", "500:0.6,cut:0.6", "1"),
        ("--faults", "500:0.6,cut:0.6@file", "1"),
    ],
)  # fmt: skip
def test_an_invalid_option_is_explained(option: str, text: str, named: str, cli: Cli) -> None:
    """The message says what would be right, and nothing is started."""
    ran = cli("emulate", f"{option}={text}")
    assert (ran.status, ran.stdout) == (2, "")
    assert named in ran.words


# Callbacks


def test_updates_send_callbacks(emulate: Emulate) -> None:
    """Each update sends one, with credentials of the environment; at the end they are counted."""
    with beside(serving(always(reply()))) as server:

        def watch(emulator: Emulating) -> None:
            until(lambda: len(server.seen) >= 45)
            shown = emulator.running.stdout.text
            assert f"{server.url}/in" in shown
            assert "hidden" not in shown

        ran = emulate(
            watch, "--updates", "200", "--callbacks", f"{server.url}/in?key=hidden",
            **BASIC_VARIABLES,
        )  # fmt: skip
    assert re.search(r"\d+ delivered, 0 not", ran.stderr)
    assert {(one.path, one.query) for one in server.seen} == {("/in", "key=hidden")}
    assert {one.authorization for one in server.seen} == {BASIC.authorization().reveal()}
    assert len({json.loads(one.body)["application_id"] for one in server.seen}) == 40


def test_callbacks_carry_tokens_or_nothing(emulate: Emulate) -> None:
    """With an address for tokens, client id and secret get one; else there is none."""
    for arguments, variables, carried in (
        (("--callback-token-url", "{}/token"), OAUTH2_VARIABLES, "Bearer token-1"),
        ((), {}, ""),
    ):
        with beside(serving(with_tokens(always(reply())))) as server:

            def watch(_: Emulating, seen: Any = server.seen) -> None:
                until(lambda: sum(one.path != "/token" for one in seen) >= 3)

            emulate(
                watch, "--updates", "100", "--callbacks", server.url,
                *(each.format(server.url) for each in arguments), **variables,
            )  # fmt: skip
        sent = {one.authorization for one in server.seen if one.path != "/token"}
        assert sent == {carried}


def test_an_endpoint_that_hangs_holds_nothing_back(emulate: Emulate) -> None:
    """No more than 16 callbacks are under way; updates continue, and those left out are counted."""

    async def silent(*_: object) -> None:
        await forever()

    with beside(serving(silent)) as server:

        def is_updated(emulator: Emulating, one: str) -> bool:
            text = json.loads(emulator.fetch(f"/{one}")[2])
            updated_at = datetime.fromisoformat(text["last_updated_at"].removesuffix("Z"))
            return updated_at >= emulator.service_time

        def watch(emulator: Emulating) -> None:
            ids = emulator.ids()
            until(lambda: len(server.seen) >= 16)
            # By then there were 40 updates at least, and so callbacks that were left out.
            until(lambda: all(is_updated(emulator, one) for one in ids))

        ran = emulate(watch, "--basic", "--updates", "500", "--callbacks", server.url)
        assert len(server.seen) == 16
    assert "16" in ran.stderr


@pytest.mark.parametrize(
    ("line", "env", "named", "status"),
    [
        (f"--callback-token-url {NOBODY}", {}, "--callbacks", 2),
        ("--callback-ca x.pem", {}, "--callbacks", 2),
        ("--callbacks http://example.com/", {}, "--callbacks", 2),
        ("--callbacks http://u:hidden@127.0.0.1/", {}, "--callbacks", 2),
        (f"{TO_NOBODY} --callback-token-url {NOBODY}", {}, "INCOME_CALLBACK_CLIENT_ID", 2),
        (f"{TO_NOBODY} --callback-token-url http://x.y/?hidden", {}, "--callback-token-url", 2),
        (TO_NOBODY, OAUTH2_VARIABLES, "--callback-token-url", 2),
        (TO_NOBODY, {"INCOME_CALLBACK_PASSWORD": "hidden"}, "INCOME_CALLBACK_USERNAME", 2),
        (f"{TO_NOBODY} --callback-ca x.pem", {}, "https", 2),
        (f"{OVER_TLS} --callback-certificate x.pem", {}, "together", 2),
        (f"{OVER_TLS} --callback-ca nowhere", {}, "certificate", 1),
        (f"{OVER_TLS} --callback-certificate no --callback-key no", {}, "private key", 1),
    ],
)
def test_invalid_callbacks_are_one_line(
    line: str, env: dict[str, str], named: str, status: int, cli: Cli
) -> None:
    """A wrong option or variable is one line with status 2, a file one with 1; none is shown."""
    ran = cli("emulate", *line.split(), env=env)
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (status, "", 1)
    assert named in ran.stderr
    assert "hidden" not in ran.stderr
