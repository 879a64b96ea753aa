"""A cluster whose pollers, workers and broker are killed, and whose leader is paused.

Every last version is handled, and no checkpoint goes back; ``-rP`` shows what it came to.
"""

import pytest

from benchmarks.cluster_chaos import chaos


@pytest.mark.timeout(180)
async def test_a_cluster_that_is_killed_everywhere_loses_nothing() -> None:
    """The last version of each application is in the workers' database at the end."""
    outcome = await chaos(updates=1_500, applications=750, rate=60)
    assert outcome.versions >= 1_500
    assert outcome.saves > outcome.takeovers > 0
    print(outcome)  # noqa: T201
