"""Programs with a client without await: how they end, fork, and are interrupted and killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client.emulator import Emulator, Fault
from tests.slow.examples import variables
from tests.slow.killed_pollers import BATCH, killed, poll_waiting
from tests.slow.kills import share_of
from tests.support.processes import beside, environment, until

_BEGIN: Final = """
import gc, os, sys, threading
from income_client import ClientClosedError, SyncIncomeClient
client = SyncIncomeClient.from_env()
"""
_PROGRAMS: Final = {
    "ends without close": "client.check()",
    "ends within a walk": "walk = client.list_applications(); next(walk)",
    "ends beside a call": """
client.check()
def call():
    try: client.get_application("stalled")
    except ClientClosedError: pass
threading.Thread(target=call, daemon=True).start()
client.check()
""",
    "is dropped": """
client.check()
(thread,) = (one for one in threading.enumerate() if one.name == "income_client")
del client; gc.collect(); thread.join()
""",
    "forks": """
client.check()
child = os.fork()
try: client.check()
except ClientClosedError as error: print(error)
if child == 0:
    own = SyncIncomeClient.from_env(); own.check()
else:
    assert os.waitpid(child, 0)[1] == 0
    client.check()
""",
    "forks before": """
child = os.fork()
client.check()
client.close(); client.close()
if child: assert os.waitpid(child, 0)[1] == 0
""",
    "is interrupted": """
try: client.get_application("stalled")
except KeyboardInterrupt: print("interrupted")
client.check()
assert threading.active_count() == 2
""",
}
_OUTPUT: Final = {
    "forks": "the client was used before this process was forked; make one after the fork\n",
    "is interrupted": "interrupted\n",
}


@pytest.fixture(scope="module")
def service() -> Iterator[Emulator]:
    """Run a service that never answers one call."""
    with beside(Emulator(30, seed=4)) as service:
        yield service


@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_program_ends_as_it_should(name: str, service: Emulator) -> None:
    """At once, without a warning, whatever runs."""
    service.faults.clear()
    service.faults.add(Fault("stall", path="*/stalled", times=None))
    before = len(service.requests)
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _BEGIN + _PROGRAMS[name]],
        env=environment(**variables(service), PYTHONPATH=os.pathsep.join(sys.path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        if name == "is interrupted":
            until(lambda: any("stalled" in one.path for one in service.requests[before:]))
            program.send_signal(signal.SIGINT)
        output, complaints = program.communicate(timeout=40)
    assert (program.returncode, complaints, output) == (0, "", _OUTPUT.get(name, ""))


@pytest.mark.timeout(300)
async def test_pollers_that_wait_and_are_killed_lose_nothing(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """Promise 8: at most the batch in hand comes again."""
    outcome = await killed(share_of(pytestconfig, 0.2), tmp_path, seed=11, work=poll_waiting)
    assert outcome.delivered
    assert outcome.most_again <= BATCH
