"""``income-client doctor`` as a shell runs it: what it prints, and how it exits."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from income_client.emulator import Emulator
from income_client.emulator.faults import Fault
from tests.cli.entry import Shown, run, run_on_terminal
from tests.cli.running import ServiceCommand, variables

_LIST: Final = "/v1/income/applications"


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """The emulator, in the test's own process."""
    async with Emulator(60) as emulator:
        yield emulator


async def doctor(
    service: Emulator, *arguments: str, **changes: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command while the service goes on."""
    return await ServiceCommand(service).run("doctor", *arguments, **changes)


async def on_terminal(service: Emulator, **changes: Any) -> Shown:
    """Run the command on a terminal while the service goes on."""
    together: dict[str, Any] = {**variables(service), **changes}
    return await asyncio.to_thread(run_on_terminal, "doctor", **together)


async def findings(service: Emulator, **changes: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit status, and the findings as JSON by what they are about."""
    ended = await doctor(service, "--output", "json", **changes)
    rows = json.loads(ended.stdout)["findings"]
    return ended.returncode, {row["check"]: row for row in rows}


def fault(kind: str = "status", *, path: str = _LIST, **settings: Any) -> Fault:
    """Return a fault of every authorised request."""
    return Fault(kind, path=path, method="GET", times=None, **settings)


async def test_a_table_that_can_be_handed_on(service: Emulator) -> None:
    """A pipe gets plain lines, no wider than a ticket takes, with nothing secret in them."""
    ended = await doctor(service)
    assert ended.returncode == 0
    assert ended.stderr == (
        "income-client: at most 40 requests, one after the other, at most 60 s\n"
    )
    lines = ended.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in ended.stdout
    for words in ("configuration", "bounds", "updated_after is exclusive", "service time"):
        assert words in ended.stdout
    auth = service.oauth2
    for secret in (auth.client_secret.reveal(), auth.client_id, *service.world.ids):
        assert secret not in ended.stdout + ended.stderr
    assert lines[-1].endswith(".")


async def test_json_says_the_same(service: Emulator) -> None:
    """Each finding is an object, with null where there is nothing to do."""
    status, found = await findings(service)
    assert status == 0
    assert found["bounds"] == {
        "check": "bounds",
        "verdict": "ok",
        "finding": "updated_after is exclusive, updated_before is exclusive (3 rows looked for)",
        "advice": None,
    }


async def test_a_terminal_gets_colour_and_words(service: Emulator) -> None:
    """Verdicts are words as well as colours, and fit the terminal."""
    shown = await on_terminal(service)
    assert shown.status == 0
    assert "\x1b[32mok" in shown.screen
    plain = await on_terminal(service, NO_COLOR="1")
    assert "\x1b[32m" not in plain.screen
    assert "ok" in plain.screen


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"INCOME_CLIENT_SECRET": "not-the-secret"}, "are client id and secret right"),
        (
            {
                "INCOME_CLIENT_ID": "",
                "INCOME_CLIENT_SECRET": "",
                "INCOME_USERNAME": "somebody@example.com",
                "INCOME_PASSWORD": "not-the-password",
            },
            "are user name and password right",
        ),
    ],
)
async def test_refused_credentials_are_4(
    service: Emulator, changes: dict[str, str], words: str
) -> None:
    """401 has a status of its own, an advice by the kind of credentials, and shows neither."""
    ended = await doctor(service, **changes)
    assert ended.returncode == 4
    assert words in " ".join(ended.stdout.split())
    for name, secret in changes.items():
        if secret:
            assert secret not in ended.stdout + ended.stderr, name


async def test_a_permission_that_is_missing_is_4(service: Emulator) -> None:
    """403 means that the credentials are good, and says so."""
    service.faults.add(fault(status=403))
    status, found = await findings(service)
    assert status == 4
    assert found["credentials"]["advice"].startswith("the credentials are good and not for this")
    assert found["bounds"]["finding"] == "needs credentials"


async def test_a_token_that_is_refused_is_told_from_no_token(service: Emulator) -> None:
    """Where the token endpoint sold one and the service does not take it, that is the advice."""
    service.faults.add(fault(status=401))
    status, found = await findings(service)
    assert status == 4
    assert "INCOME_AUTH_URL" in found["credentials"]["advice"]


async def test_a_service_that_wants_a_pause_gets_it(service: Emulator) -> None:
    """After a 429 nothing more is asked, and what is known by then is told."""
    service.faults.add(fault(status=429, skip=3, headers={"Retry-After": "3600"}))
    status, found = await findings(service)
    assert status == 0
    assert found["rate limits"]["verdict"] == "warning"
    assert "a pause of 3600 s" in found["rate limits"]["finding"]
    assert "a question was not answered" in found["bounds"]["finding"]
    assert [each.status for each in service.requests].count(429) == 1


async def test_a_service_that_fails_is_1(service: Emulator) -> None:
    """5xx is told with the service's own number of the request."""
    service.faults.add(fault(status=503, headers={"X-Request-Id": "r-42"}))
    status, found = await findings(service)
    assert status == 1
    assert found["credentials"]["finding"].endswith("(request id r-42)")


async def test_applications_that_are_gone_are_told_without_ids(service: Emulator) -> None:
    """An error about an application says what, and not of which."""
    service.faults.add(fault(status=404, path=f"{_LIST}/*"))
    status, found = await findings(service)
    assert status == 1
    assert "get_application(…): 404 Not Found" in found["applications"]["finding"]


@pytest.mark.parametrize(
    ("address", "check", "words"),
    [
        ("https://127.0.0.1:1", "connection", "connection refused"),
        (f"https://{'a' * 64}.example", "DNS", "the name is unknown"),
        ("http://user:hush@example.com", "configuration", "INCOME_BASE_URL holds a user name"),
        ("", "configuration", "set INCOME_BASE_URL"),
    ],
)
async def test_an_address_that_leads_nowhere(
    service: Emulator, address: str, check: str, words: str
) -> None:
    """The first thing that fails is told, and the rest is skipped; settings are 2, else 1."""
    status, found = await findings(service, INCOME_BASE_URL=address)
    assert status == (2 if check == "configuration" else 1)
    assert found[check]["verdict"] == "failed"
    assert words in found[check]["finding"]
    assert found["credentials"]["finding"] == f"needs {check}"
    assert "hush" not in json.dumps(found)


async def test_a_token_endpoint_that_is_down_is_told(service: Emulator) -> None:
    """Where it is another server it is looked at by itself."""
    status, found = await findings(service, INCOME_AUTH_URL="http://127.0.0.1:1/tenant-7")
    assert status == 1
    assert ", tokens of 127.0.0.1:1, " in found["configuration"]["finding"]
    assert "tenant-7" not in json.dumps(found)
    assert found["connection"]["verdict"] == "ok"
    assert found["connection (token endpoint)"]["verdict"] == "failed"


async def test_a_token_endpoint_of_its_own_is_only_connected_to(service: Emulator) -> None:
    """Nobody wants to know what else it answers: what was promised holds with two hosts too."""
    elsewhere = service.url.replace("127.0.0.1", "localhost")
    status, found = await findings(service, INCOME_AUTH_URL=elsewhere)
    assert status == 0
    assert found["connection (token endpoint)"]["verdict"] == "ok"
    asked = [request for request in service.requests if request.method == "HEAD"]
    assert len(asked) == 3
    assert len(service.requests) <= 40
    assert service.max_in_flight == 1


async def test_sources_are_told(service: Emulator, tmp_path: Path) -> None:
    """Each key is told with the variable or the file that gives it, the secret among them."""
    file = tmp_path / "config.toml"
    said = variables(service)
    file.write_text(
        f'client_id = "{said["INCOME_CLIENT_ID"]}"\n'
        f'client_secret = "{said["INCOME_CLIENT_SECRET"]}"\n'
    )
    file.chmod(0o600)
    ended = await asyncio.to_thread(
        run, "doctor", "--config", str(file), "--output", "json", INCOME_BASE_URL=service.url
    )
    row = json.loads(ended.stdout)["findings"][0]
    assert row["verdict"] == "ok"
    assert "INCOME_BASE_URL from the environment" in row["finding"]
    assert f"client_id, client_secret from {file}" in row["finding"]
    assert said["INCOME_CLIENT_SECRET"] not in ended.stdout


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_a_proxy_of_the_environment_is_told(service: Emulator, name: str) -> None:
    """It is not used, and its address, which may hold a password, is not shown."""
    _, found = await findings(service, **{name: "http://user:hush@proxy.example:3128"})
    assert found["proxy"]["finding"] == f"{name.upper()} set, and not used"
    assert "hush" not in str(found)


async def test_any_encoding_will_do(service: Emulator) -> None:
    """Where there is nothing but ASCII, signs are spelt out, and what cannot be is a ``?``."""
    ended = await doctor(service, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert ended.returncode == 0
    assert ended.stdout.isascii()
    assert "OAuth 2.0 as emu...; " in ended.stdout
