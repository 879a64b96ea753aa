"""The simulation as a test: fixed seeds, the same events each time, and the guide that it quotes.

It runs in a process of its own, whose collector and hash seed it sets.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.exclusions import AHEAD, EXCLUSIONS, NEW_BEGINNING, PAGE_TRIED
from tests.simulation.mutants import read_mutants
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.standbys import BEGINNING, NOT_RELEASED
from tests.simulation.token_promises import OWN_TOKENS
from tests.simulation.walk_promises import EXCLUDED as EXCLUDED_OF_WALKS

_ROOT = Path(__file__).parents[2]
_GUIDE = _ROOT / "income_client" / "guide"

SEEDS: Final = {"pollers": (8, 4), "relay": (2, 1), "tokens": (0, 6), "walks": (0, 8)}
"""The first seed of each scenario, and how many; all of them take some seconds."""


def simulate(*arguments: str, hash_seed: str = "0") -> str:
    """Run the command; return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=_ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.timeout(300)  # some seconds of a core, which other tests may be using
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_promise_is_broken_in_fixed_seeds(scenario: str) -> None:
    first, count = SEEDS[scenario]
    simulate("--scenario", scenario, "--first", str(first), "--count", str(count))


@pytest.mark.timeout(300)
def test_no_promise_is_broken_in_seeds_that_failed_once() -> None:
    simulate("--once-failed")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_seed_decides_everything(scenario: str) -> None:
    """Also the order in which sets of texts are walked does not matter."""
    first, second = (
        simulate("--scenario", scenario, "--seed", "9", hash_seed=hash_seed).splitlines()[-1]
        for hash_seed in ("1", "77")
    )
    assert first == second
    assert "digest" in first


def test_each_fault_is_put_into_a_line_of_the_package() -> None:
    assert read_mutants()


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        *((one.page, one.sentence) for one in EXCLUSIONS),
        AHEAD,
        BEGINNING,
        NEW_BEGINNING,
        NOT_RELEASED,
        PAGE_TRIED,
        OWN_TOKENS,
        *(("reading.md", sentence) for sentence in EXCLUDED_OF_WALKS),
    ],
)
def test_what_is_excluded_is_said_in_the_guide(page: str, sentence: str) -> None:
    text = re.sub(r"\s+", " ", (_GUIDE / page).read_text("utf-8"))
    assert sentence in text
