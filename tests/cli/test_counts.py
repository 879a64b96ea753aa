"""Counts in words."""

import pytest

from income_client.cli.output.counts import counted, plural


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12_345, "12,345 rows")]
)
def test_a_count_has_its_noun(count: int, text: str) -> None:
    """One is one, and thousands are grouped."""
    assert counted(count, "row") == text


def test_a_noun_alone() -> None:
    """A number that is written otherwise has the noun that it takes."""
    assert (plural("day"), plural("day", is_one=True)) == ("days", "day")
