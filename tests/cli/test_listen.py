"""``income-client listen`` takes callbacks and writes them as lines of JSON."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from income_client import BasicAuth
from income_client.emulator import CallbackTarget, Emulator
from tests.cli.entry import run
from tests.cli.listening import (
    BASIC,
    BASIC_VARIABLES,
    OAUTH2,
    OAUTH2_VARIABLES,
    Listening,
    listening,
)
from tests.cli.polling import ended


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """Who sends the callbacks."""
    async with Emulator(5) as emulator:
        yield emulator


async def test_made_up_credentials_lead_to_it(service: Emulator) -> None:
    """Without credentials in the environment it prints some, with which a callback arrives."""
    with listening() as command:
        assert command.url.startswith("http://127.0.0.1:")
        variables = await asyncio.to_thread(command.exported)
        auth = BasicAuth(*variables.values())
        assert list(variables) == ["INCOME_CALLBACK_USERNAME", "INCOME_CALLBACK_PASSWORD"]
        delivery = await service.fire_callback(target=command.target(auth=auth))
        line = await command.read_line()
    assert (delivery.attempts, delivery.is_json) == ((200,), True)
    received_at = datetime.fromisoformat(line.pop("received_at"))
    assert abs(datetime.now(UTC) - received_at) < timedelta(minutes=5)
    number = service.world.number_of(delivery.application_id or "")
    assert number is not None
    assert line == {
        "event_type": "income_calculations",
        "application_id": delivery.application_id,
        "application_reference_id": service.world.reference_of(number),
        "is_repeat": False,
    }


async def test_made_up_credentials_are_new_each_time() -> None:
    """Nobody knows them from an earlier run."""
    passwords = set()
    for _ in range(2):
        with listening() as command:
            variables = await asyncio.to_thread(command.exported)
            passwords.add(variables["INCOME_CALLBACK_PASSWORD"])
    assert len(passwords) == 2


async def test_repeats_are_marked(service: Emulator) -> None:
    """The same bytes once more are written once more, and said to be a repeat."""
    with listening(**BASIC_VARIABLES) as command:
        name = service.world.ids[0]
        for is_repeat in (False, True):
            await service.fire_callback(name, target=command.target())
            assert (await command.read_line())["is_repeat"] is is_repeat


async def test_a_payload_is_written_when_asked_for(service: Emulator) -> None:
    """What a payload holds besides the hints is not written unless ``--payload`` says so."""
    payload = {"application_id": "app-1", "borrower": "invented-name"}
    for arguments in ((), ("--payload",)):
        with listening(*arguments, **BASIC_VARIABLES) as command:
            await service.fire_callback(payload=payload, target=command.target())
            line = await command.read_line()
        assert line["application_id"] == "app-1"
        assert line.get("payload") == (payload if arguments else None)
        assert ("invented-name" in str(line)) is bool(arguments)


async def test_no_character_acts_on_a_terminal(service: Emulator) -> None:
    """Escapes, DEL, C1 controls, line separators and changes of direction are never written raw."""
    hostile = "\x1b]0;x\x07\x7f\x9b31m\u2028\u202e\u2066\r\n\ud83d\ude00"
    text = hostile.encode("utf-16", "surrogatepass").decode("utf-16")
    with listening("--payload", **BASIC_VARIABLES) as command:
        sent = {"event_type": text, text: text}
        await service.fire_callback(payload=sent, target=command.target())
        assert command.process.stdout is not None
        raw = await asyncio.to_thread(command.process.stdout.readline)
    assert raw.isascii()
    assert raw.removesuffix("\n").isprintable()
    line = json.loads(raw)
    assert line["payload"] == sent
    assert line["event_type"] is None


@pytest.mark.parametrize("payload", [b"", b"null", [1], "text", {"event_type": 7}])
async def test_unknown_shapes_are_lines_too(service: Emulator, payload: Any) -> None:
    """A callback that says nothing known is still written."""
    with listening(**BASIC_VARIABLES) as command:
        await service.fire_callback(payload=payload, target=command.target())
        line = await command.read_line()
    assert (line["event_type"], line["application_id"]) == (None, None)


async def test_tokens_are_sold_beside_it(service: Emulator) -> None:
    """A client id and secret make a token address, and callbacks with its tokens pass."""
    with listening(**OAUTH2_VARIABLES) as command:
        target = command.target(auth=OAUTH2, token_url=command.token_url)
        assert (await service.fire_callback(target=target)).attempts == (200,)
        await command.read_line()
        assert (await service.fire_callback(target=command.target())).attempts == (401,)


async def test_both_kinds_of_credentials_may_be_set(service: Emulator) -> None:
    """With both in the environment, either passes."""
    with listening("--token-path", "/sell", **BASIC_VARIABLES, **OAUTH2_VARIABLES) as command:
        token_url = command.token_url.replace("/token", "/sell")
        for target in (command.target(), command.target(auth=OAUTH2, token_url=token_url)):
            assert (await service.fire_callback(target=target)).attempts == (200,)


async def test_refusals_are_told_by_reason(service: Emulator) -> None:
    """Who is refused learns a status, the operator the reason, and all of them at the end."""
    wrong = BasicAuth(BASIC.username, "another-password")
    with listening(**BASIC_VARIABLES) as command:
        await service.fire_callback(target=command.target())
        for _ in range(2):
            delivery = await service.fire_callback(target=command.target(auth=wrong))
            assert delivery.attempts == (401,)
        form = {"Content-Type": "text/plain"}
        delivery = await service.fire_callback(target=command.target(), headers=form)
        assert delivery.attempts == (415,)
        command.process.send_signal(signal.SIGTERM)
        lines, errors = await ended(command.process)
    assert len((lines or "").splitlines()) == 1
    assert errors == (
        "income-client: callback refused with 401: a wrong user name or password "
        "(from 127.0.0.1)\n"
        "income-client: callback refused with 415: a content type that is not JSON "
        "(from 127.0.0.1)\n"
        "income-client: 1 taken; not taken: content_type 1, password_wrong 2\n"
    )
    assert "password" not in (lines or "")


async def test_networks_and_proxies(service: Emulator) -> None:
    """An address outside the networks is refused; a trusted proxy may tell one inside."""
    inside = {"X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
    for arguments, headers, status in (
        (("--network", "127.0.0.0/8"), {}, 200),
        (("--network", "198.51.100.0/24"), {}, 403),
        (("--network", "198.51.100.0/24"), inside, 403),
        (("--network", "198.51.100.0/24", "--trusted-proxy", "127.0.0.1"), inside, 200),
        (("--network", "203.0.113.9", "--trusted-proxy", "127.0.0.1"), inside, 403),
    ):
        with listening(*arguments, **BASIC_VARIABLES) as command:
            delivery = await service.fire_callback(target=command.target(), headers=headers)
            assert delivery.attempts == (status,), arguments


async def test_its_path_can_be_chosen(service: Emulator) -> None:
    """Callbacks come to the path that is given, and nowhere else."""
    with listening("--path", "/hooks/income", **BASIC_VARIABLES) as command:
        assert command.url.endswith("/hooks/income")
        assert (await service.fire_callback(target=command.target())).delivered
        elsewhere = CallbackTarget(f"{command.url}/x", auth=BASIC)
        assert (await service.fire_callback(target=elsewhere)).attempts == (404,)


def test_its_help_fits_a_terminal() -> None:
    """Its help names the variables, gives an example and is no wider than a terminal."""
    for name in ("listen", "trigger"):
        ended_help = run(name, "--help")
        assert (ended_help.returncode, ended_help.stderr) == (0, "")
        assert f"\nExample: income-client {name} " in ended_help.stdout
        assert max(map(len, ended_help.stdout.splitlines())) <= 80


def _is_listening(command: Listening) -> bool:
    return command.process.poll() is None


async def test_it_outlives_bad_callbacks(service: Emulator) -> None:
    """Whatever is sent, it goes on to listen."""
    with listening(**BASIC_VARIABLES) as command:
        for payload in (b"\xff", b"[" * 5000, b'{"a":1,"a":2}', b"x" * 2**21):
            delivery = await service.fire_callback(payload=payload, target=command.target())
            assert not delivery.delivered
        assert _is_listening(command)
        assert (await service.fire_callback(target=command.target())).delivered
