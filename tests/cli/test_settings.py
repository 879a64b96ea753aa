"""Settings that cannot be meant, and services that cannot be reached: statuses and words."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from income_client.emulator import Emulator, Fault
from tests.cli.entry import run, run_on_terminal
from tests.cli.running import variables

_ACCOUNT: Final = {
    "INCOME_BASE_URL": "http://127.0.0.1:1",
    "INCOME_USERNAME": "somebody",
    "INCOME_PASSWORD": "invented",
}
_OAUTH2: Final = {
    "INCOME_BASE_URL": "http://127.0.0.1:1",
    "INCOME_CLIENT_ID": "somebody",
    "INCOME_CLIENT_SECRET": "invented",
}
_HINT: Final = "run income-client doctor to find out more"
_COMMANDS: Final = (
    ("applications",),
    ("find", "LOAN-1"),
    ("application", "app-1"),
    ("documents", "app-1"),
    ("download", "app-1", "--to", "nowhere/files"),
    ("token",),
    ("doctor",),
)


@pytest.mark.parametrize("command", _COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"INCOME_BASE_URL": ""}, "set INCOME_BASE_URL"),
        ({"INCOME_CLIENT_SECRET": ""}, "set INCOME_CLIENT_SECRET"),
        ({"INCOME_BASE_URL": "ftp://income.example"}, "INCOME_BASE_URL is neither https nor http"),
        ({"INCOME_PROXY": "hush"}, "INCOME_PROXY is no http or https address"),
        ({"INCOME_CA_FILE": "/nowhere"}, "INCOME_CA_FILE: cannot read /nowhere: no such file"),
        ({"INCOME_CONFIG": "/nowhere"}, "cannot read /nowhere: no such file"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_settings_that_cannot_be_meant_are_2(
    command: tuple[str, ...], changes: dict[str, str], said: str
) -> None:
    """Whatever the command, no second try would mend them, and the place is named."""
    ended = run(*command, **{**_OAUTH2, **changes})
    assert ended.returncode == 2
    assert said in " ".join((ended.stderr + ended.stdout).split())
    assert "hush" not in ended.stderr + ended.stdout


def test_a_setting_of_the_file_names_the_file(tmp_path: Path) -> None:
    """Whoever has both sees which one to mend."""
    path = tmp_path / "config"
    path.write_text('base_url = "ftp://x"\nusername = "u"\npassword = "p"\n', "utf-8")
    path.chmod(0o600)
    ended = run("applications", "--config", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"income-client: base_url in {path} is neither https nor http\n"


def test_a_service_that_is_not_there_is_named() -> None:
    """Host and port are said, with nothing else of the address, and a script gets no hint."""
    address = "http://127.0.0.1:1/path/of/it"
    ended = run("applications", **{**_ACCOUNT, "INCOME_BASE_URL": address})
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "income-client: list_applications: connection refused (3 attempts) at 127.0.0.1:1\n"
    )


@pytest.mark.parametrize("command", [("applications",), ("token",)])
def test_a_token_endpoint_that_is_not_there_is_named(command: tuple[str, ...]) -> None:
    """It may be another server than the service."""
    ended = run(
        *command,
        **_OAUTH2,
        INCOME_AUTH_URL="http://[::1]:2/path",
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("income-client: token: ")
    assert ended.stderr.endswith(" at [::1]:2\n")


def test_a_proxy_that_is_not_there_is_named_without_its_password() -> None:
    """The proxy's own credentials are as secret as any."""
    proxy = "http://user:hush@127.0.0.1:2"
    ended = run("applications", **_ACCOUNT, INCOME_PROXY=proxy)
    assert ended.returncode == 1
    assert ended.stderr.endswith(" at 127.0.0.1:1 through the proxy 127.0.0.1:2\n")
    assert "hush" not in ended.stderr


@pytest.mark.parametrize(("status", "exit_status"), [(401, 4), (403, 4), (503, 1)])
async def test_a_person_is_told_of_doctor_once(status: int, exit_status: int) -> None:
    """On a terminal the last line says what finds out more."""
    async with Emulator(2) as service:
        service.faults.add(Fault("status", path="/v1/*", status=status, times=None))
        environment: dict[str, Any] = variables(service)
        shown = await asyncio.to_thread(run_on_terminal, "applications", **environment)
    assert shown.status == exit_status
    assert shown.screen.count(_HINT) == 1
    assert shown.screen.endswith(f"income-client: {_HINT}\r\n")


async def test_what_doctor_does_not_know_has_no_hint() -> None:
    """An application that is not there is no fault of the way to the service."""
    async with Emulator(2) as service:
        environment: dict[str, Any] = variables(service)
        shown = await asyncio.to_thread(run_on_terminal, "application", "nobody", **environment)
    assert shown.status == 1
    assert _HINT not in shown.screen
