"""How the examples of pipelines are run, and what must come of each."""

import asyncio
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from income_client.emulator import Emulator, Fault
from tests.support import redis_server
from tests.support.example_programs import updated
from tests.support.examples import RunExample, python, served, started

_DLT: Final = "dlt_incomes.py"
_KILLED: Final = """
import os, signal
import dlt
from dlt_incomes import applications

pipeline = dlt.pipeline("warehouse", destination="duckdb", dataset_name="income")
pipeline.extract(applications())
os.kill(os.getpid(), signal.SIGKILL)
"""
"""What the example does, up to where the rows are in files."""
_SECONDS: Final = 40.0


async def _load(service: Emulator, folder: Path, *program: str, status: int = 0) -> list[str]:
    """Run dlt so that it keeps to the folder and asks nobody; return what was read."""
    variables = {"DLT_DATA_DIR": str(folder / "dlt"), "RUNTIME__DLTHUB_TELEMETRY": "false"}
    service.requests.clear()
    # What dlt itself has deprecated is no fault; nor what duckdb says when Python ends.
    process = await started(service, folder, "-W", "default", *program, **variables)
    _, complaints = await process.communicate()
    assert process.returncode == status, complaints.decode()
    assert b"ResourceWarning" not in complaints, complaints.decode()
    calls = [one for one in service.requests if one.name == "get_application"]
    return sorted(one.path.rpartition("/")[2] for one in calls)


def _loaded_rows(folder: Path, query: str) -> list[Any]:
    """Return what is in the warehouse."""
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as database:
        database.execute("USE income")
        return database.execute(query).fetchall()


def _totals(folder: Path) -> dict[str, Decimal]:
    """Return the sum of all incomes of each application in the warehouse."""
    query = """
        SELECT application_id, sum(total) FROM applications
        LEFT JOIN applications__incomes AS income ON income._dlt_parent_id = applications._dlt_id
        GROUP BY ALL
    """
    return {key: total or Decimal(0) for key, total in _loaded_rows(folder, query)}


def _served_totals(service: Emulator) -> dict[str, Decimal]:
    """Return the same of the service."""
    return {one: _total(served(service, one)) for one in service.world.ids}


def _total(application: Any) -> Decimal:
    amounts = (
        source["calculated_income_amount"]
        for calculation in application["income_calculations"].values()
        for income in calculation["incomes"]
        for source in income["income_sources"]
    )
    return sum((Decimal(amount) for amount in amounts if amount != ""), Decimal(0))


async def loads_by_dlt(service: Emulator, path: Path) -> None:
    """Each run merges what changed; what was not read, or not loaded, comes with a later one."""
    folder, ids = path.parent, service.world.ids
    assert await _load(service, folder, _DLT) == sorted(ids)
    assert _totals(folder) == _served_totals(service)
    changed = updated(service, range(3))
    service.faults.add(Fault("status", status=404, path=f"*/{ids[0]}", times=2))
    # The next run loads the files of one that was killed; one application is a dead letter.
    assert set(await _load(service, folder, "-c", _KILLED, status=-signal.SIGKILL)) == set(changed)
    assert await _load(service, folder, _DLT) == []
    differences = _served_totals(service).items() - _totals(folder).items()
    assert [one for one, _ in differences] == [ids[0]]
    # On another machine there are no files, and the state is that of the warehouse.
    service.advance(86_400)
    again = sorted([ids[0], *updated(service, range(3, 5))])
    assert await _load(service, folder, "-c", _KILLED, status=-signal.SIGKILL) == again
    shutil.rmtree(folder / "dlt")
    assert await _load(service, folder, _DLT) == again
    assert _totals(folder) == _served_totals(service)
    types = _loaded_rows(folder, "SELECT DISTINCT typeof(total) FROM applications__incomes")
    assert types == [("DECIMAL(38,9)",)]


async def enqueues_by_celery(service: Emulator, path: Path) -> None:
    """A worker, whose processes are forked, is given a task for each application."""
    if redis_server.EXECUTABLE is None:
        pytest.skip("no redis-server; Debian has one")
    folder = path.parent / "redis"
    folder.mkdir()
    program = ("-W", "default", "-m", "celery", "-A", path.stem)
    for redis in redis_server.running_redis(folder, *redis_server.DURABLE):
        await python(service, path.parent, *program, "call", "poll", CELERY_BROKER_URL=redis.url)
        options = ("worker", "--beat", "--concurrency", "2", "--loglevel", "WARNING")
        worker = await started(
            service, path.parent, *program, *options, CELERY_BROKER_URL=redis.url
        )
        assert worker.stderr is not None  # where Celery has what tasks print
        waiting = set(service.world.ids)
        try:
            async with asyncio.timeout(_SECONDS):
                while waiting:
                    line = (await worker.stderr.readline()).decode()
                    waiting.discard(line.rpartition(" ")[2].strip())
        finally:
            with suppress(ProcessLookupError):
                worker.terminate()
            await worker.communicate()
        assert worker.returncode == 0


RUN: Final[Mapping[str, RunExample]] = {
    "celery_incomes.py": enqueues_by_celery,
    _DLT: loads_by_dlt,
}
