"""``income-client export`` killed and stopped anywhere: nothing is lost, nothing comes twice."""

import json
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.beside import until
from tests.support.cli import Cli, Running
from tests.support.exporting import Export
from tests.support.processes import ROOT, environment, started


@pytest.fixture
def export(income_service: IncomeService, tmp_path: Path) -> Export:
    """Exports into a folder of its own."""
    return Export(Cli(tmp_path, income_service.environment), income_service, tmp_path / "exports")


@pytest.mark.timeout(400)  # each operation costs two runs
@pytest.mark.income_service(applications=3)
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_the_run_after_a_kill_makes_it_whole(
    form: str, tmp_path: Path, income_service: IncomeService
) -> None:
    """Killed before each of its operations on files in turn, it ends with 0 the next time.

    The one exception is the very last step, when nothing is left that could say
    what the file is: it is there, and is not overwritten.
    """
    script = [sys.executable, "-m", "tests.support.export_kills", str(tmp_path / "all")]
    output = subprocess.run(
        [*script, "--format", form],
        stdout=subprocess.PIPE,
        env=environment(income_service),
        cwd=ROOT,
        check=True,
        timeout=390,
    ).stdout
    steps = [json.loads(line) for line in output.splitlines()]
    assert [step["killed"] for step in steps] == [99] * (len(steps) - 1) + [0]
    assert len(steps) > 25
    for step in steps:
        assert step["ids"] == sorted(income_service.ids), step
        assert (step["is_once"], step["left"]) == (True, []), step
        is_last = step["operation"].startswith("rmdir") and step["operation"].endswith("all.part")
        assert step["again"] == (1 if is_last else 0), step


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


@pytest.mark.timeout(200)
@pytest.mark.income_service(applications=1400)
@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"order": "descending", "lower_closed": True, "upper_closed": True},
        {"order": "shuffled", "max_span": 40 * 86_400, "lower_closed": True},
        {"order": "random", "max_span": 50 * 86_400, "upper_closed": True},
    ],
    ids=["as usual", "closed", "narrow", "narrow and random"],
)
def test_each_application_is_there_once(
    rules: dict[str, Any], export: Export, income_service: IncomeService
) -> None:
    """However often it was stopped, and whatever the neighbouring windows share."""
    chance = random.Random(7)
    income_service.rules = type(income_service.rules)(**rules)
    for _ in range(6):
        before, some = len(income_service.requests), chance.randrange(40, 400)

        def stop(running: Running, enough: int = before + some) -> None:
            until(lambda: len(income_service.requests) > enough or running.has_ended)
            if not running.has_ended:
                running.terminate()

        export("--no-documents", during=stop)
        if export.target.exists():
            break
    assert export.target.exists() or export("--no-documents").status == 0
    assert export.ids == sorted(income_service.ids)
