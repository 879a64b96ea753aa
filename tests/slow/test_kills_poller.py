"""Pollers that are killed at random moments: no update is lost, and a batch at most comes again.

Promises 8 and 9. ``--kills=300`` makes it last minutes; ``-rP`` shows what it came to.
"""

from pathlib import Path

import pytest

from tests.support.killed_pollers import BATCH, killed
from tests.support.kills import share_of


@pytest.mark.timeout(3600)
async def test_pollers_that_are_killed_lose_nothing(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Every version that is current when the service rests is delivered, never an older one."""
    outcome = await killed(share_of(pytestconfig, 0.5), tmp_path)
    assert outcome.most_again <= BATCH
    assert outcome.committed_again * 1000 <= outcome.delivered
    assert outcome.faults > 0
    print(outcome)  # noqa: T201
