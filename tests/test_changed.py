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
    ],
)
def test_a_change_is_noticed(name: str, expected: str) -> None:
    """By the tests of its mutants, of its folder, of what uses it, or by itself."""
    assert expected in set(find_tests(name))


@pytest.mark.parametrize("name", ["README.md", "pyproject.toml", "tests/support"])
def test_what_only_rules_hold_has_no_find_tests_its_own(name: str) -> None:
    """The rules for every file run in any case."""
    assert list(find_tests(name)) == []


def test_every_module_has_tests() -> None:
    """There is something to run whatever is changed."""
    for module in MODULES:
        path = f"income_client/{module.name.replace('.', '/')}"
        path += "/__init__.py" if module.is_package else ".py"
        found = list(find_tests(path))
        assert found, path
        assert all((ROOT / one).exists() for one in found), found


def test_contributors_find_the_folders_of_other_names() -> None:
    """The page names each part whose tests are in a folder that is called otherwise."""
    text = " ".join((GUIDE / "internals.md").read_text("utf-8").split())
    for part, folder in FOLDERS.items():
        assert f"`{part}` in `tests/{folder}`" in text, part
