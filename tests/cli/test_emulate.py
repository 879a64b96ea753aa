"""``income-client emulate`` until it is told to stop."""

import asyncio
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from time import perf_counter
from urllib.parse import urlsplit

import pytest

from income_client import (
    BasicAuth,
    DownloadPolicy,
    IncomeClient,
    MemoryCheckpointStore,
    RetryPolicy,
)
from tests.cli.entry import run, start

HERE = DownloadPolicy(
    allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
)


@contextmanager
def emulating(*arguments: str, applications: int = 40) -> "Iterator[subprocess.Popen[str]]":
    """Run the emulator beside what happens inside."""
    process = start("emulate", "--applications", str(applications), *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def variables_of(process: "subprocess.Popen[str]", count: int = 3) -> dict[str, str]:
    """Read the variables that it prints, as a shell would."""
    assert process.stdout is not None
    first = r"# [\d,]+ invented applications at http://127\.0\.0\.1:"
    assert re.match(first, process.stdout.readline())
    assert process.stdout.readline().startswith("# Service time is ")
    variables = {}
    for _ in range(count):
        export, assignment = shlex.split(process.stdout.readline())
        assert export == "export"
        name, _, variables[name] = assignment.partition("=")
    hint = "# Its files: income-client download --to files --allow-host 127.0.0.1 app-"
    assert process.stdout.readline().startswith(hint)
    return variables


def service_time_of(process: "subprocess.Popen[str]") -> datetime:
    """Read the service time that it prints."""
    assert process.stdout is not None
    process.stdout.readline()
    line = process.stdout.readline()
    shown = re.fullmatch(r"# Service time is (\S+), and passes\.\n", line)
    assert shown, line
    return datetime.fromisoformat(shown[1])


@pytest.mark.parametrize("arguments", [(), ("--oauth",), ("--basic",)])
async def test_its_variables_lead_a_client_to_it(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client made from the printed environment reads every application."""
    with emulating(*arguments) as process:
        variables = await asyncio.to_thread(variables_of, process)
        assert ("INCOME_PASSWORD" in variables) is (arguments == ("--basic",))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        async with IncomeClient.from_env() as client:
            found = {row.application_id async for row in client.list_applications()}
    assert len(found) == 40


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_signals_end_it_cleanly(number: signal.Signals, status: int) -> None:
    """Ctrl-C and SIGTERM are how it is meant to end: nothing is said, as by every command."""
    with emulating() as process:
        variables_of(process)
        process.send_signal(number)
        assert process.communicate(timeout=50) == ("", "")
        assert process.returncode == status


async def test_its_present_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless told otherwise, service time is the machine's, in UTC, to the second."""
    with emulating(applications=20_000) as process:
        variables = await asyncio.to_thread(variables_of, process)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        async with IncomeClient.from_env() as client:
            seconds = set[datetime]()
            while len(seconds) < 3:  # a clock that is behind is so at the turn of a second
                before = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
                present = (await client.get_application_page(limit=1)).updated_before
                assert before <= present <= datetime.now(UTC).replace(tzinfo=None)
                seconds.add(present)


async def test_what_is_not_http_is_said_nowhere() -> None:
    """A request of something else, such as a browser's TLS, is answered and not reported."""
    with emulating() as process:
        url = (await asyncio.to_thread(variables_of, process))["INCOME_BASE_URL"]
        for sent in (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\nno header\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
            writer.write(sent + b"\r\n\r\n")
            assert b" 400 " in await reader.readline()
            writer.transport.abort()
        process.terminate()
        assert await asyncio.to_thread(process.communicate, timeout=50) == ("", "")


@pytest.mark.parametrize(
    "start", ["2026-06-30", "2026-06-30T00:00:00", "2026-06-30T02:00:00+02:00"]
)
def test_its_present_can_be_chosen(start: str) -> None:
    """Service time begins where it is told to, in UTC where there is no zone."""
    with emulating("--start", start) as process:
        passed = service_time_of(process) - datetime(2026, 6, 30)  # noqa: DTZ001 - service time
    assert timedelta(0) <= passed < timedelta(minutes=1)


async def test_latency_holds_replies_back() -> None:
    """Every reply takes as long as it is told to."""
    with emulating("--latency", "0.05", "--basic") as process:
        variables = await asyncio.to_thread(variables_of, process)
        auth = BasicAuth(variables["INCOME_USERNAME"], variables["INCOME_PASSWORD"])
        async with IncomeClient(variables["INCOME_BASE_URL"], auth=auth) as client:
            began = perf_counter()
            await client.get_application_page()
    assert perf_counter() - began >= 0.05


def test_a_taken_port_is_one_line() -> None:
    """A port that somebody else has is said in one line, with status 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run("emulate", "--port", str(port))
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == (
        f"income-client: cannot listen on port {port}: address already in use\n"
    )


def test_a_chosen_port_is_taken() -> None:
    """The port asked for is the one it listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with emulating("--port", str(port)) as process:
        assert variables_of(process)["INCOME_BASE_URL"] == f"http://127.0.0.1:{port}"


async def test_it_updates_as_many_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One application after the other changes, for whoever wants to see some."""
    with emulating("--updates", "100") as process:
        variables = await asyncio.to_thread(variables_of, process)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        changed: set[str] = set()
        async with IncomeClient.from_env() as client:
            poller = client.poll(MemoryCheckpointStore(), interval=0.2, documents=False)
            async for record in poller:
                changed.add(record.application_id)
                if len(changed) == 5:
                    break


async def test_it_behaves_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options for the service hold of what it serves: sizes of files, expiry, width of windows."""
    options = ("--file-size", "3kB", "--expiry", "77", "--max-span", str(86_400 * 30))
    with emulating(*options) as process:
        variables = await asyncio.to_thread(variables_of, process)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        async with IncomeClient.from_env(downloads=HERE) as client:
            page = await client.get_application_page(updated_after=datetime(2020, 1, 1, tzinfo=UTC))
            assert page.updated_before - page.updated_after == timedelta(days=30)
            walk = client.list_applications(page.updated_before - timedelta(days=91))
            found = {row.application_id async for row in walk}
            assert len(found) == 40
            documents = await client.get_documents(min(found))
            entry = next(documents.all())
            assert "X-Amz-Expires=77&" in entry.document.url
            file = await client.download(entry.document, BytesIO())
            assert file.size == 3000


async def test_faults_fall_on_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client meets them and reads everything; at the end it is told how many there were."""
    with emulating("--faults", "503:20%@application,drop:0.1@list") as process:
        variables = await asyncio.to_thread(variables_of, process)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        quick = RetryPolicy(max_attempts=10, base_delay=0.0)
        async with IncomeClient.from_env(retry=quick) as client:
            rows = [row async for row in client.list_applications()]
            records = [one async for one in client.fetch_records(rows, documents=False)]
        assert len(records) == 40
        process.send_signal(signal.SIGINT)
        lines, errors = await asyncio.to_thread(process.communicate, timeout=50)
    assert (lines, process.returncode) == ("", 130)
    told = re.fullmatch(r"income-client: faults: (\d+) of (\d+) requests \((.+)\)\n", errors)
    assert told, errors
    assert 0 < int(told[1]) < int(told[2])
    assert "503 " in told[3]
