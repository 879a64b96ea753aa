"""Run the tests of what was changed, and what holds for every file: ``python -m tests.changed``.

Changed is what differs from a revision of git: from HEAD, unless another is the first argument.
Further arguments are pytest's. The tests of a module are those that its mutants run, or else all
in the folder of its part.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = {
    "checkpoints": "stores",
    "downloads": "files",
    "events": "client",
    "exporting": "export",
    "sync": "client",
    "system": "client",
    "testing": "testkit",
}
"""Parts of the package whose tests are in a folder of another name."""
AT_THE_TOP: Final = "client"
"""The folder with the tests of the modules that are in no folder of the package."""


def find_tests(name: str) -> Iterator[str]:
    """Yield the files and folders of tests that may notice a change of this file."""
    match Path(name).parts:
        case ("income_client", *folders, file) if file.endswith(".py"):
            table = tomllib.loads((ROOT / "tests/mutation/modules.toml").read_text("utf-8"))
            part = folders[0] if folders else AT_THE_TOP
            yield from table["modules"].get(name, [f"tests/{FOLDERS.get(part, part)}"])
        case ("tests", *_, file) if file.startswith("test_"):
            yield name
        case ("tests", *folders, file) if file.endswith(".py"):
            used = f"from {'.'.join(('tests', *folders, Path(file).stem))} import"
            for path in sorted(ROOT.glob("tests/*/test_*.py")):
                if used in path.read_text("utf-8"):
                    yield path.relative_to(ROOT).as_posix()


def changed_since(revision: str) -> list[str]:
    """Return the files that differ from a revision, new ones included."""
    commands = (["diff", "--name-only", revision], ["ls-files", "--others", "--exclude-standard"])
    printed = [
        subprocess.run(["git", *one], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for one in commands
    ]
    return "".join(printed).splitlines()


def main(arguments: Sequence[str]) -> int:
    """Run the tests; return the exit status of pytest."""
    is_revision = bool(arguments) and not arguments[0].startswith("-")
    revision, *options = arguments if is_revision else ("HEAD", *arguments)
    found = {one for name in changed_since(revision) for one in find_tests(name)}
    chosen = sorted(one for one in found if (ROOT / one).exists())
    everywhere = sorted(path.name for path in ROOT.glob("tests/test_*.py"))
    command = ["-m", "pytest", *options, *chosen, *(f"tests/{name}" for name in everywhere)]
    print("python", *command, flush=True)
    return subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
