"""``income-client export`` killed and stopped anywhere: nothing is lost, nothing comes twice."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="Parquet needs the extra 'full'")

import pyarrow.parquet as pq

from income_client import ApplicationRecord, from_json, to_arrow
from income_client.cli import main as command
from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.beside import until
from tests.support.cli import Cli
from tests.support.exporting import Export
from tests.support.kills import read_once, share_of, workers_of
from tests.support.processes import environment, started


@pytest.fixture
def export(income_service: IncomeService, tmp_path: Path) -> Export:
    """Exports into a folder of its own."""
    return Export(Cli(tmp_path, income_service))


def make(
    say: Callable[[str], None], target: str, form: str, environment: Mapping[str, str]
) -> None:
    """Run the command, and say its status."""
    os.environ.update(environment)
    say(f"status {_status('export', '--to', target, '--format', form)}")


def prepare() -> None:
    """Import what the command needs."""
    read_once()
    to_arrow(())
    _status("export", "--help")


def _status(*line: str) -> int:
    """Run the command, print nothing, and return its status."""
    sys.argv = ["income-client", *line]
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    try:
        command()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
    return 0


@pytest.mark.timeout(400)  # each operation costs two runs
@pytest.mark.income_service(applications=3)
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
async def test_the_run_after_a_kill_makes_it_whole(
    form: str, tmp_path: Path, income_service: IncomeService, pytestconfig: pytest.Config
) -> None:
    """Killed before any of its operations on files, it ends with 0 the next time.

    The one exception is the very last step, when nothing is left that could say
    what the file is: it is there, and is not overwritten.
    """
    folder, ids = tmp_path / "exports", sorted(income_service.ids)
    target = folder / "all"
    variables = environment(income_service)

    def fresh() -> dict[str, Any]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return {"target": str(target), "form": form, "environment": variables}

    async with workers_of(make) as workers:
        async for killed in workers.die(share_of(pytestconfig, 0.4), fresh):
            (place,) = killed.said("before ")
            again = await workers.live(target=str(target), form=form, environment=variables)
            is_last = place == f"before rmdir {target}.part"
            assert again.words == [f"status {1 if is_last else 0}"], place
            assert ids_in(target) == ids, place
            assert list(folder.glob("*.part")) == [], place


def ids_in(target: Path) -> list[str]:
    """Return the applications of an export, each as often as it is there."""
    if target.is_file():
        lines = target.read_bytes().splitlines()
        return sorted(from_json(ApplicationRecord, one).application_id for one in lines)
    column = pq.read_table(target / "applications.parquet")["application_id"]
    return sorted(map(str, column.to_pylist()))


@pytest.mark.income_service(applications=500)
def test_kills_lose_and_repeat_nothing(export: Export, income_service: IncomeService) -> None:
    """Killed again and again, it reads what was on its way anew, and a hundred at most."""
    command = ("export", "--to", str(export.target))

    def reads() -> int:
        return income_service.requests.count("get_application")

    def are_kept(count: int) -> bool:
        return reads() > count and bool(export.kept)

    for count in (130, 260, 390):
        income_service.faults.add(Fault("stall", skip=270, times=None, path="*/app-*"))
        with started(*command, env=environment(income_service)) as process:
            until(partial(are_kept, count))
            process.send(signal.SIGKILL)
            process.wait()
        income_service.faults.clear()
        assert export.left == {"all.part"}
    assert export().status == 0
    assert export.ids == sorted(income_service.ids)
    assert export.left == {"all", "all.manifest.json"}
    assert reads() < 500 + 3 * (100 + 3 * 16)


@pytest.mark.income_service(applications=3)
def test_two_at_a_time_are_one_too_many(export: Export, income_service: IncomeService) -> None:
    """The second one says so, and harms nothing."""
    income_service.faults.add(Fault("stall", times=None, path="*/app-*"))
    with started("export", "--to", str(export.target), env=environment(income_service)) as process:
        until(lambda: income_service.requests.count("get_application") > 0)
        second = export()
        assert second.status == 1
        assert f"another export is at work in {export.part}" in second.stderr
        income_service.faults.clear()
        process.send(signal.SIGTERM)
        assert process.wait().status == 143
    assert export().status == 0
    assert export.ids == sorted(income_service.ids)
