"""A cluster whose pollers, workers and broker are killed, and whose leader is paused.

Every last version is handled, and no checkpoint goes back; ``-rP`` shows what it came to.
"""

import pytest
from attrs import evolve

from benchmarks.cluster import kill_everything
from benchmarks.report import QUICK


@pytest.mark.timeout(180)
async def test_a_cluster_that_is_killed_everywhere_loses_nothing() -> None:
    """The last version of each application is in the workers' database at the end."""
    rows = await kill_everything(evolve(QUICK, updates=1_500, updated=750, rate=60))
    assert [row.is_met for row in rows if row.goal] == [True, True, True]
    print(*rows, sep="\n")  # noqa: T201
