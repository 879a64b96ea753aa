"""The mutation run, on a package of one module."""

from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("mutmut", reason="the mutation run needs the extra 'full'")

from tests.mutation.__main__ import main

SMALL: Final = """\
def is_small(number):
    return number < 10
"""
TEST: Final = """\
from small.numbers import is_small


def test_numbers():
    assert is_small(5)
    assert not is_small(50)
"""
TABLE: Final = """\
pytest = ["-x", "-q", "-p", "no:cacheprovider"]

[modules]
"small/numbers.py" = ["tests/test_numbers.py"]
"""
VERDICT: Final = """\
[[mutant]]
module = "small/numbers.py"
function = "is_small"
before = "{}"
after = "{}"
verdict = "equivalent"
why = "ten or eleven, nobody minds"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package, its tests and the tables of the run."""
    for name, text in {
        "small/numbers.py": SMALL,
        "tests/test_numbers.py": TEST,
        "tests/mutation/modules.toml": TABLE,
        "tests/mutation/verdicts.toml": "mutant = []",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def test_mutants_are_killed_judged_or_lower_the_score(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verdict is found by its texts, after lines moved as well; one without code is named."""
    assert main([], tree) == 1
    printed = capsys.readouterr().out
    assert "killed     small/numbers.py:2 is_small: return number < 10  ->  pass" in printed
    assert "unjudged   small/numbers.py:2 is_small: return number < 10  ->  " in printed
    assert (tree / "small/numbers.py").read_text("utf-8") == SMALL
    verdicts = (
        VERDICT.format("return number < 10", "return number < 11"),
        VERDICT.format("return number < 10", "return number <= 10"),
        VERDICT.format("return number < 9", "pass"),
    )
    (tree / "tests/mutation/verdicts.toml").write_text("".join(verdicts), "utf-8")
    (tree / "small/numbers.py").write_text(f"\n\n{SMALL}", "utf-8")
    assert main([], tree) == 0
    printed = capsys.readouterr().out
    assert "equivalent small/numbers.py:4 is_small: return number < 10" in printed
    assert "verdict without its code: small/numbers.py is_small: return number < 9" in printed


def test_nothing_is_begun_after_the_minutes_that_it_may_take(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "tests/test_numbers.py").write_text("def test_wrong():\n    assert False\n", "utf-8")
    assert main(["--minutes", "0"], tree) == 1
    assert "small/numbers.py" not in "".join(capsys.readouterr())


def test_what_cannot_be_judged_is_an_error(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tests that fail without a mutant would kill every one; an unknown module has none."""
    assert main(["other.py"], tree) == 2
    (tree / "tests/test_numbers.py").write_text("def test_wrong():\n    assert False\n", "utf-8")
    assert main([], tree) == 2
    assert "fail without any change" in capsys.readouterr().err
