"""What is packaged: the modules, the types, the command and the extras."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest
from attrs import frozen

import income_client
from income_client.cli import main

ROOT: Final = Path(__file__).parents[2]
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
    """The wheel, built from the sources."""
    pytest.importorskip("build", reason="building a wheel needs the extra 'full'")
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


def test_the_wheel_has_the_package_and_its_types(wheel: Wheel) -> None:
    """Every module, template, style and page, and py.typed; no tests, no benchmarks."""
    source = Path(income_client.__file__).parent
    shipped = {
        f"income_client/{path.relative_to(source).as_posix()}"
        for kind in ("*.py", "*.jinja", "*.css", "*.html", "*.js", "*.md")
        for path in source.rglob(kind)
    }
    page = {f"income_client/cli/application/page.{kind}" for kind in ("css", "html.jinja")}
    page |= {f"income_client/emulator/page.{kind}" for kind in ("css", "html", "js")}
    assert page <= shipped
    assert shipped | {"income_client/py.typed"} <= wheel.files
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
        "full",
        "lint",
        "nats",
        "parquet",
        "postgres",
        "rabbit",
        "redis",
        "site",
        "storage",
        "telemetry",
    ]
    cli = sorted(re.split(r"[<>=]", line)[0] for line in needed if "extra == 'cli'" in line)
    assert cli == ["cyclopts", "jinja2", "rich", "tomlkit"]
    callbacks = [re.split(r"[<>=]", line)[0] for line in needed if "extra == 'callbacks'" in line]
    assert sorted(callbacks) == ["cryptography", "joserfc"]
    bench = sorted(re.split(r"[<>=]", line)[0] for line in needed if "extra == 'bench'" in line)
    assert bench == ["httpx", "orjson", "pydantic"]


def test_the_command_is_the_package_s_main(wheel: Wheel) -> None:
    """The console script leads to a function that exists."""
    assert "income-client = income_client.cli:main" in wheel.entry_points
    assert callable(main)
