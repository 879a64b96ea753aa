"""The command as processes, and the signals that end it."""

import signal
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

from income_client import __version__
from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.beside import until
from tests.support.cli import FULL, Cli, Running
from tests.support.processes import environment, file_for, run, started

QUICK: Final = (
    "applications", "configure", "dead-letters", "documents", "emulate", "find", "listen", "poll",
    "trigger",
)  # fmt: skip
LAZY: Final = f"""
import sys
from income_client.cli import main

for words in (["--help"], *([name, "--help"] for name in {QUICK})):
    sys.argv = ["income-client", *words]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
    assert not {{"aiohttp", "income_client.emulator.api"}} & {{*sys.modules}}, words
"""


@pytest.mark.parametrize(
    "command", [None, (sys.executable, "-m", "income_client.cli")], ids=["script", "module"]
)
def test_it_starts(command: tuple[str, ...] | None) -> None:
    """As the script that is installed, and as a module."""
    ran = run("--version", command=command, env=environment())
    assert (ran.status, ran.stdout, ran.stderr) == (0, f"{__version__}\n", "")


def test_commands_are_loaded_when_they_are_called() -> None:
    """Asking for help loads neither the emulator nor the HTTP client, which takes longest."""
    ran = run("-c", LAZY, command=(sys.executable,), env=environment())
    assert (ran.status, ran.stderr) == (0, "")


def test_a_full_disk_is_one_line_whatever_is_buffered() -> None:
    """The interpreter has nothing to add at its end."""
    with file_for(FULL) as full, started("--help", env=environment(), stdout=full) as process:
        ran = process.wait()
    assert (ran.status, ran.stderr.count("\n")) == (1, 1)
    assert "no space left on device" in ran.stderr


@pytest.mark.income_service(applications=300)
def test_a_reader_may_leave(income_service: IncomeService) -> None:
    """Whoever has seen enough closes the pipe, and nothing is said."""
    line = "income-client applications | head -n 2; test ${PIPESTATUS[0]} -eq 141"
    path = str(Path(sys.executable).parent)
    env = environment(income_service)
    ran = run("-c", line, command=("bash",), env={**env, "PATH": f"{path}:{env['PATH']}"})
    assert (len(ran.lines), ran.stderr) == (2, "")


@pytest.mark.income_service(applications=3)
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_signals_end_a_process(
    number: signal.Signals, status: int, income_service: IncomeService, tmp_path: Path
) -> None:
    """With the status that it has in a shell, and no traceback."""
    income_service.faults.add(Fault("stall", times=None))
    command = ("poll", "--store", str(tmp_path / "polls.db"), "--once")
    with started(*command, env=environment(income_service)) as process:
        until(lambda: len(income_service.requests) > 0)
        process.send(number)
        ran = process.wait()
    assert (ran.status, ran.stdout, ran.stderr) == (status, "", "")


SIGNALS: Final = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}


def send_unseen(number: signal.Signals) -> None:
    """Send a signal that does not end the main thread's wait by itself.

    It is handled by the main thread, and delivered to this one: just as for a signal that
    comes right before the main thread begins to wait, no call there is interrupted.
    """
    signal.pthread_kill(threading.get_ident(), number)


@pytest.mark.parametrize("name", SIGNALS)
def test_the_emulator_ends_at_once(name: str, cli: Cli) -> None:
    """Nothing else happens that would wake it up."""

    def stop(running: Running) -> None:
        running.stdout.wait_for("# Its files: ")
        send_unseen(SIGNALS[name])
        running.wait()

    ran = cli("emulate", "--applications", "1", during=stop)
    assert ran.status == {"interrupt": 130, "terminate": 0}[name]
    assert ran.stderr == ""
