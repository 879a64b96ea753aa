"""What the command exits with."""

import signal

from income_client.cli.exit_status import ExitStatus


def test_a_signal_has_the_status_that_a_shell_tells() -> None:
    """A script need not know whether a command took the signal or was ended by it."""
    assert ExitStatus.of_signal(signal.SIGINT) is ExitStatus.INTERRUPTED
    assert ExitStatus.of_signal(signal.SIGTERM) is ExitStatus.TERMINATED
    assert [*map(int, ExitStatus)] == [0, 1, 2, 4, 130, 141, 143]
