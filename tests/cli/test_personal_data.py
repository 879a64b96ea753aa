"""Personal data: masked where people look, whole where programs read; addresses on request."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet
import pytest

from income_client import ApplicationRecord, IncomeClient, to_json
from income_client.emulator import CallbackTarget, Emulator
from income_client.testing import IncomeService
from tests.support.cli import Cli, Running, Terminal
from tests.support.listening import BASIC, BASIC_VARIABLES

Arguments = Callable[[IncomeService, Path], tuple[str, ...]]

SHOWN: Final = "--show-personal-data"
SIGNED: Final = "Signature="
"""What every address of a file has in its query."""

FOR_PEOPLE: Final[dict[str, Arguments]] = {
    "application": lambda service, _: (service.ids[0],),
    "documents": lambda service, _: service.ids,
    "poll": lambda _, folder: (
        "--store", str(folder / "polls.db"), "--start", "beginning", "--once",
    ),
    "poll-documents": lambda _, folder: (
        "--documents", "--store", str(folder / "polls.db"), "--start", "beginning", "--once",
    ),
}  # fmt: skip
FOR_PROGRAMS: Final[dict[str, Arguments]] = {
    "application": lambda service, _: (service.ids[0], "-o", "json"),
    "documents-json": lambda service, _: (*service.ids, "-o", "json"),
    "documents-jsonl": lambda service, _: service.ids,
    "poll-documents": FOR_PEOPLE["poll-documents"],
    "export": lambda _, folder: ("--to", str(folder / "all.jsonl")),
}


@pytest.fixture
def service() -> Iterator[IncomeService]:
    """A service with a few applications."""
    with IncomeService(3) as made:
        yield made


@pytest.fixture
def shell(cli: Cli, service: IncomeService) -> Cli:
    """The command, with the settings that lead to the service."""
    return cli.at(service)


def records_of(service: IncomeService) -> list[ApplicationRecord]:
    """Return everything that the service holds."""

    async def read() -> list[ApplicationRecord]:
        async with IncomeClient(service.url, auth=service.basic) as client:
            return [record async for record in client.fetch_records(service.ids)]

    return asyncio.run(read())


def personal(service: IncomeService) -> set[str]:
    """Return what names or describes a borrower, word by word."""
    words = set[str]()
    for record in records_of(service):
        for person in record.application.applicants.values():
            words |= {person.first_name, person.last_name, person.email, person.phone, person.ssn}
            words |= {entry.address.street_address for entry in person.address_info}
    return words


def found(words: set[str], text: str) -> set[str]:
    """Return the words that are in a text."""
    return {word for word in words if word in text}


@pytest.mark.parametrize("case", FOR_PEOPLE)
def test_what_people_look_at_names_nobody_unasked(
    case: str, service: IncomeService, tmp_path: Path, shell: Cli
) -> None:
    """On a terminal data of borrowers is shown on request, and addresses of files never."""
    arguments = (case.partition("-")[0], *FOR_PEOPLE[case](service, tmp_path))
    looked = shell(*arguments, terminal=Terminal(columns=400))
    assert looked.status == 0
    assert service.ids[0] in looked.screen
    assert found(personal(service), looked.screen) == set()
    if case != "documents":
        (tmp_path / "polls.db").unlink(missing_ok=True)
        shown = shell(*arguments, SHOWN, terminal=Terminal(columns=400))
        assert found(personal(service), shown.screen)
        assert SIGNED not in looked.screen + shown.screen


def test_an_update_on_a_terminal_is_a_line(
    service: IncomeService, tmp_path: Path, shell: Cli
) -> None:
    """It tells the time, the id, how many documents there are, and the reference."""
    arguments = ("poll", *FOR_PEOPLE["poll-documents"](service, tmp_path))
    terminal = Terminal(columns=80)
    looked = shell(*arguments, terminal=terminal)
    shown = [tuple(line.split()) for line in terminal.standing(looked.screen)]
    for record in records_of(service):
        application = record.application
        time = application.last_updated_at.strftime("%Y-%m-%d %H:%M:%SZ")
        documents = record.documents
        assert documents is not None
        count = len([*documents.all()])
        reference = application.application_reference_id
        what = f"{count} document{'s' if count > 1 else ''}"
        row = (*time.split(), application.application_id, *what.split(), reference)
        assert row in shown


def written(case: str, shell: Cli, service: IncomeService, folder: Path, *more: str) -> str:
    """Run a command whose output goes to a program, and return what that reads."""
    arguments = (case.partition("-")[0], *FOR_PROGRAMS[case](service, folder), *more)
    ended = shell(*arguments)
    assert ended.status == 0
    return (folder / "all.jsonl").read_text("utf-8") if case == "export" else ended.stdout


@pytest.mark.parametrize("case", FOR_PROGRAMS)
def test_what_programs_read_is_whole(
    case: str, shell: Cli, service: IncomeService, tmp_path: Path
) -> None:
    """Nothing of it is masked, and nothing of it is missing but the addresses of files."""
    text = written(case, shell, service, tmp_path)
    assert SIGNED not in text
    documents = [document for record in records_of(service) for document in _all_of(record)]
    wanted = documents if case != "application" else _all_of(records_of(service)[0])
    assert _documents_in(_parsed(text)) == [{**document, "url": ""} for document in wanted]
    if case.startswith("documents"):
        return
    people = records_of(service)[: 1 if case == "application" else None]
    for record in people:
        for person in record.application.applicants.values():
            assert person.ssn in text


@pytest.mark.parametrize("case", FOR_PROGRAMS)
def test_programs_get_addresses_on_request(
    case: str, shell: Cli, service: IncomeService, tmp_path: Path
) -> None:
    """Anybody who has an address can read the file, so it must be asked for."""
    written_documents = _documents_in(
        _parsed(written(case, shell, service, tmp_path, "--addresses"))
    )
    assert written_documents
    assert all(SIGNED in document["url"] for document in written_documents)


@pytest.mark.parametrize("more", [(), ("--addresses",)], ids=["bare", "addresses"])
def test_tables_hold_no_addresses(
    more: tuple[str, ...], shell: Cli, service: IncomeService, tmp_path: Path
) -> None:
    """Parquet has the borrowers' data, and no column for addresses."""
    folder = tmp_path / "tables"
    assert shell("export", "--to", str(folder), "--format", "parquet", *more).status == 0
    cells = "\n".join(
        str(pyarrow.parquet.read_table(path).to_pydict())
        for path in sorted(folder.glob("*.parquet"))
    )
    assert found(personal(service), cells)
    assert SIGNED not in cells


def test_an_export_is_resumed_with_the_same_choice_of_addresses(
    shell: Cli, service: IncomeService, tmp_path: Path
) -> None:
    """Half of the lines with addresses and half without would be neither."""
    command = ("export", "--to", str(tmp_path / "all.jsonl"))
    service.faults.add("get_application: 404")
    assert shell(*command).status == 1
    ended = shell(*command, "--addresses")
    assert ended.status == 2
    assert "was begun with --no-addresses, and not --addresses" in ended.stderr
    assert shell(*command).status == 0
    manifest = json.loads((tmp_path / "all.jsonl.manifest.json").read_text("utf-8"))
    assert manifest["addresses"] is False


def test_a_payload_is_shown_on_request(cli: Cli) -> None:
    """It may hold anything and cannot be masked, so --payload alone is refused on a terminal."""
    ran = cli("listen", "--payload", terminal=Terminal())
    assert (ran.status, SHOWN in ran.screen) == (2, True)

    async def send(url: str) -> None:
        async with Emulator(1) as emulator:
            target = CallbackTarget(url, auth=BASIC, pauses=())
            await emulator.fire_callback(emulator.world.ids[0], "extractions", target=target)

    def ring(running: Running) -> None:
        said = running.stdout.wait_for("/callbacks\r\n")
        asyncio.run(send(said.split(" at ")[1].split()[0]))
        running.stdout.wait_for('"payload":{"event_type":"extractions"')
        running.terminate()

    command = ("listen", "--port", "0", "--payload", SHOWN)
    cli(*command, env=BASIC_VARIABLES, terminal=Terminal(columns=400), during=ring)


def _parsed(text: str) -> list[Any]:
    """Return the values of JSON lines, or of one array."""
    if text.startswith("["):
        values: list[Any] = json.loads(text)
        return values
    return [json.loads(line) for line in text.splitlines()]


def _all_of(record: ApplicationRecord) -> list[Any]:
    """Return an application's documents as the service's own JSON."""
    return _documents_in([json.loads(to_json(record))])


def _documents_in(lines: list[Any]) -> list[Any]:
    """Return the documents of lines of JSON, in whatever form the command writes them."""
    found: list[Any] = []
    for line in lines:
        if "document" in line:
            found.append(line["document"])
        else:
            found += [each for kind in line["documents"]["documents"].values() for each in kind]
    return found
