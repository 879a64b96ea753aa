"""The README is true: sybil reads it, and every block in it is run or compared with its source.

An example names its file in its first line, and the table says how it is run; a
command and a text have their tables, too. What stands in no row fails, so that none
is only read.
"""

import asyncio
import shlex
import tomllib
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("duckdb", reason="the README's examples need the extra 'full'")

from sybil import Example
from sybil.example import SybilFailure

from income_client import ConfigurationError
from income_client.cli.app import command_line
from income_client.configuration import read_file
from income_client.emulator import Emulator
from tests.slow.test_nginx import SERVER_BLOCK
from tests.support.readme import DEMO, TESTS, commands, examples, file_name, kind_of, label
from tests.support.readme_architecture import RUN as RUN_FOR_ARCHITECTURE
from tests.support.readme_callbacks import RUN as RUN_FOR_CALLBACKS
from tests.support.readme_commands import COMMANDS, RunCommand
from tests.support.readme_examples import RUN as RUN_ONCE
from tests.support.readme_examples import RunExample, variables
from tests.support.readme_export import RUN as RUN_FOR_EXPORTS
from tests.support.readme_files import RUN as RUN_FOR_FILES
from tests.support.readme_observability import RUN as RUN_FOR_OBSERVABILITY
from tests.support.readme_polling import RUN as RUN_ON
from tests.support.readme_polling_web import RUN as RUN_BESIDE_A_SERVER
from tests.support.readme_texts import TEXTS

RUN: Final[Mapping[str, RunExample]] = {
    **RUN_ONCE,
    **RUN_ON,
    **RUN_BESIDE_A_SERVER,
    **RUN_FOR_FILES,
    **RUN_FOR_CALLBACKS,
    **RUN_FOR_ARCHITECTURE,
    **RUN_FOR_EXPORTS,
    **RUN_FOR_OBSERVABILITY,
}


def _run_example(example: Example) -> str | None:
    """Run a file against the emulator, and see that it does what the text around it says."""
    name = file_name(example)
    if name not in RUN:
        return f"{name} has no row in a table RUN"

    async def play(service: Emulator, folder: Path) -> None:
        path = folder / name
        path.write_text(example.parsed, "utf-8")
        await RUN[name](service, path)

    asyncio.run(_played(play, example.namespace["folder"]))
    return None


def _run_commands(example: Example) -> str | None:
    """Have a shell run each line, and see what comes of it."""
    for line in str(example.parsed).splitlines():
        if not line.startswith("$ "):
            return f"{line!r} is no command; what one prints stands in a text"
        rows = [row for row in COMMANDS if f"{line[2:]} ".startswith(f"{row} ")]
        if len(rows) != 1:
            return f"{line!r} has {len(rows)} rows in the table COMMANDS"
        asyncio.run(_played(_command(COMMANDS[rows[0]], line[2:]), example.namespace["folder"]))
    return None


def _command(run: RunCommand, line: str) -> RunExample:
    async def play(service: Emulator, folder: Path) -> None:
        await run(service, folder, line)

    return play


async def _played(play: RunExample, folder: Path) -> None:
    """Call something with a service, to which the environment leads meanwhile.

    Its present is ours, as that of the command is, with updates in its last days.
    """
    start = datetime.now(UTC).replace(tzinfo=None)
    async with Emulator(300, start=start) as service:
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in variables(service).items():
                patch.setenv(variable, value)
            patch.chdir(folder)
            await play(service, folder)


def _compare_text(example: Example) -> str | None:
    """Compare what is shown with where it comes from."""
    checks = [check for start, check in TEXTS.items() if example.parsed.startswith(start)]
    if len(checks) != 1:
        return "it begins as no row of the table TEXTS does, or as several"
    checks[0](example.parsed)
    return None


def _find_installation(example: Example) -> str | None:
    """See that a command stands alone in its block, to be copied as it is; CI runs it."""
    return None if example.parsed in (f"{DEMO}\n", f"{TESTS}\n") else "it is neither command"


def _find_reader(example: Example) -> str | None:
    """See that the tests of nginx run it with this configuration."""
    return None if example.parsed == SERVER_BLOCK else "the tests of nginx run another one"


def _read_configuration(example: Example) -> str | None:
    """Have the command read a configuration, with each of its profiles."""
    path = example.namespace["folder"] / "config.toml"
    path.write_text(example.parsed, "utf-8")
    path.chmod(0o600)
    profiles = tomllib.loads(example.parsed).get("profiles", {})
    try:
        for profile in (None, *profiles):
            read_file(path, profile)
    except ConfigurationError as error:
        return error.message
    return None


def _start_by_unit(example: Example) -> str | None:
    """Have the command's own parser read what a service unit starts."""
    unit = ConfigParser(interpolation=None, strict=False)
    unit.read_string(example.parsed)
    shell, dash_c, script = shlex.split(unit["Service"]["ExecStart"])
    words = shlex.split(script.partition(" >> ")[0])
    assert (shell, dash_c, words[:2]) == ("/bin/sh", "-c", ["exec", "income-client"])
    command_line().parse_args(words[2:], print_error=False, exit_on_error=False)
    return None


KINDS: Final[Mapping[str, Callable[[Example], str | None]]] = {
    "console": _run_commands,
    "ini": _start_by_unit,
    "nginx": _find_reader,
    "python": _run_example,
    "sh": _find_installation,
    "text": _compare_text,
    "toml": _read_configuration,
}


def _evaluate(example: Example) -> str | None:
    evaluate = KINDS.get(kind_of(example))
    if evaluate is None:
        return f"nobody knows what to do with a block of the kind {kind_of(example)!r}"
    return evaluate(example)


EXAMPLES: Final = examples(_evaluate)


@pytest.mark.parametrize("example", EXAMPLES, ids=label)
def test_the_block_is_true(example: Example, tmp_path: Path) -> None:
    """It does, or is, what its row says."""
    example.namespace["folder"] = tmp_path
    example.evaluate()


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("```python\n# unknown.py\n```", "unknown.py has no row"),
        ("```console\n$ income-client fly\n```", "has 0 rows"),
        ("```console\n$ income-client trigger\n{}\n```", "is no command"),
        ("```sh\npip install everything\n```", "is neither command"),
        ("```text\nOnce upon a time\n```", "as no row"),
        ("```toml\nbase_urn = 'https://income.example'\n```", "base_urn"),
        ("```nginx\nserver {}\n```", "run another one"),
        ("```ruby\nputs 1\n```", "of the kind 'ruby'"),
        ("```\n1 + 1\n```", "of the kind ''"),
        ("~~~python\n1 + 1\n~~~", "has no row"),
    ],
)
def test_what_stands_in_no_row_fails(block: str, fault: str, tmp_path: Path) -> None:
    """A block that nobody runs, or knows, is told."""
    page = tmp_path / "page.md"
    page.write_text(f"Read this:\n\n{block}\n", "utf-8")
    (example,) = examples(_evaluate, page)
    example.namespace["folder"] = tmp_path
    with pytest.raises(SybilFailure, match=fault):
        example.evaluate()


def test_every_row_is_of_an_example() -> None:
    """No row speaks of what the README does not hold, and no two examples share one."""
    names = [file_name(one) for one in EXAMPLES if kind_of(one) == "python"]
    assert sorted(names) == sorted(RUN)
    assert all(commands(row) for row in COMMANDS)
