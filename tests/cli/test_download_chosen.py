"""``income-client download``: which applications it is about, where they are not named."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from income_client.emulator import Emulator, ServiceRules
from income_client.emulator.seconds import DAY
from tests.cli.downloading import HERE, documents_of
from tests.cli.entry import COMMAND, ROOT, environment, run
from tests.cli.polling import ids_of, served
from tests.cli.running import until, variables


async def fed(
    service: Emulator, folder: Path, text: str, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command with something on standard input."""
    return await asyncio.to_thread(
        subprocess.run,
        [*COMMAND, "download", "--to", str(folder), *HERE, *arguments],
        input=text,
        capture_output=True,
        encoding="utf-8",
        env=environment(**variables(service)),
        cwd=ROOT,
        check=False,
        timeout=50,
    )


def listed_in(folder: Path) -> set[str]:
    """Return the applications of which the manifest has files."""
    lines = (folder / "manifest.jsonl").read_text("utf-8").splitlines()
    return {json.loads(line)["application_id"] for line in lines}


async def test_ids_come_from_standard_input(tmp_path: Path) -> None:
    """Each line is an application, once; empty lines are none, and the last needs no end."""
    async with Emulator(4) as service:
        first, second, third, _ = service.world.ids
        lines = f"{first}\n\n  {second} \r\n{first}\n{third}"
        came = await fed(service, tmp_path, lines, "-")
        assert came.returncode == 0, came.stderr
        assert listed_in(tmp_path) == {first, second, third}
        assert sum(request.name == "get_documents" for request in service.requests) == 3


async def test_lines_of_json_will_do(tmp_path: Path) -> None:
    """What other sub-commands write can be piped as it is: rows, applications and records."""
    async with Emulator(3) as service:
        first, second, third = service.world.ids
        lines = [
            {"application_id": first, "application_reference_id": "LOAN-1"},
            served(service, second),
            {"application": served(service, third), "documents": {}},
        ]
        text = "".join(f"{json.dumps(line, default=str)}\n" for line in lines)
        came = await fed(service, tmp_path, text, "-")
        assert came.returncode == 0, came.stderr
        assert listed_in(tmp_path) == set(service.world.ids)


async def test_named_and_piped_go_together(tmp_path: Path) -> None:
    """Ids beside ``-`` come first, and one that is in both counts once."""
    async with Emulator(2) as service:
        first, second = service.world.ids
        came = await fed(service, tmp_path, f"{first}\n{second}\n", first, "-")
        assert came.returncode == 0, came.stderr
        assert sum(request.name == "get_documents" for request in service.requests) == 2


async def test_what_comes_is_begun_with(tmp_path: Path) -> None:
    """Files of the first line are there while the pipe is still open, and its end is the end."""
    async with Emulator(2) as service:
        first, second = service.world.ids
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "download", "--to", str(tmp_path), *HERE, "-",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**variables(service)),
            cwd=ROOT,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(f"{first}\n".encode())
        count = sum(one == first for one in documents_of(service).values())
        manifest = tmp_path / "manifest.jsonl"
        await until(lambda: manifest.exists() and manifest.read_text("utf-8").count("\n") == count)
        _, errors = await process.communicate(f"{second}\n".encode())
        assert process.returncode == 0, errors
        assert listed_in(tmp_path) == {first, second}


@pytest.mark.parametrize(
    "line", ["{}", '{"application_id": 7}', "{", "[" * 5000, '{"application": 1}', "\udcff" + "x"]
)
async def test_a_line_without_an_id_ends_it(tmp_path: Path, line: str) -> None:
    """It is told by its number, and not shown, since it may be somebody's record."""
    async with Emulator(1) as service:
        text = f"{service.world.ids[0]}\n{line}\n"
        came = await asyncio.to_thread(
            subprocess.run,
            [*COMMAND, "download", "--to", str(tmp_path), *HERE, "-"],
            input=text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            env=environment(**variables(service)),
            cwd=ROOT,
            check=False,
            timeout=50,
        )
    errors = came.stderr.decode()
    assert came.returncode == 1
    assert "line 2 of standard input has no id of an application" in errors
    assert "Traceback" not in errors


async def test_ctrl_c_ends_a_wait_for_input(tmp_path: Path) -> None:
    """Interrupted while nobody writes, it ends with 130, and leaves the pipe alone."""
    async with Emulator(1) as service:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "download", "--to", str(tmp_path), *HERE, service.world.ids[0], "-",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**variables(service)),
            cwd=ROOT,
        )  # fmt: skip
        assert process.stderr is not None
        manifest = tmp_path / "manifest.jsonl"
        await until(lambda: manifest.exists() and bool(manifest.read_bytes()))
        process.send_signal(signal.SIGINT)
        errors = (await process.stderr.read()).decode()
        assert await process.wait() == 130
    assert "interrupted, run it again to go on" in errors
    assert "Traceback" not in errors
    assert "Fatal" not in errors


async def test_everything_that_changed_in_a_span(tmp_path: Path) -> None:
    """Without ids a span says which applications: since a time, or back from the service's now."""
    async with Emulator(60, days=30) as service:
        new = {
            one
            for one in service.world.ids
            if service.world.updated_at(one) >= service.world.now - 3 * DAY
        }
        assert 0 < len(new) < 60
        for after, folder in (("3d", tmp_path / "a"), ("2026-06-27T12:00:00", tmp_path / "b")):
            span = ("--updated-after", after, "--to", str(folder), *HERE)
            came = await asyncio.to_thread(run, "download", *span, **variables(service))
            assert came.returncode == 0, came.stderr
            assert listed_in(folder) == new


async def test_a_full_second_is_told(tmp_path: Path) -> None:
    """Where a second holds more than can be listed, the rest comes, and the status is 1."""
    async with Emulator([20 * DAY] * 1001, rules=ServiceRules(file_bytes=10)) as service:
        span = ("--updated-after", "beginning", "--to", str(tmp_path), *HERE, "--type", "none")
        came = await asyncio.to_thread(run, "download", *span, **variables(service))
    assert came.returncode == 1
    assert "the second 1970-01-21T00:00:00 holds more than can be listed" in came.stderr


async def test_applications_are_piped_into_it(tmp_path: Path) -> None:
    """The sub-command that lists them and this one do together what the span does alone."""
    async with Emulator(12) as service:
        listed = await asyncio.to_thread(run, "applications", "-q", **variables(service))
        as_json = await asyncio.to_thread(run, "applications", **variables(service))
        assert set(listed.stdout.split()) == set(ids_of(as_json.stdout)) == set(service.world.ids)
        for number, text in enumerate((listed.stdout, as_json.stdout)):
            folder = tmp_path / str(number)
            assert (await fed(service, folder, text, "-")).returncode == 0
            assert listed_in(folder) == set(service.world.ids)


@pytest.mark.parametrize(
    "arguments", [(), ("app-1", "--updated-after", "1d"), ("-", "--updated-before", "now")]
)
def test_it_is_one_or_the_other(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Applications are named or told by a span; neither or both is wrong usage."""
    ended = run("download", "--to", str(tmp_path / "files"), *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "APPLICATION_ID" in ended.stderr
    assert "--updated-after" in ended.stderr
    assert not (tmp_path / "files").exists()


def test_a_span_that_ends_before_it_begins_is_a_wrong_argument(tmp_path: Path) -> None:
    """That is plain before anybody is asked."""
    span = ("--updated-after", "1d", "--updated-before", "2d")
    ended = run("download", "--to", str(tmp_path / "files"), *span)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "income-client: --updated-after is later than --updated-before\n"
    assert not (tmp_path / "files").exists()
