"""What is packaged: one version, the types, the command and the extras."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from email import message_from_string
from email.message import Message
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest
from attrs import frozen

import income_client
from income_client.cli import main

ROOT: Final = Path(__file__).parents[1]
PROJECT: Final[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@frozen
class Wheel:
    """The package as it is shipped."""

    files: frozenset[str]
    """Paths of all that it holds."""
    metadata: Message
    """Its METADATA."""
    entry_points: str
    """Its entry points, as text."""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """The wheel: built from the sources where they stand here, else the one installed."""
    if not (ROOT / "income_client").exists():
        installed = distribution("income-client")
        return Wheel(
            files=frozenset(map(str, installed.files or ())),
            metadata=message_from_string(installed.read_text("METADATA") or ""),
            entry_points=installed.read_text("entry_points.txt") or "",
        )
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "income_client", tree / "income_client")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(tree)], check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with ZipFile(path) as archive:
        info = f"income_client-{income_client.__version__}.dist-info"
        return Wheel(
            files=frozenset(archive.namelist()),
            metadata=message_from_string(archive.read(f"{info}/METADATA").decode()),
            entry_points=archive.read(f"{info}/entry_points.txt").decode(),
        )


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    """The version stands in one place, and the changelog's newest entry is about it."""
    entries = re.findall(
        r"^## \[([^]]+)\] - (\d{4}-\d\d-\d\d)$",
        (ROOT / "CHANGELOG.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert entries[0][0] == income_client.__version__
    assert [day for _, day in entries] == sorted((day for _, day in entries), reverse=True)


def test_the_version_stands_in_one_place() -> None:
    """The project takes its version from the package, and no other module writes it down."""
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    holders = [
        path.name
        for path in Path(income_client.__file__).parent.rglob("*.py")
        if re.search(rf"[\"']{re.escape(income_client.__version__)}[\"']", path.read_text("utf-8"))
    ]
    assert holders == ["_version.py"]


def test_the_wheel_has_the_package_and_its_types(wheel: Wheel) -> None:
    """The wheel holds every module and py.typed, and neither tests nor benchmarks."""
    source = Path(income_client.__file__).parent
    modules = {
        f"income_client/{path.relative_to(source).as_posix()}" for path in source.rglob("*.py")
    }
    assert modules | {"income_client/py.typed"} <= wheel.files
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in wheel.files)


def test_the_wheel_says_what_it_is(wheel: Wheel) -> None:
    """Name, version, Python and description are those of the project."""
    assert wheel.metadata["Name"] == "income-client"
    assert wheel.metadata["Version"] == income_client.__version__
    assert wheel.metadata["Requires-Python"] == ">=3.11"
    assert wheel.metadata["Description-Content-Type"] == "text/markdown"


def test_the_wheel_needs_what_the_package_imports(wheel: Wheel) -> None:
    """Six libraries at run time; the command line and the tests are extras."""
    needed = wheel.metadata.get_all("Requires-Dist") or []
    plain = sorted(re.split(r"[<>=\[ ]", line)[0] for line in needed if "extra ==" not in line)
    assert plain == ["aiohttp", "attrs", "cattrs", "msgspec", "tenacity", "yarl"]
    assert wheel.metadata.get_all("Provides-Extra") == [
        "bench",
        "callbacks",
        "cli",
        "dev",
        "parquet",
        "storage",
        "telemetry",
    ]
    cli = sorted(re.split(r"[<>=]", line)[0] for line in needed if "extra == 'cli'" in line)
    assert cli == ["cyclopts", "rich"]
    callbacks = [re.split(r"[<>=]", line)[0] for line in needed if "extra == 'callbacks'" in line]
    assert sorted(callbacks) == ["cryptography", "joserfc"]
    bench = sorted(re.split(r"[<>=]", line)[0] for line in needed if "extra == 'bench'" in line)
    assert bench == ["httpx", "orjson", "pydantic"]


def test_the_command_is_the_package_s_main(wheel: Wheel) -> None:
    """The console script leads to a function that exists."""
    assert "income-client = income_client.cli:main" in wheel.entry_points
    assert callable(main)


def test_the_package_does_without_its_extras() -> None:
    """Importing the client loads nothing of the command line, of callbacks or of the tests."""
    script = (
        "import sys, income_client; "
        "extra = {'aiohttp.web', 'cryptography', 'cyclopts', 'httpx', 'joserfc', 'orjson', "
        "'pydantic', 'pytest', 'rich', 'uvicorn', 'income_client.emulator'}; "
        "print(*sorted(extra & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ended.stdout == "\n"


@pytest.mark.parametrize(
    "name", ["aiohttp", "cattrs", "msgspec", "tenacity", "cyclopts", "rich", "httpx"]
)
def test_what_is_declared_can_be_found(name: str) -> None:
    """Every library that an extra or the package names is there."""
    assert find_spec(name)
