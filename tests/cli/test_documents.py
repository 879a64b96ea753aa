"""``income-client documents``: whole documents a line, or a table of what there is."""

import asyncio
import csv
import shlex
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from income_client.emulator import Emulator
from tests.cli.downloading import documents_of
from tests.cli.entry import COMMAND, ROOT, Terminal, environment, run, run_on_terminal, running
from tests.cli.polling import parsed, served, variables


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """A service with a few applications and many documents."""
    async with Emulator(12) as emulator:
        yield emulator


async def listed(
    service: Emulator, *arguments: str, **others: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end while the service goes on."""
    together = {**variables(service), **others}
    return await asyncio.to_thread(run, "documents", *arguments, **together)


async def test_a_line_is_a_whole_document(service: Emulator) -> None:
    """It is the service's own JSON, the address aside, beside where it stands."""
    some = service.world.ids[0]
    ran = await listed(service, some)
    assert (ran.returncode, ran.stderr) == (0, "")
    expected = [
        {"application_id": some, "document_type": kind, "document": {**one, "url": ""}}
        for kind, documents in served(service, some, "/documents")["documents"].items()
        for one in documents
    ]
    assert parsed(ran.stdout) == expected


async def test_addresses_are_there_when_asked_for(service: Emulator) -> None:
    """They are as secret as the files, and not written down by accident."""
    some = service.world.ids[0]
    assert "Signature" not in (await listed(service, some)).stdout
    ran = await listed(service, some, "--addresses")
    assert all("?" in line["document"]["url"] for line in parsed(ran.stdout))


async def test_only_some_types(service: Emulator) -> None:
    """Types that are not named are left out; one that nobody has is said, and no error."""
    ran = await listed(service, *service.world.ids, "--type", "paystub", "-q")
    assert sorted(ran.stdout.split()) == sorted(documents_of(service, "paystub"))
    ran = await listed(service, *service.world.ids, "--type", "x", "--type", "paystub")
    assert (ran.returncode, len(ran.stdout.splitlines())) == (
        0,
        len(documents_of(service, "paystub")),
    )
    assert ran.stderr.startswith("income-client: no document of type x; there are ")
    assert "paystub" in ran.stderr
    ran = await listed(service, *service.world.ids, "--type", "x", "-q")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


async def test_pages_come_when_asked_for(service: Emulator) -> None:
    """JSON has the block, and a row has how many."""
    some = service.world.ids[0]
    assert "pages" not in parsed((await listed(service, some)).stdout)[0]["document"]
    ran = await listed(service, some, "--pages")
    assert all("pages" in line["document"] for line in parsed(ran.stdout))
    rows = rows_of((await listed(service, some, "--pages", "-o", "csv")).stdout)
    assert all(int(row["pages"]) >= 1 for row in rows)


async def test_csv_has_the_pay_period(service: Emulator) -> None:
    """A paystub's days stand in columns; other types have none that are known."""
    rows = rows_of((await listed(service, *service.world.ids, "--output", "csv")).stdout)
    assert {row["document_id"] for row in rows} == set(documents_of(service))
    for row in rows:
        assert bool(row["pay_begin_date"]) is (row["document_type"] == "paystub")


async def test_one_that_cannot_be_read_keeps_no_other_back(service: Emulator) -> None:
    """It is named on standard error, the rest is listed, and the status is 1."""
    first, second = service.world.ids[:2]
    ran = await listed(service, first, "nobody", second, "-q")
    assert ran.returncode == 1
    assert ran.stderr.startswith("income-client: get_documents(nobody): 404 Not Found")
    of_both = {one for one, whose in documents_of(service).items() if whose in (first, second)}
    assert set(ran.stdout.split()) == of_both


async def test_ids_come_from_another_command(service: Emulator) -> None:
    """A hyphen stands for standard input: ids, or lines that have one."""
    command = shlex.join(COMMAND)
    process = await asyncio.create_subprocess_shell(
        f"{command} applications | {command} documents - -q",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**variables(service)),
        cwd=ROOT,
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert sorted(output.decode().split()) == sorted(documents_of(service))


async def test_a_table_on_a_terminal_fits(service: Emulator) -> None:
    """Applications, types, ids and pay periods stand in 80 columns; what has no room goes."""
    together: dict[str, Any] = dict(variables(service))
    some = service.world.ids[0]
    shown = await asyncio.to_thread(run_on_terminal, "documents", some, **together)
    assert shown.status == 0
    assert "Application" in shown.screen
    assert "Action" not in shown.screen


async def test_ids_are_whole_on_a_narrow_terminal(service: Emulator) -> None:
    """At 40 columns other columns go, and no id loses its end."""
    some = service.world.ids[0]
    together: dict[str, Any] = dict(variables(service))
    with Terminal(width=40) as terminal:
        device = terminal.device
        with running("documents", some, stdout=device, stderr=device, **together) as process:
            terminal.attend()
            assert await asyncio.to_thread(process.wait, 50) == 0
            shown = await asyncio.to_thread(terminal.close)
    assert "…" not in shown
    of_it = [one for one, whose in documents_of(service).items() if whose == some]
    assert of_it
    assert all(one in shown for one in [some, *of_it])


@pytest.mark.parametrize("arguments", [(), ("--typo",), ("app-1", "--typo"), ("app-1", "-x")])
def test_what_cannot_be_meant(arguments: tuple[str, ...]) -> None:
    """No ids, and options that nobody knows, are misuse, although a hyphen alone is an id."""
    ran = run("documents", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert (arguments[-1] if arguments else "APPLICATION_ID") in ran.stderr


def rows_of(text: str) -> list[dict[str, Any]]:
    """Read CSV."""
    return list(csv.DictReader(text.splitlines()))
