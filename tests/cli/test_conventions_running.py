"""What holds of every sub-command that runs to its end: its streams, its colours, its endings."""

import asyncio
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from income_client.cli.command_table import COMMANDS
from income_client.emulator import Emulator, Fault
from income_client.emulator.tokens import TokenMint
from tests.cli.conventions import CASES, FORMS, Form, spoilt
from tests.cli.entry import Shown, run, run_on_terminal, start
from tests.cli.polling import ended, until, variables

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*(3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")
_HARMFUL: Final = "\x1b[2J\x07\x9b5A\u202eZoë"
_WITH_DATA: Final = tuple(
    form for form in FORMS if CASES[form.name].waits and form.name not in ("find", "token")
)
_WITHOUT_SECRETS: Final = tuple(form for form in FORMS if "--reveal" not in form.more)
_WAITING: Final = tuple(name for name in CASES if CASES[name].waits)


async def command_of(form: Form, service: Emulator, folder: Path) -> tuple[str, ...]:
    """Return a whole command line, with all there that it needs."""
    case = CASES[form.name]
    if case.prepare is not None:
        await case.prepare(folder)
    return (form.name, *case.arguments(service, folder), *form.more)


async def shown_of(form: Form, service: Emulator, folder: Path, **more: str) -> Shown:
    """Run a sub-command on a terminal while the service goes on."""
    command = await command_of(form, service, folder)
    environment: dict[str, Any] = {**variables(service), **more}
    return await asyncio.to_thread(run_on_terminal, *command, **environment)


def started(service: Emulator, *command: str) -> "subprocess.Popen[str]":
    """Start a sub-command beside what happens next."""
    environment: dict[str, Any] = variables(service)
    return start(*command, **environment)


def test_every_one_is_tried() -> None:
    """A new sub-command is either tried here, or serves until it is told to end."""
    assert set(COMMANDS) - set(CASES) == {"emulate", "listen", "trigger"}


@pytest.mark.parametrize("name", CASES)
async def test_a_pipe_gets_plain_text(name: str, tmp_path: Path) -> None:
    """What is no terminal gets no colours and no motion, on neither stream."""
    async with Emulator(3) as service:
        command = await command_of(Form(name), service, tmp_path)
        piped = await asyncio.to_thread(run, *command, **variables(service))
    assert piped.returncode in CASES[name].statuses, piped.stderr
    assert piped.stdout
    assert "\x1b" not in piped.stdout + piped.stderr
    assert not re.search(r"[\r\x07]", piped.stderr)


@pytest.mark.parametrize("name", CASES)
async def test_no_color_is_respected(name: str, tmp_path: Path) -> None:
    """NO_COLOR takes the colours from a terminal, and changes nothing else that matters."""
    async with Emulator(3) as service:
        shown = await shown_of(Form(name), service, tmp_path, NO_COLOR="1")
    assert shown.status in CASES[name].statuses, shown.screen
    assert not _COLOUR.search(shown.screen)


@pytest.mark.parametrize("name", CASES)
async def test_a_closed_pipe_is_quiet(name: str, tmp_path: Path) -> None:
    """When nobody reads the output any more it ends, and says nothing of it."""
    async with Emulator(3) as service:
        command = await command_of(Form(name), service, tmp_path)
        process = started(service, *command)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = await ended(process)
    assert process.returncode == 141, errors
    assert "Traceback" not in errors
    assert "roken pipe" not in errors


@pytest.mark.parametrize("name", _WAITING)
async def test_ctrl_c_is_quiet(name: str, tmp_path: Path) -> None:
    """Interrupted while the service keeps it waiting, it ends with 130 and no traceback."""
    async with Emulator(3) as service:
        command = await command_of(Form(name), service, tmp_path)
        service.faults.add(Fault("stall", times=None))
        process = started(service, *command)
        try:
            await until(lambda: bool(service.requests))
            process.send_signal(signal.SIGINT)
            lines, errors = await ended(process)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert not lines


@pytest.mark.parametrize("form", _WITH_DATA)
async def test_data_cannot_act_on_a_terminal(
    form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that would clear a screen, ring a bell or turn the text is shown without that."""
    async with Emulator(1) as service:
        monkeypatch.setattr(service.world, "reference_of", lambda _: json.dumps(_HARMFUL)[1:-1])
        command = await command_of(form, service, tmp_path)
        (one,) = service.world.ids
        for path, rest in ((f"*/{one}", ""), (f"*/{one}/documents", "/documents")):
            body = spoilt(service, one, rest, _HARMFUL)
            service.faults.add(Fault("body", body=body, path=path, times=None))
        environment: dict[str, Any] = variables(service)
        shown = await asyncio.to_thread(run_on_terminal, *command, **environment)
    assert shown.status in CASES[form.name].statuses, shown.screen
    assert not any(one in shown.screen for one in ("\x1b[2J", "\x07", "\x9b", "\u202e"))


@pytest.mark.parametrize("form", _WITHOUT_SECRETS)
async def test_no_secret_is_shown(
    form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither stream has a client secret, a token or a signature in it."""
    sold: list[str] = []
    issue = TokenMint.issue

    def issue_and_note(mint: TokenMint, client_id: str, *, now: int, lifetime: int) -> str:
        sold.append(issue(mint, client_id, now=now, lifetime=lifetime))
        return sold[-1]

    monkeypatch.setattr(TokenMint, "issue", issue_and_note)
    async with Emulator(3) as service:
        shown = await shown_of(form, service, tmp_path)
        secret = service.oauth2.client_secret.reveal()
    assert sold or not CASES[form.name].waits
    everything = shown.screen + shown.piped
    assert not any(one in everything for one in (secret, *sold))
    assert "signature=" not in everything.lower()


@pytest.mark.parametrize("form", FORMS)
async def test_a_full_disk_is_one_line(form: Form, tmp_path: Path) -> None:
    """Where standard output takes nothing, that is said once, with status 1 and no traceback."""
    async with Emulator(3) as service:
        command = await command_of(form, service, tmp_path)
        environment: dict[str, Any] = variables(service)
        full = os.open("/dev/full", os.O_WRONLY)
        try:
            process = start(*command, stdout=full, **environment)
        finally:
            os.close(full)
        _, errors = await ended(process)
    assert process.returncode == 1, errors
    assert errors.count("cannot write to standard output: no space left on device") == 1, errors
    assert "Traceback" not in errors
