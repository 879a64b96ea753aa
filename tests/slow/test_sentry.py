"""Sentry's SDK, which patches a process and sends the variables of frames, is shown nothing.

As a program, this module captures the error in which each call of the client ends.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sentry_sdk", reason="it comes with the extra 'full'")

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.aiohttp import AioHttpIntegration
from sentry_sdk.transport import Transport

from tests.client.test_secrecy import CALLS, FAULTS, GOOD, OAUTH, Place, failing, place
from tests.support.canaries import private_in
from tests.support.processes import ROOT


@pytest.mark.shows_private("file", reason="a downloaded file is what was served")
def test_sentry_sends_nothing_private(tmp_path: Path) -> None:
    """With the variables of every frame, breadcrumbs of the log and spans, however calls end."""
    command = [sys.executable, "-m", "tests.slow.test_sentry", str(tmp_path)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=50
    )
    sent = ended.stdout
    for shown in ('"LookupError"', '"ServerError"', '"DecodeError"', '"vars"', '"breadcrumbs"'):
        assert shown in sent
    assert private_in(sent + ended.stderr) is None


ENDS = {"good": GOOD, **{name: FAULTS[name] for name in ("status 500", "not whole", "cut")}}
OWN = ("json",)
"""Calls whose result is plain data, which is the caller's to protect."""


class Printed(Transport):
    """Prints what would be sent, one envelope after the other."""

    def capture_envelope(self, envelope: Envelope) -> None:
        sys.stdout.write(envelope.serialize().decode("utf-8", "replace") + "\n")


async def use(call: str, at: Place) -> None:
    """Make a call in a frame that holds what a program holds, and fail."""
    auth, client = OAUTH, at.client
    result = await CALLS[call](at)
    raise LookupError(f"{type(auth)} {type(client)} {type(result)}")


async def main(folder: Path) -> None:
    """Capture the error of each call for each end."""
    for end, answer in ENDS.items():
        (folder / end).mkdir()
        async with place(failing(answer), folder / end) as at:
            for call in CALLS:
                if end == "good" and call in OWN:
                    continue
                with sentry_sdk.start_transaction(name=call):
                    try:
                        await use(call, at)
                    except Exception as error:  # noqa: BLE001 - captured
                        sentry_sdk.capture_exception(error)


if __name__ == "__main__":
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        transport=Printed,
        include_local_variables=True,
        attach_stacktrace=True,
        send_default_pii=True,
        traces_sample_rate=1.0,
        disabled_integrations=[AioHttpIntegration()],
    )
    asyncio.run(main(Path(sys.argv[1])))
