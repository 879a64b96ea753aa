"""A stranger's project uses the test kit: in each mode, from the entry point.

mypy reads it strictly with the rest of the tests, so fixtures and factories are typed.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import environment

PROJECT: Final = Path(__file__).parent / "example_project"
PATIENCE: Final = 300
"""Seconds for a process that knows nothing yet, on a machine that has other things to do."""

pytestmark = pytest.mark.timeout(PATIENCE)


def _scopes(scope: str) -> tuple[str, ...]:
    loops = ("asyncio_default_fixture_loop_scope", "asyncio_default_test_loop_scope")
    return tuple(f"--override-ini={loop}={scope}" for loop in loops)


@pytest.mark.parametrize(
    ("passed", "options", "names"),
    [
        (4, ("-p", "no:asyncio"), ("sync", "anyio")),
        (1, ("-p", "no:asyncio", "-p", "anyio"), ("anyio",)),
        (6, ("--asyncio-mode=strict", *_scopes("function")), ("sync", "strict")),
        (8, ("--asyncio-mode=auto", *_scopes("function")), ("sync", "strict", "auto", "anyio")),
        (1, ("--asyncio-mode=auto", *_scopes("module")), ("auto",)),
        (1, ("--asyncio-mode=auto", *_scopes("session")), ("auto",)),
    ],
    ids=["sync", "anyio", "strict", "auto", "module", "session"],
)
def test_its_tests_pass(
    tmp_path: Path, passed: int, options: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """With pytest-asyncio in either mode and any scope, with anyio, and with neither."""
    project = shutil.copytree(PROJECT, tmp_path / "project")  # away from this repository's settings
    files = [f"harbour_lending/test_{name}.py" for name in names]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *files],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1].startswith(f"{passed} passed")
