"""``income-client listen --forward-to``: the application that the callbacks are handed on to."""

import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from income_client import Callback, CallbackBasicAuth, CallbackTokenIssuer
from income_client.emulator import Emulator
from income_client.receivers import CallbackReceiver
from tests.cli.entry import run
from tests.cli.listening import (
    BASIC,
    BASIC_VARIABLES,
    OAUTH2,
    OAUTH2_VARIABLES,
    appending,
    listening,
)
from tests.cli.polling import ended
from tests.support.callback_servers import served_by_aiohttp
from tests.support.scripted_server import always, reply, serving


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """Who sends the callbacks."""
    async with Emulator(5) as emulator:
        yield emulator


async def test_an_application_gets_what_the_service_sent(service: Emulator) -> None:
    """The JSON goes on with the same credentials, and its 200 is the service's 200."""
    payload = {"event_type": "error", "more": [1, 2.5, None, "\u00e9\u202e"]}
    async with serving(always(reply())) as server:
        url = f"{server.url}/hook?from=listen"
        with listening("--forward-to", url, **BASIC_VARIABLES) as command:
            delivery = await service.fire_callback(payload=payload, target=command.target())
            assert (await command.read_line())["event_type"] == "error"
    assert delivery.attempts == (200,)
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.query) == ("POST", "/hook", "from=listen")
    assert seen.authorization == BASIC.authorization().reveal()
    assert seen.headers["content-type"] == "application/json"
    assert json.loads(seen.body) == payload


@pytest.mark.parametrize("answer", [reply(500), reply(202), reply(307, Location="/"), None])
async def test_what_is_not_handed_on_is_sent_again(service: Emulator, answer: bytes | None) -> None:
    """Any answer but 200 makes it 503 and no line, so that the service sends again."""
    async with serving(always(answer, reply())) as server:
        with listening("--forward-to", server.url, **BASIC_VARIABLES) as command:
            target = command.target(pauses=(0,))
            delivery = await service.fire_callback(target=target)
            assert delivery.attempts == (503, 200)
            assert len(server.seen) == 2
            assert command.process.stderr is not None
            told = command.process.stderr.readline()
            command.process.terminate()
            lines, _ = await ended(command.process)
    said = " was answered with " + answer.split()[1].decode() if answer else ": no answer (dropped)"
    assert told == f"income-client: --forward-to{said}, and so the service is answered with 503\n"
    assert len((lines or "").splitlines()) == 1


async def test_what_cannot_be_written_is_handed_on_before() -> None:
    """A line stands for a callback that was handed on, and not the other way round."""
    async with Emulator(5) as service, serving(always(reply())) as server:
        with (
            appending(Path("/dev/full")) as full,
            listening("--forward-to", server.url, stdout=full, **BASIC_VARIABLES) as command,
        ):
            delivery = await service.fire_callback(target=command.target())
            await ended(command.process)
            assert (delivery.attempts, command.process.returncode) == ((503,), 1)
    assert len(server.seen) == 1


async def test_nothing_is_handed_on_that_is_not_verified(service: Emulator) -> None:
    """A callback without credentials never reaches the application."""
    async with serving(always(reply())) as server:
        with listening("--forward-to", server.url, **BASIC_VARIABLES) as command:
            target = command.target(auth=None)
            assert (await service.fire_callback(target=target)).attempts == (401,)
    assert server.seen == []


async def test_an_application_may_check_as_it_would_the_service(service: Emulator) -> None:
    """An application with a receiver of its own takes what is handed on, of either method."""
    received: list[Callback] = []
    issuer = CallbackTokenIssuer(OAUTH2.client_id, OAUTH2.client_secret)
    basic = CallbackBasicAuth(BASIC.username, BASIC.password)
    for auth, variables in ((basic, BASIC_VARIABLES), (issuer.auth, OAUTH2_VARIABLES)):
        receiver = CallbackReceiver(received.append, auth=auth)
        async with served_by_aiohttp(receiver) as url:
            with listening("--forward-to", f"{url}/callbacks", **variables) as command:
                if variables is BASIC_VARIABLES:
                    target = command.target()
                else:
                    target = command.target(auth=OAUTH2, token_url=command.token_url)
                name = service.world.ids[0]
                assert (await service.fire_callback(name, target=target)).attempts == (200,)
    assert [one.application_id for one in received] == [service.world.ids[0]] * 2


@pytest.mark.parametrize(
    "host_and_path",
    [
        "127.0.0.1:{}/callbacks?again",
        "localhost:{}/callbacks",
        "127.0.0.2:{}/callbacks",
        "[::1]:{}/callbacks",
        "localhost:{}/%63allbacks",
    ],
)
def test_it_does_not_call_itself(host_and_path: str) -> None:
    """An address that leads back to it is refused, however it is written."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    url = f"http://{host_and_path.format(port)}"
    refused = run("listen", "--port", port, "--forward-to", url, **BASIC_VARIABLES)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "income-client: --forward-to leads back here\n"
