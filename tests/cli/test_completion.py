"""``income-client completion``: scripts that shells take, and that know the sub-commands."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.cli import Cli

BASH: Final = shutil.which("bash") or ""
ASK: Final = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_income_client
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(cli: Cli) -> Path:
    """The script for bash."""
    ran = cli("completion", "bash")
    assert (ran.status, ran.stderr) == (0, "")
    path = cli.folder / "income-client"
    path.write_text(ran.stdout, "utf-8")
    return path


@pytest.mark.skipif(not BASH, reason="bash is not installed")
def test_bash_offers_commands_and_options(script: Path) -> None:
    """What begins with the letters typed is offered, and the options of a sub-command."""

    def offered(*words: str) -> list[str]:
        asked = [BASH, "-c", ASK, "bash", str(script), *words]
        return subprocess.run(
            asked, capture_output=True, encoding="utf-8", check=True, timeout=20
        ).stdout.split()

    assert {"demo", "documents", "download"} <= set(offered("income-client", "d"))
    assert offered("income-client", "dead") == ["dead-letters"]
    assert "--updated-after" in offered("income-client", "applications", "--")
    assert "bash" in offered("income-client", "completion", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts(shell: str, cli: Cli) -> None:
    """Each names the sub-commands."""
    ran = cli("completion", shell)
    assert (ran.status, ran.stderr) == (0, "")
    for name in ("applications", "dead-letters", "find", "documents"):
        assert name in ran.stdout
