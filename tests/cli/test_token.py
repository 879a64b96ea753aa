"""``income-client token`` buys a token, and shows it only when told to."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from income_client.emulator import Emulator
from income_client.emulator.faults import Fault
from tests.cli.claimed_tokens import jwt
from tests.cli.entry import Shown, run, run_on_terminal
from tests.cli.polling import variables

_OPAQUE: Final = "an-opaque-token-of-no-form"

_EMPTY_PAGE: Final = json.dumps(
    {
        "updated_after": "2026-01-01T00:00:00",
        "updated_before": "2026-01-02T00:00:00",
        "applications": [],
    }
).encode()
"""What a service lists where there is nothing."""


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """The emulator, whose present is that of this machine."""
    now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    async with Emulator(5, start=now, time_flows=True) as emulator:
        yield emulator


async def token(
    service: Emulator, *arguments: str, **changes: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command while the service goes on."""
    return await asyncio.to_thread(run, "token", *arguments, **{**variables(service), **changes})


async def on_terminal(service: Emulator, *arguments: str, **options: Any) -> Shown:
    """Run the command on a terminal while the service goes on."""
    together: dict[str, Any] = {**variables(service), **options}
    return await asyncio.to_thread(run_on_terminal, "token", *arguments, **together)


def sell(service: Emulator, access_token: str, *, is_taken: bool = True) -> None:
    """Have the token endpoint sell this, and perhaps the service take it."""
    reply = {"access_token": access_token, "token_type": "Bearer", "expires_in": 600}
    body = json.dumps(reply).encode()
    service.faults.add(Fault("body", path="/token", times=None, body=body))
    if is_taken:
        service.faults.add(Fault("body", path="/v1/*", times=None, body=_EMPTY_PAGE))


async def test_it_tells_and_does_not_show(service: Emulator) -> None:
    """End, lifetime and claims are told; the token is nowhere in the output."""
    ended = await token(service)
    assert (ended.returncode, ended.stderr) == (0, "")
    for words in ("Bearer, JWT", "lifetime  ", "3600 s", "claim iss", "income-emulator"):
        assert words in ended.stdout
    assert "its signature is for the service to verify" in ended.stdout
    assert "eyJ" not in ended.stdout  # how every JWT begins
    assert service.token_requests == 1


async def test_json_tells_the_same(service: Emulator) -> None:
    """One object, with the end in UTC and the seconds that are left."""
    ended = await token(service, "-o", "json")
    told = json.loads(ended.stdout)
    assert (told["type"], told["form"], told["lifetime"]) == ("Bearer", "JWT", 3600.0)
    assert told["verified"] is False
    assert 0 < told["seconds_left"] <= 3600
    end, now = datetime.fromisoformat(told["expires_at"]), datetime.now(UTC)
    assert (
        now - timedelta(minutes=2)
        < end - timedelta(seconds=told["seconds_left"])
        <= now + timedelta(seconds=1)
    )
    assert told["claims"]["iss"] == "income-emulator"
    assert "jti" in told["not_shown"]


async def test_reveal_prints_the_token_alone(service: Emulator) -> None:
    """A pipe gets the token and a newline, nothing else."""
    sell(service, _OPAQUE)
    ended = await token(service, "--reveal")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{_OPAQUE}\n", "")


async def test_a_terminal_is_warned(service: Emulator) -> None:
    """On a terminal the token comes with a warning; in a pipe beside one it does not."""
    sell(service, _OPAQUE)
    shown = await on_terminal(service, "--reveal")
    assert "whoever has this reads what you may read" in shown.screen
    piped = await on_terminal(service, "--reveal", pipe_stdout=True)
    assert (piped.screen, piped.piped) == ("", f"{_OPAQUE}\n")


async def test_opaque_tokens_are_fine(service: Emulator) -> None:
    """A token that is no JWT has no claims to tell, and serves as well."""
    sell(service, _OPAQUE)
    ended = await token(service)
    assert ended.returncode == 0
    assert "Bearer, opaque, 26 characters" in ended.stdout
    assert "600 s" in ended.stdout
    assert _OPAQUE not in ended.stdout


async def test_a_token_that_is_not_taken_is_told(service: Emulator) -> None:
    """It was sold and is refused: both are told, and the status is 4."""
    sell(service, _OPAQUE, is_taken=False)
    ended = await token(service)
    assert ended.returncode == 4
    assert "bought, and not taken by the service" in ended.stderr
    assert "opaque" in ended.stdout
    assert _OPAQUE not in ended.stdout + ended.stderr


async def test_refused_credentials_are_told(service: Emulator) -> None:
    """No token, no output, and neither of the credentials in what is said."""
    ended = await token(service, INCOME_CLIENT_SECRET="not-the-secret")
    assert ended.returncode == 4
    assert ended.stdout == ""
    assert "the client credentials were refused" in ended.stderr
    assert "not-the-secret" not in ended.stderr


async def test_basic_credentials_have_none(service: Emulator) -> None:
    """User name and password buy nothing, and nobody is asked."""
    basic = service.basic
    ended = await asyncio.to_thread(
        run,
        "token",
        INCOME_BASE_URL=service.url,
        INCOME_USERNAME=basic.username,
        INCOME_PASSWORD=basic.password.reveal(),
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "there is no token" in ended.stderr
    assert service.requests == []


async def test_claims_cannot_act_on_a_terminal(service: Emulator) -> None:
    """What a token says is shown without its control characters."""
    sell(service, jwt({"iss": "\x1b[2Jhush", "\x1bname": 1}))
    ended = await token(service)
    assert "\x1b" not in ended.stdout
    assert "?[2Jhush" in ended.stdout
