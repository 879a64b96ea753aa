"""Ctrl-C and SIGTERM reach a command that waits, whenever they come."""

import signal
import threading
from typing import Final

import pytest

from tests.support.cli import Cli, Running

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
