"""``income-client export`` killed, stopped, out of room and refused, and what comes of it then."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import to_json
from income_client.cli.exports.end import Outcome, publish_lines, publish_tables, write_tables
from income_client.cli.exports.part import Gain, Part
from income_client.cli.exports.request import Request, Span
from income_client.emulator import Emulator, Fault
from tests.cli.entry import COMMAND, ROOT, environment, run_on_terminal
from tests.cli.exporting import Command
from tests.cli.polling import reads
from tests.cli.running import ended, variables
from tests.support.export_records import known_record


async def test_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """Killed again and again, wherever it was: in the end each application is there once."""
    async with Emulator(500) as service:
        command = Command(service, tmp_path / "all")
        for _ in range(3):
            await command.stopped()
            assert command.left == {"all.part"}
        assert (await command.run()).returncode == 0
        assert Counter(command.ids) == Counter(service.world.ids)
        assert command.left == {"all", "all.manifest.json"}
        # What was kept is not read again: a kill costs what was on its way, and a hundred at most.
        assert reads(service) < 500 + 3 * (100 + 3 * 16)


async def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    """What stands behind the last line that was noted came with no word that it is whole."""
    async with Emulator(300) as service:
        command = Command(service, tmp_path / "all")
        await command.stopped()
        with (command.part / "records.jsonl").open("ab") as lines:
            lines.write(b'{"application":{"application_id":"app-torn')
        assert (await command.run()).returncode == 0
        assert Counter(command.ids) == Counter(service.world.ids)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_keeps_what_has_come(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    """It says where that is and how to go on, and the next run asks for none of it again."""
    async with Emulator(300) as service:
        command = Command(service, tmp_path / "all")
        stopped = await command.stopped(by=number)
        assert (stopped.returncode, stopped.stdout) == (status, "")
        assert stopped.stderr.startswith(f"income-client: interrupted; {command.part} keeps 1")
        assert "run it again with the same arguments to go on" in stopped.stderr
        lines = (command.part / "records.jsonl").read_bytes().splitlines()
        kept = {json.loads(line)["application"]["application_id"] for line in lines}
        before = len(service.requests)
        assert (await command.run()).returncode == 0
        later = [request.path for request in service.requests[before:]]
        assert not {path.split("/")[4] for path in later if "/app-" in path} & kept
        assert Counter(command.ids) == Counter(service.world.ids)


async def test_the_span_stays_as_it_was(tmp_path: Path) -> None:
    """Its end is fixed by the first run, however late the last one is."""
    async with Emulator(300) as service:
        command = Command(service, tmp_path / "all")
        await command.stopped(by=signal.SIGTERM)
        service.advance(3600)
        assert (await command.run()).returncode == 0
    assert command.manifest["updated_before"] == "2026-06-30T12:00:00"


async def test_other_arguments_are_refused(tmp_path: Path) -> None:
    """A part goes on as what it was begun as, and the difference is told."""
    async with Emulator(300) as service, Emulator(3) as other:
        command = Command(service, tmp_path / "all")
        await command.stopped("--updated-after", "2026-01-01")
        refused = await command.run("--pages")
        assert refused.returncode == 1
        assert (
            f"{command.part} was begun with --updated-after 2026-01-01T00:00:00, and not no "
            "--updated-after, --no-pages, and not --pages"
        ) in refused.stderr
        elsewhere = Command(other, command.target)
        refused = await elsewhere.run("--updated-after", "2026-01-01")
        assert f"the service {service.url}, and not the service {other.url}" in refused.stderr
        assert (await command.run("--updated-after", "2026-01-01")).returncode == 0


async def test_two_at_a_time_are_one_too_many(tmp_path: Path) -> None:
    """The second says so, and harms nothing."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "all")
        with Part(command.part):
            second = await command.run()
            assert second.returncode == 1
            assert f"another export is at work in {command.part}" in second.stderr
        assert (await command.run()).returncode == 0
        assert Counter(command.ids) == Counter(service.world.ids)


async def test_a_crash_behind_the_end_is_no_failure(tmp_path: Path) -> None:
    """The file is there and the part too: the next run sees that it is the same, and tidies up."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "all")
        request = Request(
            service=service.url,
            updated_after=None,
            updated_before=None,
            documents=True,
            pages=False,
        )
        line = to_json(known_record())
        gain = Gain(lines=[line], application_ids=["app-1"], missing=[], checkpoint=None)
        span = Span(None, datetime(2026, 6, 30))  # noqa: DTZ001 - the service's time
        outcome = Outcome(request=request, span=span, missing=(), saturated=())
        with Part(command.part) as part:
            part.begin(request.text, span_ends=span.before.isoformat())
            part.keep(gain)
            publish_lines(part, command.target, outcome)
        assert command.left == {"all", "all.manifest.json", "all.part"}
        again = await command.run()
        assert (again.returncode, again.stdout) == (0, f"{command.target}\n")
        assert command.target.read_bytes() == line + b"\n"
        assert command.left == {"all", "all.manifest.json"}


def publish_as_tables(part: Part, target: Path, outcome: Outcome) -> None:
    """Write the tables, and put them at their place."""
    assert write_tables(part, outcome, lambda *_: None, lambda: False)
    publish_tables(part, target)


_PUBLISH: Final[dict[str, Callable[[Part, Path, Outcome], object]]] = {
    "jsonl": publish_lines,
    "parquet": publish_as_tables,
}


@pytest.mark.parametrize("format_", sorted(_PUBLISH))
def test_what_has_come_to_the_place_meanwhile_stays(tmp_path: Path, format_: str) -> None:
    """Whoever puts something there while the export runs keeps it, and the part stays too."""
    request = Request(
        service="emulated", updated_after=None, updated_before=None, documents=True, pages=False
    )
    span = Span(None, datetime(2026, 6, 30))  # noqa: DTZ001 - the service's time
    outcome = Outcome(request=request, span=span, missing=(), saturated=())
    target = tmp_path / "all"
    target.write_text("mine", "utf-8")
    with Part(tmp_path / "all.part") as part:
        part.begin(request.text)
        line = to_json(known_record())
        part.keep(Gain(lines=[line], application_ids=["app-1"], missing=[], checkpoint=None))
        with pytest.raises(FileExistsError, match="File exists"):
            _PUBLISH[format_](part, target, outcome)
    assert target.read_text("utf-8") == "mine"
    assert (tmp_path / "all.part" / "records.jsonl").read_bytes() == line + b"\n"


async def test_a_disk_without_room_loses_nothing(tmp_path: Path) -> None:
    """It is said; with room again, the export goes on and is whole."""
    async with Emulator(300) as service:
        command = Command(service, tmp_path / "all")
        line = shlex.join([*COMMAND, "export", "--to", str(command.target)])
        process = await asyncio.create_subprocess_shell(
            f"ulimit -f 1500; exec {line}",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**variables(service)),
            cwd=ROOT,
        )
        output, errors = await process.communicate()
        assert (process.returncode, output) == (1, b"")
        assert b"file too large" in errors
        assert b"run it again with the same arguments to go on" in errors
        assert (await command.run()).returncode == 0
        assert Counter(command.ids) == Counter(service.world.ids)


async def test_a_service_that_fails_ends_it(tmp_path: Path) -> None:
    """Failures in a row that may pass are not the applications' own: it is kept for later."""
    async with Emulator(200) as service:
        fault = Fault("status", status=503, times=None, skip=60, path="*/app-*")
        service.faults.add(fault)
        command = Command(service, tmp_path / "all")
        failed = await command.run()
        assert failed.returncode == 1
        assert "run it again with the same arguments to go on" in failed.stderr
        assert command.left == {"all.part"}
        service.faults.clear()
        assert (await command.run()).returncode == 0
        assert Counter(command.ids) == Counter(service.world.ids)


async def test_wrong_credentials_leave_nothing(tmp_path: Path) -> None:
    """Nothing was begun, so that nothing is kept."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "all")
        with command.started(INCOME_CLIENT_SECRET="wrong") as process:
            output, _ = await ended(process)
        assert (process.returncode, output) == (4, "")
        assert command.left == set()


async def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """What stands in the part's place and is none is neither used nor removed."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "all")
        command.part.mkdir()
        (command.part / "mine").write_text("mine", "utf-8")
        refused = await command.run()
        assert refused.returncode == 1
        assert "is something else than the part of an export" in refused.stderr
        assert (command.part / "mine").read_text("utf-8") == "mine"


async def test_a_closed_pipe_loses_only_the_path(tmp_path: Path) -> None:
    """The file is there before its path is told; that nobody reads it is no message."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "all")
        with command.started() as process:
            assert process.stdout is not None
            process.stdout.close()
            status = await asyncio.to_thread(process.wait, 50)
            process.stdout = None
        assert status == 141
        assert Counter(command.ids) == Counter(service.world.ids)
        assert command.left == {"all", "all.manifest.json"}


async def test_a_full_disk_behind_standard_output_is_no_fault_of_the_file(tmp_path: Path) -> None:
    """It is told as what it is; the file is there, and what it was made of is not."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "all")
        full = os.open("/dev/full", os.O_WRONLY)
        with command.started(stdout=full) as process:
            os.close(full)
            _, errors = await ended(process)
        assert process.returncode == 1
        assert errors.endswith(
            "income-client: cannot write to standard output: no space left on device\n"
        )
        assert str(tmp_path) not in errors
        assert Counter(command.ids) == Counter(service.world.ids)
        assert command.left == {"all", "all.manifest.json"}


async def test_a_terminal_shows_how_far_it_is(tmp_path: Path) -> None:
    """A line that is drawn over itself, and then the summary."""
    async with Emulator(150, latency=0.02) as service:
        command = ("export", "--to", str(tmp_path / "all"))
        found: dict[str, Any] = dict(variables(service))
        shown = await asyncio.to_thread(lambda: run_on_terminal(*command, **found))
    assert shown.status == 0
    assert "Exporting" in shown.screen
    assert "applications" in shown.screen
    assert "the next export goes on with --updated-after 2026-06-30T11:59:55" in " ".join(
        shown.screen.split()
    )
