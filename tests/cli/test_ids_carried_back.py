"""Ids of any characters: each command reads what any command writes."""

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.id_lines import IdLines, guarded, id_line, unguarded
from income_client.cli.rows import csv_line
from income_client.testing import make_record
from tests.support.cli import Cli, cli, shell
from tests.support.hostile_texts import IDS

__all__ = ["cli", "shell"]

texts = st.sampled_from(IDS) | st.text(
    st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=512
)
tricky_texts = st.text(
    st.sampled_from("'=+-@;\" a\uff1d\u00a0\ufeff[]{},\\"), min_size=1, max_size=8
)


def read(*lines: bytes) -> list[str]:
    """Return the ids in lines of standard input."""
    ids = IdLines()
    return [application_id for line in lines for application_id in ids.read(line)]


@given(st.lists(texts | tricky_texts, min_size=1, max_size=5))
def test_ids_are_read_as_they_were_written(ids: list[str]) -> None:
    """Alone in lines, in CSV, in JSON lines and in an array."""
    assert read(*(id_line(one).encode() for one in ids)) == ids
    rows = [csv_line([one, "x,application_id", one]) for one in ids]
    assert read(csv_line(["application_id", "b", "c"]), *rows) == ids
    assert read(csv_line(["b", "c", "application_id"]), *rows) == ids
    objects = [json.dumps({"application_id": one}).encode() for one in ids]
    assert read(*objects) == ids
    assert read(b"[", *(one + b"," for one in objects[:-1]), objects[-1], b"]") == ids


@given(texts | tricky_texts)
def test_the_guard_against_formulas_is_taken_away_again(text: str) -> None:
    assert unguarded(guarded(text)) == text


WRITERS: Final = {
    "applications -q": ("applications", "-q"),
    "applications -o jsonl": ("applications", "-o", "jsonl"),
    "applications -o csv": ("applications", "-o", "csv"),
    "applications -o json": ("applications", "-o", "json"),
    "documents -o jsonl": ("documents", "-", "-o", "jsonl"),
    "documents -o csv": ("documents", "-", "-o", "csv"),
    "documents -o json": ("documents", "-", "-o", "json"),
    "audit -q": ("audit", "held.csv", "-q", "--settle", "0"),
    "audit -o jsonl": ("audit", "held.csv", "-o", "jsonl", "--settle", "0"),
    "audit -o csv": ("audit", "held.csv", "-o", "csv", "--settle", "0"),
    "poll": ("poll", "--once", "--store", "polls.db", "--start", "beginning"),
    "export": ("export", "--to", "out.jsonl", "--updated-after", "beginning"),
}
HAVE_TIMES: Final = (
    "documents -o jsonl",
    "documents -o csv",
    "documents -o json",
    "poll",
    "export",
)


@pytest.fixture
def hostile(shell: Cli) -> Cli:
    """The command before a service whose applications have these ids."""
    for number, application_id in enumerate(IDS):
        shell.service.add(make_record(number=number, application_id=application_id))
    (shell.folder / "held.csv").write_text(f"{IDS[0]},2020-01-01\n")
    return shell


def written(shell: Cli, writer: str) -> str:
    """Return what a command writes."""
    stdin = json.dumps({"application_id": IDS[0]})
    if writer.startswith("documents"):
        stdin = "\n".join(json.dumps({"application_id": one}) for one in IDS)
    ran = shell(*WRITERS[writer], stdin=stdin)
    assert ran.status in (0, 1), ran.stderr
    return (shell.folder / "out.jsonl").read_text("utf-8") if writer == "export" else ran.stdout


@pytest.mark.income_service(applications=0)
@pytest.mark.parametrize("writer", WRITERS)
def test_commands_read_the_ids_that_a_command_writes(writer: str, hostile: Cli) -> None:
    text = written(hostile, writer)
    read_by_documents = hostile("documents", "-", "-o", "jsonl", stdin=text)
    rows = map(json.loads, read_by_documents.stdout.split("\n")[:-1])
    assert {row["application_id"] for row in rows} == set(IDS), read_by_documents.stderr
    downloaded = hostile("download", "-", "--to", "files", "--allow-host", "127.0.0.1", stdin=text)
    assert downloaded.stdout.count("\n") == len(IDS), downloaded.stderr
    exported = hostile("export", "-", "--to", "copy.jsonl", stdin=text)
    assert exported.status == 0, exported.stderr
    lines = (hostile.folder / "copy.jsonl").read_text("utf-8").split("\n")[:-1]
    assert {json.loads(line)["application"]["application_id"] for line in lines} == set(IDS)


@pytest.mark.income_service(applications=0)
@pytest.mark.parametrize("writer", HAVE_TIMES)
def test_an_audit_of_what_a_command_writes_finds_nothing(writer: str, hostile: Cli) -> None:
    """An id that is read as another one would be missing, and called deleted besides."""
    audited = hostile("audit", "-", "--settle", "0", "-q", stdin=written(hostile, writer))
    assert (audited.stdout, audited.status) == ("", 0), audited.stderr


@pytest.mark.income_service(applications=0)
@pytest.mark.parametrize(
    "command", ["documents", "download --to files --allow-host 127.0.0.1", "export --to x.jsonl"]
)
def test_an_id_behind_the_options_may_begin_with_a_hyphen(command: str, hostile: Cli) -> None:
    """Behind ``--`` nothing is an option; before it a misspelt one is never taken for an id."""
    words = command.split()
    assert hostile(*words, "--", "-abc", "--abc").status == 0
    assert hostile(*words, "-abc").status == 2
    assert hostile(*words, "-x", "--", "-abc").status == 2
