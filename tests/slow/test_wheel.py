"""Content of the wheel and its required libraries."""

import re
import shutil
import subprocess
import sys
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest

import income_client
from tests.support.processes import ROOT


def test_the_wheel_has_the_package_and_little_else(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Every module, style and page, and py.typed; no tests; six libraries to run."""
    pytest.importorskip("build", reason="building a wheel needs the extra 'full'")
    folder = tmp_path_factory.mktemp("wheel")  # the sources name what is invented
    tree = folder / "tree"
    package = Path(shutil.copytree(ROOT / "income_client", tree / "income_client"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tree)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(tree)], check=True, capture_output=True)
    shipped = {
        path.relative_to(tree).as_posix()
        for kind in ("*.py", "*.css", "*.html", "*.js", "*.md")
        for path in package.rglob(kind)
    }
    assert {"income_client/emulator/page.css", "income_client/emulator/page.js"} <= shipped
    with ZipFile(next(folder.glob("*.whl"))) as archive:
        names = archive.namelist()
        assert shipped | {"income_client/py.typed"} <= set(names)
        assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)
        info = f"income_client-{income_client.__version__}.dist-info"
        assert (
            "income-client = income_client.cli:main"
            in archive.read(f"{info}/entry_points.txt").decode()
        )
        metadata = message_from_string(archive.read(f"{info}/METADATA").decode())
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    libraries = {re.split(r"[<>=\[ ]", line)[0] for line in needed}
    assert libraries == {"aiohttp", "attrs", "cattrs", "msgspec", "tenacity", "yarl"}
