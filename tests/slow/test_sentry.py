"""Sentry's SDK, which patches a process and sends the variables of frames, is shown nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sentry_sdk", reason="it comes with the extra 'full'")

from tests.support.canaries import private_in
from tests.support.processes import ROOT


@pytest.mark.shows_private("file", reason="a downloaded file is what was served")
def test_sentry_sends_nothing_private(tmp_path: Path) -> None:
    """With the variables of every frame, breadcrumbs of the log and spans, however calls end."""
    command = [sys.executable, "-m", "tests.support.sentry_program", str(tmp_path)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=50
    )
    sent = ended.stdout
    for shown in ('"LookupError"', '"ServerError"', '"DecodeError"', '"vars"', '"breadcrumbs"'):
        assert shown in sent
    assert private_in(sent + ended.stderr) is None
