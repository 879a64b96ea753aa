"""``income-client poll`` stopped, killed, out of room and unread: what the next run then writes."""

import asyncio
import fcntl
import json
import shlex
import signal
import subprocess
import termios
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import pytest

from income_client.emulator import Emulator
from tests.cli.entry import COMMAND, ROOT, environment
from tests.cli.polling import FROM_THE_BEGINNING, Command, ids_of, reads
from tests.cli.running import ended, until, variables

_BEGINNING: Final = ("--start", "beginning")
_MOST_IN_A_BATCH: Final = 100


@contextmanager
def appending(path: Path) -> Iterator[IO[bytes]]:
    """Open a file as ``>>`` does."""
    with path.open("ab") as file:
        yield file


async def test_sigterm_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Stopped in a long first poll, it ends with 0; both runs together write each line once."""
    lines = tmp_path / "lines"
    async with Emulator(900, latency=0.01) as service:
        command = Command(service, tmp_path / "polls")
        with appending(lines) as file, command.started(*_BEGINNING, stdout=file) as process:
            await until(lambda: reads(service) > 250)
            process.send_signal(signal.SIGTERM)
            assert await ended(process) == (None, "")
        assert process.returncode == 0
        first = ids_of(lines.read_text("utf-8"))
        assert 0 < len(first) < 900
        rest = ids_of((await command.run("--once")).stdout)
        assert Counter(first + rest) == Counter(service.world.ids)


@pytest.mark.parametrize(
    ("number", "arguments", "status"),
    [
        (signal.SIGINT, (), 130),
        (signal.SIGINT, ("--once",), 130),
        (signal.SIGTERM, ("--once",), 143),
    ],
)
async def test_other_interruptions_have_their_status(
    tmp_path: Path, number: signal.Signals, arguments: tuple[str, ...], status: int
) -> None:
    """Ctrl-C is 130, and a single poll that did not come to its end is never 0."""
    async with Emulator(5, latency=10) as service:
        command = Command(service, tmp_path / "polls")
        with command.started(*_BEGINNING, *arguments) as process:
            await until(lambda: len(service.requests) > 0)
            process.send_signal(number)
            assert await ended(process) == ("", "")
        assert process.returncode == status


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """Where nobody takes the lines it cannot stop cleanly; asked again it ends, uncommitted."""
    async with Emulator(150) as service:
        command = Command(service, tmp_path / "polls")
        with command.started(*_BEGINNING) as process:
            # A hundred records are more than a pipe holds: once begun, their writing never ends.
            await until(lambda: unread(process.stdout) > 0)
            async with asyncio.timeout(30):
                while process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    await asyncio.sleep(0.05)
            assert process.returncode == -signal.SIGTERM
        assert len(ids_of((await command.run("--once")).stdout)) == 150


async def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    """A reader that goes away is no error message; what it may have missed is written again."""
    async with Emulator(250) as service:
        command = Command(service, tmp_path / "polls")
        with command.started(*_BEGINNING) as process:
            assert process.stdout is not None
            head = [await asyncio.to_thread(process.stdout.readline) for _ in range(5)]
            process.stdout.close()
            status = await asyncio.to_thread(process.wait, 50)
            assert process.stderr is not None
            assert (status, process.stderr.read()) == (141, "")
            process.stdout = None
        assert len(ids_of("".join(head))) == 5
        again = await command.run("--once")
        assert Counter(ids_of(again.stdout)) == Counter(service.world.ids)


async def test_a_kill_repeats_one_batch_at_most(tmp_path: Path) -> None:
    """After SIGKILL, nothing is missing from the file, and a batch at most is in it twice."""
    lines = tmp_path / "lines"
    async with Emulator(600, latency=0.01) as service:
        command = Command(service, tmp_path / "polls")
        with appending(lines) as file, command.started(*_BEGINNING, stdout=file) as process:
            await until(lambda: lines.stat().st_size > 200_000)
            process.kill()
            await ended(process)
        with appending(lines) as file, command.started("--once", stdout=file) as process:
            assert await ended(process) == (None, "")
        counts = Counter(ids_of(whole_lines(lines)))
        assert counts.keys() == set(service.world.ids)
        assert counts.total() <= 600 + _MOST_IN_A_BATCH


async def test_a_full_disk_ends_it(tmp_path: Path) -> None:
    """Lines that cannot be written are no lines that were: it says why, and exits with 1."""
    async with Emulator(30) as service:
        command = Command(service, tmp_path / "polls")
        with (
            appending(Path("/dev/full")) as full,
            command.started(*FROM_THE_BEGINNING, stdout=full) as process,
        ):
            _, errors = await ended(process)
        assert process.returncode == 1
        assert errors == (
            "income-client: cannot write to standard output: no space left on device\n"
        )
        assert len(ids_of((await command.run("--once")).stdout)) == 30


async def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    """Appended to a file that ends in the middle of a line, it begins a new one."""
    lines = tmp_path / "lines"
    lines.write_bytes(b'{"application_id":"app-')
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "polls")
        for name in ("one", "two"):
            with (
                appending(lines) as file,
                command.started(*FROM_THE_BEGINNING, "--name", name, stdout=file) as process,
            ):
                assert await ended(process) == (None, "")
        cut, _, rest = lines.read_text("utf-8").partition("\n")
        assert cut == '{"application_id":"app-'
        assert Counter(ids_of(rest)) == Counter(service.world.ids * 2)


async def test_closed_streams_are_no_files(tmp_path: Path) -> None:
    """Without standard output nothing is begun; without standard error nothing is said."""
    async with Emulator(3) as service:
        store = tmp_path / "polls"
        arguments = shlex.join([*COMMAND, "poll", "--store", str(store), *FROM_THE_BEGINNING])
        for closed, status, written in ((">&-", 1, 0), ("2>&-", 0, 3)):
            process = await asyncio.create_subprocess_shell(
                f"{arguments} {closed}",
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(**variables(service)),
                cwd=ROOT,
            )
            lines, errors = await process.communicate()
            assert process.returncode == status
            assert len(ids_of(lines.decode())) == written
            assert errors == (b"income-client: standard output is closed\n" if status else b"")
            assert store.exists() is not bool(status)


def unread(pipe: IO[str] | None) -> int:
    """Return how many bytes lie in a pipe."""
    assert pipe is not None
    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def whole_lines(path: Path) -> str:
    """Return the lines of a file that are JSON; one may have been cut off."""
    text = path.read_text("utf-8").splitlines()
    whole = [line for line in text if is_json(line)]
    assert len(text) - len(whole) <= 1
    return "\n".join(whole)


def is_json(line: str) -> bool:
    """Say whether a line is JSON."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
