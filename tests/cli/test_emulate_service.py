"""``income-client emulate``: its exit status, its clock, and what it does not print."""

import asyncio
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from income_client import IncomeClient, OAuth2ClientCredentials
from tests.support.cli import Cli, Ran, Running


def exported(running: Running) -> dict[str, str]:
    """Wait until it listens, and return the variables that it prints, as a shell reads them."""
    lines = running.stdout.wait_for("# Its files: ").splitlines()
    said = [shlex.split(line)[1] for line in lines if line.startswith("export ")]
    return dict(one.split("=", 1) for one in said)


def emulated(cli: Cli, during: Callable[[Running], object], applications: int = 40) -> Ran:
    """Run it beside something that ends it."""
    return cli("emulate", "--applications", str(applications), during=during)


@pytest.mark.parametrize(("signal", "status"), [("interrupt", 130), ("terminate", 0)])
def test_ctrl_c_and_sigterm_have_the_statuses_of_other_commands(
    signal: str, status: int, cli: Cli
) -> None:
    """130 after Ctrl-C, and 0 after SIGTERM, which is how a service is meant to end."""

    def stop(running: Running) -> None:
        exported(running)
        getattr(running, signal)()

    ran = emulated(cli, stop)
    assert (ran.status, ran.stderr) == (status, "")


def test_its_present_is_that_of_the_machine_to_the_second(cli: Cli) -> None:
    """However long its data took to make, service time is not behind."""

    async def compare(variables: dict[str, str]) -> None:
        auth = OAuth2ClientCredentials(
            variables["INCOME_CLIENT_ID"], variables["INCOME_CLIENT_SECRET"]
        )
        seconds = set[datetime]()
        async with IncomeClient(variables["INCOME_BASE_URL"], auth=auth) as client:
            while len(seconds) < 3:  # a clock that is behind is so at the turn of a second
                before = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
                present = (await client.get_application_page(limit=1)).updated_before
                assert before <= present <= datetime.now(UTC).replace(tzinfo=None)
                seconds.add(present)

    def look(running: Running) -> None:
        asyncio.run(compare(exported(running)))
        running.terminate()

    assert emulated(cli, look, applications=20_000).status == 0


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n"],
    ids=["tls", "no-header"],
)
def test_a_request_that_is_not_http_prints_nothing(sent: bytes, cli: Cli) -> None:
    """It is answered with 400, and no traceback comes to the terminal."""

    async def ask(url: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(sent)
        async with asyncio.timeout(20):
            first = await reader.readline()
        writer.transport.abort()
        return first

    def send(running: Running) -> None:
        assert b" 400 " in asyncio.run(ask(exported(running)["INCOME_BASE_URL"]))
        running.terminate()

    ran = emulated(cli, send)
    assert (ran.status, ran.stderr) == (0, "")
