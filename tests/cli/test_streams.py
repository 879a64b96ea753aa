"""The command as other programs start it: on non-blocking pipes, and first in a container."""

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.support.processes import environment, until

COMMAND: Final = "from income_client.cli import main; main()"
AS_FIRST: Final = f"import os; os.getpid = lambda: 1; {COMMAND}"
"""The command as the first process of a container, whose number is 1."""
FULL: Final = 60_000
"""Bytes that wait in a pipe of 64 KiB that takes no further line."""


def waiting_in(pipe: int) -> int:
    """Return how many bytes wait in a pipe."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(count)


@pytest.mark.income_service(applications=1_500)
@pytest.mark.parametrize("output", ["jsonl", "table"])
def test_output_to_a_slow_non_blocking_pipe_is_whole(
    output: str, income_service: IncomeService
) -> None:
    """Some parents make pipes non-blocking, and a write to a full one of these fails."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    arguments = ["applications", "--updated-after", "beginning", "--output", output]
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=writer,
        env=environment(income_service),
    ) as process:
        os.close(writer)
        until(lambda: waiting_in(reader) > FULL)
        with os.fdopen(reader, "rb") as file:
            lines = file.read().splitlines()
        assert process.wait() == 0
    assert len(lines) == 1_500 + (output == "table")


def test_help_goes_to_a_slow_non_blocking_pipe() -> None:
    """Text that is printed through Python's own buffers waits, too."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4_096)
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "guide", "web"], stdout=writer, env=environment()
    ) as process:
        os.close(writer)
        until(lambda: waiting_in(reader) == 4_096)
        with os.fdopen(reader, "rb") as file:
            assert len(file.read()) > 4_096
        assert process.wait() == 0


@pytest.mark.parametrize("command", [("applications",), ("poll", "--once", "--store", "polls.db")])
def test_the_first_process_of_a_container_ends_by_sigterm(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """The system ends no such process by a signal without a handler."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        variables = {
            "INCOME_BASE_URL": f"http://127.0.0.1:{listening.getsockname()[1]}",
            "INCOME_USERNAME": "user",
            "INCOME_PASSWORD": "invented",
        }
        with subprocess.Popen(
            [sys.executable, "-c", AS_FIRST, *command], cwd=tmp_path, env=environment(**variables)
        ) as process:
            connection, _ = listening.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                assert process.wait() == 128 + signal.SIGTERM
