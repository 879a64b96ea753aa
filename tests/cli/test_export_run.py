"""An export over many runs, stopped or crashed anywhere, however the service reads its contract."""

import json
import random
from collections import Counter
from collections.abc import Awaitable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from income_client import IncomeClient, IncomeClientError
from income_client.cli.exports import ahead
from income_client.cli.exports.part import Part
from income_client.cli.exports.request import Request, Span
from income_client.cli.exports.run import ExportRun
from income_client.cli.output.status_line import StatusLine
from income_client.cli.stopping.stoppable import Stoppable
from income_client.emulator import Emulator, Fault

T = TypeVar("T")
END = datetime(2026, 6, 30, 12, 0, 1)  # noqa: DTZ001 - the service's time
REQUEST = Request(
    service="emulated", updated_after=None, updated_before=None, documents=False, pages=False
)


class StopAfter(Stoppable):
    """Stops once it has waited so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.run: ExportRun | None = None
        self.is_crash = False
        self._times = times

    async def wait_for(self, awaitable: Awaitable[T]) -> T | None:
        """Wait, or stop."""
        self._times -= 1
        if self._times < 0:
            self.stop()
            if self.is_crash and self.run is not None:
                self.run._has_failed = True
        return await super().wait_for(awaitable)


async def one_run(client: IncomeClient, folder: Path, stop: StopAfter) -> bool:
    """Go on until it stops, and say whether it has come to its end."""
    with Part(folder) as part:
        if part.request is None:
            part.begin(REQUEST.text)
        run = stop.run = ExportRun(client, part, REQUEST, Span(None, END), StatusLine(), stop)
        await run.run(16)
        return run.is_whole


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"order": "descending", "lower_closed": True, "upper_closed": True},
        {"order": "shuffled", "max_span": 40 * 86_400, "lower_closed": True},
        {"order": "random", "max_span": 50 * 86_400, "span_clamp": "before"},
    ],
)
async def test_each_application_is_there_once(tmp_path: Path, rules: dict[str, Any]) -> None:
    """However often it was stopped or has crashed, and whatever the neighbouring windows share."""
    chance = random.Random(7)
    async with Emulator(1400, **rules) as service:
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            is_whole = False
            for number in range(40):
                stop = StopAfter(chance.randrange(40, 400) if number < 12 else 10_000)
                stop.is_crash = bool(number % 2)
                is_whole = await one_run(client, tmp_path / "part", stop)
                if is_whole:
                    break
        assert is_whole
        lines = (tmp_path / "part" / "records.jsonl").read_bytes().splitlines()
        ids = [json.loads(line)["application"]["application_id"] for line in lines]
        assert Counter(ids) == Counter(service.world.ids)


async def test_a_walk_waits_for_who_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ahead by so much at the most, and comes to its end all the same."""
    monkeypatch.setattr(ahead, "_MOST_IDS", 1)
    async with Emulator(1400) as service:
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            assert await one_run(client, tmp_path / "part", StopAfter(10_000))
        assert len((tmp_path / "part" / "records.jsonl").read_bytes().splitlines()) == 1400


async def test_a_walk_that_fails_ends_the_run(tmp_path: Path) -> None:
    """What it had found before is read and kept, and a later run goes on."""
    async with Emulator(1400) as service:
        fault = Fault("status", status=400, times=None, skip=2, path="*/applications")
        service.faults.add(fault)
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            with pytest.raises(IncomeClientError):
                await one_run(client, tmp_path / "part", StopAfter(10_000))
            service.faults.clear()
            assert await one_run(client, tmp_path / "part", StopAfter(10_000))
        assert len((tmp_path / "part" / "records.jsonl").read_bytes().splitlines()) == 1400
