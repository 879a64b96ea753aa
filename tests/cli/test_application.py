"""``income-client application`` against an emulated service."""

import asyncio
import re
import shlex
import stat
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from income_client import ApplicationRecord, IncomeClient, to_json
from income_client.emulator import Emulator, Fault
from tests.cli.entry import COMMAND, environment, run, run_on_terminal
from tests.cli.polling import variables

_ESCAPE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")


async def command(service: Emulator, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it on the first application while the service goes on."""
    whole = ("application", service.world.ids[0], *arguments)
    return await asyncio.to_thread(run, *whole, **variables(service))


async def read(service: Emulator) -> ApplicationRecord:
    """Return the first application as a program reads it."""
    async with IncomeClient(service.url, auth=service.oauth2) as client:
        async for record in client.fetch_records(service.world.ids[:1]):
            return record
    pytest.fail("nothing was read")


def names_in(folder: Path) -> list[str]:
    """Return what is in a folder, hidden files too."""
    return sorted(each.name for each in folder.iterdir())


def personal(record: ApplicationRecord) -> set[str]:
    """Return texts that tell who the first applicant is."""
    person = record.application.applicants["applicant1"]
    home = person.address_info[0].address
    return {person.first_name, person.last_name, person.email, person.phone, home.street_address}


async def test_it_shows_income_and_nobody() -> None:
    """Unasked, income and documents are shown, and nothing that tells whose they are."""
    async with Emulator(1) as service:
        ended = await command(service)
        record = await read(service)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert record.application_id in ended.stdout
    assert "Applicant 1  ••••••••" in ended.stdout
    assert "\x1b" not in ended.stdout
    assert not any(text in ended.stdout for text in personal(record))
    assert record.documents is not None
    for entry in record.documents.all():
        assert entry.document.document_id in ended.stdout


async def test_it_shows_who_it_is_where_that_is_asked_for() -> None:
    """With --show-personal-data the applicants are named."""
    async with Emulator(1) as service:
        ended = await command(service, "--show-personal-data")
        record = await read(service)
    assert ended.returncode == 0
    assert all(text in ended.stdout for text in personal(record))


async def test_a_page_is_private_and_its_path_is_told(tmp_path: Path) -> None:
    """With --html a page is there, only its owner can read it, and it is not replaced unasked."""
    path = tmp_path / "page.html"
    async with Emulator(1) as service:
        ended = await command(service, "--html", str(path))
        asked = len(service.requests)
        again = await command(service, "--html", str(path))
        assert len(service.requests) == asked, "nothing is asked for in vain"
        over = await command(service, "--html", str(path), "--overwrite", "--show-personal-data")
        record = await read(service)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{path}\n", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (again.returncode, again.stdout) == (1, "")
    assert "--overwrite" in again.stderr
    assert over.returncode == 0
    assert record.application.applicants["applicant1"].email in path.read_text("utf-8")
    assert names_in(tmp_path) == ["page.html"]


async def test_json_is_the_services_own() -> None:
    """All of the record is there but the addresses of files, unless these are asked for."""
    async with Emulator(1) as service:
        bare = await command(service, "-o", "json", "--show-personal-data")
        whole = await command(service, "--output", "json", "--show-personal-data", "--addresses")
        expected = msgspec.json.decode(to_json(await read(service)))
    shown = msgspec.json.decode(bare.stdout)
    assert shown["application"] == expected["application"]
    addresses = [
        [
            document.pop("url")
            for papers in one["documents"]["documents"].values()
            for document in papers
        ]
        for one in (shown, msgspec.json.decode(whole.stdout), expected)
    ]
    assert set(addresses[0]) == {""}
    assert all(address.startswith("http") for address in addresses[1])
    assert shown == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--output", "json"), "add --show-personal-data"),
        (("--output", "json", "--show-personal-data", "--html", "x"), "leave --output json out"),
    ],
)
async def test_what_contradicts_itself_is_refused(arguments: tuple[str, ...], said: str) -> None:
    """JSON cannot be masked, and a page is none: both are said before anything is asked for."""
    async with Emulator(1) as service:
        ended = await command(service, *arguments)
        assert not service.requests
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


async def test_an_application_that_is_not_there_is_a_failure() -> None:
    """An unknown id is one line on standard error."""
    async with Emulator(1) as service:
        whole = ("application", "app-nobody")
        ended = await asyncio.to_thread(run, *whole, **variables(service))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert len(ended.stderr.splitlines()) == 1


async def test_no_page_is_left_of_a_failure(tmp_path: Path) -> None:
    """Where the documents cannot be read, nothing is written."""
    async with Emulator(1) as service:
        service.faults.add(Fault("status", status=403, path="*/documents", times=None))
        ended = await command(service, "--html", str(tmp_path / "page.html"))
    assert ended.returncode != 0
    assert names_in(tmp_path) == []


async def test_on_a_terminal_it_is_coloured_and_fits() -> None:
    """Bars have colours, and no line is wider than the terminal."""
    async with Emulator(1) as service:
        whole = ("application", service.world.ids[0])
        environment: dict[str, Any] = variables(service)
        shown = await asyncio.to_thread(run_on_terminal, *whole, **environment)
    assert shown.status == 0
    assert "\x1b[36m" in shown.screen
    lines = re.split(r"[\r\n]+", _ESCAPE.sub("", shown.screen))
    assert max(map(len, lines)) <= 80


async def test_a_page_may_lie_where_the_output_s_encoding_has_no_letters(tmp_path: Path) -> None:
    """Its path is printed as it is."""
    path = tmp_path / "zürich.html"
    async with Emulator(1) as service:
        line = shlex.join([*COMMAND, "application", service.world.ids[0], "--html", str(path)])
        process = await asyncio.create_subprocess_shell(
            line,
            env=environment(**variables(service), PYTHONUTF8="1", PYTHONIOENCODING="ascii"),
            stdout=subprocess.PIPE,
        )
        output, _ = await process.communicate()
    assert (process.returncode, output) == (0, f"{path}\n".encode())
    assert path.exists()
