"""How ``income-client listen`` ends, and why it does not begin."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from income_client.emulator import CallbackTarget, Emulator
from tests.cli.entry import run
from tests.cli.listening import BASIC, BASIC_VARIABLES, OAUTH2_VARIABLES, appending, listening
from tests.cli.polling import ended, until
from tests.support.scripted_server import forever, serving


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """Who sends the callbacks."""
    async with Emulator(5) as emulator:
        yield emulator


def is_open(port: int) -> bool:
    """Say whether anybody listens there."""
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
async def test_signals_end_it_cleanly(
    service: Emulator, number: signal.Signals, status: int
) -> None:
    """Ctrl-C is 130 and SIGTERM 0; what was taken is written, and nothing is said."""
    with listening(**BASIC_VARIABLES) as command:
        assert (await service.fire_callback(target=command.target())).delivered
        command.process.send_signal(number)
        lines, errors = await ended(command.process)
        assert command.process.returncode == status
    assert len((lines or "").splitlines()) == 1
    assert errors == ""


async def test_a_second_signal_ends_it_at_once(service: Emulator) -> None:
    """The first waits for callbacks under way, the second for nothing."""

    async def silent(*_: object) -> None:
        await forever()

    async with serving(silent) as server:
        with listening("--forward-to", server.url, **BASIC_VARIABLES) as command:
            waiting = asyncio.create_task(service.fire_callback(target=command.target()))
            await until(lambda: len(server.seen) == 1)
            command.process.send_signal(signal.SIGTERM)
            await until(lambda: not is_open(urlsplit(command.url).port or 0))
            assert command.process.poll() is None
            command.process.send_signal(signal.SIGINT)
            lines, _ = await ended(command.process)
            assert command.process.returncode == -signal.SIGINT
            assert lines == ""
            assert not (await waiting).delivered


async def test_a_line_that_nobody_reads_is_not_taken(service: Emulator) -> None:
    """Once standard output is closed, a callback is answered with 503 and the command ends."""
    with listening(**BASIC_VARIABLES) as command:
        assert command.process.stdout is not None
        command.process.stdout.close()
        command.process.stdout = None
        delivery = await service.fire_callback(target=command.target())
        assert delivery.attempts == (503,)
        _, errors = await ended(command.process)
        assert command.process.returncode == 141
    assert errors == "income-client: 0 taken; not taken: handler_failed 1\n"


async def test_a_full_disk_ends_it(service: Emulator) -> None:
    """A line that cannot be written is no callback that was taken: 503, and status 1."""
    with appending(Path("/dev/full")) as full, listening(stdout=full, **BASIC_VARIABLES) as command:
        delivery = await service.fire_callback(target=command.target())
        assert delivery.attempts == (503,)
        _, errors = await ended(command.process)
        assert command.process.returncode == 1
    assert errors.endswith(
        "income-client: cannot write to standard output: no space left on device\n"
    )


def test_a_taken_port_is_one_line() -> None:
    """A port that somebody else has is said in one line, with status 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = run("listen", "--port", str(port), **BASIC_VARIABLES)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"income-client: cannot listen on 127.0.0.1 port {port}: address already in use\n"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_others_need_credentials(host: str) -> None:
    """Where other machines can ring, nothing is made up: status 2."""
    refused = run("listen", "--port", "0", "--host", host, "--network", "192.0.2.0/24")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "set INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD" in refused.stderr
    assert "export" not in refused.stderr


def test_others_should_have_tls() -> None:
    """Credentials over plain HTTP from other machines are said to need a proxy with TLS."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = run("listen", "--host", "0.0.0.0", "--port", port, **BASIC_VARIABLES)
    assert refused.returncode == 1
    assert "a proxy must do TLS" in refused.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "variables", "said", "status"),
    [
        (("--path", "hooks"), {}, "--path is a path", 2),
        (("--path", "/{all}"), {}, "--path is a path", 2),
        (("--token-path", "/callbacks"), {}, "are the same", 2),
        (("--certificate", "x.pem"), {}, "TLS needs --certificate and --key", 2),
        (("--client-ca", "x.pem"), {}, "TLS needs --certificate and --key", 2),
        (("--subject", "CN=x"), {}, "--subject and --san need --client-ca", 2),
        (("--certificate", "x.pem", "--key", "y.pem"), {}, "certificate: ", 1),
        (("--network", "anywhere"), {}, "is neither an IP address", 2),
        (("--trusted-proxy", "0.0.0.0/0"), {}, "means every address", 2),
        (("--forward-to", "http://example.com/"), {}, "--forward-to is an http or https", 2),
        (("--forward-to", "http://u:hidden@127.0.0.1/"), {}, "--forward-to is an http or https", 2),
        ((), {"INCOME_CALLBACK_USERNAME": "partner"}, "INCOME_CALLBACK_PASSWORD is not set", 2),
        ((), {"INCOME_CALLBACK_PASSWORD": "hidden"}, "INCOME_CALLBACK_USERNAME is not set", 2),
        (
            (),
            OAUTH2_VARIABLES | {"INCOME_CALLBACK_CLIENT_SECRET": "hidden"},
            "fewer than 32 characters",
            2,
        ),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    arguments: tuple[str, ...], variables: dict[str, str], said: str, status: int
) -> None:
    """A wrong option or variable is one line with status 2, a file one with 1; none is shown."""
    refused = run("listen", "--port", "0", *arguments, **variables)
    assert (refused.returncode, refused.stdout) == (status, "")
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert "hidden" not in refused.stderr


async def test_a_request_to_another_path_is_told_once(service: Emulator) -> None:
    """The first mistake that is made with any endpoint."""
    with listening(**BASIC_VARIABLES) as command:
        url = command.url.removesuffix("/callbacks") + "/callback"
        for _ in range(2):
            target = CallbackTarget(url, auth=BASIC, pauses=())
            assert (await service.fire_callback(target=target)).attempts == (404,)
        command.process.send_signal(signal.SIGTERM)
        _, errors = await ended(command.process)
    assert errors == (
        "income-client: nothing is taken at /callback; callbacks are meant to go to /callbacks\n"
    )
