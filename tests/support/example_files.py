"""How the examples that download files are run, and what must come of each."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from income_client.emulator import Emulator
from tests.support.examples import RunExample, passes, python


async def saves_all(service: Emulator, path: Path) -> None:
    """Every file of the application is in the folder; the second time they are there."""
    _allow_this_machine(path)
    arguments = (path.parent, path.name, service.world.ids[0])
    lines = await python(service, *arguments)
    files = (path.parent / "files").rglob("*.*")
    assert {f"{one} downloaded" for one in files} == set(lines)
    assert lines
    again = await python(service, *arguments)
    assert sorted(again) == sorted(line.replace(" downloaded", " was there") for line in lines)


def _allow_this_machine(path: Path) -> None:
    """Change an example so that it gets the emulator's files."""
    policy = (
        'DownloadPolicy(allowed_hosts=["127.0.0.1"], require_https=False, '
        "allow_private_networks=True)"
    )
    text = path.read_text("utf-8").replace("from_env()", f"from_env(downloads={policy})")
    path.write_text(f"from income_client import DownloadPolicy\n{text}", "utf-8")


async def downloads_by_command(service: Emulator, folder: Path, command: str) -> list[str]:
    """Run the command as it is shown, on the emulator's files; return the lines it printed."""
    program, *arguments = shlex.split(command)
    assert program == "income-client"
    run = ("-m", "income_client.cli", *arguments, "--quiet", "--allow-host", "127.0.0.1")
    return await python(service, folder, *run)


RUN: Final[Mapping[str, RunExample]] = {
    "application_files.py": saves_all,
    "test_files.py": passes,
}
