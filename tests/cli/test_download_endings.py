"""``income-client download`` stopped, killed, out of room and unread: what the next run has."""

import asyncio
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import pytest

from income_client.emulator import Emulator, Fault
from tests.cli.downloading import FILES, Command, documents_of
from tests.cli.running import ended, until

_BYTES: Final = 3 * 2**20
_KEPT: Final = 2 * 2**20
"""Enough of a file to be on the disk, not only in memory."""


def is_resumed(service: Emulator) -> bool:
    """Say whether the rest of a file was asked for."""
    ranges = (request.headers.get("range", "bytes=0-") for request in service.requests)
    return any(not one.startswith("bytes=0-") for one in ranges)


@contextmanager
def appending(path: Path) -> Iterator[IO[bytes]]:
    """Open a file as ``>>`` does."""
    with path.open("ab") as file:
        yield file


@contextmanager
def full_pipe() -> Iterator[int]:
    """Give a pipe's end that takes not one byte more."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    try:
        while True:
            os.write(write_end, b"." * 4096)
    except BlockingIOError:
        pass
    flags = fcntl.fcntl(write_end, fcntl.F_GETFL)
    fcntl.fcntl(write_end, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
    try:
        yield write_end
    finally:
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_what_is_under_way_goes_on_in_the_next_run(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    """Stopped in mid-file, the parts are kept, and the next run asks for the rest only."""
    async with Emulator(2, file_bytes=_BYTES) as service:
        service.faults.add(Fault("stall", times=None, keep=_KEPT, path=FILES))
        command = Command(service, tmp_path)
        with command.started() as process:
            await until(lambda: any(part.stat().st_size >= 2**20 for part in command.parts))
            process.send_signal(number)
            printed, said = await ended(process)
        assert (process.returncode, printed) == (status, "")
        assert said is not None
        assert said.startswith("income-client: 0 files, 0 new, ")
        assert command.parts
        assert command.listed == []
        service.faults.clear()
        again = await command.run()
        assert again.returncode == 0
        assert is_resumed(service)
        assert command.parts == []
        assert all(map(command.is_whole, documents_of(service)))


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """Where nobody takes the paths it cannot stop cleanly; asked again it ends, nothing listed."""
    async with Emulator(2) as service:
        command = Command(service, tmp_path)
        with full_pipe() as pipe, command.started(stdout=pipe) as process:
            await until(lambda: bool([*tmp_path.rglob("doc-*")]))
            async with asyncio.timeout(30):
                while process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    await asyncio.sleep(0.05)
            # The first may have come just before the path was to be written.
            assert process.returncode in (-signal.SIGTERM, 143)
        assert command.listed == []
        again = await command.run()
        assert (again.returncode, len(again.stdout.splitlines())) == (0, len(command.listed))
        assert all(map(command.is_whole, documents_of(service)))


async def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    """A reader that goes away is no error message; what it may have missed is printed again."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path)
        read_end, write_end = os.pipe()
        os.close(read_end)
        with command.started(stdout=write_end) as process:
            os.close(write_end)
            assert await ended(process) == (None, "")
        assert process.returncode == 141
        assert command.listed == []
        again = await command.run()
        assert again.returncode == 0
        assert len(again.stdout.splitlines()) == len(documents_of(service))


async def test_a_kill_leaves_no_file_out(tmp_path: Path) -> None:
    """After SIGKILL at any moment each path is printed by one of both runs, and all is whole."""
    lines = tmp_path / "lines"
    async with Emulator(60) as service:
        command = Command(service, tmp_path / "files")
        with appending(lines) as file:
            with command.started(stdout=file) as process:
                await until(lambda: lines.stat().st_size > 2_000)
                process.kill()
                await ended(process)
            with command.started(stdout=file) as process:
                await ended(process)
        assert process.returncode == 0
        documents = documents_of(service)
        assert all(map(command.is_whole, documents))
        assert {entry["document_id"] for entry in command.listed} == documents.keys()
        paths = {str(command.folder / entry["path"]) for entry in command.listed}
        assert set(lines.read_text("utf-8").splitlines()) == paths


async def test_a_full_disk_ends_it(tmp_path: Path) -> None:
    """A path that cannot be written is no file that was listed: it says why, and exits with 1."""
    async with Emulator(2) as service:
        command = Command(service, tmp_path)
        with appending(Path("/dev/full")) as full, command.started(stdout=full) as process:
            _, said = await ended(process)
        assert process.returncode == 1
        first, summary = said.splitlines()
        assert first == "income-client: cannot write to standard output: no space left on device"
        assert summary.startswith("income-client: 1 file, 1 new, ")
        assert command.listed == []
        assert (await command.run()).returncode == 0


async def test_no_standard_error_is_no_failure(tmp_path: Path) -> None:
    """Without standard error nothing is said, and the files come."""
    async with Emulator(1) as service:
        command = Command(service, tmp_path)
        with command.started(stderr=subprocess.DEVNULL) as process:
            printed, _ = await ended(process)
        assert printed is not None
        assert (process.returncode, len(printed.splitlines())) == (0, len(command.listed))
