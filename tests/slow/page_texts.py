"""Rules for texts on the pages: output, trees and drawings, each compared with its source."""

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import fields, has

import income_client
from income_client import records
from income_client.cli import status
from income_client.cli.output import drawn
from income_client.cli.status import Late, Lease, NameStatus, Reason
from tests.support.processes import ROOT, environment, run

_ASK_FOR_NOTES: Final = """
import asyncio
from income_client import DecodeError, IncomeClient
from income_client.emulator import Emulator, Fault

async def main():
    async with Emulator(3) as service, IncomeClient(service.url, auth=service.oauth2) as client:
        one = service.world.ids[0]
        for text in ('"seen"', "5"):
            body = f'{{"application_id": "{one}", "texts": [{text}]}}'.encode()
            service.faults.add(Fault("body", path=f"*/{one}/notes", body=body))
        print((await client.get_notes(one)).texts)
        try:
            await client.get_notes(one)
        except DecodeError as error:
            print(error.faults[0].path)

asyncio.run(main())
"""
"""Program that uses the new endpoint of the changed package."""
_NAMES_END_AT: Final = 34
"""Column of the drawing at which the names end and the words begin."""


def is_what_the_demo_prints(text: str) -> None:
    """The demo prints these lines; only figures differ from machine to machine."""

    def shape(lines: str) -> list[str]:
        return [
            re.sub(r"[\d,.]+|[▏▎▍▌▋▊▉█]+", "#", " ".join(line.split()))
            for line in lines.splitlines()
        ]

    assert shape(run("demo", env=environment()).stdout) == shape(text)
    assert "Applications found  5,000  of 5,000 existing" in text


def draws_the_layers(text: str) -> None:
    """Every folder is in the drawing, and every name in it exists."""
    columns = [line[:_NAMES_END_AT].split() for line in text.splitlines()]
    drawn = {name.rstrip("/") for names in columns for name in names}
    package = Path(income_client.__file__).parent
    for name in drawn:
        assert (package / name).is_dir() or (package / f"{name}.py").exists(), name
    folders = {child.name for child in package.iterdir() if (child / "__init__.py").exists()}
    assert folders <= drawn, folders - drawn


def adds_an_endpoint(text: str) -> None:
    """The steps apply to a copy of the package, and the new method decodes strictly."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "income_client"
        shutil.copytree(Path(income_client.__file__).parent, copy)
        for step in text.split("# ")[1:]:
            name, *lines = step.splitlines()
            old = [line[2:] for line in lines if line[0] in " -"]
            new = [line[2:] for line in lines if line[0] in " +"]
            _replace(copy.parent / name, old, new)
        env = environment(PYTHONPATH=folder)
        ran = run("-P", "-c", _ASK_FOR_NOTES, command=(sys.executable,), env=env)
    assert (ran.status, ran.stdout) == (0, "('seen',)\n$.texts[0]\n"), ran.stderr


def checks_a_change(text: str) -> None:
    """CI runs what is to be run once and what checks style and types; the others exist."""
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    lines = [line.removeprefix("$ .venv/bin/") for line in text.splitlines()]
    for command in (lines[0], *lines[1].replace(".venv/bin/", "").split(" && ")):
        assert f".venv/bin/{command}\n" in ci, command
    assert lines[2:] == ["python -m tests.changed", "pytest"]


def _replace(path: Path, old: Sequence[str], new: Sequence[str]) -> None:
    """Put new lines in the place of old ones, which are there once."""
    text = path.read_text("utf-8")
    before, after = "\n".join(old) + "\n", "\n".join(new) + "\n"
    assert text.count(before) == 1, (path, before)
    path.write_text(text.replace(before, after), "utf-8")


def is_the_tree_of_a_record(text: str) -> None:
    """Each name in it is that of a field; keys are in quotes, remarks behind two spaces."""
    values = (getattr(records, name) for name in records.__all__)
    classes = [one for one in values if isinstance(one, type) and has(one)]
    known = {field.name for one in classes for field in fields(one)}
    for line in text.splitlines()[1:]:
        drawn, *_ = re.sub(r'"\w+"', "", line.lstrip("│├└─ ")).split("  ")
        assert set(re.findall(r"\w+", drawn)) <= known, line


def is_a_chart(text: str) -> None:
    """The bars of the chart are compared with the results elsewhere, as all figures are."""
    assert "█" in text


def builds_the_site(text: str) -> None:
    """The extra and the program are there; a test runs the program."""
    program = text.rpartition("python ")[2].strip()
    assert (ROOT / program / "__main__.py").is_file()


def is_what_status_draws(text: str) -> None:
    """The command draws these lines of a name whose lease is renewed."""
    shown = NameStatus(
        name="lending",
        reached=datetime.fromisoformat("2026-06-30T11:58:45"),
        lag=75.0,
        lease=Lease(state="held", seconds=15.0, machine="web-1", process=4242),
        late=Late(greatest=3, updates=8, settle=60),
        dead_letters=2,
        reasons=(Reason(reason="get_application: 404 Not Found", count=2),),
        next_try_at=datetime.fromisoformat("2026-06-30T12:02:00"),
        saturated=(),
        problems=(),
    )
    lines = drawn(status._drawing(shown, "postgresql://db.internal/lending"), width=80)
    assert text.splitlines() == lines


TEXTS: Final[Mapping[str, Callable[[str], None]]] = {
    "Income demo:": is_what_the_demo_prints,
    "lending in ": is_what_status_draws,
    "requests of a walk / ": is_a_chart,
    "record\n": is_the_tree_of_a_record,
    "cli/": draws_the_layers,
    "# income_client/": adds_an_endpoint,
    "$ .venv/bin/pip install -e '.[lint]'": checks_a_change,
    "$ .venv/bin/pip install -e '.[site]'": builds_the_site,
}
"""Checks of texts, by the beginning of the text."""
