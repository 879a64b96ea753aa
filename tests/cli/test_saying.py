"""Lines on standard error, and why something of the system failed."""

import errno
import socket

import pytest

from income_client.cli.output.saying import reason_of, say


def test_nothing_said_acts_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a message quotes, it is one line."""
    say("no \x1b[2J\u202e\nfile \udcff")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "income-client: no ?[2J??file ?\n")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "x", "/a/name"), "no space left on device"),
        (socket.gaierror(-2, "Name or service not known"), "name or service not known"),
        (OSError("something"), "it cannot be used"),
    ],
)
def test_reasons_are_the_systems(error: OSError, reason: str) -> None:
    """They name no file, as what is said around them does that."""
    assert reason_of(error) == reason
