"""``income-client split``, and ``export --part``: one span, many machines, one data set."""

import json
from collections import Counter
from pathlib import Path

import pytest

from income_client import SpanPart
from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.cli import Cli, Terminal

PAST = "2026-06-30T11:00:00"
some = pytest.mark.income_service(applications=60)


def ids_in(*paths: Path) -> Counter[str]:
    """Count the applications in files of JSON lines."""
    return Counter(
        json.loads(line)["application"]["application_id"]
        for path in paths
        for line in path.read_bytes().splitlines()
    )


@some
def test_files_of_all_parts_are_the_whole(shell: Cli, income_service: IncomeService) -> None:
    """A file of lines names the parts, each export takes one, and nothing is there twice."""
    folder = shell.folder
    ran = shell("split", "--parts", "3")
    assert ran.status == 0
    parts = [SpanPart.from_json(line) for line in ran.lines]
    assert [part.read_last for part in parts] == [False, False, False, True]
    assert "4 parts of about" in ran.stderr
    assert "read part 4 after all others are done" in ran.stderr
    (folder / "parts.jsonl").write_text(ran.stdout, "utf-8")
    for number in range(1, 4):
        exported = shell("export", "--part", f"parts.jsonl:{number}")
        assert (exported.status, exported.stdout) == (0, f"part-{number}.jsonl\n")
        assert "the next export begins" not in exported.stderr
    income_service.advance(100)
    moved = min(ids_in(folder / "part-1.jsonl"))
    income_service.touch(moved)
    last = shell("export", "--part", "parts.jsonl:4")
    assert "only if the others were done before" in last.stderr
    assert "the next export begins with --updated-after" in last.stderr
    found = ids_in(*folder.glob("part-?.jsonl"))
    assert found == Counter(income_service.ids) + Counter([moved])
    manifest = json.loads((folder / "part-1.jsonl.manifest.json").read_text("utf-8"))
    assert manifest["part"] == str(parts[0])
    assert manifest["next_updated_after"] is None


@some
def test_a_part_comes_as_a_file_or_on_standard_input(shell: Cli) -> None:
    """A queue hands out one line at a time; it may be in a file, or come through a pipe."""
    line = shell("split", "--parts", "2", "--updated-before", PAST).lines[0]
    (shell.folder / "one.jsonl").write_text(f"{line}\n", "utf-8")
    assert shell("export", "--part", "one.jsonl", "--to", "a").status == 0
    assert shell("export", "--part", "-", "--to", "b", stdin=line).status == 0
    assert ids_in(shell.folder / "a") == ids_in(shell.folder / "b")


@some
def test_another_part_is_refused_where_one_was_begun(
    shell: Cli, income_service: IncomeService
) -> None:
    """An export that is resumed keeps to its part."""
    lines = shell("split", "--parts", "2", "--updated-before", PAST).stdout
    (shell.folder / "parts.jsonl").write_text(lines, "utf-8")
    income_service.faults.add(Fault("status", status=404, path="*/app-*", times=1))
    begun = shell("export", "--to", "all", "--part", "parts.jsonl:1")
    assert begun.status == 1
    refused = shell("export", "--to", "all", "--part", "parts.jsonl:2")
    assert refused.status == 2
    assert "was begun with" in refused.stderr
    assert shell("export", "--to", "all").status == 2
    assert shell("export", "--to", "all", "--part", "parts.jsonl:1").status == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--part", "parts.jsonl"), "has 3 lines: add :NUMBER for one"),
        (("--part", "parts.jsonl:4"), "there are 3 lines"),
        (("--part", "parts.jsonl:0"), "there are 3 lines"),
        (("--part", "parts.jsonl:3"), "must be a line of JSON that split_span made"),
        (("--part", "nowhere.jsonl:1"), "cannot read nowhere.jsonl"),
        (("--part", "parts.jsonl:1", "--updated-after", "7d"), "cannot be combined"),
        ((), "--to is missing"),
    ],
)
@pytest.mark.income_service(applications=3)
def test_what_is_no_part_is_refused(arguments: tuple[str, ...], said: str, shell: Cli) -> None:
    """Each mistake has its message, and nothing is written."""
    lines = shell("split", "--parts", "2", "--updated-before", PAST).stdout
    (shell.folder / "parts.jsonl").write_text(f"{lines}{{}}\n", "utf-8")
    before = {*shell.folder.iterdir()}
    ran = shell("export", *arguments)
    assert ran.status in (1, 2)
    assert said in ran.stderr
    assert {*shell.folder.iterdir()} == before


@some
def test_a_terminal_shows_a_table(shell: Cli) -> None:
    """A person sees when each part begins and about how much it holds."""
    ran = shell("split", "--parts", "2", terminal=Terminal(columns=100))
    assert "Updated after" in ran.screen
    assert "Applications" in ran.screen
    assert "span_part" not in ran.screen
