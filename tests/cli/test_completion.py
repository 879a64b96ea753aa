"""``income-client completion``: scripts that shells take, and that know the sub-commands."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.cli.entry import run

_BASH: Final = shutil.which("bash")
_ASK: Final = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_income_client
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script for bash."""
    ran = run("completion", "bash")
    assert (ran.returncode, ran.stderr) == (0, "")
    path = tmp_path_factory.mktemp("completion") / "income-client"
    path.write_text(ran.stdout, "utf-8")
    return path


def completed(script: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    assert _BASH is not None
    return subprocess.run(
        [_BASH, "-c", _ASK, "bash", str(script), *words],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=50,
    ).stdout.split()


@pytest.mark.skipif(_BASH is None, reason="there is no bash")
def test_bash_takes_it(script: Path) -> None:
    """It is a script without a mistake."""
    assert _BASH is not None
    ran = subprocess.run([_BASH, "-n", str(script)], capture_output=True, check=False, timeout=50)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.skipif(_BASH is None, reason="there is no bash")
def test_bash_offers_sub_commands_and_options(script: Path) -> None:
    """What begins with the letters typed is offered, and what a sub-command takes behind it."""
    assert {"demo", "documents", "download"} <= set(completed(script, "income-client", "d"))
    assert completed(script, "income-client", "dead") == ["dead-letters"]
    assert "--updated-after" in completed(script, "income-client", "applications", "--")
    assert "bash" in completed(script, "income-client", "completion", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_theirs(shell: str) -> None:
    """Each names the sub-commands."""
    ran = run("completion", shell)
    assert (ran.returncode, ran.stderr) == (0, "")
    for name in ("applications", "dead-letters", "find", "documents"):
        assert name in ran.stdout


def test_a_shell_that_it_does_not_know() -> None:
    """It says which there are."""
    ran = run("completion", "csh")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "zsh" in ran.stderr
