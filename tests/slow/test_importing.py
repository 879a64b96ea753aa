"""The package is imported and used where the system or an installation lacks something."""

import subprocess
import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_SECONDS: Final = 50


def _run(*arguments: str, path: Path = _ROOT) -> "subprocess.CompletedProcess[str]":
    command = (sys.executable, "-W", "error", *arguments)
    environment = {"PYTHONPATH": str(path)}
    return subprocess.run(
        command,
        check=False,
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )


def test_all_is_imported_and_used_without_what_windows_lacks(tmp_path: Path) -> None:
    """Without dir_fd, flags, locks and owners: walks, polls and downloads work all the same."""
    ended = _run("-m", "tests.slow.without_posix", str(tmp_path))
    assert (ended.stdout, ended.stderr) == ("done\n", "")


def test_a_dependency_that_breaks_on_import_is_named_by_the_error(tmp_path: Path) -> None:
    """With its own text and frames: Python takes an AttributeError for a name that is missing."""
    (tmp_path / "aiohttp.py").write_text("raise AttributeError('it is broken')\n")
    ended = _run("-c", "from income_client import IncomeClient", path=tmp_path)
    assert ended.returncode == 1
    assert f'File "{tmp_path / "aiohttp.py"}", line 1' in ended.stderr
    assert "\nAttributeError: it is broken\n" in ended.stderr
    *_, last = ended.stderr.splitlines()
    assert last == "ImportError: income_client.client cannot be imported: it is broken"
