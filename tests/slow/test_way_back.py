"""The way back to the last version, as the runbook describes it, with that version itself.

``released/VERSION/pollers.zip`` holds its modules that a poller loads, as ``git archive`` writes
them: a clone, or a copy of the sources, may have no history.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from income_client import IncomeClient, SQLiteCheckpointStore
from income_client.emulator import Emulator
from tests.slow.examples import variables
from tests.slow.last_version import KEPT
from tests.support.pages import GUIDE
from tests.support.processes import COMMAND, environment

OLD: Final = KEPT / "pollers.zip"
PROGRAM: Final = """
import asyncio, sys
import income_client
from income_client import IncomeClient, SQLiteCheckpointStore

async def main(name, start=None):
    async with IncomeClient.from_env() as client:
        store = SQLiteCheckpointStore("polls.db")
        async for record in client.poll(store, name=name, start=start, once=True):
            print(record.application_id)

assert income_client.__file__.startswith(sys.argv[1]), income_client.__file__
asyncio.run(main(*sys.argv[2:]))
"""


async def read_reached(service: Emulator, folder: Path) -> str:
    """Return what the command says of the time up to which all is delivered."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("status", "--store", "polls.db", "--output", "json"),
        cwd=folder,
        env=environment(**variables(service)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    (status,) = json.loads(output)
    return str(status["reached"])


async def run_old(service: Emulator, folder: Path, *arguments: str) -> tuple[set[str], str]:
    """Poll once by the last version; return the ids that it has delivered, and its complaints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(OLD), *arguments),
        cwd=folder,
        env=environment(**variables(service), PYTHONPATH=str(OLD)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaints = await process.communicate()
    return set(output.decode().split()), complaints.decode()


@pytest.mark.timeout(120)
async def test_an_older_version_polls_under_a_name_of_its_own(tmp_path: Path) -> None:
    """It refuses the checkpoint of the newer one, and begins where that has come to.

    The newer version resumes its own name later: no update is lost, and some come twice.
    """
    async with (
        Emulator(30) as service,
        IncomeClient(service.url, auth=service.oauth2) as client,
    ):
        store = SQLiteCheckpointStore(tmp_path / "polls.db")

        async def poll() -> set[str]:
            poller = client.poll(store, start="2000-01-01", once=True)
            return {record.application_id async for record in poller}

        def update(applications: Sequence[str]) -> None:
            service.advance(600)
            for application_id in applications:
                service.touch(application_id)

        ids = service.world.ids
        assert await poll() == set(ids)
        reached = await read_reached(service, tmp_path)
        update(ids[:3])
        delivered, complaints = await run_old(service, tmp_path, "default")
        refusal = "the checkpoint was not written by a poller, or is damaged"
        assert (delivered, refusal in complaints) == (set(), True)
        assert refusal in " ".join((GUIDE / "runbook.md").read_text("utf-8").split())
        delivered, complaints = await run_old(service, tmp_path, "default-02", reached)
        assert (delivered >= set(ids[:3]), complaints) == (True, "")
        update(ids[3:5])
        delivered, complaints = await run_old(service, tmp_path, "default-02")
        assert (delivered, complaints) == (set(ids[3:5]), "")
        update(ids[5:6])
        assert await poll() == set(ids[:6])
