"""Personal data: masked where people look, whole where programs read; addresses on request."""

import json
from decimal import Decimal
from typing import Any, Final

import pyarrow.parquet
import pytest

from tests.support.cli import Cli
from tests.support.commands import Form
from tests.support.served import parsed, served, without_addresses
from tests.support.streams import Terminal

pytestmark = pytest.mark.income_service(applications=3)

SHOWN: Final = "--show-personal-data"
SIGNED: Final = "Signature="
"""What every address of a file has in its query."""
FOR_PEOPLE: Final = (
    Form("application"), Form("documents"), Form("poll"),
)  # fmt: skip
FOR_PROGRAMS: Final = (
    Form("application", ("-o", "json")), Form("documents"), Form("poll"), Form("export"),
)  # fmt: skip


def personal(shell: Cli) -> set[str]:
    """Return what names or describes a borrower, word by word."""
    words = set[str]()
    for one in shell.service.ids:
        for person in served(shell.service, one)["applicants"].values():
            words |= {person[key] for key in ("first_name", "last_name", "email", "phone", "ssn")}
            words |= {entry["address"]["street_address"] for entry in person["address_info"]}
    return words


def found(words: set[str], text: str) -> set[str]:
    """Return the words that are in a text."""
    return {word for word in words if word in text}


@pytest.mark.parametrize("form", FOR_PEOPLE, ids=str)
def test_what_people_look_at_names_nobody_unasked(form: Form, shell: Cli) -> None:
    """On a terminal data of borrowers is shown on request, and addresses of files never."""
    line, terminal = form.line(shell.service), Terminal(columns=400)
    looked = shell(*line, terminal=terminal)
    assert looked.status == 0
    assert shell.service.ids[0] in looked.screen
    assert found(personal(shell), looked.screen) == set()
    if form.name != "documents":
        (shell.folder / "polls.db").unlink(missing_ok=True)
        shown = shell(*line, SHOWN, terminal=terminal)
        assert found(personal(shell), shown.screen)
        assert SIGNED not in looked.screen + shown.screen


def test_an_update_on_a_terminal_is_a_line(shell: Cli) -> None:
    terminal = Terminal(columns=80)
    looked = shell(*Form("poll").line(shell.service), terminal=terminal)
    shown = [" ".join(line.split()) for line in terminal.standing(looked.screen)]
    for one in shell.service.ids:
        application = served(shell.service, one)
        time = application["last_updated_at"].replace("T", " ")
        documents = served(shell.service, one, "/documents")["documents"].values()
        count = sum(map(len, documents))
        what = f"{count} document{'s' if count > 1 else ''}"
        assert f"{time} {one} {what} {application['application_reference_id']}" in shown


def written(form: Form, shell: Cli, *more: str) -> str:
    """Run a command whose output goes to a program, and return what that reads."""
    ran = shell(*form.line(shell.service), *more)
    assert ran.status == 0
    return (shell.folder / "all").read_text("utf-8") if form.name == "export" else ran.stdout


def documents_in(text: str) -> list[Any]:
    """Return the documents of an array or of lines of JSON, in whatever form they come."""
    documents = []
    for line in json.loads(text, parse_float=Decimal) if text[0] == "[" else parsed(text):
        if "document" in line:
            documents.append(line["document"])
        else:
            kinds = line["documents"]["documents"].values()
            documents += [each for kind in kinds for each in kind]
    return documents


@pytest.mark.shows_private("output", "file", reason="programs read addresses as well")
@pytest.mark.parametrize("form", FOR_PROGRAMS, ids=str)
def test_what_programs_read_is_whole(form: Form, shell: Cli) -> None:
    text = written(form, shell)
    assert SIGNED not in text
    wanted = shell.service.ids[: 1 if form.name == "application" else None]
    replies = [without_addresses(served(shell.service, one, "/documents")) for one in wanted]
    assert documents_in(text) == [
        each for reply in replies for kind in reply["documents"].values() for each in kind
    ]
    if form.name != "documents":
        for one in wanted:
            people = served(shell.service, one)["applicants"].values()
            assert all(person["ssn"] in text for person in people)
    # Anybody who has an address can read the file, so it must be asked for.
    for path in (*shell.folder.glob("all*"), *shell.folder.glob("polls.db*")):
        path.unlink()
    addressed = documents_in(written(form, shell, "--addresses"))
    assert addressed
    assert all(SIGNED in document["url"] for document in addressed)


def test_tables_hold_no_addresses(shell: Cli) -> None:
    """Parquet has the borrowers' data, and no column for addresses."""
    line = Form("export", ("--format", "parquet", "--addresses")).line(shell.service)
    assert shell(*line).status == 0
    cells = "\n".join(
        str(pyarrow.parquet.read_table(path).to_pydict())
        for path in sorted((shell.folder / "all").glob("*.parquet"))
    )
    assert found(personal(shell), cells)
    assert SIGNED not in cells


def test_an_export_is_resumed_with_the_same_choice_of_addresses(shell: Cli) -> None:
    """Half of the lines with addresses and half without would be neither."""
    line = Form("export").line(shell.service)
    shell.service.faults.add("get_application: 404")
    assert shell(*line).status == 1
    ended = shell(*line, "--addresses")
    assert ended.status == 2
    assert "was begun with --no-addresses, and not --addresses" in ended.stderr
    assert shell(*line).status == 0
    manifest = json.loads((shell.folder / "all.manifest.json").read_text("utf-8"))
    assert manifest["addresses"] is False
