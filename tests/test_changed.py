"""A change is followed by the tests that may notice it."""

import pytest

from tests.changed import FOLDERS, ROOT, find_tests
from tests.support.architecture import MODULES
from tests.support.pages import GUIDE


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("income_client/walk/windows.py", "tests/walk/test_05_echo.py"),
        ("income_client/downloads/many.py", "tests/files"),
        ("income_client/cli/download/manifest.py", "tests/cli"),
        ("income_client/errors.py", "tests/client"),
        ("tests/http/test_tokens.py", "tests/http/test_tokens.py"),
        ("tests/support/listing.py", "tests/walk/test_05_echo.py"),
        *((name, None) for name in ("README.md", "pyproject.toml", "tests/support")),
    ],
)
def test_a_change_is_noticed(name: str, expected: str | None) -> None:
    """By the tests of its mutants, of its folder, of what uses it, by itself, or by the rules."""
    found = list(find_tests(name))
    assert found == [] if expected is None else expected in found


def test_every_module_has_tests() -> None:
    for module in MODULES:
        path = f"income_client/{module.name.replace('.', '/')}"
        path += "/__init__.py" if module.is_package else ".py"
        found = list(find_tests(path))
        assert found, path
        assert all((ROOT / one).exists() for one in found), found


def test_contributors_find_the_folders_of_other_names() -> None:
    """The page has a row for each part whose tests are in a folder that is called otherwise."""
    page = (GUIDE / "internals.md").read_text("utf-8")
    rows = {f"| `{part}/` | `tests/{folder}` |" for part, folder in FOLDERS.items()}
    assert rows <= set(page.splitlines())
