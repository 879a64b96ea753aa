"""How a sub-command comes to its service: variables, a file, and a question on a terminal."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from income_client import ConfigurationError
from income_client.cli.accounts.connecting import Connection, Ready, connect, ready
from income_client.emulator import Emulator
from tests.cli.entry import COMMAND, ROOT, Terminal, environment, run
from tests.cli.polling import variables

QUESTION: Final = "(not shown): "
OWN_TERMINAL: Final = (
    "import fcntl, os, sys, termios; "
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Runs a command on a terminal that sends it a signal for Ctrl-C."""
ASKS: Final = ("applications", "-q")


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """A service with a few applications."""
    async with Emulator(3) as emulator:
        yield emulator


def config(path: Path, service: Emulator, **instead: str) -> Path:
    """Write a file that leads to a service."""
    said = {
        "base_url": service.url,
        "client_id": service.oauth2.client_id,
        "client_secret": service.oauth2.client_secret.reveal(),
        **instead,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f'{key} = "{text}"\n' for key, text in said.items() if text), "utf-8")
    path.chmod(0o600)
    return path


async def asked(*arguments: str, **others: str) -> "subprocess.CompletedProcess[str]":
    """List the applications while the service goes on."""
    return await asyncio.to_thread(run, *ASKS, *arguments, **others)


async def test_a_file_is_enough(service: Emulator, tmp_path: Path) -> None:
    """Named by an option or a variable, or where it is by default, it says all."""
    path = config(tmp_path / "income-client" / "config.toml", service)
    for arguments, others in (
        (("--config", str(path)), {}),
        ((), {"INCOME_CONFIG": str(path)}),
        ((), {"XDG_CONFIG_HOME": str(tmp_path)}),
    ):
        ended = await asked(*arguments, **others)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert sorted(ended.stdout.split()) == sorted(service.world.ids)


async def test_variables_win(service: Emulator, tmp_path: Path) -> None:
    """A secret that is set goes before the one in the file."""
    path = config(tmp_path / "config", service, client_secret="old")
    assert (await asked("--config", str(path))).returncode != 0
    secret = service.oauth2.client_secret.reveal()
    ended = await asked("--config", str(path), INCOME_CLIENT_SECRET=secret)
    assert (ended.returncode, ended.stderr) == (0, "")


async def test_no_file_is_looked_at_where_nothing_is_missing(
    service: Emulator, tmp_path: Path
) -> None:
    """One that nobody named is in nobody's way."""
    config(tmp_path / "income-client" / "config.toml", service).chmod(0o644)
    ended = await asked(**variables(service), XDG_CONFIG_HOME=str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")
    named = await asked(
        **variables(service), INCOME_CONFIG=str(tmp_path / "income-client" / "config.toml")
    )
    assert named.returncode == 2
    assert "chmod 600" in named.stderr


async def test_a_secret_stays_with_its_address(service: Emulator, tmp_path: Path) -> None:
    """An address that somebody set gets nothing that the file has for another one."""
    path = config(tmp_path / "config", service, base_url="https://income.example")
    ended = await asked("--config", str(path), INCOME_BASE_URL=service.url)
    assert ended.returncode == 2
    assert "is about another address now" in ended.stderr
    assert not service.requests


async def test_a_profile_is_chosen(service: Emulator, tmp_path: Path) -> None:
    """One file knows several services; a variable that contradicts the choice is told."""
    path = config(tmp_path / "config", service, base_url="https://income.example")
    table = config(tmp_path / "table", service).read_text("utf-8")
    with path.open("a") as file:
        file.write(f"[profiles.staging]\n{table}")
    ended = await asked("--config", str(path), "--profile", "staging")
    assert (ended.returncode, ended.stderr) == (0, "")
    other = await asked(
        "--config", str(path), "--profile", "staging", INCOME_BASE_URL="https://other.example"
    )
    assert other.returncode == 2
    assert "INCOME_BASE_URL is set to another address" in other.stderr


@pytest.mark.parametrize(
    ("own", "more"),
    [
        ("", ""),
        ('client_id = "id-2"\n', ": set INCOME_CLIENT_SECRET, or client_secret in {}"),
    ],
)
def test_a_profile_with_another_address_needs_its_own_credentials(
    own: str, more: str, tmp_path: Path
) -> None:
    """Those at the top of the file are for the address there, and it is said why they do not do."""
    path = tmp_path / "config"
    top = 'base_url = "https://one.example"\nclient_id = "id"\nclient_secret = "canary"\n'
    profile = f'[profiles.two]\nbase_url = "https://two.example"\n{own}'
    path.write_text(top + profile, "utf-8")
    path.chmod(0o600)
    ended = run(*ASKS, "--config", str(path), "--profile", "two")
    assert (ended.returncode, ended.stdout) == (2, "")
    said = "profile two has another address, so it needs credentials of its own"
    assert ended.stderr == f"income-client: {said}{more.format(path)}\n"


def test_what_is_missing_is_named_with_its_file(tmp_path: Path) -> None:
    """Variable and file are both said, the home folder as people write it."""
    ended = run(*ASKS, HOME=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "income-client: set INCOME_BASE_URL, or base_url in ~/.config/income-client/config.toml\n"
    )


async def test_without_a_terminal_nobody_is_asked(service: Emulator, tmp_path: Path) -> None:
    """A script that lacks the secret ends, and says what is missing."""
    path = config(tmp_path / "config", service, client_secret="")
    ended = await asked("--config", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"income-client: set INCOME_CLIENT_SECRET, or client_secret in {path}\n"
    )


def test_who_said_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key goes with its variable or its file, for whoever explains the configuration."""
    without_variables(monkeypatch)
    monkeypatch.setenv("INCOME_CLIENT_SECRET", "invented")
    path = tmp_path / "config"
    path.write_text('base_url = "https://income.example"\nclient_id = "id"\n', "utf-8")
    path.chmod(0o600)
    found = ready(Connection(config=path))
    assert isinstance(found, Ready)
    assert found.sources == {
        "base_url": str(path),
        "client_id": str(path),
        "client_secret": "INCOME_CLIENT_SECRET",
    }


def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what this process may have been told."""
    for name in [name for name in os.environ if name.startswith("INCOME_")]:
        monkeypatch.delenv(name)


class Typist:
    """Somebody at a terminal of their own, where the command runs."""

    def __init__(self, *arguments: str) -> None:
        self._terminal = Terminal()
        self._keys = os.dup(self._terminal._master)
        device = self._terminal.device
        self._process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *COMMAND, *arguments],
            stdin=device,
            stdout=subprocess.PIPE,
            stderr=device,
            env=environment(),
            cwd=ROOT,
            start_new_session=True,
        )
        self._terminal.attend()

    def answer(self, keys: str) -> None:
        """Wait for the question, and type."""
        self._terminal.wait_for(QUESTION)
        os.write(self._keys, keys.encode())

    def end(self) -> "tuple[int, str, str]":
        """Return the exit status, what was piped and what the terminal showed."""
        piped, _ = self._process.communicate(timeout=50)
        shown = self._terminal.close()
        os.close(self._keys)
        return self._process.returncode, piped.decode(), shown


async def test_a_person_is_asked_and_nothing_is_shown(service: Emulator, tmp_path: Path) -> None:
    """The answer is hidden while it is typed, and used."""
    path = config(tmp_path / "config", service, client_secret="")
    typist = Typist(*ASKS, "--config", str(path))
    secret = service.oauth2.client_secret.reveal()
    await asyncio.to_thread(typist.answer, f"{secret}\n")
    status, piped, shown = await asyncio.to_thread(typist.end)
    assert (status, sorted(piped.split())) == (0, sorted(service.world.ids))
    assert f"Client secret of {service.oauth2.client_id} {QUESTION}" in shown
    assert secret not in shown


@pytest.mark.parametrize(("keys", "status"), [("\x03", 130), ("\x04", 2), ("\n", 2)])
async def test_whoever_does_not_answer_ends_it(
    service: Emulator, tmp_path: Path, keys: str, status: int
) -> None:
    """Ctrl-C ends the question at once; without an answer the secret is missing."""
    path = config(tmp_path / "config", service, client_secret="")
    typist = Typist(*ASKS, "--config", str(path))
    await asyncio.to_thread(typist.answer, keys)
    code, piped, shown = await asyncio.to_thread(typist.end)
    assert (code, piped) == (status, "")
    assert ("set INCOME_CLIENT_SECRET" in shown) is (status == 2)
    assert "Traceback" not in shown
    assert not service.requests


@pytest.mark.parametrize(
    "said",
    [
        {"password": "canary\\u0007"},
        {"base_url": "http://u:canary@income.example"},
        {"auth_url": "canary"},
        {"proxy": "canary"},
        {"proxy": "http://u:canary@"},
        {"proxy": "http://u:canary@127.0.0.1", "ca_file": "nowhere"},
        {"client_secret": "canary"},
        {"password": "canary", "x": "canary"},
    ],
)
def test_no_secret_is_in_what_is_raised(
    said: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the message nor a frame of ours holds one."""
    without_variables(monkeypatch)
    together = {
        "base_url": "https://income.example",
        "username": "u",
        "password": "canary",
        **said,
    }
    path = tmp_path / "config"
    path.write_text("".join(f'{key} = "{text}"\n' for key, text in together.items()), "utf-8")
    path.chmod(0o600)
    with pytest.raises(ConfigurationError) as caught:
        connect(Connection(config=path))
    frames, trace = [], caught.value.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    ours = [frame.f_locals for frame in frames if frame.f_code.co_filename != __file__]
    assert ours
    assert "canary" not in repr(ours)
    assert caught.value.__context__ is None
    assert "canary" not in str(caught.value)


def test_no_option_takes_a_secret() -> None:
    """What stands on a command line, everybody on the machine can read."""
    ended = run("applications", "--help")
    assert "--config" in ended.stdout
    for word in ("--password", "--client-secret", "--secret"):
        assert word not in ended.stdout
