"""``income-client trigger`` has an emulator fire callbacks."""

import asyncio
import json
import re
from collections.abc import AsyncIterator

import pytest

from income_client.cli.app import run as run_here
from income_client.emulator import CallbackTarget, Emulator, callback_sender, callbacks_out
from tests.cli.entry import run
from tests.cli.polling import variables as oauth2_variables
from tests.support.scripted_server import always, reply, serving


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """The emulator, in the test's own process."""
    async with Emulator(5) as emulator:
        yield emulator


def basic_variables(service: Emulator) -> dict[str, str]:
    """Return the environment that ``emulate --basic`` prints."""
    return {
        "INCOME_BASE_URL": service.url,
        "INCOME_USERNAME": service.basic.username,
        "INCOME_PASSWORD": service.basic.password.reveal(),
    }


async def trigger(service: Emulator, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run the command; return its status and what it wrote to both streams."""
    environment = oauth2_variables(service) | variables
    ended = await asyncio.to_thread(run, "trigger", *arguments, **environment)
    return ended.returncode, ended.stdout, ended.stderr


async def test_it_fires_a_callback(service: Emulator) -> None:
    """One callback about an application that has changed just before, and one line about it."""
    name = service.world.ids[2]
    service.advance(60)
    async with serving(always(reply())) as server:
        service.callbacks = CallbackTarget(server.url)
        status, lines, errors = await trigger(service, name)
    assert (status, lines, errors) == (0, f"{name} income_calculations 200\n", "")
    assert json.loads(server.seen[0].body)["application_id"] == name
    assert service.world.updated_at(name) == service.now


async def test_basic_credentials_will_do(service: Emulator) -> None:
    """Either kind of credentials that an emulator prints is taken."""
    async with serving(always(reply())) as server:
        service.callbacks = CallbackTarget(server.url)
        ended = await asyncio.to_thread(run, "trigger", **basic_variables(service))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert service.token_requests == 0


async def test_it_fires_as_many_as_it_is_told(service: Emulator) -> None:
    """Each is about another application, and of the event that is given; nothing need change."""
    service.advance(60)
    async with serving(always(reply())) as server:
        service.callbacks = CallbackTarget(server.url)
        status, lines, _ = await trigger(
            service, "--count", "5", "--event", "extractions", "--no-update"
        )
    assert status == 0
    fired = [line.split() for line in lines.splitlines()]
    assert {name for name, *_ in fired} == set(service.world.ids)
    assert {tuple(rest) for _, *rest in fired} == {("extractions", "200")}
    assert all(service.world.updated_at(name) < service.now for name in service.world.ids)


async def test_what_is_not_delivered_is_1(service: Emulator) -> None:
    """Every attempt is shown; one callback that was not taken makes the status 1."""
    async with serving(always(reply(503), reply(), reply(400), reply())) as server:
        service.callbacks = CallbackTarget(server.url, pauses=[0])
        status, lines, errors = await trigger(service, "--count", "3", "--event", "error")
    assert (status, errors) == (1, "")
    assert [line.split()[2:] for line in lines.splitlines()] == [["503", "200"], ["400"], ["200"]]


async def test_an_emulator_without_a_target(service: Emulator) -> None:
    """It is said how to give it one."""
    said = "the emulator has nowhere to send callbacks to; start it with --callbacks URL"
    assert await trigger(service) == (1, "", f"income-client: {said}\n")


async def test_an_unknown_application(service: Emulator) -> None:
    """An id that the emulator does not have is said to be none."""
    service.callbacks = CallbackTarget("http://127.0.0.1:9/")
    said = "the emulator has no application of this id"
    assert await trigger(service, "nobody") == (1, "", f"income-client: {said}\n")


async def test_wrong_credentials(service: Emulator) -> None:
    """Credentials of another emulator are not taken, of either kind, and not shown."""
    said = "income-client: INCOME_BASE_URL: the emulator does not accept the credentials\n"
    assert await trigger(service, INCOME_CLIENT_SECRET="hidden") == (4, "", said)
    variables = basic_variables(service) | {"INCOME_PASSWORD": "hidden"}
    ended = await asyncio.to_thread(run, "trigger", **variables)
    assert (ended.returncode, ended.stderr) == (4, said)


@pytest.mark.parametrize(
    "answer",
    [
        reply(404),
        reply(405),
        reply(200, b"<html>", content_type="text/html"),
        reply(200, b"{}"),
        reply(200, b'{"attempts":[null]}'),
        reply(302, Location="/login"),
    ],
)
async def test_what_is_no_emulator(service: Emulator, answer: bytes) -> None:
    """Something else at the address is said to be no emulator."""
    variables = basic_variables(service)
    async with serving(always(answer)) as server:
        variables["INCOME_BASE_URL"] = server.url
        ended = await asyncio.to_thread(run, "trigger", **variables)
    said = "what answers there is no emulator that fires callbacks"
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"income-client: INCOME_BASE_URL: {said}\n"
    async with serving(always(answer)) as server:
        assert await trigger(service, INCOME_BASE_URL=server.url) == (1, "", ended.stderr)
    assert [seen.path for seen in server.seen] == ["/token"]


async def test_nobody_there(service: Emulator) -> None:
    """An address at which nobody listens is said to be one, of either kind of credentials."""
    async with serving(always(None)) as server:
        url = server.url
    said = "income-client: INCOME_BASE_URL: nobody answers there\n"
    assert await trigger(service, INCOME_BASE_URL=url) == (1, "", said)
    variables = basic_variables(service) | {"INCOME_BASE_URL": url}
    ended = await asyncio.to_thread(run, "trigger", **variables)
    assert (ended.returncode, ended.stderr) == (1, said)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "INCOME_BASE_URL is not set"),
        ({"INCOME_BASE_URL": "http://127.0.0.1:9"}, "set INCOME_CLIENT_ID"),
        (
            {"INCOME_BASE_URL": "http://127.0.0.1:9", "INCOME_CLIENT_ID": "x"},
            "INCOME_CLIENT_SECRET is not set",
        ),
        (
            {
                "INCOME_BASE_URL": "https://income.example.com",
                "INCOME_USERNAME": "x",
                "INCOME_PASSWORD": "hidden",
            },
            "emulators are on this machine",
        ),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_a_wrong_environment_is_one_line(variables: dict[str, str], said: str) -> None:
    """What is missing or leads elsewhere is said in one line, and nothing is sent."""
    ended = run("trigger", **variables)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "hidden" not in ended.stderr


def test_half_characters_are_one_line() -> None:
    """Bytes of a command line that are no text are refused in one line."""
    variables = {
        "INCOME_BASE_URL": "http://127.0.0.1:9",
        "INCOME_USERNAME": "x",
        "INCOME_PASSWORD": "y",
    }
    ended = run("trigger", "--event", "\udcff", **variables)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "income-client: event_type holds half a character\n"


def test_misuse_exits_with_2() -> None:
    """Arguments that cannot be meant are explained, with status 2."""
    assert run("trigger", "--count", "0").returncode == 2
    assert run("trigger", "one", "two").returncode == 2


def test_its_help_tells_what_came_of_an_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    """Every word that can stand in a line in place of a status has a line that explains it."""
    assert run_here(["trigger", "--help"]) == 0
    explained = set(re.findall(r"^  ([a-z_]+) {2,}\S", capsys.readouterr().out, re.MULTILINE))
    names = {name for _, name in callback_sender._FAULTS}
    assert explained == names | {"refused", "failed", callbacks_out._CLOSED}
