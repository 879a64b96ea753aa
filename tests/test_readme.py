"""The README is true: its commands, its output, its error tree and every example in it.

An example names its file in its first line, and the table says how it is run;
one that stands in no row fails, so that none is only read.
"""

import inspect
import re
import subprocess
import tomllib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from attrs import fields_dict

from income_client import CheckpointStore, IncomeClient, errors
from income_client.emulator import CallbackTarget, Emulator, Fault, FaultKind, ServiceRules
from income_client.receivers import CallbackReceiver
from tests.cli.entry import ROOT, run
from tests.readme import README, blocks, commands
from tests.readme_callbacks import RUN as RUN_FOR_CALLBACKS
from tests.readme_callbacks import rings_by_command
from tests.readme_examples import RUN as RUN_ONCE
from tests.readme_examples import variables
from tests.readme_files import RUN as RUN_FOR_FILES
from tests.readme_files import downloads_by_command
from tests.readme_polling import RUN as RUN_ON
from tests.readme_polling import polls_by_command

RUN: Final = {**RUN_ONCE, **RUN_ON, **RUN_FOR_FILES, **RUN_FOR_CALLBACKS}
DEMO: Final = (
    "python3 -m venv .venv && .venv/bin/pip install -e '.[cli]' && .venv/bin/income-client demo"
)
TESTS: Final = "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/pytest"


def _file_name(example: str) -> str:
    return example.partition("\n")[0].removeprefix("# ")


EXAMPLES: Final = {_file_name(example): example for example in blocks("python")}


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """A service whose present is ours, as that of the command is, with updates in its last days."""
    start = datetime.now(UTC).replace(tzinfo=None)
    async with Emulator(300, start=start) as emulator:
        yield emulator


def test_every_example_is_run() -> None:
    """Each block of Python has its row in the table."""
    assert len(EXAMPLES) == len(blocks("python"))
    assert sorted(EXAMPLES) == sorted(RUN)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
async def test_the_example_works(
    name: str, service: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does against the emulator what the text around it says."""
    for variable, value in variables(service).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_text(EXAMPLES[name], "utf-8")
    await RUN[name](service, path)


def test_both_commands_stand_alone_in_their_blocks() -> None:
    """They can be copied as they are."""
    assert blocks("sh") == [f"{DEMO}\n", f"{TESTS}\n"]


def test_ci_takes_the_commands_from_here() -> None:
    """What CI runs is read from this file, so that the two cannot drift apart."""
    ended = subprocess.run(
        [ROOT / ".ci" / "run", "commands"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines() == [TESTS, DEMO]


def test_the_output_shown_is_the_demo_s() -> None:
    """The demo prints these lines; only figures differ from machine to machine."""

    def shape(text: str) -> list[str]:
        return [
            re.sub(r"[\d,.]+|[▏▎▍▌▋▊▉█]+", "#", " ".join(line.split()))
            for line in text.splitlines()
        ]

    shown = blocks("text")[0]
    assert shape(run("demo").stdout) == shape(shown)
    assert "Applications found  5,000  of 5,000 existing" in shown


def test_the_error_tree_shown_is_the_package_s() -> None:
    """The tree is the one in the docstring of ``errors``."""
    drawn = [
        line for line in (errors.__doc__ or "").splitlines() if re.match("IncomeC| *[├│└]", line)
    ]
    assert blocks("text")[1].splitlines() == drawn


def test_every_knob_and_fault_is_in_its_table() -> None:
    """The tables name each field of the rules and of a fault, and each kind of fault."""
    named = set(re.findall(r"`\"?(\w+)\"?`", "\n".join(re.findall(r"^\|.*", README, re.MULTILINE))))
    assert set(fields_dict(ServiceRules)) <= named
    assert set(fields_dict(Fault)) - {"kind"} <= named
    assert set(fields_dict(CallbackTarget)) - {"url"} <= named
    assert {kind.value for kind in FaultKind} <= named


def test_every_argument_of_what_runs_for_long_is_in_a_table() -> None:
    """The tables name what `poll` and a receiver take, and the methods of a store."""
    rows = "\n".join(re.findall(r"^\|.*", README, re.MULTILINE))
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", rows))))
    assert set(inspect.signature(IncomeClient.poll).parameters) - {"self", "checkpoints"} <= named
    assert set(inspect.signature(CallbackReceiver).parameters) - {"on_callback", "clock"} <= named
    for method in ("load", "save", "dead_letters"):
        parameters = inspect.signature(getattr(CheckpointStore, method)).parameters
        assert {method, *parameters} - {"self"} <= named


async def test_the_command_shown_polls(service: Emulator, tmp_path: Path) -> None:
    """A shell understands the line, and what it writes is what the text says."""
    (shown,) = commands("income-client poll")
    await polls_by_command(service, tmp_path, shown)


async def test_the_command_shown_downloads(service: Emulator, tmp_path: Path) -> None:
    """It writes the paths of pay slips, and a manifest beside them."""
    (shown,) = commands("income-client download")
    ids = " ".join(service.world.ids[:2])
    command = shown.replace("app-1 app-2", ids)
    lines = await downloads_by_command(service, tmp_path, command)
    assert lines
    assert all("/paystub/" in line for line in lines)
    manifest = (tmp_path / "files" / "manifest.jsonl").read_text("utf-8").splitlines()
    assert len(manifest) == len(lines)


async def test_the_commands_shown_ring(tmp_path: Path) -> None:
    """One takes callbacks, one sends them, and one has it send one."""
    await rings_by_command(tmp_path)


def test_extras_are_those_that_the_commands_name() -> None:
    """The commands install extras that exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert {"bench", "callbacks", "cli", "dev", "parquet", "storage", "telemetry"} == set(
        project["project"]["optional-dependencies"]
    )
