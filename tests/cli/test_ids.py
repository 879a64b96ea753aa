"""Ids that ``documents``, ``download`` and ``export`` read from standard input."""

import json
import shlex
from typing import Final

import pytest

from tests.support.cli import Cli, Running
from tests.support.streams import Terminal

pytestmark = pytest.mark.income_service(applications=4)
COMMANDS: Final = (
    "documents -",
    "download - --to files --allow-host 127.0.0.1",
    "export - --to all",
)
every = pytest.mark.parametrize("command", COMMANDS, ids=lambda line: line.split()[0])


@every
def test_however_ids_are_written_each_is_asked_for_once(command: str, shell: Cli) -> None:
    first, second, third, _ = shell.service.ids
    lines = f"\ufeff{first}\r\n\r\n\n  {second} \n{first}\n" + json.dumps({"application_id": third})
    assert shell(*shlex.split(command), stdin=lines).status == 0
    asked = [one.path for one in shell.service.requests if one.path.endswith("/documents")]
    assert sorted(path.split("/")[-2] for path in asked) == sorted((first, second, third))


@every
@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"], ids=["nothing", "blank", "mark"])
def test_no_ids_are_nothing_to_do(command: str, text: str, shell: Cli) -> None:
    """A job that lists what was updated lately does not fail where nothing was."""
    assert shell(*shlex.split(command), stdin=text).status == 0
    assert len(shell.service.requests) == 0


@every
def test_what_the_list_prints_can_be_piped_in(command: str, shell: Cli) -> None:
    for number, form in enumerate((("-q",), ("-o", "jsonl"))):
        listed = shell("applications", *form).stdout
        words = shlex.split(command.replace("--to ", f"--to {number}"))
        assert shell(*words, stdin=listed).status == 0
    assert shell.service.requests.count("get_documents") == 2 * len(shell.service.ids)


@every
@pytest.mark.parametrize("line", [b"app-1,CANARY", b'{"ssn":"CANARY"}', b"CANARY\xff"])
def test_a_line_without_an_id_is_named_and_not_shown(command: str, line: bytes, shell: Cli) -> None:
    """It may be somebody's record; what its place would be is not there."""
    ran = shell(*shlex.split(command), stdin=shell.service.ids[0].encode() + b"\n" + line)
    assert ran.status == 1
    assert "line 2 of standard input" in ran.stderr
    assert "CANARY" not in ran.stderr
    assert not (shell.folder / "all").exists()


@every
def test_a_terminal_says_that_it_is_read(command: str, shell: Cli) -> None:
    """Nobody waits for a command that waits for them."""

    def type_one(running: Running) -> None:
        running.stdout.wait_for("ids are read from this terminal; Ctrl-D ends them")
        running.write(f"{shell.service.ids[0]}\n\x04")

    assert shell(*shlex.split(command), terminal=Terminal(), during=type_one).status == 0
