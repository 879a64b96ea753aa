"""The README and the guide are correct: every block is run, or compared with its source."""

import asyncio
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("duckdb", reason="the examples need the extra 'full'")

from sybil import Example
from sybil.example import SybilFailure

from income_client import ConfigurationError, IncomeClient, SQLiteCheckpointStore
from income_client.cli.app import command_line
from income_client.configuration import read_file
from income_client.emulator import Emulator
from income_client.records.window import EPOCH
from tests.slow import example_django, example_programs, example_workers
from tests.slow.examples import RunExample, leave_letters, variables
from tests.slow.page_texts import TEXTS
from tests.slow.prometheus import RULES
from tests.slow.test_remote_emulator import DOCKERFILE
from tests.slow.test_uvicorn import COMMANDS, SERVER_BLOCK
from tests.support.pages import (
    DEMO,
    EXAMPLES,
    GUIDE,
    PAGES,
    SKILL,
    TESTS,
    blocks_of,
    contents,
    example_files,
    kind_of,
    label,
)
from tests.support.processes import COMMAND, ROOT, environment

RUN: Final[Mapping[str, RunExample]] = {
    **example_django.RUN,
    **example_programs.RUN,
    **example_workers.RUN,
}
"""Functions that run the examples, by the name of the file or folder."""


@pytest.mark.shows_private("file", reason="what an example writes has addresses of files")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(RUN))
def test_the_example_does_what_its_page_says(name: str, tmp_path: Path) -> None:
    async def run(service: Emulator, folder: Path) -> None:
        source, path = EXAMPLES / name, folder / name
        if source.is_dir():
            shutil.copytree(source, path, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            path.write_text(source.read_text("utf-8"), "utf-8")
        await RUN[name](service, path)

    asyncio.run(_played(run, tmp_path))


def test_every_example_is_run_and_shown() -> None:
    """Each file or folder has one row in a table, and each file one block on a page."""
    files = example_files()
    assert set(RUN) == {name.partition("/")[0] for name in files}
    shown = [text.partition("\n")[0].removeprefix("# ") for text in contents("python")]
    assert sorted(shown) == files


def _compare_example(block: Example) -> str | None:
    """See that a block is a file, named in its first line."""
    name = str(block.parsed).partition("\n")[0].removeprefix("# ")
    path = EXAMPLES / name
    if not path.is_file():
        return f"{name} is no file in tests/examples"
    return None if block.parsed == path.read_text("utf-8") else f"{name} differs from its file"


def _run_commands(block: Example) -> str | None:
    """Run each line in a shell, in the situation that the text around it assumes."""

    async def run(service: Emulator, folder: Path) -> None:
        faults.extend([await _run(service, folder, line) for line in block.parsed.splitlines()])

    faults: list[str] = []
    asyncio.run(_played(run, block.namespace["folder"]))
    return "\n".join(filter(None, faults))


async def _run(service: Emulator, folder: Path, line: str) -> str:
    """Return what is wrong with a line, an empty text if nothing is."""
    if not line.startswith("$ "):
        return f"{line!r} is not a command; output belongs in a text block"
    program, *words = shlex.split(line[2:], comments=True)
    match program, *words:
        case "income-client", "emulate" | "listen" | "relay" | "trigger", *_:
            # The tests of these commands run them, beside each other and beside servers.
            command_line().parse_args(words, print_error=False, exit_on_error=False)
            return ""
        case ("kubectl" | "nats" | "openssl" | "psql", *_) | ("python", "manage.py", *_):
            return ""  # servers, platforms and projects; the examples run such lines
        case "uvicorn", *_:
            is_run = line[2:] in COMMANDS
            return "" if is_run else f"no test runs {line!r}"
        case "income-client", "audit", *_:
            times = ((one, service.world.updated_at(one)) for one in service.world.ids)
            held = [f"{one},{EPOCH + timedelta(seconds=second)}" for one, second in times]
            (folder / "held.csv").write_text("\n".join(["application_id,updated_at", *held]))
        case "income-client", "status", *_:
            await _make_store(service, folder)
        case "income-client", "dead-letters", *_:
            await leave_letters(folder / "polls.db", service.world.ids[0])
        case "income-client" | "curl" | "printf" | "python" | "split" | "stat" | "test", *_:
            pass
        case _:
            return f"{program} is not known here"
    for shown, here in {
        "app-1": service.world.ids[0],
        "app-2": service.world.ids[1],
        "curl ": "curl --fail ",
        "download ": "download --allow-host 127.0.0.1 ",
        "income-client": shlex.join(COMMAND),
        # The text below it names the option, since a test wants it to end.
        "poll --store": "poll --once --store",
    }.items():
        line = line.replace(shown, here)
    process = await asyncio.create_subprocess_shell(
        line[2:],
        cwd=folder,
        env=environment(**variables(service), PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _, complaints = await process.communicate()
    return complaints.decode() if process.returncode else ""


async def _make_store(service: Emulator, folder: Path) -> None:
    """Poll once, so that there is a store with a checkpoint."""
    async with IncomeClient(service.url, auth=service.oauth2) as client:
        poller = client.poll(SQLiteCheckpointStore(folder / "polls.db"), once=True)
        assert [record async for record in poller] == []


def _commands_before_going_live() -> list[str]:
    """Return the commands in the tables of the page about production."""
    rows = (GUIDE / "production.md").read_text("utf-8").partition("## Dependencies")[0]
    return re.findall(r"^\| .+ \| `([^`]+)` \| .+ \|$", rows, re.MULTILINE)


def test_each_line_before_going_live_has_a_command() -> None:
    text = (GUIDE / "production.md").read_text("utf-8")
    commands = _commands_before_going_live()
    lines = re.findall(r"^\| [^|]+ \| [^|]+ \| [^|]+ \|$", text, re.MULTILINE)
    assert len(commands) == len([line for line in lines if "| command |" not in line]) >= 20
    assert "twenty-two lines" in text
    assert len(commands) == 22


@pytest.mark.parametrize("command", dict.fromkeys(_commands_before_going_live()))
def test_a_command_before_going_live_succeeds(command: str, tmp_path: Path) -> None:
    """In a folder with a store, its copy, a secret and records, all of them private."""

    async def run(service: Emulator, folder: Path) -> None:
        await _make_store(service, folder)
        shutil.copy(folder / "polls.db", folder / "copy.db")
        for name in ("client-secret", "records.jsonl"):
            (folder / name).touch(0o600)
        faults.append(await _run(service, folder, f"$ {command}"))

    faults: list[str] = []
    asyncio.run(_played(run, tmp_path))
    assert faults == [""]


async def _played(play: RunExample, folder: Path) -> None:
    """Call something with a service that the environment names, updated in the last days."""
    start = datetime.now(UTC).replace(tzinfo=None)
    async with Emulator(60, start=start) as service:
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in variables(service).items():
                patch.setenv(variable, value)
            patch.chdir(folder)
            await play(service, folder)


def _compare_text(block: Example) -> str | None:
    """Compare what is shown with where it comes from."""
    checks = [check for start, check in TEXTS.items() if block.parsed.startswith(start)]
    if len(checks) != 1:
        return f"{len(checks)} rows of the table TEXTS begin as it does"
    checks[0](block.parsed)
    return None


def _find_installation(block: Example) -> str | None:
    """See that a command is alone in its block, to be copied as it is; CI runs it."""
    return None if block.parsed in (f"{DEMO}\n", f"{TESTS}\n") else "it is neither command"


def _find_reader(block: Example) -> str | None:
    """See that the tests of nginx run it with this configuration."""
    return None if block.parsed == SERVER_BLOCK else "the tests of nginx run another one"


def _read_configuration(block: Example) -> str | None:
    """Read a configuration by the command, with each of its profiles."""
    path = block.namespace["folder"] / "config.toml"
    path.write_text(block.parsed, "utf-8")
    path.chmod(0o600)
    profiles = tomllib.loads(block.parsed).get("profiles", {})
    try:
        for profile in (None, *profiles):
            read_file(path, profile)
    except ConfigurationError as error:
        return error.message
    return None


def _start_by_unit(block: Example) -> str | None:
    """Parse the command line of a service unit by the command's own parser."""
    unit = ConfigParser(interpolation=None, strict=False)
    unit.read_string(block.parsed)
    shell, dash_c, script = shlex.split(unit["Service"]["ExecStart"])
    words = shlex.split(script.partition(" >> ")[0])
    assert (shell, dash_c, words[:2]) == ("/bin/sh", "-c", ["exec", "income-client"])
    command_line().parse_args(words[2:], print_error=False, exit_on_error=False)
    return None


def _find_rules(block: Example) -> str | None:
    """See that the tests of alerts run Prometheus with these rules."""
    return None if block.parsed == RULES else "the tests of alerts use other rules"


def _find_container(block: Example) -> str | None:
    """See that a test runs what a container of it would run."""
    return None if block.parsed == DOCKERFILE else "the tests of a container run another one"


KINDS: Final[Mapping[str, Callable[[Example], str | None]]] = {
    "console": _run_commands,
    "dockerfile": _find_container,
    "ini": _start_by_unit,
    "nginx": _find_reader,
    "python": _compare_example,
    "sh": _find_installation,
    "text": _compare_text,
    "toml": _read_configuration,
    "yaml": _find_rules,
}


def _evaluate(block: Example) -> str | None:
    evaluate = KINDS.get(kind_of(block))
    return f"unknown kind {kind_of(block)!r}" if evaluate is None else evaluate(block)


@pytest.mark.parametrize("block", blocks_of(*PAGES, SKILL, evaluator=_evaluate), ids=label)
def test_the_block_is_true(block: Example, tmp_path: Path) -> None:
    block.namespace["folder"] = tmp_path
    block.evaluate()


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("```python\n# unknown.py\n```", "unknown.py is no file"),
        ("```python\n# incomes.py\n1 + 1\n```", "incomes.py differs"),
        ("```console\n$ income-client fly\n```", "fly"),
        ("```console\n$ sudo fly\n```", "sudo is not known"),
        ("```console\n$ income-client trigger\n{}\n```", "is not a command"),
        ("```sh\npip install everything\n```", "is neither command"),
        ("```text\nOnce upon a time\n```", "0 rows"),
        ("```toml\nbase_urn = 'https://income.example'\n```", "base_urn"),
        ("```nginx\nserver {}\n```", "run another one"),
        ("```dockerfile\nFROM scratch\n```", "run another one"),
        ("```ruby\nputs 1\n```", "unknown kind 'ruby'"),
        ("```\n1 + 1\n```", "unknown kind ''"),
        ("~~~python\n1 + 1\n~~~", "is no file"),
    ],
)
def test_an_unchecked_block_fails(block: str, fault: str, tmp_path: Path) -> None:
    """A block that no test runs or knows is an error."""
    page = tmp_path / "page.md"
    page.write_text(f"Read this:\n\n{block}\n", "utf-8")
    (one,) = blocks_of(page, evaluator=_evaluate)
    one.namespace["folder"] = tmp_path
    with pytest.raises(SybilFailure, match=fault):
        one.evaluate()
